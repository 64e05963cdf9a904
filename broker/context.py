"""One client's connection as the broker's rooms see it, and its exchanges with the broker."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from pyjms.wire.openwire.commands import (
    Command,
    ConnectionId,
    ConnectionInfo,
    MessageDispatch,
    ProducerInfo,
    TransactionId,
)

if TYPE_CHECKING:
    from broker.completion import Completion
    from broker.region.destination import BrokerDestination
    from broker.region.flow_control import ParkedSend
    from broker.region.subscription import Subscription
    from broker.transaction.local import Transaction

__all__ = ["ClientConnection", "ConnectionContext", "ConsumerExchange", "ProducerExchange"]


class ClientConnection(Protocol):
    """The connector's end of a connection. No call waits."""

    @property
    def remote_address(self) -> str: ...

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Send a message to the client, in the order of the calls."""

    def send_command(self, command: Command) -> None:
        """Send any other command to the client."""

    def service_exception(self, error: Exception) -> None:
        """Tell the client of an error that answers no request (ConnectionError)."""

    def give_way(self, error: Exception) -> None:
        """Take everything of this client out of the broker now, and close the connection soon."""

    def stop_soon(self, error: Exception | None = None) -> None:
        """Close the connection from the broker's side, after what is queued was written."""


class ConnectionContext:
    """What the broker knows of one connection."""

    def __init__(self, connection: ClientConnection | None = None) -> None:
        self.connection = connection
        self.info: ConnectionInfo | None = None
        self.connection_id: ConnectionId | None = None
        self.client_id: str | None = None
        self.user_name: str | None = None
        self.connector_name: str | None = None
        self.connector_url: str | None = None
        self.fault_tolerant = False
        self.network_connection = False
        self.allow_link_stealing = False
        """Whether it takes its client id away from a connection that has it (C1)."""
        self.producer_flow_control = True
        self.congested = False
        """Whether the client has more to read than it should: its subscriptions are full."""
        self.parked: dict[ParkedSend, None] = {}
        """Its messages that wait for memory, in their order."""
        self.transactions: dict[TransactionId, Transaction] = {}
        self.waiting_ends: dict[Transaction, Completion] = {}
        """Transactions whose commit or prepare, asked for here, waits for such messages."""
        self.transaction: Transaction | None = None
        """The transaction of the command in hand, set by the transaction filter."""
        self.wants_answer = False
        """Whether the acknowledgement in hand asked for an answer, so that it is synced (K13)."""
        self.is_broker = False
        """The broker's own context: dead letters, advisories."""


class ProducerExchange:
    """A producer's way into the broker: its context, and the last destination it used."""

    __slots__ = (
        "context",
        "destination",
        "info",
        "last_stored_sequence",
        "mutable",
        "region_destination",
        "unanswered",
    )

    def __init__(self, context: ConnectionContext, info: ProducerInfo | None = None) -> None:
        self.context = context
        self.info = info
        self.destination: object = None
        self.region_destination: BrokerDestination | None = None
        self.mutable = True
        self.last_stored_sequence: int | None = None
        """After a failover: up to where the store has this producer's messages already (T27)."""
        self.unanswered: deque[Completion] | None = None
        """Of a client that fails over: the sends that the store is at, oldest first."""


class ConsumerExchange:
    """A consumer's way back into the broker: its context and subscription."""

    __slots__ = ("context", "subscription")

    def __init__(self, context: ConnectionContext, subscription: Subscription | None) -> None:
        self.context = context
        self.subscription = subscription
