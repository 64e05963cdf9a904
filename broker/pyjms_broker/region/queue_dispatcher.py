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
loop's time) is resumed by a background task.

Selectors of a queue may take a part of a second's steps in one turn of the loop (`_TURN`); then the
queue pauses in proportion to the steps. Only costly selections count. See `selector_meter`.

(activemq-broker Q5 to Q10, Q16 to Q17, Q19, Q21 to Q26, Q33; ActiveMQ Queue.iterate)
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from anyio import lowlevel

from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop as _wakeup
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.message import MessageReference
from pyjms_broker.cursor.memory import (
    MAX_EXPIRED_PER_TURN,
    PAGING_RETRY_DELAY,
    PendingCursor,
    log_paging_failure,
    pending_list,
)
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.message_groups import GroupAssignment, message_group_map
from pyjms_broker.region.selector_meter import COSTLY
from pyjms_broker.store.api import StoreState

if TYPE_CHECKING:
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.region.prefetch_subscription import PrefetchSubscription
    from pyjms_broker.region.queue import Queue

logger = get_logger(__name__)

_STORE_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks of whether a suspended store is running again."""
_DEFAULT_START_DELAY: Final = 1.0
"""Seconds; see `PolicyEntry.time_before_dispatch_starts`."""
_ALWAYS_EXCLUSIVE: Final = 127
"""The priority with which an exclusive consumer replaces any other one."""
_order = attrgetter("order")


class Candidate:
    """The entry of one consumer in the ring of one queue."""

    __slots__ = ("assigned_groups", "order", "ready", "reported_slow", "stamp", "subscription")

    def __init__(self, subscription: PrefetchSubscription, stamp: int) -> None:
        self.subscription = subscription
        self.stamp = stamp
        self.assigned_groups = 0
        self.ready = False
        self.reported_slow = False
        self.order: tuple[int, int, int] = (0, 0, 0)


class ConsumerRing:
    """All consumers of a queue, and the ready ones in the order in which they are tried.

    They are ordered by priority, then by fewest groups, then by longest time without a message: a
    consumer that got a message goes behind its equals. Only those whose window has space are in
    `ready`, so the cost of a message does not depend on the number of consumers that are full.
    (activemq-broker Q5 to Q7)
    """

    def __init__(self, *, use_priority: bool, rotates: bool, all_exclusive: bool) -> None:
        """Create an empty ring.

        Args:
            use_priority: whether consumers of higher priority come first.
            rotates: whether a consumer that got a message goes behind its equals.
            all_exclusive: whether every consumer counts as exclusive.
        """
        self.use_priority = use_priority
        self.rotates = rotates
        self.exclusive: Candidate | None = None
        """The consumer that gets all messages; None if no exclusive consumer is attached.
        (activemq-broker Q16, Q17)"""
        self._rotates_without_exclusive = rotates
        self._all_exclusive = all_exclusive
        self.candidates: dict[Subscription, Candidate] = {}
        self.ready: list[Candidate] = []
        self._stamp = 0

    def __len__(self) -> int:
        return len(self.candidates)

    def add(self, subscription: PrefetchSubscription) -> Candidate:
        """Add a consumer behind its equals; it is ready if its window has space."""
        self._stamp += 1
        candidate = Candidate(subscription, self._stamp)
        self.candidates[subscription] = candidate
        if not subscription.is_full():
            self.add_ready(candidate)
        if self._all_exclusive or subscription.info.exclusive:
            self._claim_exclusive(candidate)
        return candidate

    def remove(self, subscription: Subscription) -> Candidate | None:
        """Remove a consumer and return its entry; None if it had none."""
        candidate = self.candidates.pop(subscription, None)
        if candidate is not None and candidate.ready:
            self.ready.remove(candidate)
            candidate.ready = False
        if candidate is not None and candidate is self.exclusive:
            self._elect_exclusive()
        return candidate

    def _claim_exclusive(self, newcomer: Candidate) -> None:
        holder = self.exclusive
        priority = newcomer.subscription.info.priority
        if (
            holder is None
            or priority > holder.subscription.info.priority
            or priority == _ALWAYS_EXCLUSIVE
        ):
            self.exclusive = newcomer
        self.rotates = False

    def _elect_exclusive(self) -> None:
        candidates = [
            candidate
            for candidate in self.candidates.values()
            if self._all_exclusive or candidate.subscription.info.exclusive
        ]
        self.exclusive = max(
            candidates, key=lambda candidate: candidate.subscription.info.priority, default=None
        )
        self.rotates = self.exclusive is None and self._rotates_without_exclusive

    def add_ready(self, candidate: Candidate) -> None:
        """Add a consumer to `ready`, because its window has space."""
        candidate.ready = True
        candidate.reported_slow = False
        priority = candidate.subscription.info.priority if self.use_priority else 0
        candidate.order = (-priority, candidate.assigned_groups, candidate.stamp)
        ready = self.ready
        if not ready or ready[-1].order <= candidate.order:
            ready.append(candidate)
        else:
            insort(ready, candidate, key=_order)

    def remove_ready(self, index: int) -> None:
        """Remove the consumer at `index` from `ready`, because its window is full."""
        self.ready.pop(index).ready = False

    def rotate(self, candidate: Candidate, index: int) -> None:
        """Move a consumer that got a message behind its equals; it was at `index` of `ready`.

        The dispatch may have changed `ready` meanwhile.
        """
        ready = self.ready
        if index >= len(ready) or ready[index] is not candidate:
            if not candidate.ready:
                return
            index = ready.index(candidate)
        is_full = candidate.subscription.is_full()
        if not self.rotates or len(self.candidates) == 1:
            if is_full:
                self.remove_ready(index)
            return
        self.remove_ready(index)
        self._stamp += 1
        candidate.stamp = self._stamp
        if not is_full:
            self.add_ready(candidate)

    def reorder(self, candidate: Candidate) -> None:
        """Move a ready consumer to its new position after its number of groups has changed."""
        if candidate.ready:
            self.ready.remove(candidate)
            self.add_ready(candidate)


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
        self._consumers_to_start = policy.consumers_before_dispatch_starts
        self._start_delay = policy.time_before_dispatch_starts
        if self._consumers_to_start > 1 and not self._start_delay:
            self._start_delay = _DEFAULT_START_DELAY
        self._start_task: _wakeup.BackgroundTask | None = None
        self._is_open = False  # there are consumers, no pause, and no start delay
        self._iterating = False
        self._again = False
        self._rescan = False
        self._expired_left = MAX_EXPIRED_PER_TURN
        self._resume_task: _wakeup.BackgroundTask | None = None
        self._later_task: _wakeup.BackgroundTask | None = None
        self._later = 0.0
        self._meter = queue.broker.selector_meter
        self._costly_steps = 0
        self._is_resting = False  # its selectors took many steps, so nothing may be offered

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
        count = len(self.ring)
        if count == 1 and self._start_delay:
            self._start_task = _wakeup.spawn(
                self._end_start_delay, name=f"dispatch start of {self._queue}"
            )
        elif self._consumers_to_start and count >= self._consumers_to_start:
            self._cancel_start_delay()
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
            self._cancel_start_delay()
        self._rescan = True
        self._update_open()

    # the delayed start and the pause (activemq-broker Q21, Q22)
    async def _end_start_delay(self) -> None:
        await _clock.sleep(self._start_delay)
        self._start_task = None
        self._update_open()
        self.iterate()

    def _cancel_start_delay(self) -> None:
        task, self._start_task = self._start_task, None
        if task is not None:
            task.cancel()

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
        self._cancel_start_delay()
        for task in (self._later_task, self._resume_task):
            if task is not None:
                task.cancel()
        self._later_task = None
        self.pause()

    def _update_open(self) -> None:
        self._is_open = len(self.ring) > 0 and not self.is_paused and self._start_task is None

    # messages
    @property
    def pending_count(self) -> int:
        """The number of messages that are not dispatched."""
        return len(self.cursor) + len(self.fresh) + len(self.waiting) + len(self.redelivered)

    def on_arrival(self, reference: MessageReference) -> None:
        """Dispatch a new message, or add it to the waiting ones."""
        if (
            not self._is_open
            or self._iterating
            or self.cursor
            or self.fresh
            or self.redelivered
            or self._rescan
            or len(self.waiting) >= self._max_page_size
            or self._is_resting
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
        if not self._is_open or self._is_resting:
            return
        self._iterating = True
        self._expired_left = MAX_EXPIRED_PER_TURN
        try:
            self._again = True
            while self._again and self._is_open and not self._is_resting:
                self._again = False
                self._dispatch_pending()
        finally:
            self._iterating = False
        if self._reports_slow and self.pending_count:
            self._report_slow()

    def offer_later(self, seconds: float) -> None:
        """Offer all messages again in `seconds`, when a bridge may get those that are withheld."""
        due = _clock.now() + seconds
        if self._later_task is not None:
            if self._later <= due:
                return
            self._later_task.cancel()
        self._later = due
        self._later_task = _wakeup.spawn(
            self._offer_all, seconds, name=f"dispatch of {self._queue} later"
        )

    async def _offer_all(self, seconds: float) -> None:
        await _clock.sleep(seconds)
        self._later_task = None
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
            if not fresh or not self._has_ready() or self._is_resting:
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
            if self._is_resting:
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
        self._is_resting = False
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
        meter = self._meter
        if meter is None:
            return self._offer_to_ready(reference)
        before = meter.total
        offered = self._offer_to_ready(reference)
        steps = meter.total - before
        if steps > COSTLY:
            self._costly_steps += steps
            pause = meter.rest_after(self._costly_steps)
            if pause:
                self._costly_steps = 0
                self._is_resting = True
                self._resume_later(pause)
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
