"""A STOMP client of tests over a real socket, and a broker in memory that it connects to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.wire.stomp import Frame, StompFormat
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker


class StompClient:
    """One connection; `version` is the version that it expects to be negotiated."""

    def __init__(self, stream: ByteStream, version: str = "1.2") -> None:
        self.stream = stream
        self.version = version
        self.received: list[Frame] = []
        self._format = StompFormat(version=version)

    async def send(
        self, command: str, headers: dict[str, Any] | None = None, body: bytes | str = b""
    ) -> None:
        data = bytearray()
        content = body.encode() if isinstance(body, str) else body
        given = {name: str(value) for name, value in (headers or {}).items()}
        self._format.encode_into(data, Frame(command, given, content))
        await self.stream.send(bytes(data))

    async def receive(self, *commands: str) -> Frame:
        """Return the next frame, which must be one of `commands` if any are given."""
        with real_time_limit():
            while not self.received:
                self.received += self._format.receive_data(await self.stream.receive())
        frame = self.received.pop(0)
        assert not commands or frame.command in commands, (frame, frame.headers, frame.body)
        return frame

    async def ask(
        self, command: str, headers: dict[str, Any] | None = None, body: bytes | str = b""
    ) -> Frame:
        """Send a frame and return its RECEIPT or ERROR; a message in between fails."""
        await self.send(command, {**(headers or {}), "receipt": "r"}, body)
        return await self.receive("RECEIPT", "ERROR")

    async def done(
        self, command: str, headers: dict[str, Any] | None = None, body: bytes | str = b""
    ) -> None:
        frame = await self.ask(command, headers, body)
        assert frame.command == "RECEIPT", frame.headers

    async def refused(
        self, command: str, headers: dict[str, Any] | None = None, body: bytes | str = b""
    ) -> str:
        """Send a frame and return the message of the ERROR that it gets."""
        frame = await self.ask(command, headers, body)
        assert frame.command == "ERROR", frame.headers
        return frame.headers["message"]

    async def connect(self, **headers: Any) -> Frame:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.send("CONNECT", {"accept-version": self.version, "host": "h", **given})
        return await self.receive("CONNECTED", "ERROR")

    async def subscribe(self, destination: str, **headers: Any) -> None:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.done("SUBSCRIBE", {"destination": destination, "id": "s", **given})

    async def nothing_comes(self) -> None:
        """Check that no frame is on its way: the broker sends in order."""
        await self.done("SEND", {"destination": "/topic/nobody.listens"}, "")

    async def closed(self) -> bool:
        """Wait until the broker has closed the connection; whether nothing else came."""
        with real_time_limit():
            try:
                while True:
                    self.received += self._format.receive_data(await self.stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return not self.received


def real_time_limit() -> Any:
    """A timeout for a missing frame."""
    return anyio.fail_after(20)


class StompBroker:
    """A broker with a STOMP connector, and clients of it."""

    def __init__(self, broker: EmbeddedTestBroker, port: int) -> None:
        self.broker = broker
        self.port = port
        self.streams: list[ByteStream] = []

    @property
    def connection(self) -> Any:
        """The broker's connection of the only client."""
        (connector,) = self.broker.service.connectors
        (connection,) = connector.connections
        return connection

    def context(self) -> Any:
        """The connection context of the only client."""
        (state,) = self.connection.resources.connections.values()
        return state.context

    async def open(self, version: str = "1.2") -> StompClient:
        """A client that has not sent anything."""
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        self.streams.append(stream)
        return StompClient(stream, version)

    async def client(self, version: str = "1.2", **headers: Any) -> StompClient:
        client = await self.open(version)
        connected = await client.connect(**headers)
        assert connected.command == "CONNECTED", connected.headers
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


StartStomp = Callable[..., AbstractAsyncContextManager[StompBroker]]


@pytest.fixture
def stomp_broker() -> StartStomp:
    """Starts a broker with one STOMP connector with these options."""

    @asynccontextmanager
    async def start(options: str = "", **settings: Any) -> AsyncIterator[StompBroker]:
        settings = {"persistent": False, "scheduler_support": True} | settings
        service = BrokerService("stomp", **settings)
        async with EmbeddedTestBroker(service) as broker:
            connector = service.add_connector(f"stomp://127.0.0.1:0{options}")
            await connector.start()
            stomp = StompBroker(broker, int(connector.connect_uri.rpartition(":")[2]))
            try:
                yield stomp
            finally:
                for stream in stomp.streams:
                    await anyio.aclose_forcefully(stream)

    return start


@pytest.fixture
async def stomp(stomp_broker: StartStomp) -> AsyncIterator[StompBroker]:
    async with stomp_broker() as broker:
        yield broker
