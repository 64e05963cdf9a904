"""The base of all connectors, independent of their protocol.

A connector accepts clients at an address and keeps the connections that it has open. It knows a
connection by four calls (`ServedConnection`) and the broker by what a `BrokerHost` offers, so a
connector for another protocol needs nothing of OpenWire's. A connector belongs to the event loop
that started it. Connections remove themselves from `connections` when they have ended; only
`start` and `stop` wait. (activemq-edges U8, U9)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from pyjms import _clock
from pyjms._wakeup import spawn
from pyjms.transport.unsent import UnsentBudget
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    BrokerInfo,
    BrokerSubscriptionInfo,
    Command,
    ProducerId,
)
from pyjms.wire.openwire.frame_budget import FrameBudget
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.connector.announcing import Announcer
from pyjms_broker.connector.cluster import ClusterClients
from pyjms_broker.connector.connection_registry import ConnectionRegistry
from pyjms_broker.connector.listening import ServerHost

__all__ = [
    "MAXIMUM_CONNECTIONS",
    "MAXIMUM_PER_CONNECTION",
    "AcceptedBridge",
    "BrokerHost",
    "DuplexBridge",
    "MessageAudit",
    "ServedConnection",
    "ServiceIdentity",
    "TransportConnector",
    "stop_all",
]

_RESPONSE_TIMEOUT = 2.0
"""Seconds that a stop waits for connections to send their pending responses."""
MAXIMUM_CONNECTIONS = 5000
"""Connections of one connector. ActiveMQ has no limit; nothing here is unbounded."""
MAXIMUM_PER_CONNECTION = 10_000
"""Sessions, producers, consumers, temporary destinations or transactions of one connection.

ActiveMQ has no limit.
"""


class ServiceIdentity(Protocol):
    """What both connectors and management views need to know of the broker service."""

    @property
    def broker_name(self) -> str: ...

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def broker(self) -> Broker:
        """The outermost filter of the filter chain: every request of a client goes to it."""

    @property
    def connections(self) -> ConnectionRegistry: ...


class BrokerHost(ServiceIdentity, ServerHost, Protocol):
    """The part of the broker service that connectors and their connections use."""

    @property
    def rollback_only_on_async_exception(self) -> bool:
        """Whether a failed one-way command makes its transaction's commit fail.

        (activemq-broker C5)
        """

    @property
    def frame_budget(self) -> FrameBudget:
        """The memory for frames that have arrived in part."""

    @property
    def unsent_budget(self) -> UnsentBudget:
        """The memory for long messages that clients have not read yet."""

    @property
    def connection_info_timeout(self) -> float:
        """How long a client may be silent before its ConnectionInfo, in seconds; 0: no limit."""

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest stored sequence number of a producer, -1 if it is unknown.

        (activemq-broker T27)
        """

    @property
    def networks(self) -> DuplexBridges: ...

    async def stop(self) -> None:
        """Stop the broker. Called for one that `vm://` created when its last client has left."""


class DuplexBridge(Protocol):
    """Forwards to the broker that has opened a connection, over that connection."""

    def take(self, command: Command) -> None:
        """Take a response to the bridge's requests, an advisory or a list of subscriptions."""

    def count_received(self) -> None:
        """Count a message that the broker has sent."""


class MessageAudit(Protocol):
    """Recognises messages that bridges send again."""

    def send(
        self, message: ActiveMQMessage, own_id: BrokerId, send: Callable[[], Completion]
    ) -> Completion:
        """Send a message unless it has come before; done when it is safe."""


class AcceptedBridge(NamedTuple):
    """What is to be done for a client that is a bridge of another broker."""

    duplex: DuplexBridge | None = None
    """Forwards to that broker, if it asks for it."""
    audit: MessageAudit | None = None
    """What its messages pass, if it asks for it."""
    subscriptions: BrokerSubscriptionInfo | None = None
    """What it is told of this broker's durable subscriptions, if it asks for it."""


class DuplexBridges(Protocol):
    """The bridges of this kind of a broker."""

    @property
    def joined(self) -> Sequence[BrokerInfo]:
        """The brokers to which there are bridges, each as often as there are."""

    @property
    def audit(self) -> MessageAudit:
        """Recognises the messages that bridges send again."""

    def accept(self, connection: Any, info: BrokerInfo) -> AcceptedBridge:
        """Do what the bridge of another broker asks for, which `info` describes.

        Raises:
            JMSException: its options cannot be read.
        """


class ServedConnection(Protocol):
    """A client's connection as its connector sees it."""

    def stop_reading(self) -> None:
        """Accept no further request of the client: the connector is stopping."""

    async def wait_for_responses(self) -> None:
        """Wait until the client has got the responses it waits for. Cancellable."""

    def stop_soon(self, error: Exception | None = None) -> None:
        """Close the connection in the background, after what is queued was written."""

    async def wait_stopped(self) -> None:
        """Wait until the connection is closed and has left its connector's `connections`."""


class TransportConnector(ABC):
    """An address at which clients of one protocol connect to the broker.

    Args:
        host: the broker that the clients use.
        uri: the address to listen on, with the connector's options.
        name: the connector's name in logs; the URI by default.
    """

    serves_openwire = True
    """Whether JMS clients can connect here."""

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
        self.audit_network_producers = False
        """Whether messages that bridges send again are recognised."""
        self.announcer = Announcer()
        self.cluster = ClusterClients(lambda: self.connect_uri, lambda: host.networks.joined)
        """What its clients learn of other brokers."""
        self.connections: set[ServedConnection] = set()
        self.stopping = False

    @property
    @abstractmethod
    def connect_uri(self) -> str:
        """The URI that clients connect to, with the actual port if the configured one is 0."""

    @abstractmethod
    async def start(self) -> None:
        """Accept connections from now on. A second call is ignored.

        Raises:
            ResourceAllocationException: the address cannot be bound.
            ConfigurationException: an option is unknown or has a bad value.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Stop accepting, close every connection and wait for their ends. Idempotent."""

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
    """Stop all connectors concurrently: clients that do not read must not delay other connectors.

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
