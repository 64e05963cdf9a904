"""The base class of connectors, independent of their protocol.

A connector accepts clients at an address and keeps track of their connections. It uses the
interfaces `ServedConnection` and `BrokerHost` only, so a connector for another protocol is
independent of OpenWire. A connector is used on the event loop that started it. Connections remove
themselves from `connections` when they have ended; only `start` and `stop` wait. (activemq-edges
U8, U9)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import spawn
from pyjms.transport.discovery import DiscoveryAgent, create_agent
from pyjms.transport.unsent import UnsentBudget
from pyjms.transport.uri import TransportURI
from pyjms.wire.limits import FrameBudget
from pyjms.wire.openwire.commands import BrokerId, ProducerId
from pyjms_broker.api.broker import Broker
from pyjms_broker.connector.cluster import ClusterClients
from pyjms_broker.connector.connection_registry import ConnectionRegistry

if TYPE_CHECKING:
    from pyjms_broker.network.networks import Networks
    from pyjms_broker.region.region_broker import RegionBroker


class Announcer:
    """Announces a connector by a discovery agent while it accepts clients. (activemq-edges U8)"""

    def __init__(self) -> None:
        self.uri: TransportURI | None = None
        """The agent's URI; None: the connector is not announced. (discoveryUri)"""
        self._agent: DiscoveryAgent | None = None

    async def start(self, connect_uri: str) -> None:
        """Announce an address from now on.

        Raises:
            ConfigurationException: the agent's URI is wrong.
        """
        if self.uri is not None:
            self._agent = create_agent(self.uri)
            await self._agent.start(service=connect_uri)

    async def stop(self) -> None:
        """Withdraw the announcement. Idempotent."""
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.stop()


_RESPONSE_TIMEOUT = 2.0
"""Seconds for which a stop waits for connections to send their pending responses."""
MAXIMUM_CONNECTIONS = 5000
"""The maximum number of connections of one connector. ActiveMQ has no limit."""
MAXIMUM_PER_CONNECTION = 10_000
"""The maximum number of a connection's sessions, producers, consumers and so on, of each kind.

ActiveMQ has no limit.
"""


class BrokerHost(Protocol):
    """The part of the broker service that connectors, their connections and upper layers use."""

    broker_name: str
    broker_id: BrokerId
    connections: ConnectionRegistry
    rollback_only_on_async_exception: bool
    """Whether a failed one-way command makes its transaction's commit fail (activemq-broker C5)."""
    frame_budget: FrameBudget
    """The memory budget for partially received frames."""
    unsent_budget: UnsentBudget
    """The memory budget for long messages that clients have not read yet."""
    connection_info_timeout: float
    """Seconds within which a client must send its ConnectionInfo; 0: no limit."""

    client_memory_limit: int
    """The bytes that the consumers and other resources of one connection may take; 0: no limit."""

    @property
    def broker(self) -> Broker:
        """The outermost broker filter, to which every request of a client goes."""

    @property
    def allow_anonymous_remote(self) -> bool:
        """Whether other machines may connect although the broker has no users."""

    @property
    def reserved_file_handles(self) -> int:
        """The number of the process's file handles that are reserved for the stores."""

    @property
    def store_failed(self) -> bool:
        """Whether a store has failed permanently, so that errors get no response."""

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest stored sequence number of a producer; -1 if it is unknown."""

    @property
    def connect_uri(self) -> str:
        """The URI for JMS clients."""

    @property
    def connectors(self) -> list[TransportConnector]:
        """The connectors, in order."""

    @property
    def region_broker(self) -> RegionBroker:
        """The innermost broker of the filter chain."""

    @property
    def networks(self) -> Networks:
        """The network connectors, and the state shared by all bridges."""

    async def stop(self) -> None:
        """Stop the broker. Called for a broker created by `vm://` when its last client leaves."""


class ServedConnection(Protocol):
    """The interface of a client's connection for its connector."""

    def stop_reading(self) -> None:
        """Stop accepting requests of the client, because the connector is stopping."""

    async def wait_for_responses(self) -> None:
        """Wait until the client's pending responses are sent. Cancellable."""

    def stop_soon(self, error: Exception | None = None) -> None:
        """Close the connection in the background, after writing what is queued."""

    async def wait_stopped(self) -> None:
        """Wait until the connection is closed and removed from its connector's `connections`."""


class TransportConnector(ABC):
    """An address at which clients of one protocol connect to the broker.

    Args:
        host: the broker that the clients use.
        uri: the address to listen on, with the connector's options.
        name: the connector's name in logs; the URI by default.
    """

    serves_openwire = True
    """Whether OpenWire (JMS) clients can connect."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        self.host = host
        self.uri = uri
        self.name = name or str(uri)
        self.maximum_connections = MAXIMUM_CONNECTIONS
        self.maximum_sessions_per_connection = MAXIMUM_PER_CONNECTION
        self.maximum_producers_per_connection: int | None = MAXIMUM_PER_CONNECTION
        self.maximum_consumers_per_connection: int | None = MAXIMUM_PER_CONNECTION
        self.maximum_temporary_destinations_per_connection = MAXIMUM_PER_CONNECTION
        self.maximum_transactions_per_connection = MAXIMUM_PER_CONNECTION
        self.allow_link_stealing = False
        self.enable_status_monitor = False
        """Whether clients that read nothing for some seconds, while data waits, are closed."""
        self.audit_network_producers = False
        """Whether repeated messages of bridges are detected."""
        self.announcer = Announcer()
        self.cluster = ClusterClients(lambda: self.connect_uri, lambda: host.networks.joined)
        """The clients that are notified of other brokers in the network."""
        self.connections: set[ServedConnection] = set()
        self.stopping = False

    def limit_clients(self, producers: int | None, consumers: int | None) -> None:
        """Set the maximum numbers of a connection's producers and consumers; None: as it is."""
        if producers is not None:
            self.maximum_producers_per_connection = producers
        if consumers is not None:
            self.maximum_consumers_per_connection = consumers

    @property
    @abstractmethod
    def connect_uri(self) -> str:
        """The URI to which clients connect, with the actual port if the configured one is 0."""

    @abstractmethod
    async def start(self) -> None:
        """Accept connections from now on. A second call is ignored.

        Raises:
            ResourceAllocationException: the address cannot be bound.
            ConfigurationException: an option is unknown or has a bad value.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Stop accepting, close all connections and wait until they have ended. Idempotent."""

    async def stop_connections(self) -> None:
        """Close all connections, once their clients have received their pending responses."""
        with _clock.timeout(_RESPONSE_TIMEOUT):
            for connection in self.connections:
                connection.stop_reading()
            for connection in list(self.connections):
                await connection.wait_for_responses()
        for connection in list(self.connections):
            connection.stop_soon()
        for connection in list(self.connections):
            await connection.wait_stopped()


async def stop_all(connectors: Sequence[TransportConnector]) -> None:
    """Stop all connectors concurrently, so that clients that do not read delay no other connector.

    Raises:
        Exception: the first error of a connector's `stop`, after all of them have stopped.
    """
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
