"""A queue, which handles messages from arrival to acknowledgement.

`QueueContents` keeps the messages, in memory or paged out; `QueueDispatcher` dispatches them to
consumers. The `owner` of a message is the consumer to which it is dispatched.
(activemq-broker Q1 to Q4, Q22, Q29 to Q33; activemq-persistence K13, K14, S6)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.completion import COMPLETED, Completion, checked
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.copying import copy_command
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.audit import MessageAudit
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.arrival_order import ArrivalOrder
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.dead_letter.ordering import DeadLetterOrdering
from pyjms_broker.region.queue.bridge_replay import check_return
from pyjms_broker.region.queue.contents import QueueContents
from pyjms_broker.region.queue.dispatcher import QueueDispatcher
from pyjms_broker.region.queue.expiry import expire_waiting_messages
from pyjms_broker.region.queue.reader import QueueReader
from pyjms_broker.region.queue.subscription import QueueSubscription
from pyjms_broker.region.transacted_send import TransactedSend
from pyjms_broker.store.api import MessageStore, OperationContext, StoredMessage, SubscriptionKey

if TYPE_CHECKING:
    from pyjms_broker.region.services import RegionServices

__all__ = ["Queue"]


class Queue(BaseDestination):
    """A queue of the broker, permanent or temporary."""

    FIXED = (
        "prioritized_messages",
        "pending_queue_policy",
        "strict_order_dispatch",
        "use_consumer_priority",
        "all_consumers_exclusive_by_default",
        "message_group_map_factory_type",
        "consumers_before_dispatch_starts",
        "time_before_dispatch_starts",
        "enable_audit",
        "max_producers_to_audit",
        "max_queue_audit_depth",
    )

    def __init__(
        self,
        broker: RegionServices,
        destination: Destination,
        policy: PolicyEntry,
        store: MessageStore | None,
    ) -> None:
        """Create a queue with the messages of `store`, which is None for temporary queues."""
        super().__init__(broker, destination, policy)
        self.store = store
        self._is_paged = store is not None and not broker.store_capabilities.is_volatile
        self.contents = QueueContents(self, store if self._is_paged else None, broker.temp_store)
        self.references = self.contents.references
        """The messages in memory."""
        self._tracks_positions = self.contents.excluded is not None
        self.dispatcher = QueueDispatcher(self, policy, self.contents.cursor)
        self._audit: MessageAudit | None = (
            MessageAudit(policy.max_queue_audit_depth, policy.max_producers_to_audit)
            if policy.enable_audit
            else None
        )
        self._browsers: dict[Subscription, None] = {}
        self._is_concurrent = broker.store_capabilities.concurrent_store_and_dispatch_queues
        self._arrivals = ArrivalOrder(self._enqueue, self._discard)
        self._unstored = self._arrivals.messages
        """Messages that become visible only once they are stored, and those behind them."""
        self.marks_redelivered = policy.persist_jms_redelivered and store is not None
        self.needs_disk = self._is_paged
        self.reader: QueueReader | None = None
        """The range reader (`pyjms_broker.ranges`) that has, or had, a lease of the queue."""

    @property
    def consumers(self) -> list[Subscription]:
        return [*self.dispatcher.ring.candidates, *self._browsers]

    def change_policy(self, policy: PolicyEntry) -> frozenset[str]:
        kept = super().change_policy(policy)
        self.dispatcher.change_policy(self.policy)
        self.marks_redelivered = policy.persist_jms_redelivered and self.store is not None
        return kept

    def accept(self, exchange: ProducerExchange, reference: MessageReference) -> Completion:
        context, transaction = exchange.context, exchange.transaction
        audit = self._audit
        if audit is not None and audit.is_duplicate(reference.message_id):
            check_return(self.broker.own_path, self.references, reference)
            return COMPLETED
        self.memory.increase(reference.size)
        stored: Completion = COMPLETED
        if is_leased := self.reader is not None and self.reader.is_leased:
            reference.persistent = True
        store = self.store if reference.persistent else None
        if store is not None:
            try:
                stored = store.add_message(
                    NO_TRANSACTION if transaction is None else OperationContext(transaction.xid),
                    reference,
                )
                if stored is not COMPLETED:
                    checked(stored, store, "add_message")
            except Exception:
                self._discard(reference)
                raise
        if transaction is not None:
            transaction.add(TransactedSend(transaction, reference, self._committed, self._discard))
            return stored
        # messages numbered by the store wait for those with lower numbers
        must_wait = stored is not COMPLETED and (
            is_leased or self.running_commits or self._unstored
        )
        if store is not None and reference.position is None:
            self._drop_duplicate(reference)
        elif stored is COMPLETED and not self._unstored:
            self._enqueue(reference)
        elif stored is not COMPLETED and self._is_concurrent and not must_wait:
            stored.then(lambda done: self._remove_if_unstored(context, reference, done))
            self._enqueue(reference)
        else:
            if stored is not COMPLETED:
                stored.then(lambda done: self.report_lost(context, reference, done))
            self._arrivals.append(reference, stored)
        return stored if reference.message.response_required else COMPLETED

    def _remove_if_unstored(
        self, context: ConnectionContext, reference: MessageReference, stored: Completion
    ) -> None:
        """Remove a message that could not be stored, unless it was already dispatched."""
        if stored.error is None:
            return
        self.report_lost(context, reference, stored)
        self.forget_duplicate(reference)
        in_memory = None if reference.dropped else self.contents.in_memory(reference)
        if in_memory is not None and in_memory.owner is None:
            self.dispatcher.remove(in_memory)
            self.drop(in_memory)

    def _committed(self, reference: MessageReference) -> None:
        if reference.position is None and reference.persistent and self.store is not None:
            self._drop_duplicate(reference)
        else:
            self._enqueue(reference)

    def _drop_duplicate(self, reference: MessageReference) -> None:
        self.memory.decrease(reference.size)
        check_return(self.broker.own_path, self.references, reference)
        self.log_duplicate(reference)

    def publish(self, reference: MessageReference) -> None:
        self.memory.increase(reference.size)
        self._enqueue(reference)

    def _enqueue(self, reference: MessageReference) -> None:
        if self.disposed:
            self.memory.decrease(reference.size)
            return
        statistics = self.statistics
        statistics.enqueues += 1
        statistics.total_size += reference.size
        if not statistics.min_size <= reference.size <= statistics.max_size:
            statistics.new_extreme_size(reference.size)
        statistics.messages += 1
        if self._is_paged and reference.position is not None:
            self.contents.mark_visible(reference)
        if self._tracks_positions:
            self.contents.add(reference)
        else:
            self.references[reference] = None
        self.dispatcher.arrived(reference)
        if self.reader is not None:
            self.reader.arrived(reference)
        if self.reports_arrivals:
            self.report_delivered(reference)
            if not self.consumers:
                self.report_no_consumer(reference)
        if self.watchers:
            self.changed()

    def _discard(self, reference: MessageReference, _error: Exception | None = None) -> None:
        self.memory.decrease(reference.size)
        self.forget_duplicate(reference)

    def hide(self, stored: StoredMessage, key: SubscriptionKey | None) -> MessageReference:
        reference = self.reference_to(stored.message, stored.position)
        self.contents.remove_paged_out(reference)
        self.memory.increase(reference.size)
        self.contents.add(reference)
        reference.acked = True
        return reference

    def forget_hidden(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        self.drop(reference)

    def restore(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        reference.acked = False
        if not reference.dropped:
            self.contents.mark_visible(reference)
            self.dispatcher.arrived(reference)

    def count_dispatch(self, reference: MessageReference, owner: Subscription) -> None:
        """Set the owner of the message, and count the message as dispatched."""
        reference.owner = owner
        self.statistics.dispatched += 1
        self.statistics.inflight += 1

    def mark_redelivered(self, reference: MessageReference) -> Completion:
        """Record in the store, if necessary, that the message may have been delivered."""
        is_marked = reference.position is None or reference.redelivery_counter
        if self.store is None or not self.marks_redelivered or is_marked:
            return COMPLETED
        marked = copy_command(reference.message)
        marked.redelivery_counter = 1
        copy = self.reference_to(marked, reference.position)
        return checked(self.store.update_message(copy), self.store, "update_message")

    def store_acknowledgement(
        self, context: OperationContext, reference: MessageReference, key: SubscriptionKey | None
    ) -> Completion:
        store = self.store
        if store is None or not reference.persistent:
            return COMPLETED
        removed = store.remove_message(context, reference)
        return removed if removed is COMPLETED else checked(removed, store, "remove_message")

    def _dead_letter_ordering(self, key: SubscriptionKey | None) -> DeadLetterOrdering | None:
        return None if self.store is None else self.contents.dead_letter_ordering

    def consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.drop(reference)
        if self.reports_consumed:
            self.report_consumed(context, reference)

    def drop(self, reference: MessageReference) -> None:
        """Remove a message that was consumed, expired or removed from memory."""
        if reference.dropped:
            return
        reference.dropped = True
        statistics = self.statistics
        if reference.owner is not None:
            reference.owner = None
            statistics.inflight -= 1
        statistics.dequeues += 1
        statistics.messages -= 1
        if self._tracks_positions:
            self.contents.remove(reference)
        else:
            del self.references[reference]
        self.memory.decrease(reference.size)
        if self.watchers:
            self.changed()

    def undo_consumed(self, reference: MessageReference) -> None:
        if self.disposed or not reference.dropped:
            return
        reference.dropped = False
        reference.redelivery_counter += 1
        self.statistics.dequeues -= 1
        self.statistics.messages += 1
        self.memory.increase(reference.size)
        self.contents.add(reference)
        self.dispatcher.redeliver([reference], at_head=False)
        if self.watchers:
            self.changed()

    def requeue(self, references: list[MessageReference]) -> None:
        """Return messages of a consumer that left, to be dispatched before all others."""
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
        self.dispatcher.redeliver(
            returned,
            at_head=self.policy.strict_order_dispatch
            and not len(self.dispatcher.ring)
            and first is not None
            and returned[-1].broker_sequence_id < first.broker_sequence_id,
        )

    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        self.statistics.consumers += 1
        if isinstance(subscription, QueueSubscription):
            subscription.attach(self, self.dispatcher.add_consumer(subscription))
            self.dispatcher.iterate()
        else:
            self._browsers[subscription] = None
            subscription.destinations.append(self)

    def _has_subscription(self, subscription: Subscription) -> bool:
        return subscription in self.dispatcher.ring.candidates or subscription in self._browsers

    def _detach(self, subscription: Subscription, last_delivered_sequence_id: int) -> None:
        if isinstance(subscription, QueueSubscription):
            self.dispatcher.remove_consumer(subscription)
            subscription.detach(self, last_delivered_sequence_id)
            self.dispatcher.iterate()
        else:
            self._browsers.pop(subscription, None)
            subscription.destination_removed(self)

    def messages(self) -> Iterator[MessageReference]:
        for reference in self.contents:  # mypyc evaluates a generator expression eagerly
            if not reference.acked:
                yield reference

    def get_message(self, message_id: MessageId) -> MessageReference | None:
        """Return the message with this id; None if there is none."""
        return self.contents.find(message_id)

    def remove_message(self, context: ConnectionContext, reference: MessageReference) -> bool:
        """Remove a message that is not dispatched; return whether it was removed.

        Nothing is removed while the queue is leased to a range reader.
        """
        if self.reader is not None and self.reader.is_leased:
            return False
        return self.remove_for_reader(context, reference)

    def remove_for_reader(self, context: ConnectionContext, reference: MessageReference) -> bool:
        """Remove a message like `remove_message`, even while the queue is leased."""
        in_memory = self.contents.in_memory(reference)
        if in_memory is None:
            return self.remove_paged_out(reference)
        if in_memory.owner is not None or in_memory.acked:
            return False
        self.dispatcher.remove(in_memory)
        self.store_dead_lettered(NO_TRANSACTION, in_memory, None)
        self.drop(in_memory)
        return True

    def remove_paged_out(self, reference: MessageReference) -> bool:
        """Remove a paged-out message; return whether it was there."""
        if reference.dropped or not self.contents.may_be_paged_out(reference):
            return False
        is_dead_lettered = reference.dead_letter is not COMPLETED
        if not is_dead_lettered:
            self.store_acknowledgement(NO_TRANSACTION, reference, None)
        removed = self.contents.remove_paged_out(reference) and self._count_removed(reference)
        if is_dead_lettered:
            self.store_dead_lettered(NO_TRANSACTION, reference, None)
        return removed

    def _count_removed(self, reference: MessageReference) -> bool:
        reference.dropped = True
        self.statistics.dequeues += 1
        self.statistics.messages -= 1
        if self.watchers:
            self.changed()
        return True

    def purge(self, context: ConnectionContext) -> int:
        """Remove all messages that are not dispatched; return their number."""
        if self.reader is not None and not self.reader.may_purge():
            return 0
        removed = sum(self.remove_message(context, r) for r in tuple(self.references))
        page = self.policy.max_page_size
        while count := sum(map(self.remove_paged_out, self.contents.first_stored(page))):
            removed += count
        while spooled := self.contents.pop_spooled(page):
            removed += sum(map(self._count_removed, spooled))
        return removed

    def expire(self, reference: MessageReference) -> None:
        """Expire a message that is neither dispatched nor in a list of the dispatcher."""
        self.count_expired(reference)
        self.store_dead_lettered(NO_TRANSACTION, reference, None)
        self.drop(reference)

    def count_expired(self, reference: MessageReference) -> None:
        """Count a message as expired and dead-letter it, without removing it from the store."""
        self.expired(self.broker.context, reference, None)
        self.forget_duplicate(reference)

    def expire_messages(self) -> None:
        """Expire the expired among the first `max_expire_page_size` messages."""
        if not self.dispatcher.is_paused:
            expire_waiting_messages(self)

    def pause(self) -> None:
        """Stop dispatching and expiry scans; messages are still accepted (activemq-broker Q22)."""
        self.dispatcher.pause()

    def resume(self) -> None:
        """Resume dispatching and expiry scans."""
        self.dispatcher.resume()

    def stop(self) -> None:
        self.dispatcher.stop()

    def dispose(self, context: ConnectionContext) -> None:
        self.disposed = True
        self.dispatcher.stop()
        for reference in tuple(self.references):
            self.drop(reference)
        self.statistics.messages -= self.contents.paged_out_count
        self.contents.cursor.clear()
        if self.store is not None:
            self.store.remove_all_messages(NO_TRANSACTION)
        self.memory.close()
