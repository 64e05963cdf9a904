"""What all destinations have: settings, statistics, memory, and the way in for messages.

A message passes `send`, which may turn it away or park it, and then `accept`, where the
kind of destination decides. (ActiveMQ Destination, BaseDestination; Q1, Q4, T5, M2)
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.completion import Completion
from broker.context import ConnectionContext, ProducerExchange
from broker.policy.entry import PolicyEntry
from broker.region.disk_usage import DiskUsage
from broker.region.flow_control import FlowControl
from broker.region.message import MessageReference
from broker.region.usage import Usage
from broker.store.api import Position, StoredMessage, StoreState, SubscriptionKey
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage

if TYPE_CHECKING:
    from broker.region.region_broker import RegionBroker
    from broker.region.subscription import Subscription

__all__ = ["BaseDestination", "BrokerDestination", "DestinationFilter", "DestinationStatistics"]

logger = logging.getLogger(__name__)

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
    def messages(self) -> Iterator[MessageReference]:
        """Go through the messages that are here, in order, taking none; read as they are wanted."""

    def browse(self) -> list[MessageReference]:
        """Return the messages that are here, in order, taking none. All are in memory then."""
        return list(self.messages())

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

    def messages(self) -> Iterator[MessageReference]:
        return self.next.messages()

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
        self.decided_sends = 0
        """Messages of transactions that are prepared or being committed: they keep it here."""
        self.flow_control = FlowControl(self, broker.system_usage)
        self._controls_flow = policy.producer_flow_control and not self.is_advisory
        self._minimum_size = policy.minimum_message_size
        self.needs_disk = False
        """Whether messages need room in `store_usage` or, if not persistent, in `temp_usage`."""
        self.store_usage = broker.system_usage.store_of(destination)
        self.temp_usage = broker.system_usage.temp

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        context = exchange.context
        reference = MessageReference(message, self, self._minimum_size)
        message_id = reference.message_id
        if not message_id.broker_sequence_id:
            message_id.broker_sequence_id = self.broker.next_sequence_id()
        if reference.expiration and reference.is_expired():
            self.expired(context, reference, None)
            return None
        may_be_full = (self._controls_flow and self.memory.is_full) or self.needs_disk
        if may_be_full and context.producer_flow_control:
            full = self.full_usage(reference)
            if full is not None:
                return self.flow_control.park(exchange, reference, full)
        return self.accept(context, reference)

    def full_usage(self, reference: MessageReference) -> Usage | DiskUsage | None:
        """Return what has no room for a message, None if all have. (M2, M3, M4)"""
        if self._controls_flow and self.memory.is_full:
            return self.memory
        if self.needs_disk:
            disk = self.store_usage if reference.persistent else self.temp_usage
            return disk.full(self.policy.store_usage_high_water_mark)
        return None

    def is_short(self, reference: MessageReference) -> bool:
        """Whether a waiting message is better left to a store than kept in memory. (M8)"""
        if not self.policy.use_cache and reference.position is not None:
            return True
        return self.memory.is_above(self.policy.cursor_memory_high_water_mark)

    def reference_to(
        self, message: ActiveMQMessage, position: Position | None = None
    ) -> MessageReference:
        """Return a new reference to a message of this destination that a store gave back."""
        reference = MessageReference(message, self, self._minimum_size)
        reference.position = position
        if position is not None:
            reference.persistent = True  # it is in the store, whatever its sender asked for
        return reference

    @abstractmethod
    def accept(self, context: ConnectionContext, reference: MessageReference) -> Completion | None:
        """Take a message that has room.

        Whoever did not ask for an answer does not wait for the store (K13).
        """

    def stop(self) -> None:
        """Stop dispatching and what runs in the background."""

    @abstractmethod
    def drop(self, reference: MessageReference) -> None:
        """Let go of a message: a queue forgets it, a topic counts one holder less."""

    def hold(self, reference: MessageReference) -> None:
        """Count one holder more of a message, where messages have holders."""

    def store_removal(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        letter: Completion | None = None,
    ) -> Completion | None:
        """Have the store forget a message; None where it is done, or there is no store.

        Where its dead letter is being stored, that is done first.
        """
        return None

    def tell_if_lost(
        self, context: ConnectionContext, reference: MessageReference, done: Completion
    ) -> None:
        """Say that a message could not be stored, where its sender does not wait to hear it. (C5)

        Of a store that has failed altogether the client hears by the end of its connection.
        """
        error = done.error
        if error is None or reference.message.response_required:
            return
        logger.error("%s: message %s is lost: %s", self, reference.message_id, error)
        if context.connection is not None and self.broker.store.state is not StoreState.FAILED:
            context.connection.service_exception(error)

    def repeated(self, reference: MessageReference) -> None:
        """Say that the store has a message already: it is dropped, its sender's answer is OK."""
        logger.warning(
            "%s has message %s already: it is dropped, as a repetition", self, reference.message_id
        )

    def publish(self, reference: MessageReference) -> None:
        """Let in a message of a transaction from before the start, which is committed now (X6)."""
        raise NotImplementedError

    def hide(self, stored: StoredMessage, key: SubscriptionKey | None) -> MessageReference:
        """Keep back a message that a prepared transaction from before the start acknowledged.

        `key` names the durable subscription that it was of, None for a queue. (X6, T25)
        """
        raise NotImplementedError

    def forget_hidden(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        """Be done with a message that `hide` returned: its transaction is committed."""
        raise NotImplementedError

    def restore(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        """Have a message back that `hide` returned: its transaction is rolled back."""
        raise NotImplementedError

    def mark_redelivered(self, reference: MessageReference) -> Completion | None:
        """Have the store note that a message may be seen soon; None where that is not wanted."""
        return None

    def put_back(self, reference: MessageReference) -> None:
        """Have a consumed message again: the store could not forget it."""

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
