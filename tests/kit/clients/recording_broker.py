"""A broker that records its calls, behind a connection driven by raw commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from pyjms.runtime import clock as _clock
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire.correlator import ResponseCorrelator
from pyjms.transport.unsent import UnsentBudget
from pyjms.transport.uri import TransportURI
from pyjms.wire.limits import FrameBudget
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    BrokerInfo,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    ProducerId,
    ProducerInfo,
    SessionId,
    SessionInfo,
)
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.connection_registry import ConnectionRegistry
from pyjms_broker.connector.openwire.connection import BrokerConnection, CommandHandler
from pyjms_broker.connector.vm.connector import VmConnector
from pyjms_broker.connector.vm.transport import VmTransport
from pyjms_broker.network import Networks
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.service.filter_chain import ErrorBroker


def _recorded(name: str) -> Callable[..., object]:
    def call(self: RecordingBroker, *args: object, **named: object) -> object:
        self.calls.append((name, (*args, *named.values())))
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


_COMPLETED_CALLS = (
    "authenticate",
    "send",
    "acknowledge",
    "remove_subscription",
    "commit_transaction",
    "rollback_transaction",
    "forget_transaction",
)


class RecordingBroker(ErrorBroker):
    """Returns what `answers` has for a call, or raises it if it is an exception.

    Without an answer, calls that return a completion return `COMPLETED`.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        abstract: Any = Subscription
        added = abstract.__new__(abstract)
        added.saved, added.dispatched_count = COMPLETED, 0
        self.answers: dict[str, object] = {
            **dict.fromkeys(_COMPLETED_CALLS, COMPLETED),
            "add_consumer": added,
            "prepared_transactions": [],
        }

    authenticates_clients = False
    authenticate = _recorded("authenticate")  # type: ignore[assignment]
    add_connection = _recorded("add_connection")  # type: ignore[assignment]
    remove_connection = _recorded("remove_connection")  # type: ignore[assignment]
    add_session = _recorded("add_session")  # type: ignore[assignment]
    remove_session = _recorded("remove_session")  # type: ignore[assignment]
    add_producer = _recorded("add_producer")  # type: ignore[assignment]
    remove_producer = _recorded("remove_producer")  # type: ignore[assignment]
    add_consumer = _recorded("add_consumer")  # type: ignore[assignment]
    remove_consumer = _recorded("remove_consumer")  # type: ignore[assignment]
    remove_subscription = _recorded("remove_subscription")  # type: ignore[assignment]
    add_destination_info = _recorded("add_destination_info")  # type: ignore[assignment]
    remove_destination_info = _recorded("remove_destination_info")  # type: ignore[assignment]
    remove_destination = _recorded("remove_destination")  # type: ignore[assignment]
    message_pull = _recorded("message_pull")  # type: ignore[assignment]
    process_consumer_control = _recorded("process_consumer_control")  # type: ignore[assignment]
    begin_transaction = _recorded("begin_transaction")  # type: ignore[assignment]
    prepare_transaction = _recorded("prepare_transaction")  # type: ignore[assignment]
    commit_transaction = _recorded("commit_transaction")  # type: ignore[assignment]
    rollback_transaction = _recorded("rollback_transaction")  # type: ignore[assignment]
    forget_transaction = _recorded("forget_transaction")  # type: ignore[assignment]
    set_rollback_only = _recorded("set_rollback_only")  # type: ignore[assignment]
    prepared_transactions = _recorded("prepared_transactions")  # type: ignore[assignment]

    def send(  # type: ignore[override]  # of ErrorBroker, whose calls never return
        self, exchange: ProducerExchange, message: ActiveMQMessage
    ) -> Completion:
        return _recorded("send")(self, exchange, message)  # type: ignore[return-value]

    def acknowledge(  # type: ignore[override]
        self, exchange: ConsumerExchange, ack: MessageAck
    ) -> Completion:
        return _recorded("acknowledge")(self, exchange, ack)  # type: ignore[return-value]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def args(self, name: str) -> tuple[Any, ...]:
        """Return the arguments of the last call of that name."""
        return next(args for called, args in reversed(self.calls) if called == name)


class NoNetworks:
    """Has no bridges to other brokers."""

    joined: Sequence[BrokerInfo] = ()

    def accept(self, connection: object, info: BrokerInfo) -> dict[int, CommandHandler]:
        raise AssertionError(f"{connection} is to forward to {info.broker_name}")


class Host:
    """A broker service around a RecordingBroker."""

    broker_name = "recording"
    broker_id = BrokerId("ID:recording:1")
    rollback_only_on_async_exception = True
    store_failed = False
    reserved_file_handles = 128
    client_memory_limit = 0
    allow_anonymous_remote = False
    connection_info_timeout = 0.0
    connect_uri = "vm://recording"
    connectors: list[TransportConnector]

    def __init__(self) -> None:
        self.stored: dict[ProducerId, int] = {}
        self.recording = RecordingBroker()
        self.broker: Broker = self.recording
        self.connections = ConnectionRegistry()
        self.frame_budget = FrameBudget(0, 30, _clock.now)
        self.unsent_budget = UnsentBudget(0, 30)
        self.networks = cast("Networks", NoNetworks())
        self.connectors = []
        self.stops = 0

    @property
    def region_broker(self) -> RegionBroker:
        raise AssertionError("a recording broker has no regions")

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        return self.stored.get(producer_id, -1)

    async def stop(self) -> None:
        self.stops += 1


class Client:
    """A client's raw end, and the connection that the broker has of it."""

    def __init__(self, connector: VmConnector) -> None:
        self.end = VmTransport("vm://recording#test")
        self.transport = ResponseCorrelator(self.end)
        self.heard = self.transport.listener = RecordingListener()
        self.connection: BrokerConnection = connector.accept(self.end, None)
        self.ask = self.transport.request
        self.tell = self.transport.oneway

    async def connect(self, name: str = "c1", *, session: bool = True) -> None:
        await self.ask(ConnectionInfo(ConnectionId(name), f"client-{name}"))
        if session:
            self.tell(SessionInfo(SessionId(name, 1)))

    async def producer(self, window: int = 0) -> ProducerId:
        producer_id = ProducerId("c1", 1, 1)
        await self.ask(ProducerInfo(producer_id, None, window_size=window))
        return producer_id

    async def consumer(self) -> ConsumerId:
        consumer_id = ConsumerId("c1", 1, 1)
        await self.ask(ConsumerInfo(consumer_id))
        return consumer_id

    def context(self, name: str = "c1") -> ConnectionContext:
        return self.connection.resources.connections[ConnectionId(name)].context


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
async def connector(host: Host) -> AsyncIterator[VmConnector]:
    connector = VmConnector(host, TransportURI("vm", "recording"), "vm")
    yield connector
    await connector.stop()


@pytest.fixture
async def connect(connector: VmConnector) -> AsyncIterator[Callable[[], Client]]:
    clients: list[Client] = []

    async def connect() -> Client:
        client = Client(connector)
        clients.append(client)
        await client.transport.start()
        return client

    yield connect  # type: ignore[misc]
    for client in clients:
        await client.transport.stop()


@pytest.fixture
async def client(connect: Callable[[], object]) -> Client:
    return await connect()  # type: ignore[misc, no-any-return]
