"""A queue: what it does with a message from its arrival to its last acknowledgement.

Its contents know where messages are, its dispatcher which wait; `owner` is a message's consumer.
(activemq-broker Q1 to Q4, Q22, Q29 to Q33; activemq-persistence K13, K14, S6)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.copying import copy_command
from pyjms_broker.api.message import (
    NO_TRANSACTION,
    MessageReference,
    OperationContext,
    StoredMessage,
    SubscriptionKey,
)
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.policy.audit import MessageAudit
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.arrival_order import arrival_order
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.queue.contents import QueueContents
from pyjms_broker.region.queue.dispatcher import QueueDispatcher
from pyjms_broker.region.queue.expiry import expire_what_is_over
from pyjms_broker.region.queue.reader import QueueReader
from pyjms_broker.region.queue.subscription import QueueSubscription
from pyjms_broker.region.transacted_send import TransactedSend
from pyjms_broker.store.api import MessageStore

if TYPE_CHECKING:
    from pyjms_broker.region.services import RegionServices

__all__ = ["Queue"]


class Queue(BaseDestination):
    """A queue of the broker, lasting or temporary."""

    def __init__(
        self,
        broker: RegionServices,
        destination: Destination,
        policy: PolicyEntry,
        store: MessageStore | None,
    ) -> None:
        """Make a queue with what `store` has; None keeps nothing (temporary queues)."""
        super().__init__(broker, destination, policy)
        self.store = store
        self._is_paged = store is not None and not broker.store_capabilities.is_volatile
        self.contents = QueueContents(self, store if self._is_paged else None, broker.temp_store)
        self.references = self.contents.references
        """The messages in memory."""
        self._held = self.contents.held
        self.dispatcher = QueueDispatcher(self, policy, self.contents.cursor)
        self._audit = (
            MessageAudit(policy.max_queue_audit_depth, policy.max_producers_to_audit)
            if policy.enable_audit
            else None
        )
        self._browsers: dict[Subscription, None] = {}
        self._is_concurrent = broker.store_capabilities.concurrent_store_and_dispatch_queues
        self._line, self._wait_in_line = arrival_order(self._enqueue, self._give_up)
        self.marks_redelivered = policy.persist_jms_redelivered and store is not None
        self.needs_disk = self._is_paged
        self.reader: QueueReader | None = None
        """Who reads it by its numbers (`pyjms_broker.ranges`), or did and may come again."""

    @property
    def consumers(self) -> list[Subscription]:
        return [*self.dispatcher.ring.candidates, *self._browsers]

    def accept(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        transaction: Transaction | None = None,
    ) -> Completion | None:
        audit = self._audit
        if audit is not None and audit.is_duplicate(reference.message_id):
            return None
        self.memory.increase(reference.size)
        stored = None
        if is_leased := self.reader is not None and self.reader.is_leased:
            reference.persistent = True
        store = self.store if reference.persistent else None
        if store is not None:
            try:
                stored = store.add_message(
                    NO_TRANSACTION if transaction is None else OperationContext(transaction.xid),
                    reference,
                )
            except Exception:
                self._give_up(reference)
                raise
        if transaction is not None:
            transaction.add(
                TransactedSend(self.broker, transaction, reference, self._committed, self._give_up)
            )
            return stored
        is_behind = is_leased or self.commits or self._line  # of lower numbers, not visible yet
        if store is not None and reference.position is None:
            self._repeated(reference)
        elif stored is None and not self._line:
            self._enqueue(reference)
        elif stored is not None and self._is_concurrent and not is_behind:
            stored.then(lambda done: self._take_out_unstored(context, reference, done))
            self._enqueue(reference)
        else:
            if stored is not None:
                stored.then(lambda done: self.tell_if_lost(context, reference, done))
            self._wait_in_line(reference, stored)
        return stored if reference.message.response_required else None

    def _take_out_unstored(
        self, context: ConnectionContext, reference: MessageReference, done: Completion
    ) -> None:
        """Forget a message that could not be stored, if nobody has it yet."""
        if done.error is None:
            return
        self.tell_if_lost(context, reference, done)
        self.forget_duplicate(reference)
        held = None if reference.dropped else self.contents.in_memory(reference)
        if held is not None and held.owner is None:
            self.dispatcher.forget(held)
            self.drop(held)

    def _committed(self, reference: MessageReference) -> None:
        if reference.position is None and reference.persistent and self.store is not None:
            self._repeated(reference)
        else:
            self._enqueue(reference)

    def _repeated(self, reference: MessageReference) -> None:
        self.repeated(reference)
        self.memory.decrease(reference.size)

    def publish(self, reference: MessageReference) -> None:
        """Let in a message whose transaction is done; its size counts from now on."""
        self.memory.increase(reference.size)
        self._enqueue(reference)

    def _enqueue(self, reference: MessageReference) -> None:
        if self.disposed:
            self.memory.decrease(reference.size)
            return
        statistics = self.statistics
        statistics.enqueues += 1
        statistics.messages += 1
        if self._is_paged and reference.position is not None:
            self.contents.mark_visible(reference)
        if self._held is None:
            self.references[reference] = None
        else:
            self.contents.hold(reference)
        self.dispatcher.arrived(reference)
        if self.reader is not None:
            self.reader.arrived(reference)
        if self.watchers:
            self.changed()

    def _give_up(self, reference: MessageReference, _error: Exception | None = None) -> None:
        self.memory.decrease(reference.size)
        self.forget_duplicate(reference)

    def forget_duplicate(self, reference: MessageReference) -> None:
        """Let the message's id come again."""
        if self._audit is not None:
            self._audit.rollback(reference.message_id)

    def hide(self, stored: StoredMessage, key: SubscriptionKey | None) -> MessageReference:
        reference = self.reference_to(stored.message, stored.position)
        self.contents.take_out(reference)
        self.memory.increase(reference.size)
        self.contents.hold(reference)
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
        """Note that `owner` gets the message."""
        reference.owner = owner
        self.statistics.dispatched += 1
        self.statistics.inflight += 1

    def mark_redelivered(self, reference: MessageReference) -> Completion | None:
        is_marked = reference.position is None or reference.redelivery_counter
        if self.store is None or not self.marks_redelivered or is_marked:
            return None
        marked = copy_command(reference.message)
        marked.redelivery_counter = 1
        return self.store.update_message(self.reference_to(marked, reference.position))

    def store_removal(
        self,
        context: OperationContext,
        reference: MessageReference,
        dead_letter: Completion | None = None,
    ) -> Completion | None:
        """Have the store forget the message, behind its dead letter."""
        if self.store is None or not reference.persistent:
            return None
        remove = self.store.remove_message
        if dead_letter is None:
            return remove(context, reference)
        return self.contents.dead_letter_ordering.remove_behind(
            dead_letter, context, reference, remove
        )

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
        if self._held is None:
            del self.references[reference]
        else:
            self.contents.release(reference)
        self.memory.decrease(reference.size)
        if self.watchers:
            self.changed()

    def requeue(self, reference: MessageReference) -> None:
        """Have a consumed message again, redelivered: the store could not forget it."""
        if self.disposed or not reference.dropped:
            return
        reference.dropped = False
        reference.redelivery_counter += 1
        self.statistics.dequeues -= 1
        self.statistics.messages += 1
        self.memory.increase(reference.size)
        self.contents.hold(reference)
        self.dispatcher.returned([reference], at_head=False)
        if self.watchers:
            self.changed()

    def take_back(self, references: list[MessageReference]) -> None:
        """Take messages back from a consumer that left; they go out again at once."""
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

    def messages(self) -> Iterator[MessageReference]:
        for reference in self.contents:  # compiled, an expression reads all
            if not reference.acked:
                yield reference

    def get_message(self, message_id: MessageId) -> MessageReference | None:
        """Return the message with that id, None if it is not here."""
        return self.contents.find(message_id)

    def remove_message(self, context: ConnectionContext, reference: MessageReference) -> bool:
        """Take out a message that nobody has; return whether it was. Not of a leased queue."""
        if self.reader is not None and self.reader.is_leased:
            return False
        return self.remove_for_reader(context, reference)

    def remove_for_reader(self, context: ConnectionContext, reference: MessageReference) -> bool:
        """Do that for who reads the queue, leased or not."""
        held = self.contents.in_memory(reference)
        if held is None:
            return self.remove_outside(context, reference)
        if held.owner is not None or held.acked:
            return False
        self.dispatcher.forget(held)
        self.store_removal(NO_TRANSACTION, held)
        self.drop(held)
        return True

    def remove_outside(self, context: ConnectionContext, reference: MessageReference) -> bool:
        if reference.dropped or not self.contents.is_outside(reference):
            return False
        if (dead_letter := reference.dead_letter) is None:
            self.store_removal(NO_TRANSACTION, reference)
        taken = self.contents.take_out(reference) and self._removed(reference)
        if dead_letter is not None:
            self.store_removal(NO_TRANSACTION, reference, dead_letter)
        return taken

    def _removed(self, reference: MessageReference) -> bool:
        reference.dropped = True
        self.statistics.dequeues += 1
        self.statistics.messages -= 1
        if self.watchers:
            self.changed()
        return True

    def purge(self, context: ConnectionContext) -> int:
        """Remove all messages that no consumer has; return how many they were."""
        if self.reader is not None and not self.reader.may_purge():
            return 0
        removed = sum(self.remove_message(context, r) for r in tuple(self.references))
        page, away = self.policy.max_page_size, self.remove_outside
        while gone := sum(away(context, r) for r in self.contents.first_stored(page)):
            removed += gone
        while spooled := self.contents.take_spooled(page):
            removed += sum(map(self._removed, spooled))
        return removed

    def expire(self, reference: MessageReference) -> None:
        """Expire a message that no consumer has and that waits nowhere (any more)."""
        self.count_expired(reference)
        self.store_removal(NO_TRANSACTION, reference, reference.dead_letter)
        self.drop(reference)

    def count_expired(self, reference: MessageReference) -> None:
        """Count a message as expired; its dead letter is sent before the store forgets it."""
        self.expired(self.broker.context, reference, None)
        self.forget_duplicate(reference)

    def expire_messages(self) -> None:
        """Expire what is over among the first `max_expire_page_size` messages."""
        if not self.dispatcher.is_paused:
            expire_what_is_over(self)

    def pause(self) -> None:
        """Stop dispatching and scanning; messages are still accepted (activemq-broker Q22)."""
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
        self.statistics.messages -= self.contents.outside_count
        self.contents.cursor.clear()
        if self.store is not None:
            self.store.remove_all_messages(NO_TRANSACTION)
        self.memory.close()
