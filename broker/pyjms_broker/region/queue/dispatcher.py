"""Dispatch of a queue's messages to its consumers.

Theory of operation
-------------------

A message that no consumer has is in exactly one of four lists:

    cursor        not paged in: in memory, in the store or in the temp store
    fresh         paged in, not offered to the consumers yet
    waiting       offered; no consumer that had room matched it
    redelivered   returned by a consumer that left; offered before all others

    from                   to            when
    (new)                  a consumer    a consumer has room and matches, and nothing is ahead of it
    (new)                  waiting       consumers have room, none of them matches
    (new)                  fresh         no consumer has room
    (new)                  cursor        dispatch is closed or running, a page of messages waits,
                                         or there are messages to be offered before it
    cursor                 fresh         `_page_in`, up to `max_page_size` with `waiting`
    fresh                  a consumer    a consumer has room and matches
    fresh                  waiting       consumers have room, none of them matches
    waiting                fresh         a rescan, in order and at the head
    a consumer             redelivered   the consumer leaves
    redelivered            a consumer    a rescan: a consumer has room and matches
    any                    (expired)     its time to live is over when it is paged in or offered

`waiting` and `redelivered` are offered again only in a rescan, which is due when the set of
consumers with room has grown, a consumer has left, or a message group has lost its owner. So the
work for a message does not grow with the number of messages that wait for another consumer.

Nothing is dispatched while the queue is closed to dispatch: it has no consumer, is paused, or
waits for `consumers_before_dispatch_starts` and `time_before_dispatch_starts`. `_is_open` caches
this, since each arrival checks it.

`iterate` may be called from anywhere, also by what it calls (an acknowledgement inside a dispatch
frees a window): a nested call only requests another round. Nothing here waits; a round that must
go on later (a suspended store, many expired messages, a failed read) is continued by a
background task.

(activemq-broker Q5 to Q10, Q16 to Q17, Q19, Q21 to Q26, Q33; ActiveMQ Queue.iterate)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from anyio import lowlevel

from pyjms import _clock, _wakeup
from pyjms_broker.api.copying import copy_command
from pyjms_broker.api.message import MessageReference
from pyjms_broker.cursor.base import PendingCursor
from pyjms_broker.cursor.memory import pending_list
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.queue.consumer_ring import Candidate, ConsumerRing
from pyjms_broker.region.queue.message_groups import message_group_map
from pyjms_broker.store.api import StoreState

if TYPE_CHECKING:
    from pyjms_broker.region.queue.queue import Queue
    from pyjms_broker.region.queue.subscription import QueueSubscription

__all__ = ["QueueDispatcher"]

logger = logging.getLogger(__name__)

_ALWAYS_WINS = 127
_EXPIRED_AT_ONCE = 500  # before the others of the broker have their turn
_STORE_CHECK = 1.0  # seconds
_RETRY = 5.0  # seconds until a store that failed to give messages back is asked again
_DEFAULT_START_WAIT = 1.0


class QueueDispatcher:
    """The dispatching side of one queue."""

    def __init__(self, queue: Queue, policy: PolicyEntry, cursor: PendingCursor) -> None:
        prioritized = policy.prioritized_messages
        self._queue = queue
        self._policy = policy
        self._max_page_size = policy.max_page_size
        self._prioritized = prioritized
        self.ring = ConsumerRing(policy.use_consumer_priority, not policy.strict_order_dispatch)
        self.exclusive: Candidate | None = None
        self.groups = message_group_map(policy.message_group_map_factory_type)
        self.cursor = cursor
        self.fresh = pending_list(prioritized)
        self.waiting = pending_list(prioritized)
        self.redelivered = pending_list(prioritized=False)
        self.is_paused = False
        self._gate: _wakeup.BackgroundTask | None = None
        self._is_open = False  # has consumers, is not paused, the gate is not shut
        self._iterating = False
        self._again = False
        self._rescan = False
        self._expired_left = _EXPIRED_AT_ONCE
        self._turn: _wakeup.BackgroundTask | None = None

    # consumers come and go
    def add_consumer(self, subscription: QueueSubscription) -> Candidate:
        """Let a consumer take part."""
        first = not len(self.ring)
        candidate = self.ring.add(subscription)
        if self._policy.all_consumers_exclusive_by_default or subscription.info.exclusive:
            self._claim_exclusive(candidate)
        if first:
            self._shut_gate()
        elif self._gate is not None:
            self._open_gate_if_enough()
        self._rescan = True
        self._update_open()
        return candidate

    def remove_consumer(self, subscription: QueueSubscription) -> None:
        """Take a consumer out, its groups are free again (activemq-broker Q26)."""
        candidate = self.ring.remove(subscription)
        if candidate is None:
            return
        self.groups.remove_owner(subscription)
        if candidate is self.exclusive:
            self._elect_exclusive()
        if not len(self.ring):
            self._end_gate()
        self._rescan = True
        self._update_open()

    def _claim_exclusive(self, newcomer: Candidate) -> None:
        holder = self.exclusive
        priority = newcomer.subscription.info.priority
        if (
            holder is None
            or priority > holder.subscription.info.priority
            or priority == _ALWAYS_WINS
        ):
            self.exclusive = newcomer
        self.ring.rotates = False

    def _elect_exclusive(self) -> None:
        every = self._policy.all_consumers_exclusive_by_default
        candidates = [
            candidate
            for candidate in self.ring.candidates.values()
            if every or candidate.subscription.info.exclusive
        ]
        self.exclusive = max(
            candidates, key=lambda candidate: candidate.subscription.info.priority, default=None
        )
        self.ring.rotates = self.exclusive is None and not self._policy.strict_order_dispatch

    # the gate (activemq-broker Q21) and the pause (activemq-broker Q22)
    def _shut_gate(self) -> None:
        policy = self._policy
        wait = policy.time_before_dispatch_starts
        if policy.consumers_before_dispatch_starts > 1 and not wait:
            wait = _DEFAULT_START_WAIT
        if wait:
            self._gate = _wakeup.spawn(
                self._open_gate_after, wait, name=f"dispatch start of {self._queue}"
            )

    async def _open_gate_after(self, seconds: float) -> None:
        await _clock.sleep(seconds)
        self._gate = None
        self._update_open()
        self.iterate()

    def _open_gate_if_enough(self) -> None:
        wanted = self._policy.consumers_before_dispatch_starts
        if wanted and len(self.ring) >= wanted:
            self._end_gate()

    def _end_gate(self) -> None:
        if self._gate is not None:
            self._gate.cancel()
            self._gate = None

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
        """Stop for good."""
        self._end_gate()
        if self._turn is not None:
            self._turn.cancel()
        self.pause()

    def _update_open(self) -> None:
        self._is_open = len(self.ring) > 0 and not self.is_paused and self._gate is None

    # messages come, come back, and go
    @property
    def pending_count(self) -> int:
        """How many messages no consumer has."""
        return len(self.cursor) + len(self.fresh) + len(self.waiting) + len(self.redelivered)

    def arrived(self, reference: MessageReference) -> None:
        """Take a new message and give it to somebody, if somebody wants it now."""
        if (
            not self._is_open
            or self._iterating
            or self.cursor
            or self.fresh
            or self.redelivered
            or self._rescan
            or len(self.waiting) >= self._max_page_size
        ):
            self.cursor.append(reference)
            self.iterate()
            return
        self._iterating = True
        try:
            if not self._has_ready() or not self._offer(reference):
                (self.waiting if self._has_ready() else self.fresh).append(reference)
        finally:
            self._iterating = False
        if self._again:
            self.iterate()

    def returned(self, references: list[MessageReference], at_head: bool) -> None:
        """Take messages back from a consumer, in their order; they go out before all others."""
        if at_head:
            for reference in reversed(references):
                self.redelivered.append_front(reference)
        else:
            for reference in references:
                self.redelivered.append(reference)
        self._rescan = True
        self.iterate()

    def forget(self, reference: MessageReference) -> None:
        """Take a message out, wherever it waits."""
        for place in (self.cursor, self.fresh, self.waiting, self.redelivered):
            if place.remove(reference):
                return

    def window_freed(self, candidate: Candidate) -> None:
        """Give messages to a consumer that has room again."""
        if not candidate.ready:
            if candidate.subscription.is_full():
                return
            self.ring.put_ready(candidate)
            if self.waiting or self.redelivered:
                self._rescan = True
        if self._rescan or self.fresh or self.cursor:
            self.iterate()

    def iterate(self) -> None:
        """Dispatch what can be dispatched."""
        if self._iterating:
            self._again = True
            return
        if not self._is_open:
            return
        self._iterating = True
        self._expired_left = _EXPIRED_AT_ONCE
        try:
            self._again = True
            while self._again and self._is_open:
                self._again = False
                self._dispatch_pending()
        finally:
            self._iterating = False
        if self._policy.advisory_for_slow_consumers and self.pending_count:
            self._report_slow()

    def _report_slow(self) -> None:
        """Tell the chain of each consumer for which messages wait, once until it has room."""
        queue = self._queue
        for subscription, candidate in tuple(self.ring.candidates.items()):
            if not candidate.reported_slow and subscription.is_full():
                candidate.reported_slow = True
                queue.broker.root.slow_consumer(subscription.context, queue, subscription)

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
            if not fresh or not self._has_ready():
                return
            reference = fresh.take()
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
            if self._offer(reference):
                self.redelivered.remove(reference)

    def _page_in(self) -> None:
        room = self._max_page_size - len(self.fresh) - len(self.waiting)
        if self._policy.lazy_dispatch:
            ready = self.ring.ready
            room = min(room, sum(c.subscription.room for c in ready) - len(self.fresh))
        cursor, fresh = self.cursor, self.fresh
        while room > 0 and cursor and not (cursor.must_read and self._is_to_wait()):
            try:
                reference = cursor.take()
            except Exception:
                logger.exception("No more messages of %s can be read now", self._queue)
                self._go_on_soon(_RETRY)
                return
            if reference.expiration and reference.is_expired():
                self._queue.expire(reference)
                self._expired_left -= 1
                if not self._expired_left:
                    self._go_on_soon()
                    return
                continue
            fresh.append(reference)
            room -= 1

    def _is_to_wait(self) -> bool:
        """Whether nothing is to be read now: there are messages to be done with first.

        (activemq-broker M8)
        """
        queue = self._queue
        if self._expired_left <= 0:
            return True
        if queue.broker.store.state is StoreState.SUSPENDED:
            # what is done with these could not be written, and would have to be kept
            self._go_on_soon()
            return True
        mark = self._policy.cursor_memory_high_water_mark
        return queue.statistics.inflight > 0 and queue.memory.is_above(mark)

    def _go_on_soon(self, seconds: float = 0) -> None:
        if self._turn is None or self._turn.done:
            self._turn = _wakeup.spawn(self._go_on, seconds, name=f"dispatch of {self._queue}")

    async def _go_on(self, seconds: float) -> None:
        await (_clock.sleep(seconds) if seconds else lowlevel.checkpoint())
        while self._queue.broker.store.state is StoreState.SUSPENDED:
            await _clock.sleep(_STORE_CHECK)
        self._turn = None
        self.iterate()

    def _has_ready(self) -> bool:
        if self.exclusive is None:
            return bool(self.ring.ready)
        return self.exclusive.ready

    def _offer(self, reference: MessageReference) -> bool:
        """Give the message to the first that has room and wants it; whether it is off the hands."""
        if reference.expiration and reference.is_expired():
            self._queue.expire(reference)
            return True
        ring = self.ring
        ready = ring.ready
        exclusive = self.exclusive
        index = 0
        while index < len(ready):
            candidate = ready[index]
            subscription = candidate.subscription
            if subscription.is_full():
                ring.put_full(index)
            elif (
                (exclusive is None or candidate is exclusive)
                and subscription.matches(reference)
                and (reference.group_id is None or self._takes_group(candidate, reference))
            ):
                self._queue.count_dispatch(reference, subscription)
                subscription.dispatch(reference, reference.redelivery_counter)
                ring.took(candidate, index)
                return True
            else:
                index += 1
        return False

    # groups
    def _takes_group(self, candidate: Candidate, reference: MessageReference) -> bool:
        """Whether the message's group lets this consumer have it; makes it the owner where due."""
        group_id = reference.group_id
        if group_id is None:
            return True
        sequence = reference.message.group_sequence
        owner = self.groups.get(group_id)
        if sequence == 1 or owner is None:
            self._assign_group(group_id, candidate, reference)
            return True
        if owner is not candidate.subscription:
            return False
        _mark_first(reference, is_first=False)
        if sequence < 0:
            self.groups.remove(group_id)
            candidate.assigned_groups -= 1
            self.ring.reorder(candidate)
            self._rescan = True
            self._again = True
        return True

    def _assign_group(
        self, group_id: str, candidate: Candidate, reference: MessageReference
    ) -> None:
        loser = self.groups.put(group_id, candidate.subscription)
        candidate.assigned_groups += 1
        losing = None if loser is None else self.ring.candidates.get(loser)
        if losing is not None:
            losing.assigned_groups -= 1
            self.ring.reorder(losing)
        _mark_first(reference, is_first=True)


def _mark_first(reference: MessageReference, is_first: bool) -> None:
    if reference.message.jms_xgroup_first_for_consumer != is_first:
        reference.message = copy_command(reference.message)
        reference.message.jms_xgroup_first_for_consumer = is_first
