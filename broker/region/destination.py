"""What all destinations have: settings, statistics, memory, and the way in for messages.

A message passes `send`, which may turn it away or park it, and then `accept`, where the
kind of destination decides. (ActiveMQ Destination, BaseDestination; Q1, Q4, T5, M2)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.completion import Completion
from broker.context import ConnectionContext, ProducerExchange
from broker.policy.entry import PolicyEntry
from broker.region.flow_control import FlowControl
from broker.region.message import MessageReference
from broker.region.usage import Usage
from broker.store.api import SubscriptionKey
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage

if TYPE_CHECKING:
    from broker.region.region_broker import RegionBroker
    from broker.region.subscription import Subscription

__all__ = ["BaseDestination", "BrokerDestination", "DestinationFilter", "DestinationStatistics"]

ADVISORY_PREFIX = "ActiveMQ.Advisory."


class DestinationStatistics:
    """Counters of one destination. `messages` is what it holds now, in flight or not (Q4)."""

    __slots__ = (
        "blocked_sends",
        "consumers",
        "dequeues",
        "dispatched",
        "enqueues",
        "expired",
        "inflight",
        "messages",
        "producers",
    )

    def __init__(self) -> None:
        self.enqueues = 0
        self.dequeues = 0
        self.dispatched = 0
        self.inflight = 0
        self.messages = 0
        self.expired = 0
        self.consumers = 0
        self.producers = 0
        self.blocked_sends = 0


class BrokerDestination(ABC):
    """A queue or topic in the broker, or a filter around one."""

    destination: Destination
    policy: PolicyEntry
    statistics: DestinationStatistics
    memory: Usage
    base: BaseDestination
    """The destination itself, inside all filters."""
    watchers: list[Callable[[BrokerDestination], None]]
    """Called after each change of `statistics.messages`; to take part, add a function."""

    @property
    @abstractmethod
    def disposed(self) -> bool:
        """Whether it is gone."""

    @property
    @abstractmethod
    def is_dead_letter_queue(self) -> bool:
        """Whether dead letters have come here (L6)."""

    @property
    @abstractmethod
    def consumers(self) -> list[Subscription]:
        """Who is subscribed."""

    @abstractmethod
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        """Take a message; the Completion is done when it is safe, or when it got room.

        Raises:
            ResourceAllocationException: memory is full and senders shall not wait.
        """

    @abstractmethod
    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        """Let a subscription have messages from now on."""

    @abstractmethod
    def remove_subscription(
        self,
        context: ConnectionContext,
        subscription: Subscription,
        last_delivered_sequence_id: int,
    ) -> None:
        """Take a subscription away and its unacknowledged messages back (Q29)."""

    @abstractmethod
    def browse(self) -> list[MessageReference]:
        """Return the messages that are here, in order, taking none."""

    @abstractmethod
    def expire_messages(self) -> None:
        """Look for messages whose time is over and expire them."""

    @abstractmethod
    def dispose(self, context: ConnectionContext) -> None:
        """Drop all messages; the destination is gone."""


class DestinationFilter(BrokerDestination):
    """A destination around another: passes everything on until told otherwise."""

    def __init__(self, next_destination: BrokerDestination) -> None:
        self.next = next_destination
        self.destination = next_destination.destination
        self.policy = next_destination.policy
        self.statistics = next_destination.statistics
        self.memory = next_destination.memory
        self.base = next_destination.base
        self.watchers = next_destination.watchers

    @property
    def disposed(self) -> bool:
        return self.base.disposed

    @property
    def is_dead_letter_queue(self) -> bool:
        return self.base.is_dead_letter_queue

    @property
    def consumers(self) -> list[Subscription]:
        return self.next.consumers

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        return self.next.send(exchange, message)

    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        self.next.add_subscription(context, subscription)

    def remove_subscription(
        self,
        context: ConnectionContext,
        subscription: Subscription,
        last_delivered_sequence_id: int,
    ) -> None:
        self.next.remove_subscription(context, subscription, last_delivered_sequence_id)

    def browse(self) -> list[MessageReference]:
        return self.next.browse()

    def expire_messages(self) -> None:
        self.next.expire_messages()

    def dispose(self, context: ConnectionContext) -> None:
        self.next.dispose(context)


class BaseDestination(BrokerDestination):
    """What queues and topics share."""

    disposed: bool = False
    is_dead_letter_queue: bool = False

    def __init__(self, broker: RegionBroker, destination: Destination, policy: PolicyEntry) -> None:
        self.broker = broker
        self.destination = destination
        self.policy = policy
        self.statistics = DestinationStatistics()
        self.memory = Usage(
            f"{destination.qualified_name}:memory",
            policy.memory_limit,
            broker.system_usage.memory,
        )
        self.base = self
        self.is_advisory = destination.is_topic and destination.physical_name.startswith(
            ADVISORY_PREFIX
        )
        self.watchers = []
        self.flow_control = FlowControl(self, broker.system_usage)
        self._controls_flow = policy.producer_flow_control and not self.is_advisory
        self._minimum_size = policy.minimum_message_size

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        context = exchange.context
        reference = MessageReference(message, self, self._minimum_size)
        message_id = reference.message_id
        if not message_id.broker_sequence_id:
            message_id.broker_sequence_id = self.broker.next_sequence_id()
        if reference.expiration and reference.is_expired():
            self.expired(context, reference, None)
            return None
        if self._controls_flow and self.memory.is_full and context.producer_flow_control:
            return self.flow_control.park(exchange, reference)
        return self.accept(context, reference)

    @abstractmethod
    def accept(self, context: ConnectionContext, reference: MessageReference) -> Completion | None:
        """Take a message that has room."""

    def stop(self) -> None:
        """Stop dispatching and what runs in the background."""

    @abstractmethod
    def drop(self, reference: MessageReference) -> None:
        """Let go of a message: a queue forgets it, a topic counts one holder less."""

    def hold(self, reference: MessageReference) -> None:
        """Count one holder more of a message, where messages have holders."""

    def store_removal(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        """Have the store forget a message; None where it is done, or there is no store."""
        return None

    def store_subscriber_acknowledgement(
        self, context: ConnectionContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion | None:
        """Have the store note that a durable subscription is done with a message."""
        return None

    def forget_duplicate(self, reference: MessageReference) -> None:
        """Let the message's id come again, where repeated ids are watched for."""

    def expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        """Count a message as expired and tell the chain, which may dead-letter it (Q1, L7)."""
        self.statistics.expired += 1
        self.broker.root.message_expired(context, reference, subscription)

    def consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Tell the chain of an acknowledged message, where the policy wants it."""
        if self.policy.advisory_for_consumed and not self.is_advisory:
            self.broker.root.message_consumed(context, reference)

    def changed(self) -> None:
        """Tell the watchers."""
        for watcher in tuple(self.watchers):
            watcher(self)

    def __str__(self) -> str:
        return self.destination.qualified_name
