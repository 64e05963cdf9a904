"""What all destinations have: settings, statistics, memory, and the way in for messages.

A message passes `send`, which may turn it away or park it, and then `accept`, where the
kind of destination decides. (ActiveMQ Destination, BaseDestination; activemq-broker Q1, Q4, T5, M2)
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import DestinationStatistics, RegionDestination
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.message import MessageReference, OperationContext, Position, SubscriptionKey
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.region.flow.flow_control import FlowControl
from pyjms_broker.store.api import StoreState

if TYPE_CHECKING:
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.region.services import RegionServices

__all__ = ["ADVISORY_PREFIX", "BaseDestination"]

logger = logging.getLogger(__name__)

ADVISORY_PREFIX = "ActiveMQ.Advisory."


class BaseDestination(RegionDestination):
    """What queues and topics share."""

    disposed: bool = False
    is_dead_letter_queue: bool = False

    def __init__(
        self, broker: RegionServices, destination: Destination, policy: PolicyEntry
    ) -> None:
        self.broker = broker
        self.destination = destination
        self.policy = policy
        self.dead_letter_strategy = policy.dead_letter_strategy
        self.statistics = DestinationStatistics()
        self.memory = MemoryUsage(
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
        self.commits = 0
        """How many transactions have numbered messages here that are not visible yet."""
        self._last_commit: Completion | None = None
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
        return self.accept(context, reference, exchange.transaction)

    def full_usage(self, reference: MessageReference) -> MemoryUsage | DiskUsage | None:
        """Return what has no room for a message, None if all have. (activemq-broker M2, M3, M4)"""
        if self._controls_flow and self.memory.is_full:
            return self.memory
        return self.full_disk(reference) if self.needs_disk else None

    def full_disk(self, reference: MessageReference) -> DiskUsage | None:
        """Return the store that has no room for a message, None if all have."""
        disk = self.store_usage if reference.persistent else self.temp_usage
        return disk.full(self.policy.store_usage_high_water_mark)

    def is_short(self, reference: MessageReference) -> bool:
        """Whether a waiting message is better left to a store than kept in memory.

        (activemq-broker M8)
        """
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

    def stop(self) -> None:
        """Stop dispatching and what runs in the background."""

    @abstractmethod
    def drop(self, reference: MessageReference) -> None:
        """Let go of a message: a queue forgets it, a topic counts one holder less."""

    def hold(self, reference: MessageReference) -> None:
        """Count one holder more of a message, where messages have holders."""

    def committing(self, stored: Completion) -> None:
        """Let what comes later wait, so that messages are seen in the order of their numbers."""
        if stored is self._last_commit:
            return
        self._last_commit = stored
        self.commits += 1
        stored.then(self._commit_done)

    def _commit_done(self, _stored: Completion) -> None:
        self.commits -= 1

    def spooling_changed(self, subscription: Subscription, spooling: bool) -> None:
        """Ignore it, except where `needs_disk` depends on it."""

    def store_removal(
        self,
        context: OperationContext,
        reference: MessageReference,
        dead_letter: Completion | None = None,
    ) -> Completion | None:
        """Have the store forget a message; None where it is done, or there is no store.

        Where its dead letter is being stored, that is done first.
        """
        return None

    def tell_if_lost(
        self, context: ConnectionContext, reference: MessageReference, done: Completion
    ) -> None:
        """Say that a message could not be stored, where its sender does not wait to hear it.

        (activemq-broker C5)

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

    def mark_redelivered(self, reference: MessageReference) -> Completion | None:
        """Have the store note that a message may be seen soon; None where that is not wanted."""
        return None

    def requeue(self, reference: MessageReference) -> None:
        """Have a consumed message again: the store could not forget it."""

    def store_subscriber_acknowledgement(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
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
        """Count a message as expired and tell the chain, which may dead-letter it.

        (activemq-broker Q1, L7)
        """
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
