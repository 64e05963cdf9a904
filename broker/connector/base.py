"""What every connector is: a door of the broker, and the connections that came in.

A connector belongs to the loop that started it. It is told of its connections' ends by the
connections themselves; nothing here waits except `start` and `stop`. (ActiveMQ U8, U9)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.completion import Completion, all_of
from broker.connector.lost_sends import LostSends
from broker.filter import Broker
from pyjms import _clock
from pyjms._wakeup import spawn
from pyjms.errors import JMSException
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerId, ConnectionId, ProducerId

if TYPE_CHECKING:
    from broker.connector.connection import BrokerConnection
    from broker.region.flow_control import ParkedSend

__all__ = [
    "MAXIMUM_CONNECTIONS",
    "MAXIMUM_OF_ONE_CONNECTION",
    "BrokerHost",
    "ConnectionRegistry",
    "TransportConnector",
    "stop_all",
]

_LAST_ANSWERS = 2.0  # seconds for them, of those that a stop has
MAXIMUM_CONNECTIONS = 5000  # ActiveMQ has no limit; nothing here is unbounded
MAXIMUM_OF_ONE_CONNECTION = 10_000
"""Sessions, producers, consumers, temporary destinations or transactions; ActiveMQ has no limit."""


class ConnectionRegistry:
    """All live connections of one broker by connection id, over all its connectors. (C8)"""

    def __init__(self) -> None:
        self.by_id: dict[ConnectionId, BrokerConnection] = {}
        self.unanswered: dict[ProducerId, Completion] = {}
        """Of producers whose connection went: done when the store has what they had sent."""
        self.lost_sends = LostSends()
        """Of such producers, too: what the store has not, though it has later ones (T27)."""

    def claim(self, connection_id: ConnectionId, connection: BrokerConnection) -> None:
        """Give the id to `connection`; another one that had it is cut off first: the last wins."""
        former = self.by_id.get(connection_id)
        if former is not None and former is not connection:
            former.give_way(
                JMSException("Another connection has the same connection id; this one is closed")
            )
        self.by_id[connection_id] = connection

    def leave(
        self,
        unanswered: Mapping[ProducerId, Iterable[Completion]],
        parked: Iterable[ParkedSend],
    ) -> None:
        """Remember what producers that may come back were to be told, and what was lost. (T27)"""
        self.lost_sends.note(parked)
        for producer_id, sends in unanswered.items():
            self._leave_unanswered(producer_id, sends)

    def _leave_unanswered(self, producer_id: ProducerId, sends: Iterable[Completion]) -> None:
        whole = all_of([send for send in sends if not send.done])
        if whole is None:
            return
        self.unanswered[producer_id] = whole

        def forget(_done: Completion) -> None:
            if self.unanswered.get(producer_id) is whole:
                del self.unanswered[producer_id]

        whole.then(forget)

    def release(self, connection_id: ConnectionId, connection: BrokerConnection) -> None:
        """Take the id back, unless somebody else has it by now."""
        if self.by_id.get(connection_id) is connection:
            del self.by_id[connection_id]


class BrokerHost(Protocol):
    """What connectors need of the broker service that they belong to."""

    @property
    def broker_name(self) -> str: ...

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def broker(self) -> Broker:
        """The outermost link of the filter chain."""

    @property
    def connections(self) -> ConnectionRegistry: ...

    @property
    def rollback_only_on_async_exception(self) -> bool:
        """Whether a oneway command that fails spoils the commit of its transaction. (C5)"""

    @property
    def store_failed(self) -> bool:
        """Whether the store can promise nothing more, so that errors are not answered. (K24)"""

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number stored of a producer, -1 if unknown. (T27)"""

    async def stop(self) -> None:
        """Stop the broker; called for one that vm:// made when its last client has gone."""


class TransportConnector(ABC):
    """A door of the broker."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        self.host = host
        self.uri = uri
        self.name = name or str(uri)
        self.maximum_connections = MAXIMUM_CONNECTIONS
        self.maximum_sessions_per_connection = MAXIMUM_OF_ONE_CONNECTION
        self.maximum_producers_per_connection: int | None = MAXIMUM_OF_ONE_CONNECTION
        self.maximum_consumers_per_connection: int | None = MAXIMUM_OF_ONE_CONNECTION
        self.maximum_temporary_destinations_per_connection = MAXIMUM_OF_ONE_CONNECTION
        self.maximum_transactions_per_connection = MAXIMUM_OF_ONE_CONNECTION
        self.allow_link_stealing = False
        self.connections: set[BrokerConnection] = set()
        self.stopping = False

    @property
    @abstractmethod
    def connect_uri(self) -> str:
        """Where clients connect to; with the real port when the URI said 0."""

    @abstractmethod
    async def start(self) -> None:
        """Accept connections from now on.

        Raises:
            ResourceAllocationException: the address cannot be bound.
            ConfigurationException: an option is unknown or has a bad value.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Accept no more, close every connection and wait for their ends. Idempotent."""

    async def stop_connections(self) -> None:
        """Close what has come in, after the clients were told what they wait for."""
        with _clock.timeout(_LAST_ANSWERS):
            for connection in self.connections:
                connection.hold("stopping")
            for connection in list(self.connections):
                await connection.give_last_answers()
        for connection in list(self.connections):
            connection.stop_soon()
        for connection in list(self.connections):
            await connection.wait_stopped()


async def stop_all(connectors: Sequence[TransportConnector]) -> None:
    """Stop all at once: one whose clients do not read must not use up the others' time."""
    failures: list[BaseException] = []
    stopping = [
        spawn(connector.stop, name=f"connector {connector.name} stop", on_error=failures.append)
        for connector in reversed(connectors)
    ]
    try:
        for task in stopping:
            await task.wait()
    finally:
        for task in stopping:
            task.cancel()
    if failures:
        raise failures[0]
