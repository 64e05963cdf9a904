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
    """The principal of a connection: its user and groups. Source: ActiveMQ SecurityContext."""

    user_name: str
    groups: frozenset[str] = frozenset()


class ClientConnection(Protocol):
    """The connector's end of a connection. No call waits."""

    @property
    def remote_address(self) -> str: ...

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Send a message to the client, in the order of the calls."""

    def send_command(self, command: Command) -> None:
        """Send any other command to the client."""

    def service_exception(self, error: Exception) -> None:
        """Report an error that belongs to no request to the client (ConnectionError)."""

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        """Close a consumer as its client would; ignore a consumer that is closed already."""

    def give_way(self, error: Exception) -> None:
        """Remove everything of this client from the broker now, and close the connection soon."""

    def pause_until(self, done: Completion) -> None:
        """Handle no further command of the client until `done`, except those it sent before it
        disconnected.

        Calls may overlap.
        """

    def stop_soon(self, error: Exception | None = None) -> None:
        """Close the connection from the broker's side, after queued commands were written."""


class BlockedSend(Protocol):
    """A message that waits for memory or disk space. `pyjms_broker.region.flow` implements it."""

    @property
    def message(self) -> ActiveMQMessage: ...

    @property
    def is_admitted(self) -> bool:
        """Whether its destination has accepted it by now."""

    @property
    def transaction(self) -> Transaction | None: ...

    def abort(self, error: Exception) -> None:
        """Stop waiting: the send fails with `error`."""


class Access(Protocol):
    """The rights of a client, where filters inside an authorization ask for them."""

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
        """What the client calls itself."""
        self.certificate: Mapping[str, Any] | None = None
        """The verified TLS certificate of the client, as `ssl.SSLSocket.getpeercert` has it."""
        self.security: SecurityContext | None = None
        """Who the client is; None: the broker has no authentication."""
        self.access: Access | None = None
        """What it may do; None: everything."""
        self.message_policy: Callable[[ActiveMQMessage], bool] | None = None
        """Whether its consumers may get a message; None: all. (activemq-broker Z5)"""
        self.connector_name: str | None = None
        self.connector_url: str | None = None
        self.fault_tolerant = False
        self.network_connection = False
        self.allow_link_stealing = False
        """Whether it may take over a client id that another connection uses.
        (activemq-broker C1)"""
        self.producer_flow_control = True
        self.congested = False
        """Whether the client reads too slowly: its subscriptions then count as full."""
        self.blocked_sends: dict[BlockedSend, None] = {}
        """Its messages that wait for space, oldest first."""
        self.transactions: dict[TransactionId, Transaction] = {}
        """Its open local transactions."""
        self.waiting_ends: dict[Transaction, Completion] = {}
        """Transactions whose commit or prepare was requested here and waits for blocked sends."""
        self.is_broker = False
        """Whether this is the broker's own context: dead letters, advisories."""
        self.is_operator = False
        """Whether this is the management, to which the rights of clients do not apply."""

    def may_read(self, destination: Destination) -> bool:
        """Whether messages of a destination may go to its consumers. (activemq-edges SE5)"""
        return self.access is None or self.access.may_read(destination)
