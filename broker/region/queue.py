"""A queue: what it holds, from a message's arrival to its last acknowledgement.

`references` are all messages that it holds, in order of arrival; the dispatcher knows
which of them wait. A message that a consumer has is locked to it by `owner`.
(ActiveMQ Queue; Q1-Q4, Q22, Q29-Q33)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.completion import Completion
from broker.context import ConnectionContext
from broker.policy.audit import MessageAudit
from broker.policy.entry import PolicyEntry
from broker.region.destination import BaseDestination
from broker.region.dispatch import QueueDispatcher
from broker.region.message import MessageReference
from broker.region.queue_subscription import QueueSubscription
from broker.region.subscription import Subscription
from broker.store.api import MessageStore
from broker.transaction.local import Synchronization
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId

if TYPE_CHECKING:
    from broker.region.region_broker import RegionBroker

__all__ = ["Queue"]


class Queue(BaseDestination):
    """A queue of the broker, lasting or temporary."""

    def __init__(
        self,
        broker: RegionBroker,
        destination: Destination,
        policy: PolicyEntry,
        store: MessageStore | None,
    ) -> None:
        """Make an empty queue; `store` None keeps nothing (temporary queues)."""
        super().__init__(broker, destination, policy)
        self.store = store
        self.references: dict[MessageReference, None] = {}
        self.dispatcher = QueueDispatcher(self, policy)
        self._audit = (
            MessageAudit(policy.max_queue_audit_depth, policy.max_producers_to_audit)
            if policy.enable_audit
            else None
        )
        self._browsers: dict[Subscription, None] = {}

    @property
    def consumers(self) -> list[Subscription]:
        return [*self.dispatcher.ring.candidates, *self._browsers]

    def recover(self) -> None:
        """Take in what the store has from before."""
        if self.store is not None:
            self.store.recover(self._recovered)

    def _recovered(self, message: ActiveMQMessage) -> bool:
        reference = MessageReference(message, self, self._minimum_size)
        self.memory.increase(reference.size)
        self.statistics.messages += 1
        self.references[reference] = None
        self.dispatcher.arrived(reference)
        return True

    # in
    def accept(self, context: ConnectionContext, reference: MessageReference) -> Completion | None:
        audit = self._audit
        if audit is not None and audit.is_duplicate(reference.message_id):
            return None
        self.memory.increase(reference.size)
        stored = None
        if reference.persistent and self.store is not None:
            stored = self.store.add_message(context, reference)
        transaction = context.transaction
        if transaction is None:
            self._enqueue(reference)
        else:
            transaction.add(_Send(self, reference))
        return stored

    def _enqueue(self, reference: MessageReference) -> None:
        if self.disposed:
            self.memory.decrease(reference.size)
            return
        statistics = self.statistics
        statistics.enqueues += 1
        statistics.messages += 1
        self.references[reference] = None
        self.dispatcher.arrived(reference)
        if self.watchers:
            self.changed()

    def _rolled_back(self, reference: MessageReference) -> None:
        self.memory.decrease(reference.size)
        self.forget_duplicate(reference)

    def forget_duplicate(self, reference: MessageReference) -> None:
        """Let the message's id come again."""
        if self._audit is not None:
            self._audit.rollback(reference.message_id)

    # out
    def count_dispatch(self, reference: MessageReference, owner: Subscription) -> None:
        """Note that `owner` gets the message."""
        reference.owner = owner
        self.statistics.dispatched += 1
        self.statistics.inflight += 1

    def store_removal(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        """Have the store forget the message."""
        if self.store is None or not reference.persistent:
            return None
        return self.store.remove_message(context, reference)

    def drop(self, reference: MessageReference) -> None:
        """Forget a message for good: it was consumed, expired or removed."""
        if reference.dropped:
            return
        reference.dropped = True
        statistics = self.statistics
        if reference.owner is not None:
            reference.owner = None
            statistics.inflight -= 1
        statistics.dequeues += 1
        statistics.messages -= 1
        del self.references[reference]
        self.memory.decrease(reference.size)
        if self.watchers:
            self.changed()

    def take_back(self, references: list[MessageReference]) -> None:
        """Take messages back from a consumer that left; they go out again at once (Q30)."""
        returned = []
        for reference in references:
            if reference.dropped:
                continue
            if reference.owner is not None:
                reference.owner = None
                self.statistics.inflight -= 1
            returned.append(reference)
        if not returned or self.disposed:
            return
        first = next(iter(self.dispatcher.redelivered), None)
        self.dispatcher.returned(
            returned,
            at_head=self.policy.strict_order_dispatch
            and not len(self.dispatcher.ring)
            and first is not None
            and returned[-1].broker_sequence_id < first.broker_sequence_id,
        )

    # consumers
    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        self.statistics.consumers += 1
        if isinstance(subscription, QueueSubscription):
            subscription.joined(self, self.dispatcher.add_consumer(subscription))
            self.dispatcher.iterate()
        else:
            self._browsers[subscription] = None
            subscription.destinations.append(self)

    def remove_subscription(
        self,
        context: ConnectionContext,
        subscription: Subscription,
        last_delivered_sequence_id: int,
    ) -> None:
        if subscription not in self.dispatcher.ring.candidates and (
            subscription not in self._browsers
        ):
            return
        self.statistics.consumers -= 1
        if isinstance(subscription, QueueSubscription):
            self.dispatcher.remove_consumer(subscription)
            subscription.left(self, last_delivered_sequence_id)
            self.dispatcher.iterate()
        else:
            self._browsers.pop(subscription, None)
            subscription.destination_removed(self)

    # looking and removing
    def browse(self) -> list[MessageReference]:
        return [reference for reference in self.references if not reference.acked]

    def get_message(self, message_id: MessageId) -> MessageReference | None:
        """Return the message with that id, None if it is not here."""
        return next((r for r in self.references if r.message_id == message_id), None)

    def remove_message(self, context: ConnectionContext, reference: MessageReference) -> bool:
        """Take out a message that no consumer has; return whether it was."""
        if reference.dropped or reference.owner is not None:
            return False
        self.dispatcher.forget(reference)
        self.store_removal(context, reference)
        self.drop(reference)
        return True

    def purge(self, context: ConnectionContext) -> int:
        """Remove all messages that no consumer has; return how many they were."""
        return sum(self.remove_message(context, reference) for reference in tuple(self.references))

    def expire(self, reference: MessageReference) -> None:
        """Expire a message that no consumer has and that waits nowhere (any more)."""
        context = self.broker.context
        self.expired(context, reference, None)
        self.forget_duplicate(reference)
        self.store_removal(context, reference)
        self.drop(reference)

    def expire_messages(self) -> None:
        """Expire what is over among the first `max_expire_page_size` messages (Q32)."""
        if self.dispatcher.is_paused:
            return
        page = self.policy.max_expire_page_size
        seen = [reference for reference, _ in zip(self.references, range(page), strict=False)]
        for reference in seen:
            if reference.owner is None and not reference.dropped and reference.is_expired():
                self.dispatcher.forget(reference)
                self.expire(reference)
        self.dispatcher.iterate()

    def pause(self) -> None:
        """Stop dispatching and scanning; messages are still accepted (Q22)."""
        self.dispatcher.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self.dispatcher.resume()

    def stop(self) -> None:
        self.dispatcher.stop()

    def dispose(self, context: ConnectionContext) -> None:
        self.disposed = True
        self.dispatcher.stop()
        for reference in tuple(self.references):
            self.drop(reference)
        if self.store is not None:
            self.store.remove_all_messages(context)
        self.memory.close()


class _Send(Synchronization):
    __slots__ = ("_queue", "_reference")

    def __init__(self, queue: Queue, reference: MessageReference) -> None:
        self._queue = queue
        self._reference = reference

    def after_commit(self) -> None:
        self._queue._enqueue(self._reference)

    def after_rollback(self) -> None:
        self._queue._rolled_back(self._reference)
