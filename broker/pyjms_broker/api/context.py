"""The broker's view of a client's connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    MessageDispatch,
    TransactionId,
)
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.transaction import Transaction

__all__ = ["Access", "BlockedSend", "ClientConnection", "ConnectionContext", "SecurityContext"]


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """The user and groups of a connection. Source: ActiveMQ SecurityContext."""

    user_name: str
    groups: frozenset[str] = frozenset()


class ClientConnection(Protocol):
    """A client's connection in the connector. No method waits."""

    @property
    def remote_address(self) -> str: ...

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Send a message to the client, in the order of the calls."""

    def send_command(self, command: Command) -> None:
        """Send another command to the client."""

    def service_exception(self, error: Exception) -> None:
        """Send an error that is not a response to the client, as a ConnectionError."""

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        """Close a consumer as its client would; ignore a closed consumer."""

    def give_way(self, error: Exception) -> None:
        """Remove the client's state from the broker now, and close the connection soon."""

    def pause_until(self, done: Completion) -> None:
        """Handle no further commands of the client until `done`, except those sent before it
        disconnected.

        Calls may overlap.
        """

    def stop_soon(self, error: Exception | None = None) -> None:
        """Close the connection after queued commands were written."""


class BlockedSend(Protocol):
    """A message that waits for memory or disk space, implemented by `pyjms_broker.region.flow`."""

    message: ActiveMQMessage
    transaction: Transaction | None
    is_admitted: bool
    """Whether its destination has accepted the message."""

    def abort(self, error: Exception) -> None:
        """Stop waiting and let the send fail with `error`."""


class Access(Protocol):
    """The rights of a client, for filters inside the authorization filter."""

    def may_read(self, destination: Destination) -> bool:
        """Whether the client may receive from a destination."""

    def check_read(self, destination: Destination) -> None:
        """Check that the client may receive from a destination.

        Raises:
            JMSSecurityException: it is not allowed.
        """


class ConnectionContext:
    """The broker's state of one connection. Source: ActiveMQ ConnectionContext."""

    def __init__(self, connection: ClientConnection | None = None) -> None:
        self.connection = connection
        self.info: ConnectionInfo | None = None
        self.connection_id: ConnectionId | None = None
        self.client_id: str | None = None
        self.user_name: str | None = None
        """The user name sent by the client."""
        self.certificate: Mapping[str, Any] | None = None
        """The client's verified TLS certificate, as returned by `ssl.SSLSocket.getpeercert`."""
        self.security: SecurityContext | None = None
        """The authenticated client; None: the broker has no authentication."""
        self.access: Access | None = None
        """The rights of the client; None: all."""
        self.message_policy: Callable[[ActiveMQMessage], bool] | None = None
        """Decides which messages its consumers may get; None: all. (activemq-broker Z5)"""
        self.connector_name: str | None = None
        self.connector_url: str | None = None
        self.fault_tolerant = False
        self.network_connection = False
        self.allow_link_stealing = False
        """Whether it may take over a client id in use by another connection.
        (activemq-broker C1)"""
        self.producer_flow_control = True
        self.congested = False
        """Whether the client reads too slowly, so that its subscriptions count as full."""
        self.blocked_sends: dict[BlockedSend, None] = {}
        """The client's messages that wait for space, oldest first."""
        self.transactions: dict[TransactionId, Transaction] = {}
        """The client's open local transactions."""
        self.waiting_ends: dict[Transaction, Completion] = {}
        """Transactions whose requested commit or prepare waits for blocked sends."""
        self.is_broker = False
        """Whether this is the broker's own context, used for dead letters and advisories."""
        self.is_operator = False
        """Whether this is the management's context, to which the rights of clients do not apply."""

    def introduce(self, info: ConnectionInfo) -> None:
        """Take over what the client says of itself."""
        self.info = info
        self.connection_id = info.connection_id
        self.client_id = info.client_id
        self.user_name = info.user_name
        self.fault_tolerant = info.fault_tolerant

    def may_read(self, destination: Destination) -> bool:
        """Whether its consumers may receive from a destination. (activemq-edges SE5)"""
        return self.access is None or self.access.may_read(destination)
