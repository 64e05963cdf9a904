"""Dispatch of a queue's messages to its consumers.

Theory of operation
-------------------

A message that is not dispatched to a consumer is in exactly one of four lists:

    cursor        not paged in: in memory, in the store or in the temp store
    fresh         paged in, not offered to the consumers yet
    waiting       offered; no consumer with space matched it
    redelivered   returned by a consumer that left; offered before all others

    from                   to            when
    (new)                  a consumer    a consumer has space and matches, nothing is ahead of it
    (new)                  waiting       consumers have space, none of them matches
    (new)                  fresh         no consumer has space
    (new)                  cursor        dispatch is closed or running, a page of messages waits,
                                         or other messages must be offered first
    cursor                 fresh         `_page_in`, up to `max_page_size` with `waiting`
    fresh                  a consumer    a consumer has space and matches
    fresh                  waiting       consumers have space, none of them matches
    waiting                fresh         a rescan, in order and at the head
    a consumer             redelivered   the consumer leaves
    redelivered            a consumer    a rescan: a consumer has space and matches
    any                    (expired)     it has expired when it is paged in or offered

`waiting` and `redelivered` are offered again only in a rescan, which is due when the set of
consumers with space has grown, a consumer has left, or a message group has lost its owner. The cost
of a message is therefore independent of the number of messages that wait for other consumers.

Nothing is dispatched while dispatch is closed: the queue has no consumer, is paused, or waits for
`consumers_before_dispatch_starts` and `time_before_dispatch_starts`. `_is_open` caches this,
because each arrival checks it.

`iterate` may be called from anywhere, even from within a dispatch (an acknowledgement frees a
window): a nested call only requests another round. Nothing waits; a round that cannot continue (a
suspended store, many expired messages, a failed read, or selectors that have taken much of the
loop's time: `SelectorRest`) is resumed by a background task.

(activemq-broker Q5 to Q10, Q16 to Q17, Q19, Q21 to Q26, Q33; ActiveMQ Queue.iterate)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anyio import lowlevel

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms_broker.api.message import MessageReference
from pyjms_broker.cursor.base import (
    MAX_EXPIRED_PER_TURN,
    PAGING_RETRY_DELAY,
    PendingCursor,
    log_paging_failure,
)
from pyjms_broker.cursor.memory import pending_list
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.flow.selector_meter import SelectorRest
from pyjms_broker.region.queue.consumer_ring import Candidate, ConsumerRing
from pyjms_broker.region.queue.group_assignment import GroupAssignment
from pyjms_broker.region.queue.message_groups import message_group_map
from pyjms_broker.region.queue.start_delay import LaterOffer, StartDelay
from pyjms_broker.store.api import StoreState

if TYPE_CHECKING:
    from pyjms_broker.region.queue.queue import Queue
    from pyjms_broker.region.subscription.prefetch import PrefetchSubscription

__all__ = ["QueueDispatcher"]

logger = get_logger(__name__)

_STORE_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks of whether a suspended store is running again."""


class QueueDispatcher:
    """Dispatches the messages of one queue; see the module's docstring."""

    def __init__(self, queue: Queue, policy: PolicyEntry, cursor: PendingCursor) -> None:
        prioritized = policy.prioritized_messages
        self._queue = queue
        self.change_policy(policy)
        self._prioritized = prioritized
        self.ring = ConsumerRing(
            use_priority=policy.use_consumer_priority,
            rotates=not policy.strict_order_dispatch,
            all_exclusive=policy.all_consumers_exclusive_by_default,
        )
        self.groups = GroupAssignment(
            message_group_map(policy.message_group_map_factory_type), self.ring
        )
        self.cursor = cursor
        self.fresh = pending_list(prioritized)
        self.waiting = pending_list(prioritized)
        self.redelivered = pending_list(prioritized=False)
        self.is_paused = False
        self._start_delay = StartDelay(policy, f"dispatch start of {queue}", self._started)
        self._is_open = False  # there are consumers, no pause, and no start delay
        self._iterating = False
        self._again = False
        self._rescan = False
        self._expired_left = MAX_EXPIRED_PER_TURN
        self._resume_task: _wakeup.BackgroundTask | None = None
        self.later_offer = LaterOffer(f"dispatch of {queue} later", self._offer_all)
        self._rest = SelectorRest(queue.broker.selector_meter, self._resume_later)

    def change_policy(self, policy: PolicyEntry) -> None:
        """Apply a policy from now on; the order of consumers and messages is unchanged."""
        self._policy = policy
        self._max_page_size = policy.max_page_size
        self._reports_slow = (
            policy.advisory_for_slow_consumers or policy.slow_consumer_strategy is not None
        )

    # consumers
    def add_consumer(self, subscription: PrefetchSubscription) -> Candidate:
        """Add a consumer; return its entry in the ring."""
        candidate = self.ring.add(subscription)
        self._start_delay.consumer_added(len(self.ring))
        self._rescan = True
        self._update_open()
        return candidate

    def remove_consumer(self, subscription: PrefetchSubscription) -> None:
        """Remove a consumer; its groups lose their owner (activemq-broker Q26)."""
        candidate = self.ring.remove(subscription)
        if candidate is None:
            return
        self.groups.remove_owner(subscription)
        if not len(self.ring):
            self._start_delay.cancel()
        self._rescan = True
        self._update_open()

    # the delayed start and the pause (activemq-broker Q21, Q22)
    def _started(self) -> None:
        self._update_open()
        self.iterate()

    def pause(self) -> None:
        """Stop dispatching."""
        self.is_paused = True
        self._update_open()

    def resume(self) -> None:
        """Dispatch again."""
        self.is_paused = False
        self._update_open()
        self.iterate()

    def stop(self) -> None:
        """Stop dispatching and cancel the background tasks."""
        self._start_delay.cancel()
        self.later_offer.cancel()
        if self._resume_task is not None:
            self._resume_task.cancel()
        self.pause()

    def _update_open(self) -> None:
        self._is_open = (
            len(self.ring) > 0 and not self.is_paused and not self._start_delay.is_running
        )

    # messages
    @property
    def pending_count(self) -> int:
        """The number of messages that are not dispatched."""
        return len(self.cursor) + len(self.fresh) + len(self.waiting) + len(self.redelivered)

    def arrived(self, reference: MessageReference) -> None:
        """Dispatch a new message, or add it to the waiting ones."""
        if (
            not self._is_open
            or self._iterating
            or self.cursor
            or self.fresh
            or self.redelivered
            or self._rescan
            or len(self.waiting) >= self._max_page_size
            or self._rest.is_due
        ):
            self.cursor.append(reference)
            self.iterate()
            return
        self._iterating = True
        try:
            if not self._has_ready() or not self._offer(reference):
                (self.waiting if self._has_ready() else self.fresh).append(reference)
                if self._reports_slow:
                    self._report_slow()
        finally:
            self._iterating = False
        if self._again:
            self.iterate()

    def redeliver(self, references: list[MessageReference], at_head: bool) -> None:
        """Dispatch messages of a consumer that left, in order, before all others."""
        if at_head:
            for reference in reversed(references):
                self.redelivered.append_front(reference)
        else:
            for reference in references:
                self.redelivered.append(reference)
        self._rescan = True
        self.iterate()

    def remove(self, reference: MessageReference) -> None:
        """Remove a message from the list in which it waits."""
        for pending in (self.cursor, self.fresh, self.waiting, self.redelivered):
            if pending.remove(reference):
                return

    def window_freed(self, candidate: Candidate) -> None:
        """Dispatch to a consumer whose window may have space again."""
        if not candidate.ready:
            if candidate.subscription.is_full():
                return
            self.ring.add_ready(candidate)
            if self.waiting or self.redelivered:
                self._rescan = True
        if self._rescan or self.fresh or self.cursor:
            self.iterate()

    def iterate(self) -> None:
        """Dispatch all messages that can be dispatched; a nested call requests another round."""
        if self._iterating:
            self._again = True
            return
        if not self._is_open or self._rest.is_due:
            return
        self._iterating = True
        self._expired_left = MAX_EXPIRED_PER_TURN
        try:
            self._again = True
            while self._again and self._is_open and not self._rest.is_due:
                self._again = False
                self._dispatch_pending()
        finally:
            self._iterating = False
        if self._reports_slow and self.pending_count:
            self._report_slow()

    def _offer_all(self) -> None:
        """Offer all messages again, because what consumers accept has changed."""
        self._rescan = True
        self.iterate()

    def _report_slow(self) -> None:
        """Report each consumer that is full while messages wait, once until it has space again."""
        queue = self._queue
        for subscription, candidate in tuple(self.ring.candidates.items()):
            if not candidate.reported_slow and subscription.is_slow:
                candidate.reported_slow = True
                queue.slow_consumer(subscription)

    # one round
    def _dispatch_pending(self) -> None:
        if self._rescan:
            self._rescan = False
            self._offer_redelivered()
            if self.waiting:
                for reference in reversed(tuple(self.waiting)):
                    self.fresh.append_front(reference)
                self.waiting.clear()
        fresh = self.fresh
        while True:
            if self.cursor:
                self._page_in()
            if not fresh or not self._has_ready() or self._rest.is_due:
                return
            reference = fresh.pop()
            if self._offer(reference):
                continue
            if self._has_ready():
                self.waiting.append(reference)
            else:
                fresh.append_front(reference)
                return

    def _offer_redelivered(self) -> None:
        for reference in tuple(self.redelivered):
            if not self._has_ready():
                return
            if self._rest.is_due:
                self._rescan = True
                return
            if self._offer(reference):
                self.redelivered.remove(reference)

    def _page_in(self) -> None:
        capacity = self._max_page_size - len(self.fresh) - len(self.waiting)
        if self._policy.lazy_dispatch:
            ready = self.ring.ready
            capacity = min(capacity, sum(c.subscription.room for c in ready) - len(self.fresh))
        cursor, fresh = self.cursor, self.fresh
        while capacity > 0 and cursor and not (cursor.must_read and self._must_not_read()):
            try:
                reference = cursor.pop()
            except KeyError:  # the store has quarantined messages that the cursor still counted
                return
            except Exception as error:
                log_paging_failure(self._queue, error, self._resume_task)
                self._resume_later(PAGING_RETRY_DELAY)
                return
            if reference.expiration and reference.is_expired():
                self._queue.expire(reference)
                self._expired_left -= 1
                if not self._expired_left:
                    self._resume_later()
                    return
                continue
            fresh.append(reference)
            capacity -= 1

    def _must_not_read(self) -> bool:
        """Return whether nothing may be paged in. (activemq-broker M8)

        That is so if too many messages have expired, the store is suspended, or memory is short
        while acknowledgements of messages in flight can free some.
        """
        queue = self._queue
        if self._expired_left <= 0:
            return True
        if queue.broker.store.state is StoreState.SUSPENDED:
            # acknowledgements of these messages could not be written, and would use memory
            self._resume_later()
            return True
        mark = self._policy.cursor_memory_high_water_mark
        return queue.statistics.inflight > 0 and queue.memory.is_above(mark)

    def _resume_later(self, seconds: float = 0) -> None:
        if self._resume_task is None or self._resume_task.done:
            self._resume_task = _wakeup.spawn(
                self._resume, seconds, name=f"dispatch of {self._queue}"
            )

    async def _resume(self, seconds: float) -> None:
        await (_clock.sleep(seconds) if seconds else lowlevel.checkpoint())
        while self._queue.broker.store.state is StoreState.SUSPENDED:
            await _clock.sleep(_STORE_CHECK_INTERVAL)
        self._resume_task = None
        self._rest.end()
        self.iterate()

    def _has_ready(self) -> bool:
        ring = self.ring
        return bool(ring.ready) if ring.exclusive is None else ring.exclusive.ready

    def _offer(self, reference: MessageReference) -> bool:
        """Dispatch the message to the first consumer that has space and matches it.

        Returns:
            Whether the message no longer waits, because it was dispatched or has expired.
        """
        if reference.expiration and reference.is_expired():
            self._queue.expire(reference)
            return True
        spent = self._rest.total
        offered = self._offer_to_ready(reference)
        if self._rest.total != spent:
            self._rest.spent(self._rest.total - spent)
        return offered

    def _offer_to_ready(self, reference: MessageReference) -> bool:
        ring = self.ring
        ready = ring.ready
        exclusive = ring.exclusive
        index = 0
        while index < len(ready):
            candidate = ready[index]
            subscription = candidate.subscription
            if subscription.is_full():
                ring.remove_ready(index)
            elif (
                (exclusive is None or candidate is exclusive)
                and subscription.matches(reference)
                and (reference.group_id is None or self._accepts_group(candidate, reference))
            ):
                self._queue.count_dispatch(reference, subscription)
                subscription.dispatch(reference, reference.redelivery_counter)
                ring.rotate(candidate, index)
                return True
            else:
                index += 1
        return False

    def _accepts_group(self, candidate: Candidate, reference: MessageReference) -> bool:
        groups = self.groups
        accepted = groups.accepts(candidate, reference)
        if groups.is_rescan_due:
            groups.is_rescan_due = False
            self._rescan = self._again = True
        return accepted
