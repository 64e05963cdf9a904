"""An AMQP client of raw frames, and a broker in memory that it connects to."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.wire.amqp.format import AMQP, SASL, AmqpFormat, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.message import VALUE, Message, decode_message, encode_message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Declared,
    Detach,
    Disposition,
    Flow,
    Open,
    Performative,
    SaslFrame,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    State,
    Target,
    Transfer,
)
from pyjms.wire.amqp.values import Described, ULong
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker

P = TypeVar("P", bound=Performative | SaslFrame)
UNSETTLED, SETTLED, MIXED = range(3)
_WINDOW = 10_000


class Received:
    """A message that the broker has sent."""

    def __init__(self, transfer: Transfer, payload: bytes) -> None:
        self.transfer = transfer
        self.payload = payload

    @property
    def id(self) -> int:
        assert self.transfer.delivery_id is not None
        return self.transfer.delivery_id

    @property
    def message(self) -> Message:
        return decode_message(self.payload)

    @property
    def body(self) -> Any:
        return self.message.body

    @property
    def count(self) -> int:
        header = self.message.header
        return 0 if header is None else header.delivery_count


class AmqpClient:
    """One connection with one session, which answers nothing by itself."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.received: list[Item] = []
        self._format = AmqpFormat(2**31)
        self._handles = itertools.count()
        self._ids = itertools.count()
        self._channel = 0

    async def send(self, *bodies: Performative | None, payload: bytes = b"") -> None:
        """Send frames on the channel of the session; the last one has the payload."""
        frames = [Frame(self._channel, body) for body in bodies]
        frames[-1].payload = payload
        await self.send_items(*frames)

    async def send_items(self, *items: Item) -> None:
        data = bytearray()
        for item in items:
            self._format.encode_into(data, item)
        await self.stream.send(bytes(data))

    async def next_item(self) -> Item:
        with real_time_limit():
            while not self.received:
                self.received += self._format.receive_data(await self.stream.receive())
        return self.received.pop(0)

    async def next(self) -> Frame:
        """Return the next frame that is neither empty nor a Flow of the session alone."""
        while True:
            item = await self.next_item()
            assert isinstance(item, Frame), item
            if item.body is not None and not (
                isinstance(item.body, Flow) and item.body.handle is None
            ):
                return item

    async def answer(self, kind: type[P]) -> P:
        """Return the next performative of this class; those before it stay."""
        before: list[Item] = []
        while True:
            frame = await self.next()
            if isinstance(frame.body, kind):
                self.received[:0] = before
                return frame.body
            before.append(frame)

    async def receive(self, kind: type[P]) -> P:
        """Return the next performative, which must be of this class."""
        frame = await self.next()
        assert isinstance(frame.body, kind), frame
        return frame.body

    # the connection
    async def log_in(self, mechanism: str = "ANONYMOUS", response: bytes | None = None) -> int:
        """Return the code of SASL's outcome."""
        await self.send_items(ProtocolHeader(SASL))
        header = await self.next_item()
        assert isinstance(header, ProtocolHeader)
        assert header.id == SASL
        await self.receive(SaslMechanisms)
        await self.send_items(Frame(0, SaslInit(mechanism, response)))
        outcome = await self.receive(SaslOutcome)
        if outcome.code == 0:
            await self.send_items(ProtocolHeader(AMQP))
            header = await self.next_item()
            assert isinstance(header, ProtocolHeader)
            assert header.id == AMQP
        return outcome.code

    async def open(self, container_id: str = "c", **fields: Any) -> Open:
        await self.send(Open(container_id, **fields))
        return await self.receive(Open)

    async def begin(self) -> Begin:
        await self.send(Begin(None, 0, _WINDOW, _WINDOW))
        return await self.receive(Begin)

    async def closed(self) -> list[Item]:
        """Wait until the broker has closed the connection; return what came before."""
        with real_time_limit():
            try:
                while True:
                    self.received += self._format.receive_data(await self.stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return self.received

    async def close(self) -> None:
        await self.send(Close())
        await self.receive(Close)
        await self.closed()

    async def lose(self) -> None:
        """End the connection without Close."""
        await anyio.aclose_forcefully(self.stream)

    # links
    async def attach(self, attach: Attach) -> Attach:
        """Return the answer."""
        await self.send(attach)
        return await self.receive(Attach)

    async def sender(
        self, address: str | None, *, name: str | None = None, mode: int = UNSETTLED, **fields: Any
    ) -> Sender:
        """Attach a link by which this client sends, and get its credit."""
        handle = next(self._handles)
        target = Target(address, **fields)
        link = Attach(name or f"s{handle}", handle, SENDER, mode, source=Source())
        link.target, link.initial_delivery_count = target, 0
        answer = await self.attach(link)
        flow = await self.receive(Flow)
        return Sender(self, handle, answer, flow.link_credit or 0)

    async def receiver(
        self,
        address: str | None,
        *,
        name: str | None = None,
        credit: int = 0,
        mode: int = UNSETTLED,
        **fields: Any,
    ) -> Receiver:
        """Attach a link by which this client receives."""
        handle = next(self._handles)
        link = Attach(name or f"r{handle}", handle, RECEIVER, mode, target=Target())
        link.source = Source(address, **fields)
        answer = await self.attach(link)
        receiver = Receiver(self, handle, answer)
        if credit:
            await receiver.flow(credit)
        return receiver

    async def coordinator(self) -> Coordination:
        handle = next(self._handles)
        link = Attach(f"t{handle}", handle, SENDER, UNSETTLED, source=Source())
        link.target, link.initial_delivery_count = Coordinator(), 0
        answer = await self.attach(link)
        flow = await self.receive(Flow)
        return Coordination(Sender(self, handle, answer, flow.link_credit or 0))

    def next_id(self) -> int:
        return next(self._ids)

    async def settle(
        self, *received: Received, state: State | None = ACCEPTED, settled: bool = True
    ) -> None:
        for each in received:
            await self.send(Disposition(RECEIVER, each.id, each.id, settled, state))

    async def nothing_comes(self) -> None:
        """Check that no frame is on its way: the broker answers a Flow in order."""
        await self.send(Flow(1, _WINDOW, 0, _WINDOW, echo=True))
        item = await self.next_item()
        assert isinstance(item, Frame), item
        assert isinstance(item.body, Flow), item
        assert item.body.handle is None, item


class Sender:
    """A link by which the client sends."""

    def __init__(self, client: AmqpClient, handle: int, answer: Attach, credit: int) -> None:
        self.client = client
        self.handle = handle
        self.answer = answer
        self.credit = credit

    async def transfer(
        self, message: Message | bytes, *, settled: bool = False, state: State | None = None,
        message_format: int = 0,
    ) -> int:  # fmt: skip
        """Send a message; return its delivery id."""
        payload = message if isinstance(message, bytes) else encode_message(message)
        number = self.client.next_id()
        transfer = Transfer(self.handle, number, str(number).encode(), message_format, settled)
        transfer.state = state
        await self.client.send(transfer, payload=payload)
        return number

    async def send(
        self, message: Message | bytes, *, state: State | None = None, message_format: int = 0
    ) -> State | None:
        """Send a message; return its outcome."""
        number = await self.transfer(message, state=state, message_format=message_format)
        found = await self.client.answer(Disposition)
        assert found.role is RECEIVER
        assert found.settled
        assert (found.first, found.last or found.first) == (number, number)
        return found.state

    async def texts(self, *texts: str, **fields: Any) -> None:
        """Send texts, which must be accepted."""
        for text in texts:
            state = await self.send(Message(VALUE, text, **fields))
            assert state == ACCEPTED, state

    async def detach(self, *, closed: bool = True) -> Detach:
        await self.client.send(Detach(self.handle, closed))
        return await self.client.receive(Detach)


class Receiver:
    """A link by which the client receives."""

    def __init__(self, client: AmqpClient, handle: int, answer: Attach) -> None:
        self.client = client
        self.handle = handle
        self.answer = answer
        self.count = 0

    async def flow(self, credit: int, *, drain: bool = False, echo: bool = False) -> None:
        flow = Flow(1, _WINDOW, 0, _WINDOW, self.handle, self.count, credit)
        flow.drain, flow.echo = drain, echo
        await self.client.send(flow)

    async def next(self) -> Received:
        """Return the next message."""
        payload = b""
        first: Transfer | None = None
        while True:
            frame = await self.client.next()
            if isinstance(frame.body, Flow) and not payload:
                continue
            assert isinstance(frame.body, Transfer), frame
            assert frame.body.handle == self.answer.handle
            first = first or frame.body
            payload += frame.payload
            if not frame.body.more:
                self.count += 1
                return Received(first, payload)

    async def messages(self, count: int) -> list[Received]:
        return [await self.next() for _ in range(count)]

    async def bodies(self, count: int) -> list[Any]:
        """Return the bodies of the next messages, which are accepted."""
        found = await self.messages(count)
        await self.client.settle(*found)
        return [each.body for each in found]

    async def drained(self, credit: int = 100) -> list[Received]:
        """Return all messages that there are."""
        await self.flow(credit, drain=True)
        found: list[Received] = []
        while len(found) < credit:
            frame = await self.client.next()
            if isinstance(frame.body, Flow):
                if frame.body.handle != self.answer.handle:
                    continue
                assert frame.body.drain
                assert frame.body.link_credit == 0
                self.count = frame.body.delivery_count or 0
                return found
            assert isinstance(frame.body, Transfer), frame
            found.append(Received(frame.body, frame.payload))
            self.count += 1
        return found

    async def detach(self, *, closed: bool = True) -> Detach:
        await self.client.send(Detach(self.handle, closed))
        return await self.client.receive(Detach)


class Coordination:
    """A link to the coordinator."""

    def __init__(self, link: Sender) -> None:
        self.link = link

    async def declare(self) -> bytes:
        state = await self.link.send(Message(VALUE, Declare()))
        assert isinstance(state, Declared), state
        return state.txn_id

    async def discharge(self, txn_id: bytes, *, fail: bool = False) -> State | None:
        return await self.link.send(Message(VALUE, Described(ULong(0x32), [txn_id, fail])))


def text(body: object, **sections: Any) -> Message:
    """A message with an amqp-value."""
    return Message(VALUE, body, **sections)


def real_time_limit() -> Any:
    """A timeout for a missing frame."""
    return anyio.fail_after(20)


class AmqpBroker:
    """A broker with an AMQP connector, and clients of it."""

    def __init__(self, broker: EmbeddedTestBroker, port: int) -> None:
        self.broker = broker
        self.port = port
        self.streams: list[ByteStream] = []

    async def connect(self) -> AmqpClient:
        """A client that has not sent anything."""
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        self.streams.append(stream)
        return AmqpClient(stream)

    async def client(
        self, container_id: str = "c", login: tuple[str, str] | None = None, **fields: Any
    ) -> AmqpClient:
        """A client with a session."""
        client = await self.connect()
        if login is None:
            code = await client.log_in()
        else:
            code = await client.log_in("PLAIN", "\0".join(("", *login)).encode())
        assert code == 0
        answer = await client.open(container_id, **fields)
        assert answer.container_id, answer
        await client.begin()
        return client

    @asynccontextmanager
    async def jms(
        self, query: str = "", mode: AcknowledgeMode = AcknowledgeMode.AUTO
    ) -> AsyncIterator[ActiveMQSession]:
        """A session of a JMS client."""
        connection = await ConnectionFactory(f"{self.broker.url}&{query}").create_connection()
        async with connection:
            await connection.start()
            yield await connection.create_session(mode == AcknowledgeMode.TRANSACTED, mode)


async def left(amqp: AmqpBroker, address: str) -> list[tuple[object, int]]:
    """The messages in a queue, with their delivery counts."""
    client = await amqp.client(f"looks at {address}")
    receiver = await client.receiver(address)
    found = [(each.body, each.count) for each in await receiver.drained()]
    await client.close()
    return found


StartAmqp = Callable[..., AbstractAsyncContextManager[AmqpBroker]]


@pytest.fixture
def amqp_broker() -> StartAmqp:
    """Starts a broker with one AMQP connector with these options."""

    @asynccontextmanager
    async def start(
        options: str = "?transport.transformer=jms", scheme: str = "amqp", **settings: Any
    ) -> AsyncIterator[AmqpBroker]:
        service = BrokerService("amqp", **({"persistent": False} | settings))
        async with EmbeddedTestBroker(service) as broker:
            connector = service.add_connector(f"{scheme}://127.0.0.1:0{options}")
            await connector.start()
            amqp = AmqpBroker(broker, int(connector.connect_uri.rpartition(":")[2]))
            try:
                yield amqp
            finally:
                for stream in amqp.streams:
                    await anyio.aclose_forcefully(stream)

    return start


@pytest.fixture
async def amqp(amqp_broker: StartAmqp) -> AsyncIterator[AmqpBroker]:
    async with amqp_broker() as broker:
        yield broker
