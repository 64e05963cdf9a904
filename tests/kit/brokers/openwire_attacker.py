"""A broker on a real port, and peers that speak raw OpenWire and may break any rule."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from pyjms.jms.destination import Destination, Queue
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    ExceptionResponse,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    WireFormatInfo,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms_broker.service import BrokerService

PATIENCE = 60.0  # a guard against hanging tests, never waited for


class Peer:
    """One socket to the broker. It reads only in its methods, and sends whatever it is given."""

    def __init__(self, stream: SocketStream, name: str) -> None:
        self.stream = stream
        self.name = name
        self.format = OpenWireFormat()
        self.heard: list[Command] = []
        self.producer_id = ProducerId(name, 1, 1)
        self._numbers = iter(range(1, 1 << 62))
        self._messages = iter(range(1, 1 << 62))

    async def negotiate(self) -> None:
        await self.stream.send(self.format.encode(self.format.local_info()))
        while self.format.negotiated is None:
            await self.read()

    async def connect(self, **fields: Any) -> None:
        """Become a JMS connection with a session and an anonymous producer."""
        await self.negotiate()
        info = ConnectionInfo(ConnectionId(self.name), fields.get("client_id", self.name))
        answer = await self.ask(info)
        assert type(answer) is Response, answer
        await self.tell(SessionInfo(SessionId(self.name, 1)), ProducerInfo(self.producer_id))

    async def tell(self, *commands: Command) -> None:
        """Send oneway, all in one write."""
        await self.stream.send(b"".join(map(self.format.encode, commands)))

    async def ask(self, command: Command) -> Response:
        """Send a request and wait for its answer."""
        command.command_id = next(self._numbers)
        command.response_required = True
        await self.tell(command)
        return await self.answer_to(command)

    async def answer_to(self, command: Command) -> Response:
        while True:
            for heard in self.heard:
                if isinstance(heard, Response) and heard.correlation_id == command.command_id:
                    self.heard.remove(heard)
                    return heard
            await self.read()

    async def refused(self, command: Command) -> str:
        """Send a request that must fail; return class and text of the error."""
        answer = await self.ask(command)
        assert isinstance(answer, ExceptionResponse), answer
        assert answer.exception is not None
        return f"{answer.exception.class_name}: {answer.exception.message}"

    async def read(self) -> None:
        with anyio.fail_after(PATIENCE):
            data = await self.stream.receive()
        self.heard += self.format.receive_data(data)

    async def closed(self) -> None:
        """Wait until the broker closes the connection."""
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            while True:
                await self.read()

    async def heard_of(self, kind: type[Command], count: int = 1) -> list[Any]:
        while len(found := [c for c in self.heard if isinstance(c, kind)]) < count:
            await self.read()
        return found

    def message(self, destination: Destination | None, body: bytes = b"") -> ActiveMQMessage:
        message = ActiveMQBytesMessage(priority=4)
        message.producer_id = self.producer_id
        message.message_id = MessageId(None, self.producer_id, next(self._messages))
        message.destination = destination
        message.content = body
        return message

    async def consume(
        self, destination: Destination | None, number: int = 1, prefetch: int = 1000, **fields: Any
    ) -> ConsumerId:
        consumer_id = ConsumerId(self.name, 1, number)
        info = ConsumerInfo(consumer_id, destination=destination, prefetch_size=prefetch)
        for name, value in fields.items():
            setattr(info, name, value)
        answer = await self.ask(info)
        assert type(answer) is Response, answer
        return consumer_id

    async def leave(self) -> None:
        await anyio.aclose_forcefully(self.stream)


Connect = Callable[..., Any]


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    service = BrokerService("attacked", persistent=False, memory_limit=8 * 1024 * 1024)
    service.add_connector("tcp://127.0.0.1:0")
    await service.start()
    yield service
    await service.stop()


@pytest.fixture
async def peer(service: BrokerService) -> AsyncIterator[Connect]:
    """`await peer("name")`: a raw socket to the broker."""
    peers: list[Peer] = []

    async def open_socket(name: str = "attacker") -> Peer:
        uri = TransportURI.parse(service.connectors[0].connect_uri)
        assert uri.host is not None
        assert uri.port is not None
        made = Peer(await anyio.connect_tcp(uri.host, uri.port), name)
        peers.append(made)
        return made

    yield open_socket
    for made in peers:
        await made.leave()


@pytest.fixture
def gone(service: BrokerService) -> Callable[[], Any]:
    """`await gone()`: wait until the broker has stopped every connection."""

    async def wait() -> None:
        with anyio.fail_after(PATIENCE):
            for connection in list(service.connectors[0].connections):
                await connection.wait_stopped()

    return wait


@pytest.fixture
def serves(service: BrokerService, peer: Connect) -> Callable[[], Any]:
    """`await serves()`: check that the broker still delivers a well-behaved client's message."""
    numbers = iter(range(1_000_000))

    async def check() -> None:
        honest = await peer(f"honest{next(numbers)}")
        await honest.connect()
        queue = Queue("honest")
        consumer_id = await honest.consume(queue)
        await honest.tell(honest.message(queue, b"hello"))
        (dispatch,) = await honest.heard_of(MessageDispatch)
        assert dispatch.message.content == b"hello"
        assert await honest.ask(RemoveInfo(consumer_id))
        await honest.leave()

    return check


def wire_format_info(**properties: Any) -> WireFormatInfo:
    """Return our WireFormatInfo with other properties."""
    info = OpenWireFormat().local_info()
    for name, value in properties.items():
        setattr(info, name, value)
    return info
