"""The interfaces of queues and topics in the broker.

`BrokerDestination` is the interface for producers and consumers. A `DestinationFilter` around it
can redirect messages (virtual destinations). `RegionDestination` is the destination inside all
filters, with the operations for transactions and subscriptions. All of them apply to queues and
topics; interfaces specific to one kind are in
`pyjms_broker.region.queue` and `pyjms_broker.region.topic`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pyjms.errors import LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.runtime.forwarding import DelegatedAttribute, delegate
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, Throwable
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.policies import DeadLetterStrategy
from pyjms_broker.api.statistics import DestinationStatistics
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


class BrokerDestination:
    """A queue or topic in the broker, or a filter around one. Source: ActiveMQ Destination."""

    destination: Destination
    statistics: DestinationStatistics
    memory: MemoryUsage
    base: RegionDestination
    """The destination inside all filters."""
    watchers: list[Callable[[BrokerDestination], None]]
    """Functions that are called after each change of `statistics.messages`."""

    @property
    @abstractmethod
    def disposed(self) -> bool:
        """Whether the destination was removed."""

    @property
    @abstractmethod
    def is_dead_letter_queue(self) -> bool:
        """Whether dead letters were sent to this destination. (activemq-broker L6)"""

    @property
    @abstractmethod
    def consumers(self) -> list[Subscription]:
        """The attached subscriptions."""

    @abstractmethod
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        """Accept a message; the Completion is done when it is stored or admitted.

        Raises:
            ResourceAllocationException: memory is full and senders must not wait.
        """

    @abstractmethod
    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        """Attach a subscription, to which new messages are dispatched."""

    @abstractmethod
    def remove_subscription(
        self,
        context: ConnectionContext,
        subscription: Subscription,
        last_delivered_sequence_id: int,
    ) -> None:
        """Detach a subscription and requeue its unacknowledged messages.

        The sequence id determines which delivery counts are incremented. (activemq-broker Q29)
        """

    @abstractmethod
    def messages(self) -> Iterator[MessageReference]:
        """Iterate over the messages in order without removing them; reads stores page by page."""

    def browse(self) -> list[MessageReference]:
        """Return the messages in order without removing them; loads all of them into memory."""
        return list(self.messages())

    @abstractmethod
    def expire_messages(self) -> None:
        """Find and remove expired messages."""

    @abstractmethod
    def dispose(self, context: ConnectionContext) -> None:
        """Drop all messages, because the destination is removed."""


class RegionDestination(BrokerDestination):
    """The destination inside all filters, for transactions and subscriptions."""

    dead_letter_strategy: DeadLetterStrategy
    advisories_include_body: bool
    """Whether advisories about its messages contain their bodies."""
    is_trailed: bool
    """Whether what happens to its messages is recorded (`RegionBroker.trail`)."""
    reports_dispatched: bool
    """Whether each message sent to a consumer is reported to the chain."""
    prepared_sends: int
    """Its number of messages sent, or acknowledged before a restart, in prepared transactions and
    running commits: while there are any, it cannot be removed."""

    @abstractmethod
    def accept(self, exchange: ProducerExchange, reference: MessageReference) -> Completion:
        """Accept an admitted message as part of the exchange's transaction, if any.

        The Completion does not wait for the store if the sender requires no response.
        (activemq-persistence K13)
        """

    @abstractmethod
    def reference_to(
        self, message: ActiveMQMessage, position: Position | None = None
    ) -> MessageReference:
        """Return a new reference to a message that a store returned for this destination."""

    @abstractmethod
    def read_stored(self, message_id: MessageId) -> ActiveMQMessage | None:
        """Return a message from the store; None if it is not there.

        Raises:
            JMSException: it cannot be read.
        """

    @abstractmethod
    def recreate(self) -> RegionDestination:
        """Return the destination of this name, which is created again if this one was removed."""

    @abstractmethod
    def committing(self, stored: Completion) -> None:
        """Record that messages of a transaction become visible when `stored` is done."""

    @abstractmethod
    def publish(self, reference: MessageReference) -> None:
        """Make a message of a recovered, committed transaction visible."""

    @abstractmethod
    def hide(self, stored: StoredMessage, key: SubscriptionKey | None) -> MessageReference:
        """Hide a message acknowledged in a recovered prepared transaction.

        `key` is its durable subscription, None for a queue. (activemq-broker X6, T25)
        """

    @abstractmethod
    def forget_hidden(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        """Remove a message that `hide` returned, because its transaction was committed."""

    @abstractmethod
    def restore(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        """Make a message that `hide` returned available again after a rollback."""

    @abstractmethod
    def is_memory_short(self, reference: MessageReference) -> bool:
        """Whether memory is short, so that a pending message should stay in a store."""

    @abstractmethod
    def store_acknowledgement(
        self, context: OperationContext, reference: MessageReference, key: SubscriptionKey | None
    ) -> Completion:
        """Record in the store that a message was consumed; done when it is stored.

        A queue's message is removed; a topic's message is acknowledged for the durable
        subscription `key`.
        """

    @abstractmethod
    def store_dead_lettered(
        self, context: OperationContext, reference: MessageReference, key: SubscriptionKey | None
    ) -> Completion:
        """Do the same for a dead-lettered message, once its dead letter is stored."""

    @abstractmethod
    def on_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Count a message as consumed, and report it to the chain if the policy enables it.

        A queue removes the message. (activemq-broker Q4)
        """

    @abstractmethod
    def undo_consumed(self, reference: MessageReference) -> None:
        """Undo `on_consumed`, which the store failed to record; a queue redelivers the message."""

    @abstractmethod
    def on_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        """Count a message as expired and report it to the chain, which may dead-letter it."""

    @abstractmethod
    def report_dispatched(self, reference: MessageReference, subscription: Subscription) -> None:
        """Report a message sent to a consumer. Call it only if `reports_dispatched` is True."""

    @abstractmethod
    def slow_consumer(self, subscription: Subscription) -> None:
        """Report a consumer that became slow, if the policy enables it.

        The chain gets the event for the advisory; the policy's strategy may abort the consumer.
        (activemq-broker T12, T13)
        """

    @abstractmethod
    def on_poisoned(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription,
        cause: Throwable | None,
    ) -> None:
        """Dead-letter a message that `subscription` rejected with a poison acknowledgement."""

    @abstractmethod
    def on_unwritable(
        self, reference: MessageReference, subscription: Subscription, error: LocalProtocolError
    ) -> None:
        """Count and log a message that the connection of `subscription` cannot carry."""


_NEXT: Final = attrgetter("next")


class DestinationFilter(BrokerDestination):
    """Forwards every call to another destination; override methods as needed."""

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

    add_subscription = delegate(BrokerDestination.add_subscription, _NEXT)
    remove_subscription = delegate(BrokerDestination.remove_subscription, _NEXT)
    messages = delegate(BrokerDestination.messages, _NEXT)
    expire_messages = delegate(BrokerDestination.expire_messages, _NEXT)
    dispose = delegate(BrokerDestination.dispose, _NEXT)
