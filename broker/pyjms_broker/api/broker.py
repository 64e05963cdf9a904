"""The broker's interface, and the base classes of the filters around the region broker.

Each behaviour of the broker (stop guard, transactions, composite destinations, advisories ...) is
a `BrokerFilter` in its own module; `pyjms_broker.service.filter_chain` assembles them in one list
around the region broker. Methods run to completion on the broker's event loop; `send`,
`acknowledge` and the transaction methods may return a Completion. Any method may raise a
JMSException, which becomes the client's response. (ActiveMQ Broker, Region, BrokerFilter;
activemq-broker B1 to B6)
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, NoReturn, Protocol, TypeVar

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.runtime.forwarding import DelegatedAttribute, delegate
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerInfo,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessagePull,
    ProducerInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
    Throwable,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage


class Broker:
    """The interface of the region broker and the filters around it."""

    plain: Broker | None = None
    """The broker behind this one that first acts on plain messages and acknowledgements; None: this
    one does.

    A plain message is not part of a transaction, has no schedule, and its destination is neither
    composite nor one of the broker's own; a plain acknowledgement is not part of a transaction.
    """

    def send_run(self, exchange: ProducerExchange, messages: list[ActiveMQMessage]) -> int:
        """Accept the first of these messages together; return how many, 0: each needs `send`.

        They are plain, as in `plain`, of one producer and for the destination to which it has sent
        before, and nobody waits for a response. A filter does not override it: one that acts on
        plain messages gets each of them by `send`.
        """
        return 0

    def acknowledge_run(self, exchange: ConsumerExchange, acks: deque[MessageAck]) -> Completion:
        """Apply the first of these acknowledgements together, and remove them from `acks`.

        None is removed if each needs `acknowledge`. They are plain, and nobody waits for a
        response. The result is that of the last one; those before it are done. As `send_run`, it is
        not for filters.
        """
        return COMPLETED

    @property
    @abstractmethod
    def broker_name(self) -> str:
        """The broker's name."""

    @property
    @abstractmethod
    def scheduler_support(self) -> bool:
        """Whether messages with AMQ_SCHEDULED_DELAY are scheduled."""

    @abstractmethod
    async def start(self) -> None:
        """Start after the store was opened."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop dispatching and all background tasks. Idempotent."""

    # connections, sessions and producers
    @property
    @abstractmethod
    def authenticates_clients(self) -> bool:
        """Whether clients must be authenticated or admitted as guests."""

    @property
    def failed_login_count(self) -> int:
        """The number of refused logins since the start."""
        return 0

    @abstractmethod
    def authenticate(self, context: ConnectionContext, info: ConnectionInfo) -> Completion:
        """Authenticate a client and set `context.security`.

        A connector calls this method first for each connection, and passes `context` to
        `add_connection` when the completion is done.

        Raises:
            JMSSecurityException: the client is refused; may also be the completion's error.
        """

    @abstractmethod
    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        """Register a connection.

        Raises:
            InvalidClientIDException: the client id is missing or used by another connection.
        """

    @abstractmethod
    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        """Remove a connection that was closed because of `error` (None: by the client)."""

    @abstractmethod
    def add_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        """Register a session."""

    @abstractmethod
    def remove_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        """Remove a session."""

    @abstractmethod
    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        """Register a producer; its destination is created if it does not exist."""

    @abstractmethod
    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        """Remove a producer."""

    # destinations
    @abstractmethod
    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        """Create a destination at a client's request."""

    @abstractmethod
    def remove_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        """Remove a destination at a client's request."""

    @abstractmethod
    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        """Return a destination, which is created if it does not exist. (activemq-broker D3, D4)

        Raises:
            DestinationDoesNotExistException: a temporary destination was not created before.
            IllegalStateException: the policy's maximum is reached.
            ResourceAllocationException: a maximum of the broker, the connection or the user is
                reached.
            InvalidDestinationException: the name cannot be stored.
        """

    @abstractmethod
    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        """Remove a destination and its messages; `timeout` is in seconds, 0: it must be unused.

        Raises:
            JMSException: it still has a subscription. (activemq-broker D9)
        """

    @abstractmethod
    def destinations(self) -> dict[Destination, BrokerDestination]:
        """Return a copy of the table of destinations."""

    # consumers and durable subscriptions
    @abstractmethod
    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        """Register a consumer and return its subscription.

        Raises:
            InvalidSelectorException: its selector is invalid.
            JMSException: it requests a durable subscription that is in use or impossible.
        """

    @abstractmethod
    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        """Remove a consumer; the sequence id determines which delivery counts are incremented.
        (activemq-broker Q29)
        """

    @abstractmethod
    def remove_subscription(
        self, context: ConnectionContext, info: RemoveSubscriptionInfo
    ) -> Completion:
        """Remove a durable subscription; done when the stores have recorded it.

        Raises:
            InvalidDestinationException: there is no subscription of that name.
            JMSException: a consumer uses it.
        """

    @abstractmethod
    def process_consumer_control(
        self, exchange: ConsumerExchange, control: ConsumerControl
    ) -> None:
        """Change a consumer's prefetch."""

    # messages
    @abstractmethod
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        """Accept a message; done when it is as durable as its sender requires."""

    @abstractmethod
    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        """Apply an acknowledgement; done when the store has recorded it."""

    @abstractmethod
    def is_awaited(self, reference: MessageReference) -> bool:
        """Whether a queue should get a message even though none of its consumers selects it.

        Called for selector-aware virtual topics. (activemq-broker V3)
        """

    @abstractmethod
    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        """Dispatch one message to a consumer without prefetch."""

    # transactions by id, for the transaction filter
    @abstractmethod
    def begin_transaction(self, context: ConnectionContext, xid: TransactionId) -> None:
        """Begin a transaction; an XA branch may be begun repeatedly."""

    @abstractmethod
    def prepare_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> int | Completion:
        """Return XA_OK or XA_RDONLY; a Completion without an error means XA_OK."""

    @abstractmethod
    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Completion:
        """Commit a transaction; done when the work is durable."""

    @abstractmethod
    def rollback_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        """Roll back a transaction; done when the store has recorded it."""

    @abstractmethod
    def forget_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        """Forget a heuristically completed transaction, which means to roll it back."""

    @abstractmethod
    def set_rollback_only(
        self, context: ConnectionContext, xid: TransactionId, cause: Exception
    ) -> None:
        """Make the commit of a transaction fail, if it is open. (activemq-broker C5)"""

    @abstractmethod
    def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
        """Return the prepared XA transactions (XA recover)."""

    # events that the regions report to the outermost filter, so that all filters see them
    @abstractmethod
    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        """Report an expired message, which may become a dead letter."""

    @abstractmethod
    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        """Dead-letter a message if its strategy decides so; return whether it was."""

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Report an acknowledged message, if the policy enables it."""

    def message_delivered(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Report a message that arrived in its destination, if the policy enables it."""

    def message_dispatched(
        self, context: ConnectionContext, reference: MessageReference, subscription: Subscription
    ) -> None:
        """Report a message that was sent to a consumer, if the policy enables it."""

    def message_without_consumers(
        self, context: ConnectionContext, reference: MessageReference
    ) -> None:
        """Report a non-persistent message without a consumer, if the policy enables it."""

    def message_discarded(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        """Report a message evicted from a topic subscription, if the policy enables it."""

    def slow_consumer(
        self, context: ConnectionContext, destination: BrokerDestination, subscription: Subscription
    ) -> None:
        """Report a consumer that became slow, if the policy enables it."""

    def fast_producer(
        self, context: ConnectionContext, info: ProducerInfo, destination: BrokerDestination
    ) -> None:
        """Report a producer that sends while memory is full, if the policy enables it."""

    def destination_full(
        self, context: ConnectionContext, destination: BrokerDestination, usage: MemoryUsage
    ) -> None:
        """Report a message that arrived while memory was full, if the policy enables it.

        Source: ActiveMQ Broker.isFull.
        """

    def now_master_broker(self) -> None:
        """Report that the broker has started and holds the store's lock."""

    def network_bridge_started(
        self, info: BrokerInfo, created_by_duplex: bool, remote_address: str
    ) -> None:
        """Report that a bridge to another broker has started to forward.

        `created_by_duplex`: the other broker opened the connection.
        """

    def network_bridge_stopped(self, info: BrokerInfo) -> None:
        """Report that a bridge reported as started has ended."""

    def network_forward_failed(self, message: ActiveMQMessage, cause: Exception) -> None:
        """Report a message that another broker refused, if the bridge enables it.

        Source: ActiveMQ fireFailedForwardAdvisory.
        """


_Plugin = TypeVar("_Plugin")

_NEXT: Final = attrgetter("next")
_ONCE_A_MESSAGE: Final = (
    "send",
    "acknowledge",
    "message_pull",
    "message_consumed",
    "message_dispatched",
    "message_delivered",
)


class BrokerPlugin(Protocol):
    """Installs a filter into the chain. Source: ActiveMQ BrokerPlugin."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the new outermost broker of the chain, usually a BrokerFilter around `broker`."""


class BrokerFilter(Broker):
    """Forwards every call to the next broker of the chain; override methods as needed.

    A filter that does not override a method in `_ONCE_A_MESSAGE` adds no cost per message: its
    caller directly calls the next broker that overrides it. Therefore only `connect` sets `next`.

    Source: ActiveMQ BrokerFilter.
    """

    passes_plain: ClassVar[bool] = False
    """Whether the `send` and `acknowledge` that this class defines only pass plain messages and
    acknowledgements on; see `Broker.plain`. It does not count for what a subclass overrides."""

    def __init__(self, next_broker: Broker) -> None:
        self.connect(next_broker)

    def connect(self, next_broker: Broker) -> None:
        """Forward all calls to `next_broker` from now on.

        The filters around this one must be reconnected, from the inside out, because they may call
        brokers behind it directly.
        """
        self.next = next_broker
        for name in _ONCE_A_MESSAGE:
            if getattr(type(self), name) is getattr(BrokerFilter, name):
                setattr(self, name, getattr(next_broker, name))
        acts = any(map(self._acts_on_plain, ("send", "acknowledge")))
        self.plain = None if acts else next_broker.plain or next_broker

    @classmethod
    def _acts_on_plain(cls, method: str) -> bool:
        """Return whether a method does more with plain commands than to pass them on.

        The class that defines it says so by its own `passes_plain`: a subclass of a built-in filter
        that overrides the method gets all commands.
        """
        owner = next(each for each in cls.__mro__ if method in vars(each))
        return owner is not BrokerFilter and not vars(owner).get("passes_plain", False)

    broker_name = DelegatedAttribute[str](_NEXT, "The broker's name.", read_only=True)

    @property
    def scheduler_support(self) -> bool:
        """Whether messages with AMQ_SCHEDULED_DELAY are scheduled."""
        return self.next.scheduler_support

    async def start(self) -> None:
        await self.next.start()

    async def stop(self) -> None:
        await self.next.stop()

    @property
    def authenticates_clients(self) -> bool:
        return self.next.authenticates_clients

    @property
    def failed_login_count(self) -> int:
        return self.next.failed_login_count

    # called for each message, so written out
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        return self.next.send(exchange, message)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        return self.next.acknowledge(exchange, ack)

    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        self.next.message_pull(context, pull)

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.next.message_consumed(context, reference)

    is_awaited = delegate(Broker.is_awaited, _NEXT)
    authenticate = delegate(Broker.authenticate, _NEXT)
    add_connection = delegate(Broker.add_connection, _NEXT)
    remove_connection = delegate(Broker.remove_connection, _NEXT)
    add_session = delegate(Broker.add_session, _NEXT)
    remove_session = delegate(Broker.remove_session, _NEXT)
    add_producer = delegate(Broker.add_producer, _NEXT)
    remove_producer = delegate(Broker.remove_producer, _NEXT)
    add_consumer = delegate(Broker.add_consumer, _NEXT)
    remove_consumer = delegate(Broker.remove_consumer, _NEXT)
    remove_subscription = delegate(Broker.remove_subscription, _NEXT)
    process_consumer_control = delegate(Broker.process_consumer_control, _NEXT)

    add_destination_info = delegate(Broker.add_destination_info, _NEXT)
    remove_destination_info = delegate(Broker.remove_destination_info, _NEXT)
    add_destination = delegate(Broker.add_destination, _NEXT)
    remove_destination = delegate(Broker.remove_destination, _NEXT)
    destinations = delegate(Broker.destinations, _NEXT)

    begin_transaction = delegate(Broker.begin_transaction, _NEXT)
    prepare_transaction = delegate(Broker.prepare_transaction, _NEXT)
    commit_transaction = delegate(Broker.commit_transaction, _NEXT)
    rollback_transaction = delegate(Broker.rollback_transaction, _NEXT)
    forget_transaction = delegate(Broker.forget_transaction, _NEXT)
    set_rollback_only = delegate(Broker.set_rollback_only, _NEXT)
    prepared_transactions = delegate(Broker.prepared_transactions, _NEXT)

    message_expired = delegate(Broker.message_expired, _NEXT)
    send_to_dead_letter_queue = delegate(Broker.send_to_dead_letter_queue, _NEXT)
    message_discarded = delegate(Broker.message_discarded, _NEXT)
    slow_consumer = delegate(Broker.slow_consumer, _NEXT)
    message_delivered = delegate(Broker.message_delivered, _NEXT)
    message_dispatched = delegate(Broker.message_dispatched, _NEXT)
    message_without_consumers = delegate(Broker.message_without_consumers, _NEXT)
    fast_producer = delegate(Broker.fast_producer, _NEXT)
    destination_full = delegate(Broker.destination_full, _NEXT)
    now_master_broker = delegate(Broker.now_master_broker, _NEXT)
    network_bridge_started = delegate(Broker.network_bridge_started, _NEXT)
    network_bridge_stopped = delegate(Broker.network_bridge_stopped, _NEXT)
    network_forward_failed = delegate(Broker.network_forward_failed, _NEXT)


class PluginFilter(BrokerFilter, Generic[_Plugin]):
    """The filter of a plug-in, which reads the options of `plugin`."""

    def __init__(self, next_broker: Broker, plugin: _Plugin) -> None:
        super().__init__(next_broker)
        self.plugin = plugin


class InnermostBroker(Broker):
    """The base of the region broker, with the methods that filters around it handle.

    It refuses transactions.
    """

    broker_name: str = ""
    scheduler_support: bool = False

    @property
    def authenticates_clients(self) -> bool:
        return False

    def authenticate(self, context: ConnectionContext, info: ConnectionInfo) -> Completion:
        """Admit every client."""
        return COMPLETED

    def _refuse_transaction(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise IllegalStateException(
            "A transaction call reached the region broker", hint="put a TransactionBroker around it"
        )

    begin_transaction = _refuse_transaction
    prepare_transaction = _refuse_transaction
    commit_transaction = _refuse_transaction
    rollback_transaction = _refuse_transaction
    forget_transaction = _refuse_transaction
    set_rollback_only = _refuse_transaction

    def is_awaited(self, reference: MessageReference) -> bool:
        """Return False: only connected consumers count."""
        return False

    def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
        """Return an empty list: there are no transactions."""
        return []
