"""The broker's view of a client: its connection, its producers and its consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    MessageDispatch,
    ProducerId,
    ProducerInfo,
    TransactionId,
)
from pyjms_broker.api.access import Access, Right
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.fields import MAX_TEXT, UNLIMITED
from pyjms_broker.api.transaction import Transaction, TransactionState
from pyjms_broker.api.usage import ClientMemory

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.subscription import Subscription


@dataclass(frozen=True)
class SecurityContext:
    """The user and groups of a connection. Source: ActiveMQ SecurityContext."""

    user_name: str
    groups: frozenset[str] = frozenset()


class ClientLink(Protocol):
    """A producer or consumer of a client whose protocol has credit, such as a link of AMQP."""

    @property
    def credit(self) -> int:
        """The number of messages that may be sent on it now."""

    @property
    def settle_mode(self) -> str:
        """How its sender settles: `settled`, `unsettled` or `mixed`."""


class ClientConnection(Protocol):
    """A client's connection in the connector. No method waits."""

    is_lost: bool
    """Whether the client is gone; its resources are removed soon."""

    @property
    def remote_address(self) -> str: ...

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Send a message to the client, in the order of the calls.

        Raises:
            LocalProtocolError: the client's connection cannot carry it, and remains usable.
        """

    runs_are_raw: bool
    """Whether `dispatch_run` takes only messages that were received from clients of OpenWire."""

    @property
    def run_room(self) -> int:
        """The bytes that `dispatch_run` may send now; 0: each message needs `dispatch`."""

    def dispatch_run(self, dispatches: list[MessageDispatch]) -> int:
        """Send the first of these messages in one step; return how many.

        It ends before one that needs `dispatch`. Nothing else happens meanwhile.
        """

    def send_command(self, command: Command) -> None:
        """Send another command to the client."""

    def service_exception(self, error: Exception) -> None:
        """Send an error that is not a response to the client, as a ConnectionError."""

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        """Close a consumer as its client would; ignore a closed consumer."""

    def give_way(self, error: Exception) -> None:
        """Remove the client's state from the broker now, and close the connection soon."""

    def link_of(self, member: ConsumerId | ProducerId) -> ClientLink | None:
        """Return the link of a consumer or producer, if the client's protocol has links."""

    def on_destination_removed(self, consumer_id: ConsumerId) -> None:
        """Tell the client that a consumer's destination was removed, if its protocol can."""

    def owns_temporary(self, destination: Destination) -> bool:
        """Return whether the client has created this temporary destination."""

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
        """Whether the client is a bridge of another broker, or of this one."""
        self.is_own_bridge = False
        """Whether it is the local end of a bridge of this broker, which needs no right for it."""
        self.allow_link_stealing = False
        """Whether it may take over a client id in use by another connection.
        (activemq-broker C1)"""
        self.memory = ClientMemory()
        """What its consumers and other resources take; shared with the client's others."""
        self.producer_flow_control = True
        self.congested = False
        """Whether the client reads too slowly, so that its subscriptions count as full."""
        self.largest_message = self.unchecked_size = 0
        self.limit_messages(UNLIMITED)
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

    def limit_messages(self, largest: int) -> None:
        """Set the size of the largest message; longer ones than `unchecked_size` are checked."""
        self.largest_message, self.unchecked_size = largest, min(largest, MAX_TEXT)

    def introduce(self, info: ConnectionInfo) -> None:
        """Take over what the client says of itself."""
        self.info = info
        self.connection_id = info.connection_id
        self.client_id = info.client_id
        self.user_name = info.user_name
        self.fault_tolerant = info.fault_tolerant

    @property
    def user(self) -> str | None:
        """The name of the authenticated user; None: the broker has no users."""
        return None if self.security is None else self.security.user_name

    @property
    def log_fields(self) -> dict[str, object]:
        """What JSON lines of the log about this client tell of it; texts are the client's."""
        connection = self.connection
        fields = {
            "connector": self.connector_name,
            "client_id": self.client_id,
            "user": self.user or self.user_name,
            "address": None if connection is None else connection.remote_address,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def may_use(self, owner: str | None, work: Collection[tuple[Right, Destination]]) -> bool:
        """Return whether the client may use what belongs to another user.

        Args:
            owner: the user's name; None: unknown, so that the rights for the work suffice.
            work: the destinations that it is about, with the right that the owner needed.
        """
        access = self.access
        if access is None or self.user == owner:
            return True
        return bool(work) and all(
            access.may(right if owner is None else Right.ADMIN, destination)
            for right, destination in work
        )

    def may_read(self, destination: Destination) -> bool:
        """Whether its consumers may receive from a destination. (activemq-edges SE5)"""
        return self.access is None or self.access.may(Right.READ, destination)


class ProducerExchange:
    """A producer's context, with its last destination cached.

    Source: ActiveMQ ProducerBrokerExchange.
    """

    __slots__ = (
        "_transacted",
        "blocked_sends",
        "blocked_time",
        "context",
        "destination",
        "info",
        "is_internal",
        "is_redelivery",
        "last_stored_sequence",
        "outer",
        "region_destination",
        "sent_count",
        "table_version",
        "transaction",
        "unanswered",
    )

    def __init__(
        self,
        context: ConnectionContext,
        info: ProducerInfo | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        self.context = context
        self.info = info
        self.transaction = transaction
        """The transaction of its messages; None: they take effect at once."""
        self.is_internal = False
        """Whether the broker forwards a client's message to an internal destination."""
        self.sent_count = 0
        """Number of messages sent."""
        self.blocked_sends = 0
        """Number of messages that had to wait for space."""
        self.blocked_time = 0.0
        """Total time that messages have waited, in milliseconds."""
        self.is_redelivery = False
        """Whether the broker redelivers a failed message, scheduled unlike its other ones."""
        self.outer: ProducerExchange | None = None
        """The producer's own exchange, if this one is within a transaction."""
        self._transacted: ProducerExchange | None = None
        self.destination: object = None
        self.region_destination: BrokerDestination | None = None
        self.table_version = -1
        """The version of the destination table when the two fields above were set."""
        self.last_stored_sequence: int | None = None
        """After a failover: the highest sequence number of its stored messages.
        (activemq-broker T27)"""
        self.unanswered: deque[Completion] | None = None
        """The sends that are not stored yet, oldest first; for clients that may fail over."""

    def within(self, transaction: Transaction) -> ProducerExchange:
        """Return the producer's exchange for messages of `transaction`.

        The last one is cached, because a transaction usually has many messages.
        """
        transacted = self._transacted
        if transacted is None or transacted.transaction is not transaction:
            transacted = ProducerExchange(self.context, self.info, transaction)
            transacted.outer = self
            self._transacted = transacted
        return transacted

    def within_open(self, xid: TransactionId) -> ProducerExchange | None:
        """Return the producer's exchange for messages of a transaction to which it has sent before.

        None if that has not been so, or if the end of the transaction was requested.
        """
        transacted = self._transacted
        transaction = None if transacted is None else transacted.transaction
        if transaction is None or transaction.xid is not xid:
            return None
        return transacted if transaction.state is TransactionState.IN_USE else None

    def for_forwarding(self) -> ProducerExchange:
        """Return a new exchange of the same producer and transaction for another destination."""
        return ProducerExchange(self.context, self.info, self.transaction)

    def for_internal(self) -> ProducerExchange:
        """Return a new exchange for forwarding to an internal destination."""
        forwarding = self.for_forwarding()
        forwarding.is_internal = True
        return forwarding


class ConsumerExchange:
    """A consumer's context and subscription. Source: ActiveMQ ConsumerBrokerExchange."""

    __slots__ = ("context", "subscription", "transaction")

    def __init__(
        self,
        context: ConnectionContext,
        subscription: Subscription | None,
        transaction: Transaction | None = None,
    ) -> None:
        self.context = context
        self.subscription = subscription
        self.transaction = transaction
        """The transaction of its acknowledgements."""
