"""The interfaces of queues and topics in the broker.

`BrokerDestination` is the interface for producers and consumers; a `DestinationFilter` around it
changes what happens to messages (virtual destinations). `RegionDestination` is the destination
itself, inside all filters, with the operations that transactions and subscriptions need. All of
them apply to queues and topics alike; what applies to one kind only is in
`pyjms_broker.region.queue` and `pyjms_broker.region.topic`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pyjms._forwarding import DelegatedAttribute, delegated
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, Throwable
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.dead_letter import DeadLetterStrategy
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.api.usage import MemoryUsage

if TYPE_CHECKING:
    from pyjms_broker.api.message import (
        MessageReference,
        OperationContext,
        Position,
        StoredMessage,
        SubscriptionKey,
    )
    from pyjms_broker.api.subscription import Subscription

__all__ = [
    "NO_MINIMUM",
    "BrokerDestination",
    "DestinationFilter",
    "DestinationStatistics",
    "RegionDestination",
]


NO_MINIMUM: Final = (1 << 63) - 1
"""A minimum before the first value, greater than any."""


class DestinationStatistics:
    """Counters of one destination.

    `messages` is the number that it holds now, in flight or not. (activemq-broker Q4)
    Sizes are in bytes as memory is counted, times in milliseconds. Source: ActiveMQ
    DestinationStatistics.
    """

    __slots__ = (
        "blocked_sends",
        "blocked_time",
        "consumers",
        "dequeues",
        "dispatched",
        "enqueues",
        "expired",
        "inflight",
        "max_size",
        "max_time",
        "messages",
        "min_size",
        "min_time",
        "producers",
        "timed",
        "total_size",
        "total_time",
    )

    def __init__(self) -> None:
        self.inflight: int = 0
        self.messages: int = 0
        self.consumers: int = 0
        self.producers: int = 0
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero, but not what the destination has now.

        Source: ActiveMQ DestinationView.resetStatistics.
        """
        self.enqueues: int = 0
        self.dequeues: int = 0
        self.dispatched: int = 0
        self.expired: int = 0
        self.blocked_sends: int = 0
        self.blocked_time: float = 0.0
        """For how long sends have waited for space."""
        self.total_size: int = 0
        """Of all messages in `enqueues`."""
        self.max_size: int = 0
        self.min_size: int = NO_MINIMUM
        self.timed: int = 0
        """The number of messages in `total_time`."""
        self.total_time: int = 0
        """From the arrival of each message to its first dispatch."""
        self.max_time: int = 0
        self.min_time: int = NO_MINIMUM

    def new_extreme_size(self, size: int) -> None:
        """Note a message that is smaller or larger than all before it."""
        self.min_size = min(self.min_size, size)
        self.max_size = max(self.max_size, size)

    def new_extreme_time(self, milliseconds: int) -> None:
        """Note a message that has waited shorter or longer than all before it."""
        self.min_time = min(self.min_time, milliseconds)
        self.max_time = max(self.max_time, milliseconds)

    @property
    def average_size(self) -> float:
        """The average size of the messages that have arrived, 0 without any."""
        return self.total_size / self.enqueues if self.enqueues else 0.0

    @property
    def average_time(self) -> float:
        """The average time to the first dispatch, 0 without any."""
        return self.total_time / self.timed if self.timed else 0.0

    def add_counters(self, other: DestinationStatistics) -> None:
        """Add what `reset` would reset of another destination."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.min_size = min(self.min_size, other.min_size)
        self.max_size = max(self.max_size, other.max_size)
        self.min_time = min(self.min_time, other.min_time)
        self.max_time = max(self.max_time, other.max_time)

    def add(self, other: DestinationStatistics) -> None:
        """Add all numbers of another destination."""
        self.add_counters(other)
        self.inflight += other.inflight
        self.messages += other.messages
        self.consumers += other.consumers
        self.producers += other.producers


_SUMS: Final = (
    "enqueues",
    "dequeues",
    "dispatched",
    "expired",
    "blocked_sends",
    "blocked_time",
    "total_size",
    "timed",
    "total_time",
)


class BrokerDestination(ABC):
    """A queue or topic in the broker, or a filter around one. Source: ActiveMQ Destination."""

    destination: Destination
    statistics: DestinationStatistics
    memory: MemoryUsage
    base: RegionDestination
    """The destination itself, inside all filters."""
    watchers: list[Callable[[BrokerDestination], None]]
    """Called after each change of `statistics.messages`; add a function to be notified."""

    @property
    @abstractmethod
    def disposed(self) -> bool:
        """Whether the destination was removed."""

    @property
    @abstractmethod
    def is_dead_letter_queue(self) -> bool:
        """Whether dead letters were sent here. (activemq-broker L6)"""

    @property
    @abstractmethod
    def consumers(self) -> list[Subscription]:
        """The subscriptions that are attached."""

    @abstractmethod
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        """Accept a message; the Completion is done when it is stored, or was admitted.

        Raises:
            ResourceAllocationException: memory is full and senders shall not wait.
        """

    @abstractmethod
    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        """Attach a subscription: new messages are dispatched to it."""

    @abstractmethod
    def remove_subscription(
        self,
        context: ConnectionContext,
        subscription: Subscription,
        last_delivered_sequence_id: int,
    ) -> None:
        """Detach a subscription and requeue its unacknowledged messages.

        The sequence id decides which delivery counts grow. (activemq-broker Q29)
        """

    @abstractmethod
    def messages(self) -> Iterator[MessageReference]:
        """Iterate over the messages in order without removing any; reads stores page by page."""

    def browse(self) -> list[MessageReference]:
        """Return the messages in order without removing any. All of them are in memory then."""
        return list(self.messages())

    @abstractmethod
    def expire_messages(self) -> None:
        """Search for expired messages and remove them."""

    @abstractmethod
    def dispose(self, context: ConnectionContext) -> None:
        """Drop all messages: the destination is removed."""


class RegionDestination(BrokerDestination):
    """The destination itself, inside all filters, for transactions and subscriptions."""

    dead_letter_strategy: DeadLetterStrategy
    advisories_include_body: bool
    """Whether advisories about its messages contain their bodies."""
    reports_dispatched: bool
    """Whether each message that is sent to a consumer is reported to the chain."""
    prepared_sends: int
    """Its number of messages in prepared transactions and running commits: while there
    are any, it cannot be removed."""

    @abstractmethod
    def accept(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        transaction: Transaction | None = None,
    ) -> Completion:
        """Accept a message that has room, as part of `transaction`.

        A sender that requires no response does not wait for the store. (activemq-persistence K13)
        """

    @abstractmethod
    def reference_to(
        self, message: ActiveMQMessage, position: Position | None = None
    ) -> MessageReference:
        """Return a new reference to a message of this destination that a store returned."""

    @abstractmethod
    def committing(self, stored: Completion) -> None:
        """Note that messages of a transaction are numbered and visible when `stored` is done."""

    @abstractmethod
    def publish(self, reference: MessageReference) -> None:
        """Make a message visible that a recovered transaction has sent and committed.

        (activemq-broker X6)
        """

    @abstractmethod
    def hide(self, stored: StoredMessage, key: SubscriptionKey | None) -> MessageReference:
        """Hide a message that a recovered prepared transaction has acknowledged.

        `key` names its durable subscription, None for a queue. (activemq-broker X6, T25)
        """

    @abstractmethod
    def forget_hidden(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        """Remove a message that `hide` returned: its transaction is committed."""

    @abstractmethod
    def restore(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        """Make a message available again that `hide` returned: the transaction was rolled back."""

    @abstractmethod
    def is_memory_short(self, reference: MessageReference) -> bool:
        """Whether memory is short, so that a waiting message is better left to a store.

        (activemq-broker M8)
        """

    @abstractmethod
    def store_acknowledgement(
        self,
        context: OperationContext,
        reference: MessageReference,
        key: SubscriptionKey | None = None,
        dead_letter: Completion = COMPLETED,
    ) -> Completion:
        """Record in the store that a message was consumed; done when it has.

        A queue's message is removed; a topic's is acknowledged for the durable subscription
        `key`. With `dead_letter` the store changes only after that dead letter was stored.
        """

    @abstractmethod
    def consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Count a message as consumed; report it to the chain where the policy asks for it.

        A queue removes the message. (activemq-broker Q4)
        """

    @abstractmethod
    def undo_consumed(self, reference: MessageReference) -> None:
        """Undo `consumed`: the store could not record it. A queue delivers the message again."""

    @abstractmethod
    def expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        """Count a message as expired and report it to the chain, which may dead-letter it.

        (activemq-broker Q1, L7)
        """

    @abstractmethod
    def report_dispatched(self, reference: MessageReference, subscription: Subscription) -> None:
        """Report a message that was sent to a consumer. Call it only if `reports_dispatched`."""

    @abstractmethod
    def slow_consumer(self, subscription: Subscription) -> None:
        """Report a consumer that became slow, where the policy asks for it.

        The chain gets the event for its advisory; the policy's strategy may abort the consumer.
        (activemq-broker T12, T13)
        """

    @abstractmethod
    def poisoned(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription,
        cause: Throwable | None,
    ) -> None:
        """Dead-letter a message that `subscription` rejected with a poison acknowledgement.

        (activemq-broker L1)
        """


_NEXT: Final = attrgetter("next")


class DestinationFilter(BrokerDestination):
    """A destination around another: passes every call on; override methods as needed."""

    def __init__(self, next_destination: BrokerDestination) -> None:
        self.next = next_destination
        self.destination = next_destination.destination
        self.statistics = next_destination.statistics
        self.memory = next_destination.memory
        self.base = next_destination.base
        self.watchers = next_destination.watchers

    @property
    def disposed(self) -> bool:
        return self.base.disposed

    is_dead_letter_queue = DelegatedAttribute[bool](attrgetter("base"), read_only=True)
    consumers = DelegatedAttribute["list[Subscription]"](attrgetter("next"), read_only=True)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        return self.next.send(exchange, message)

    add_subscription = delegated(BrokerDestination.add_subscription, _NEXT)
    remove_subscription = delegated(BrokerDestination.remove_subscription, _NEXT)
    messages = delegated(BrokerDestination.messages, _NEXT)
    expire_messages = delegated(BrokerDestination.expire_messages, _NEXT)
    dispose = delegated(BrokerDestination.dispose, _NEXT)
