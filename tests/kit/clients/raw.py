"""A client of bare OpenWire commands, over vm:// or TCP, and brokers to talk to."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ActiveMQTextMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionId,
    TransactionInfo,
)
from pyjms.wire.openwire.primitives import encode_text
from pyjms_broker.filters.virtual_destinations import VirtualDestination
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker

_numbers = itertools.count(1)


class RawClient:
    """One connection and one session, spoken in commands."""

    def __init__(self, transport: RequestTransport) -> None:
        self.transport = transport
        transport.listener = self
        self.take_name(f"ID:test-{next(_numbers)}:1")
        self.commands: list[Command] = []
        self.errors: list[Exception] = []
        self.closed = False
        self._dispatches: list[MessageDispatch] = []
        self._news = anyio.Event()
        self._ids = itertools.count(1)

    def take_name(self, name: str) -> None:
        self.name = name
        self.connection_id = ConnectionId(name)
        self.session_id = SessionId(name, 1)

    def on_command(self, command: Command) -> None:
        if isinstance(command, MessageDispatch):
            self._dispatches.append(command)
        else:
            self.commands.append(command)
        self._wake()

    def on_exception(self, error: Exception) -> None:
        self.errors.append(error)
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def open(self, client_id: str | None = None) -> None:
        await self.transport.start()
        await self.log_in(client_id)

    async def log_in(self, client_id: str | None = None) -> None:
        """Open the connection and the session; the transport is started."""
        await self.request(
            ConnectionInfo(
                self.connection_id, client_id or self.name, user_name="joe", password="x"
            )
        )
        self.send_command(SessionInfo(self.session_id))

    async def connect(self, **fields: Any) -> None:
        """Open the connection with these fields of its ConnectionInfo, and no session."""
        await self.transport.start()
        info = ConnectionInfo(self.connection_id, self.name)
        for field, value in fields.items():
            setattr(info, field, value)
        await self.request(info)

    async def open_session(self) -> None:
        await self.request(SessionInfo(self.session_id))

    async def request(self, command: Command) -> Response:
        return await self.transport.request(command, timeout=5)

    def send_command(self, command: Command) -> None:
        self.transport.oneway(command)

    async def consumer(self, destination: Destination, **fields: object) -> ConsumerId:
        consumer_id = ConsumerId(self.name, 1, next(self._ids))
        info = ConsumerInfo(consumer_id, destination=destination, prefetch_size=10)
        for field, value in fields.items():
            setattr(info, field, value)
        await self.request(info)
        return consumer_id

    async def producer(self, destination: Destination | None = None) -> ProducerId:
        producer_id = ProducerId(self.name, next(self._ids), 1)
        await self.request(ProducerInfo(producer_id, destination))
        return producer_id

    def text(
        self,
        producer_id: ProducerId,
        destination: Destination,
        text: str,
        transaction_id: TransactionId | None = None,
    ) -> ActiveMQTextMessage:
        return ActiveMQTextMessage(
            producer_id,
            destination,
            transaction_id,
            message_id=MessageId(None, producer_id, next(self._ids)),
            persistent=True,
            priority=4,
            timestamp=_clock.time_ms(),
            content=encode_text(text),
        )

    async def send(
        self, destination: Destination, *texts: str, transaction_id: TransactionId | None = None
    ) -> None:
        producer_id = await self.producer()
        for text in texts:
            await self.request(self.text(producer_id, destination, text, transaction_id))

    async def dispatched(self, timeout: float = 5) -> MessageDispatch:
        with _clock.timeout(timeout):
            while not self._dispatches:
                await self._news.wait()
            return self._dispatches.pop(0)
        raise AssertionError(f"nothing was dispatched; errors: {self.errors}")

    async def message(self, timeout: float = 5) -> ActiveMQMessage:
        message = (await self.dispatched(timeout)).message
        assert message is not None
        return message

    async def heard(self, kind: type[Command]) -> Command:
        """Return the next command of that kind other than dispatches."""
        with _clock.timeout(5):
            while not any(isinstance(command, kind) for command in self.commands):
                await self._news.wait()
            found = next(c for c in self.commands if isinstance(c, kind))
            self.commands.remove(found)
            return found
        raise AssertionError(f"no {kind.__name__} came, only {self.commands}")

    async def lost(self) -> None:
        """Wait until the broker has closed the connection."""
        with _clock.timeout(5):
            while not self.errors:
                await self._news.wait()
            return
        raise AssertionError("the connection is still open")

    async def nothing_dispatched(self) -> None:
        """Make a round trip and check that no message arrived before its response."""
        await self.request(ProducerInfo(ProducerId(self.name, next(self._ids), 1)))
        assert self._dispatches == []

    async def ack(
        self,
        dispatch: MessageDispatch,
        kind: AckType = AckType.STANDARD,
        transaction_id: TransactionId | None = None,
        **fields: object,
    ) -> None:
        assert dispatch.message is not None
        message_id = dispatch.message.message_id
        ack = MessageAck(
            dispatch.destination,
            transaction_id,
            dispatch.consumer_id,
            kind,
            message_id,
            message_id,
            1,
        )
        for field, value in fields.items():
            setattr(ack, field, value)
        await self.request(ack)

    async def transaction(self, kind: int, xid: TransactionId | None) -> Response:
        return await self.request(TransactionInfo(self.connection_id, xid, kind))

    def local(self, number: int) -> LocalTransactionId:
        return LocalTransactionId(number, self.connection_id)

    async def destination(self, destination: Destination, operation: int = 0) -> None:
        await self.request(DestinationInfo(self.connection_id, destination, operation))

    async def remove(self, object_id: ConsumerId | ProducerId | SessionId) -> None:
        await self.request(RemoveInfo(object_id))

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if not self.errors:
            await self.request(RemoveInfo(self.connection_id))
        await self.transport.stop()

    async def cut(self) -> None:
        """Close the transport without ending the connection."""
        self.closed = True
        await self.transport.stop()


Connect = Callable[[], Awaitable[RawClient]]
BrokerWith = Callable[..., AbstractAsyncContextManager[tuple[EmbeddedTestBroker, RawClient]]]


@pytest.fixture
def raw_client() -> type[RawClient]:
    return RawClient


@pytest.fixture
def broker_with() -> BrokerWith:
    """Makes a running broker with these attributes, and a connected client."""

    @asynccontextmanager
    async def make(
        virtual: Sequence[VirtualDestination] | None = None, **attributes: Any
    ) -> AsyncIterator[tuple[EmbeddedTestBroker, RawClient]]:
        service = BrokerService(
            f"made-{next(_numbers)}", persistent=False, virtual_destinations=virtual, **attributes
        )
        async with EmbeddedTestBroker(service) as broker:
            client = RawClient(create_transport(broker.url))
            await client.open()
            try:
                yield broker, client
            finally:
                await client.close()

    return make


@pytest.fixture
async def test_broker() -> AsyncIterator[EmbeddedTestBroker]:
    async with EmbeddedTestBroker() as broker:
        yield broker


@pytest.fixture
def service(test_broker: EmbeddedTestBroker) -> BrokerService:
    return test_broker.service


@pytest.fixture(params=["vm", "tcp"])
async def connect(
    request: pytest.FixtureRequest, test_broker: EmbeddedTestBroker
) -> AsyncIterator[Connect]:
    url = test_broker.url if request.param == "vm" else await test_broker.tcp_url()
    async with AsyncExitStack() as stack:

        async def connect() -> RawClient:
            client = RawClient(create_transport(url))
            await client.open()
            stack.push_async_callback(client.close)
            return client

        yield connect
