"""A queue, which handles messages from arrival to acknowledgement.

`QueueContents` keeps the messages, in memory or paged out; `QueueDispatcher` dispatches them to
consumers. The `owner` of a message is the consumer to which it is dispatched. `references` are the
messages in memory, in flight or waiting. Paged-out messages are counted by the cursor's sources and
read page by page. For them, browsing and searching return new references, which are not added to
`references`.
(activemq-broker M8, Q1 to Q4, Q22, Q29 to Q33; activemq-persistence K13, K14, S6)

Theory of operation of dispatch
-------------------------------

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
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from anyio import lowlevel

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.selector.budget import COSTLY, SelectorMeter
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId
from pyjms_broker.api.completion import COMPLETED, Completion, completion_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference, Position, copy_command
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.cursor.memory import (
    MAX_EXPIRED_PER_TURN,
    PAGING_RETRY_DELAY,
    PendingCursor,
    log_paging_failure,
    pending_list,
)
from pyjms_broker.cursor.spilling import (
    MOST_CACHED,
    UNLIMITED,
    MemorySource,
    MessageSource,
    PrioritizedSpillingCursor,
    PrioritizedStoreSource,
    SpillingCursor,
    SpoolSource,
    StoreSource,
    never_short,
)
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.base_destination import USUAL_PRIORITIES, ArrivalOrder, BaseDestination
from pyjms_broker.region.bridge_filter import check_return
from pyjms_broker.region.dead_letters import DeadLetterOrdering
from pyjms_broker.region.memory_relief import Holder
from pyjms_broker.region.message_groups import GroupAssignment, message_group_map
from pyjms_broker.region.subscription import QueueSubscription
from pyjms_broker.region.transaction_work import TransactedSends
from pyjms_broker.store.api import (
    MessageStore,
    OperationContext,
    StoredMessage,
    StoreState,
    SubscriptionKey,
)

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker
    from pyjms_broker.store.temp import SpooledMessage, TempStore

logger = get_logger(__name__)

_STORE_CHECK_INTERVAL: Final = 1.0
"""Seconds between checks of whether a suspended store is running again."""
_DEFAULT_START_DELAY: Final = 1.0
"""Seconds; see `PolicyEntry.time_before_dispatch_starts`."""
_ALWAYS_EXCLUSIVE: Final = 127
"""The priority with which an exclusive consumer replaces any other one."""
_order = attrgetter("order")
_STAMP: Final = 50
"""The bits of a candidate's stamp in its order."""
_PRIORITY: Final = 80
_GROUPS: Final = (1 << (_PRIORITY - _STAMP)) - 1


_NONE_UNSTORED: Final[OrderedDict[MessageReference, Completion]] = OrderedDict()
"""What all queues have until a message must wait until it is stored. Nothing is added to it."""


class Candidate:
    """The entry of one consumer in the ring of one queue."""

    __slots__ = ("assigned_groups", "order", "ready", "reported_slow", "stamp", "subscription")

    def __init__(self, subscription: QueueSubscription, stamp: int) -> None:
        self.subscription = subscription
        self.stamp = stamp
        self.assigned_groups = 0
        self.ready = False
        self.reported_slow = False
        self.order: int = 0
        """Priority, number of groups and stamp in one number, which is smaller than a tuple."""


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

    def add(self, subscription: QueueSubscription) -> Candidate:
        """Add a consumer behind its equals; it is ready if its window has space."""
        for other in [c for c in self.ready if c.order >> _STAMP & _GROUPS != c.assigned_groups]:
            self.reorder(other)  # it was alone, or is not rotated, when it got a group
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
        candidate.order = (
            (-priority << _PRIORITY) + (candidate.assigned_groups << _STAMP) + candidate.stamp
        )
        ready = self.ready
        if not ready or ready[-1].order <= candidate.order:
            ready.append(candidate)
        else:
            insort(ready, candidate, key=_order)

    def remove_ready(self, index: int) -> None:
        """Remove the consumer at `index` from `ready`, because its window is full."""
        self.ready.pop(index).ready = False

    def rotate(self, candidate: Candidate, index: int, is_full: bool) -> None:
        """Move a consumer that got a message behind its equals; it was at `index` of `ready`.

        The dispatch may have changed `ready` meanwhile. A full consumer is not ready any more.
        """
        ready = self.ready
        if index >= len(ready) or ready[index] is not candidate:
            if not candidate.ready:
                return
            index = ready.index(candidate)
        if not self.rotates:
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

    # defaults of the class, as most queues never need their own
    is_paused: bool = False
    _later: float = 0.0
    _costly_steps: int = 0

    def __init__(self, queue: Queue, policy: PolicyEntry, cursor: PendingCursor) -> None:
        prioritized = policy.prioritized_messages
        self._queue = queue
        self._memory = queue.memory
        self.change_policy(policy)
        self.ring = ConsumerRing(
            use_priority=policy.use_consumer_priority,
            rotates=not policy.strict_order_dispatch,
            all_exclusive=policy.all_consumers_exclusive_by_default,
        )
        self._groups: GroupAssignment | None = None
        message_group_map(policy.message_group_map_factory_type)  # refuses what is invalid
        self.cursor = cursor
        self.fresh = pending_list(prioritized)
        self.waiting = pending_list(prioritized)
        self.redelivered = pending_list(prioritized=False)
        self._consumers_to_start = policy.consumers_before_dispatch_starts
        self._start_delay = policy.time_before_dispatch_starts
        if self._consumers_to_start > 1 and not self._start_delay:
            self._start_delay = _DEFAULT_START_DELAY
        self._start_task: event_loop.BackgroundTask | None = None
        self._is_open = False  # there are consumers, no pause, and no start delay
        self.is_idle: bool = False
        """Whether no list has a message; False if that is not certain."""
        self._is_memory_short = False  # so that the cursor was not read
        self._iterating = False
        self._again = False
        self._rescan = False
        self._expired_left = MAX_EXPIRED_PER_TURN
        self._resume_task: event_loop.BackgroundTask | None = None
        self._later_task: event_loop.BackgroundTask | None = None
        self._meter = queue.broker.selector_meter
        self._is_resting = False  # its selectors took many steps, so nothing may be offered

    def change_policy(self, policy: PolicyEntry) -> None:
        """Apply a policy from now on; the order of consumers and messages is unchanged."""
        self._policy = policy
        self._max_page_size = policy.max_page_size
        self._reports_slow = (
            policy.advisory_for_slow_consumers or policy.slow_consumer_strategy is not None
        )

    @property
    def groups(self) -> GroupAssignment:
        """The owners of the message groups."""
        found = self._groups
        if found is None:
            kind = self._queue.policy.message_group_map_factory_type
            found = self._groups = GroupAssignment(message_group_map(kind), self.ring)
        return found

    # consumers
    def add_consumer(self, subscription: QueueSubscription) -> Candidate:
        """Add a consumer; return its entry in the ring."""
        candidate = self.ring.add(subscription)
        count = len(self.ring)
        if count == 1 and self._start_delay:
            self._start_task = event_loop.spawn(
                self._end_start_delay, name=f"dispatch start of {self._queue}"
            )
        elif self._consumers_to_start and count >= self._consumers_to_start:
            self._cancel_start_delay()
        self._rescan = True
        self._update_open()
        return candidate

    def remove_consumer(self, subscription: QueueSubscription) -> None:
        """Remove a consumer; its groups lose their owner (activemq-broker Q26)."""
        candidate = self.ring.remove(subscription)
        if candidate is None:
            return
        if self._groups is not None:
            self._groups.remove_owner(subscription)
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

    @property
    def is_delayed(self) -> bool:
        """Whether dispatch waits for more consumers, or for its delay."""
        return self._start_task is not None

    @property
    def offered_count(self) -> int:
        """The number of waiting messages that were read; the others are behind a full page."""
        return len(self.fresh) + len(self.waiting) + len(self.redelivered)

    @property
    def is_page_full(self) -> bool:
        """Whether messages wait behind as many as may be read, which no consumer has taken."""
        return bool(self.cursor) and len(self.fresh) + len(self.waiting) >= self._max_page_size

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
            or self._is_resting
            or not (self.is_idle or self._may_offer_new())
            or (self._memory.was_short and self._must_wait_for_memory())
        ):
            self.is_idle = False
            self.cursor.append(reference)
            if self._is_open:
                self.iterate()
            return
        self._iterating = True
        try:
            ring = self.ring
            has_ready = ring.ready if ring.exclusive is None else ring.exclusive.ready
            if not has_ready or not self._offer(reference):
                self.is_idle = False
                (self.waiting if self._has_ready() else self.fresh).append(reference)
                if self._reports_slow:
                    self._report_slow()
        finally:
            self._iterating = False
        if self._again:
            self.iterate()

    def on_arrivals(self, references: list[MessageReference]) -> None:
        """Dispatch new messages as `on_arrival` does each, to an only consumer in one round."""
        dispatched = self.send_at_once(references)
        if dispatched < len(references) and self._has_only_one_ready():
            self._iterating = True
            try:
                dispatched += self._deliver_run(self.ring.ready[0], references, dispatched)
            finally:
                self._iterating = False
        for reference in islice(references, dispatched, None):
            self.on_arrival(reference)
        if self._again:
            self.iterate()

    def _has_only_one_ready(self) -> bool:
        """Return whether new messages go to the only consumer, as long as it matches them."""
        return (
            len(self.ring) == 1
            and len(self.ring.ready) == 1
            and (self.is_idle or (self._may_offer_new() and self.is_idle))
            and self._is_open
            and not (self._iterating or self._is_resting or self._memory.was_short)
        )

    def send_at_once(self, references: list[MessageReference]) -> int:
        """Dispatch the first of these new messages to the only consumer in one step.

        Returns:
            How many; the others are as before.
        """
        if not self._has_only_one_ready():
            return 0
        candidate, statistics = self.ring.ready[0], self._queue.statistics
        subscription = candidate.subscription
        if not subscription.matches_all or subscription.is_full():
            return 0
        count = subscription.deliver_run(references)
        statistics.dispatched += count
        statistics.inflight += count
        if count and subscription.is_full():
            self.ring.rotate(candidate, 0, is_full=True)
        return count

    def _deliver_run(
        self, candidate: Candidate, references: list[MessageReference], begin: int
    ) -> int:
        """Dispatch these messages from `begin` on to the only consumer; return how many.

        It ends at a message that has to be offered, and with the consumer, which may be full or be
        removed while a message is dispatched to it.
        """
        subscription, statistics = candidate.subscription, self._queue.statistics
        if not subscription.matches_all or subscription.is_full():
            return 0
        context, count = subscription.context, 0
        for reference in islice(references, begin, None):
            message = reference.cached
            if (
                not candidate.ready
                or context.congested
                or message is None
                or message.target_consumer_id is not None
                or reference.group_id is not None
            ):
                break
            count += 1
            statistics.dispatched += 1
            statistics.inflight += 1
            if subscription.deliver(reference):
                self.ring.rotate(candidate, 0, is_full=True)
                break
        return count

    def _may_offer_new(self) -> bool:
        """Return whether a new message may be offered before those in the lists."""
        if self._rescan or self.cursor or self.fresh or self.redelivered:
            return False
        waiting = len(self.waiting)
        self.is_idle = not waiting
        return waiting < self._max_page_size

    def redeliver(self, references: list[MessageReference], at_head: bool) -> None:
        """Dispatch messages of a consumer that left, in order, before all others."""
        self.is_idle = False
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
                if self._is_memory_short:  # an acknowledgement may have freed some for others
                    self.iterate()
                return
            self.ring.add_ready(candidate)
            if not self.is_idle and (self.waiting or self.redelivered):
                self._rescan = True
        if not self.is_idle and (self._rescan or self.fresh or self.cursor):
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
        self.is_idle = not (self.fresh or self.cursor or self.waiting or self.redelivered)
        if self._reports_slow and not self.is_idle and self.pending_count:
            self._report_slow()

    def offer_later(self, seconds: float) -> None:
        """Offer all messages again in `seconds`, when a bridge may get those that are withheld."""
        due = _clock.now() + seconds
        if self._later_task is not None:
            if self._later <= due:
                return
            self._later_task.cancel()
        self._later = due
        self._later_task = event_loop.spawn(
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

    def _must_wait_for_memory(self) -> bool:
        """Return whether a new message waits in the store, because too many are in flight."""
        queue = self._queue
        return queue.is_paged and queue.statistics.inflight > 0 and queue.must_not_read()

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
        while acknowledgements can free some, or no consumer would get the message now.
        """
        queue = self._queue
        if self._expired_left <= 0:
            return True
        if queue.broker.store.state is StoreState.SUSPENDED:
            # acknowledgements of these messages could not be written, and would use memory
            self._resume_later()
            return True
        is_busy = queue.statistics.inflight > 0 or len(self.fresh) > 0 or not self._has_ready()
        self._is_memory_short = is_busy and queue.must_not_read()
        return self._is_memory_short

    def _resume_later(self, seconds: float = 0) -> None:
        if self._resume_task is None or self._resume_task.done:
            self._resume_task = event_loop.spawn(
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
        if reference.cached is None and not self._read_again(reference):
            return reference.dropped
        message = reference.cached
        is_for_all = message is not None and message.target_consumer_id is None
        meter = self._meter
        before = 0 if meter is None else meter.total
        ring = self.ring
        ready = ring.ready
        exclusive = ring.exclusive
        index = 0
        offered = False
        while index < len(ready):
            candidate = ready[index]
            subscription = candidate.subscription
            if subscription.is_full():
                ring.remove_ready(index)
            elif (
                (exclusive is None or candidate is exclusive)
                and ((subscription.matches_all and is_for_all) or subscription.matches(reference))
                and (reference.group_id is None or self._accepts_group(candidate, reference))
            ):
                statistics = self._queue.statistics
                statistics.dispatched += 1
                statistics.inflight += 1
                is_full = subscription.deliver(reference)
                if is_full or len(ring.candidates) > 1:
                    ring.rotate(candidate, index, is_full)
                offered = True
                break
            else:
                index += 1
        if meter is not None and meter.total - before > COSTLY:
            self._rest_after(meter, meter.total - before)
        return offered

    def _rest_after(self, meter: SelectorMeter, steps: int) -> None:
        """Count the steps of selectors that were costly; above a limit, pause."""
        self._costly_steps += steps
        pause = meter.rest_after(self._costly_steps)
        if pause:
            self._costly_steps = 0
            self._is_resting = True
            self._resume_later(pause)

    def _read_again(self, reference: MessageReference) -> bool:
        """Read a message that has left memory; return False if that failed.

        It is dropped if its store does not have it any more, else it is offered again later.
        """
        try:
            if reference.load():
                return True
        except JMSException as error:
            log_paging_failure(self._queue, error, self._resume_task)
            self._is_resting = self._rescan = True
            self._resume_later(PAGING_RETRY_DELAY)
        else:
            self._queue.drop(reference)
        return False

    def _accepts_group(self, candidate: Candidate, reference: MessageReference) -> bool:
        groups = self._groups or self.groups
        accepted = groups.accepts(candidate, reference)
        if groups.is_rescan_due:
            groups.is_rescan_due = False
            self._rescan = self._again = True
        return accepted


class QueueContents:
    """The messages of one queue."""

    def __init__(
        self, queue: BaseDestination, store: MessageStore | None, temp_store: TempStore | None
    ) -> None:
        """Start with the store's messages; without a store all messages stay in memory."""
        self.references: dict[MessageReference, None] = {}
        self.excluded: set[Position] | None = None
        """Positions that a prioritized source must not page in: those of `references` and of
        `dead_letter_ordering`. None without priorities, where the last position that was read
        is sufficient."""
        self._queue = queue
        self._store = store
        self._store_source: StoreSource | None = None
        self._unstored: SpoolSource | MemorySource | None = None
        prioritized = queue.policy.prioritized_messages
        if store is not None and prioritized:
            self.excluded = set()
        self._ordering = None if store is None else DeadLetterOrdering(self.excluded)
        self.cursor: PendingCursor
        if store is None:
            self.cursor = pending_list(prioritized)
        else:
            self.cursor = self._make_cursor(store, temp_store, prioritized)

    def _make_cursor(
        self, store: MessageStore, temp_store: TempStore | None, prioritized: bool
    ) -> PendingCursor:
        queue = self._queue
        recovered = store.message_count
        queue.statistics.messages += recovered
        if self.excluded is not None:
            self._store_source = PrioritizedStoreSource(
                store.next_messages, self._page_in, self.excluded, recovered, queue.page_limit
            )
        else:
            self._store_source = StoreSource(
                store.next_messages,
                self._page_in,
                recovered,
                self.dead_letter_ordering.positions,
                queue.page_limit,
            )
        if temp_store is None:
            self._unstored = MemorySource(prioritized)
        else:
            self._unstored = SpoolSource(
                temp_store, str(queue), self._page_in_spooled, prioritized, self._on_lost
            )
        in_memory = queue.policy.pending_queue_policy == "vmQueueCursor"
        cursor = (PrioritizedSpillingCursor if prioritized else SpillingCursor)(
            str(queue),
            self._source_of,
            never_short if in_memory else queue.is_memory_short,
            self._on_spilled,
            queue.policy.max_page_size,
            UNLIMITED if in_memory else MOST_CACHED,
        )
        cursor.add_source(self._store_source)
        cursor.add_source(self._unstored)
        if in_memory:
            cursor.read_ahead(UNLIMITED)
        return cursor

    @property
    def dead_letter_ordering(self) -> DeadLetterOrdering:
        """The messages whose dead letters are being stored."""
        found = self._ordering
        if found is None:
            found = self._ordering = DeadLetterOrdering(self.excluded)
        return found

    def _source_of(self, reference: MessageReference) -> MessageSource:
        source = self._unstored if reference.position is None else self._store_source
        assert source is not None, "only a spilling cursor needs a source"
        return source

    # into and out of memory
    def add(self, reference: MessageReference) -> None:
        """Add a message to those in memory; its size is already counted."""
        self.references[reference] = None
        ordering = self._ordering
        if ordering is not None and (ordering.positions or self.excluded is not None):
            ordering.entered_memory(reference.position)

    def mark_visible(self, reference: MessageReference) -> None:
        """Mark a message visible in the store: the queue counts it and has it in memory."""
        if self._store is not None and self._store_source is not None and reference.position:
            self._store.mark_visible(reference)
            self._store_source.mark_visible(reference.position)

    def remove(self, reference: MessageReference) -> None:
        """Remove a message from memory; the caller subtracts its size."""
        del self.references[reference]
        if self.excluded is not None:
            self.dead_letter_ordering.left_memory(reference.position)

    def _on_lost(self, count: int) -> None:
        self._queue.statistics.messages -= count

    def _on_spilled(self, reference: MessageReference) -> None:
        self.remove(reference)
        self._queue.memory.decrease(reference.size)

    def _page_in(self, stored: StoredMessage) -> MessageReference:
        return self._add_paged_in(self._queue.reference_to(stored.message, stored.position))

    def _page_in_spooled(self, spooled: SpooledMessage) -> MessageReference:
        reference = self._queue.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        return self._add_paged_in(reference)

    def _add_paged_in(self, reference: MessageReference) -> MessageReference:
        self._queue.memory.increase(reference.size)
        self.add(reference)
        return reference

    # browsing and searching
    def __iter__(self) -> Iterator[MessageReference]:
        """Iterate over all messages, first those in memory; new ones may be missed."""
        in_memory = tuple(self.references)
        yield from in_memory
        if self._store is not None and self._store_source is not None and len(self._store_source):
            yield from self._browse_store(self._store, in_memory)
        if isinstance(self._unstored, SpoolSource):
            for _, spooled in self._unstored.browse(self._page_size):
                yield self._queue.reference_to(spooled.message)

    def _browse_store(
        self, store: MessageStore, in_memory: tuple[MessageReference, ...]
    ) -> Iterator[MessageReference]:
        assert self._store_source is not None
        after = self._store_source.first_after
        skip = frozenset(self.dead_letter_ordering.positions)
        if self.excluded is not None:
            skip = skip.union(r.position for r in in_memory if r.position is not None)
        while page := store.next_messages(after, self._page_size, skip):
            for stored in page:
                yield self._queue.reference_to(stored.message, stored.position)
            after = page[-1].position

    @property
    def _page_size(self) -> int:
        return self._queue.policy.max_page_size

    def find(self, message_id: MessageId) -> MessageReference | None:
        """Return the message with this id; None if there is none."""
        for reference in self.references:
            if reference.message_id == message_id:
                return reference
        return self.find_paged_out(message_id)

    def find_paged_out(self, message_id: MessageId) -> MessageReference | None:
        """Return the message with this id if it is not in memory; None if there is none."""
        if self._store is not None and self._store_source is not None and len(self._store_source):
            stored = self._store.get_message(message_id)
            if stored is not None and self._store_source.is_paged_out(stored.position):
                return self._queue.reference_to(stored.message, stored.position)
        if isinstance(self._unstored, SpoolSource):
            for _, spooled in self._unstored.browse(self._page_size):
                if spooled.message.message_id == message_id:
                    return self._queue.reference_to(spooled.message)
        return None

    # paged-out messages
    def in_memory(self, reference: MessageReference) -> MessageReference | None:
        """Return the reference in memory to the same message; None if it is not in memory."""
        if reference in self.references:
            return reference
        position, message_id = reference.position, reference.message_id
        return next(
            (r for r in self.references if r.message_id == message_id and r.position == position),
            None,
        )

    def first_paged_out(self, limit: int) -> list[MessageReference]:
        """Return new references to the first `limit` paged-out messages without removing them."""
        found = self.first_stored(limit)
        if isinstance(self._unstored, SpoolSource):
            spooled = islice(self._unstored.browse(limit), limit - len(found))
            found += [self._queue.reference_to(each.message) for _, each in spooled]
        return found

    def first_stored(self, limit: int) -> list[MessageReference]:
        """Return new references to the first `limit` messages that only the store has."""
        page = [] if self._store_source is None else self._store_source.first_paged_out(limit)
        return [self._queue.reference_to(stored.message, stored.position) for stored in page]

    def pop_spooled(self, limit: int) -> list[MessageReference]:
        """Remove and return the first `limit` messages in the temp store."""
        if not isinstance(self._unstored, SpoolSource):
            return []
        removed = self._unstored.pop(limit)
        if isinstance(self.cursor, SpillingCursor):
            self.cursor.end_spilling_if_empty()
        return [self._queue.reference_to(spooled.message) for spooled in removed]

    def move_spooled(self, accept: Callable[[MessageReference], None], page_size: int) -> None:
        """Pass each message of the temp store to `accept`, then remove it from the temp store.

        An exception of `accept` is propagated: that message and those behind it stay.
        """
        if not isinstance(self._unstored, SpoolSource):
            return
        for spool, spooled in self._unstored.browse(page_size):
            reference = self._queue.reference_to(spooled.message)
            reference.redelivery_counter = spooled.redelivery_counter
            accept(reference)
            if spool.remove(spooled):
                self._queue.statistics.messages -= 1
        if isinstance(self.cursor, SpillingCursor):
            self.cursor.end_spilling_if_empty()

    def may_be_paged_out(self, reference: MessageReference) -> bool:
        """Return whether the message may be among the paged-out ones.

        The result is exact for a stored message; only `remove_paged_out` finds a spooled one.
        """
        source, position = self._store_source, reference.position
        if position is None or source is None:
            return source is not None
        return len(source) > 0 and source.is_paged_out(position)

    def remove_paged_out(self, reference: MessageReference) -> bool:
        """Remove a paged-out message, except from the store; return whether it was there."""
        return isinstance(self.cursor, SpillingCursor) and self.cursor.remove_paged_out(reference)

    @property
    def paged_out_count(self) -> int:
        """Return the number of paged-out messages."""
        return self.cursor.paged_out_count if isinstance(self.cursor, SpillingCursor) else 0


class QueueReader(Protocol):
    """Reads a queue by arrival numbers without consuming; implemented by filters.

    The queue notifies it of its messages, during a lease and afterwards. No call blocks.
    """

    is_leased: bool
    """Whether a lease is active, during which every message is stored, becomes visible only
    once it is stored, and is removed only by the reader."""

    def on_arrival(self, reference: MessageReference) -> None:
        """Record a message that has become visible, in the order of the arrival numbers."""

    def keeps(self, reference: MessageReference) -> bool:
        """Return whether the message must not expire, because it may be read again."""

    def may_purge(self) -> bool:
        """Return whether all messages may be removed; then earlier ranges cannot be read again."""


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

    marks_redelivered: bool = False
    _has_checked_priority: bool = False
    """Whether a message had a priority, so that it has been told if priorities have no effect.

    Set when it happens: with one more attribute from the start, CPython would no longer share the
    names of a queue's attributes with other queues, which costs each 1.3 kB.
    """
    _browsers: tuple[Subscription, ...] = ()
    _oldest_paged_out: int = 0
    """When the first paged-out message arrived."""
    _oldest_known: int = -1
    """The numbers of messages and removals at which it was read."""

    def __init__(
        self,
        broker: RegionBroker,
        destination: Destination,
        policy: PolicyEntry,
        store: MessageStore | None,
    ) -> None:
        """Create a queue with the messages of `store`, which is None for temporary queues."""
        super().__init__(broker, destination, policy)
        self.store: MessageStore | None = store
        self.is_paged = store is not None and not broker.store_capabilities.is_volatile
        self.contents = QueueContents(self, store if self.is_paged else None, broker.temp_store)
        self.references = self.contents.references
        """The messages in memory."""
        self.reader: QueueReader | None = None
        """The range reader (`pyjms_broker.filters.ranges`) that has or had a lease of the queue."""
        self._tracks_positions = self.contents.excluded is not None
        self.dispatcher = QueueDispatcher(self, policy, self.contents.cursor)
        self._audit = None
        self._is_audited = policy.enable_audit
        self._arrivals: ArrivalOrder | None = None
        self._is_concurrent = broker.store_capabilities.concurrent_store_and_dispatch_queues
        self._unstored = _NONE_UNSTORED
        if policy.persist_jms_redelivered and store is not None:
            self.marks_redelivered = True
        if self.is_paged:
            self.needs_disk = True

    def memory_holders(self) -> Iterable[Holder]:
        return (self,) if self.is_paged else ()

    def leave_memory(self, *, is_full: bool) -> None:
        """Make stored messages leave memory; see `MemoryRelief`."""
        dispatcher, freed = self.dispatcher, 0
        if not (is_full or self.statistics.inflight or dispatcher.redelivered):
            return
        for reference in self.references:
            owner = reference.owner
            if reference.cached is None:
                continue
            if isinstance(owner, QueueSubscription):  # an advisory or a mark may need the message
                is_advised = self.policy.advisory_for_consumed
                may_leave = owner.redelivery_marking is None and not is_advised
            else:
                may_leave = is_full or reference in dispatcher.redelivered
            if may_leave:
                freed += reference.leave_memory()
        if freed:
            self.memory.decrease(freed)

    @property
    def consumers(self) -> list[Subscription]:
        return [*self.dispatcher.ring.candidates, *self._browsers]

    def change_policy(self, policy: PolicyEntry) -> frozenset[str]:
        kept = super().change_policy(policy)
        self.dispatcher.change_policy(self.policy)
        self.marks_redelivered = policy.persist_jms_redelivered and self.store is not None
        return kept

    def send_run(self, exchange: ProducerExchange, messages: list[ActiveMQMessage]) -> int:
        """Accept the first of these messages together; return how many; see `take_run`."""
        if self.reader is not None:
            return 0
        transaction = exchange.transaction
        is_stored = transaction is None and self.store is not None
        run = self.take_run(exchange, messages, is_stored=is_stored)
        if not run:
            return 0
        if transaction is not None:
            return self._add_run(exchange, transaction, run)
        statistics, size = self.statistics, 0
        for reference in run:
            size += reference.size
            if not statistics.min_size <= reference.size <= statistics.max_size:
                statistics.new_extreme_size(reference.size)
            if self._tracks_positions:
                self.contents.add(reference)
            else:
                self.references[reference] = None
        statistics.enqueues += len(run)
        statistics.messages += len(run)
        statistics.total_size += size
        self.memory.increase(size)
        self.dispatcher.on_arrivals(run)
        return len(run)

    def _add_run(
        self, exchange: ProducerExchange, transaction: Transaction, run: list[MessageReference]
    ) -> int:
        """Add messages to a transaction, as far as the store takes them; return how many."""
        context, store, size = OperationContext(transaction.xid), self.store, 0
        for count, reference in enumerate(run):
            size += reference.size
            if store is not None and reference.persistent:
                try:
                    stored = store.add_message(context, reference)
                    if stored is not COMPLETED:
                        report = partial(self.report_lost, exchange.context, reference)
                        completion_of(stored, store, "add_message").then(report)
                except Exception:
                    size -= reference.size
                    for untaken in run[count:]:  # `send` raises it again for the first of them
                        self.forget_duplicate(untaken)
                    del run[count:]
                    break
        self.memory.increase(size)
        self._add_to(transaction, run)
        return len(run)

    def _add_to(self, transaction: Transaction, references: list[MessageReference]) -> None:
        """Make messages part of a transaction, together with those before them if they are ours."""
        latest = transaction.latest
        if isinstance(latest, TransactedSends) and latest.reference.destination is self:
            latest.references += references
        elif references:
            transaction.add(
                TransactedSends(transaction, references, self._on_committed, self._discard)
            )

    def accept(self, exchange: ProducerExchange, reference: MessageReference) -> Completion:
        context, transaction = exchange.context, exchange.transaction
        audit = self._audit
        if audit is None and self._is_audited:
            audit = self._audit = MessageAudit(
                self.policy.max_queue_audit_depth, self.policy.max_producers_to_audit
            )
        if audit is not None and audit.is_duplicate(reference.message_id):
            check_return(self.broker.own_path, self.references, reference)
            return COMPLETED
        if reference.priority not in USUAL_PRIORITIES and not self._has_checked_priority:
            self._check_priority(context, reference)
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
                if type(stored) is not Completion:
                    completion_of(stored, store, "add_message")
            except Exception:
                self._discard(reference)
                raise
        if transaction is not None:
            self._add_to(transaction, [reference])
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
            stored.on_failure(lambda done: self._remove_if_unstored(context, reference, done))
            self._enqueue(reference)
        else:
            if stored is not COMPLETED:
                stored.then(lambda done: self.report_lost(context, reference, done))
            (self._arrivals or self._keep_order()).append(reference, stored)
        message = reference.cached or reference.message
        return stored if message.response_required else COMPLETED

    def _check_priority(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Log once that a priority has no effect; not for dead letters, which keep theirs."""
        if context.is_broker:
            return
        self._has_checked_priority = True
        if not (self.policy.prioritized_messages or self.destination.is_temporary):
            logger.warning(
                "Messages to %s have priorities, such as %d of %s, but it dispatches them in the "
                "order of their arrival: set prioritized_messages in its policy",
                self.destination,
                reference.priority,
                reference.message_id,
            )

    def _keep_order(self) -> ArrivalOrder:
        arrivals = self._arrivals = ArrivalOrder(self._enqueue, self._discard)
        self._unstored = arrivals.messages
        return arrivals

    def _remove_if_unstored(
        self, context: ConnectionContext, reference: MessageReference, stored: Completion
    ) -> None:
        """Remove a message that could not be stored, unless it was already dispatched."""
        self.report_lost(context, reference, stored)
        self.forget_duplicate(reference)
        in_memory = None if reference.dropped else self.contents.in_memory(reference)
        if in_memory is not None and in_memory.owner is None:
            self.dispatcher.remove(in_memory)
            self.drop(in_memory)

    def _on_committed(self, references: list[MessageReference]) -> None:
        stores, count = self.store is not None, 0
        if len(references) > 1 and self.reader is None and not self.reports_arrivals:
            stored = [each for each in references if not each.persistent or each.position]
            if len(stored) == len(references) or not stores:  # none is a duplicate
                count = self._enqueue_run(references)
        failure: Exception | None = None
        for reference in islice(references, count, None):
            try:
                if reference.position is None and reference.persistent and stores:
                    self._drop_duplicate(reference)
                else:
                    self._enqueue(reference)
            except Exception as error:  # of a filter: the others are committed as well
                failure = failure or error
        if failure is not None:
            raise failure

    def _enqueue_run(self, references: list[MessageReference]) -> int:
        """Enqueue the first of these messages, as many as are sent in one step; return how many.

        The others are not touched: which of them wait in memory is decided for each.
        """
        count = self.dispatcher.send_at_once(references)
        statistics = self.statistics
        for reference in islice(references, count):
            statistics.total_size += reference.size
            if not statistics.min_size <= reference.size <= statistics.max_size:
                statistics.new_extreme_size(reference.size)
            if self.is_paged and reference.position is not None:
                self.contents.mark_visible(reference)
            if self._tracks_positions:
                self.contents.add(reference)
            else:
                self.references[reference] = None
        statistics.enqueues += count
        statistics.messages += count
        if count and self.watchers:
            self.notify_watchers()
        return count

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
        if self.is_paged and reference.position is not None:
            self.contents.mark_visible(reference)
        if self._tracks_positions:
            self.contents.add(reference)
        else:
            self.references[reference] = None
        self.dispatcher.on_arrival(reference)
        if self.reader is not None:
            self.reader.on_arrival(reference)
        if self.reports_arrivals:
            self.report_delivered(reference)
            if not self.consumers:
                self.report_no_consumer(reference)
        if self.watchers:
            self.notify_watchers()

    def _discard(self, reference: MessageReference, _error: Exception | None = None) -> None:
        self.memory.decrease(reference.size)
        self.forget_duplicate(reference)

    def hide(self, stored: StoredMessage, key: SubscriptionKey | None) -> MessageReference:
        reference = self.reference_to(stored.message, stored.position)
        self.contents.remove_paged_out(reference)
        self.memory.increase(reference.size)
        self.contents.add(reference)
        reference.acked = True
        self.statistics.messages -= 1  # nobody can get it
        return reference

    def forget_hidden(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        self.statistics.messages += 1
        self.drop(reference)

    def restore(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        reference.acked = False
        if not reference.dropped:
            self.statistics.messages += 1
            self.contents.mark_visible(reference)
            self.dispatcher.on_arrival(reference)

    def mark_redelivered(self, reference: MessageReference) -> Completion:
        """Record in the store, if necessary, that the message may have been delivered."""
        is_marked = reference.position is None or reference.redelivery_counter
        if self.store is None or not self.marks_redelivered or is_marked:
            return COMPLETED
        marked = copy_command(reference.message)
        marked.redelivery_counter = 1
        copy = self.reference_to(marked, reference.position)
        return completion_of(self.store.update_message(copy), self.store, "update_message")

    def store_acknowledgement(
        self, context: OperationContext, reference: MessageReference, key: SubscriptionKey | None
    ) -> Completion:
        store = self.store
        if store is None or not reference.persistent:
            return COMPLETED
        removed = store.remove_message(context, reference)
        return removed if removed is COMPLETED else completion_of(removed, store, "remove_message")

    def _dead_letter_ordering(self, key: SubscriptionKey | None) -> DeadLetterOrdering | None:
        return None if self.store is None else self.contents.dead_letter_ordering

    def on_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.drop(reference)
        if self.reports_consumed:
            self.report_consumed(context, reference)

    def on_consumed_run(
        self, context: ConnectionContext, references: list[MessageReference]
    ) -> None:
        """Remove messages that one consumer has acknowledged together.

        What is raised for one of them is raised once all are removed.
        """
        if self.reports_consumed or self.watchers:
            failure: Exception | None = None
            for reference in references:
                try:
                    self.on_consumed(context, reference)
                except Exception as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return
        count = owned = size = 0
        for reference in references:
            if reference.dropped:
                continue
            reference.dropped = True
            if reference.owner is not None:
                reference.owner = None
                owned += 1
            count += 1
            size += reference.size
            if self._tracks_positions:
                self.contents.remove(reference)
            else:
                del self.references[reference]
        statistics = self.statistics
        statistics.inflight -= owned
        statistics.dequeues += count
        statistics.messages -= count
        self.memory.decrease(size)

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
            self.notify_watchers()

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
            self.notify_watchers()

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
            self._browsers = (*self._browsers, subscription)
            subscription.destinations.append(self)

    def _has_subscription(self, subscription: Subscription) -> bool:
        return subscription in self.dispatcher.ring.candidates or subscription in self._browsers

    def _detach(self, subscription: Subscription, last_delivered_sequence_id: int) -> None:
        if isinstance(subscription, QueueSubscription):
            self.dispatcher.remove_consumer(subscription)
            subscription.detach(self, last_delivered_sequence_id)
            self.dispatcher.iterate()
        else:
            self._browsers = tuple(each for each in self._browsers if each is not subscription)
            subscription.destination_removed(self)

    def messages(self) -> Iterator[MessageReference]:
        for reference in self.contents:  # mypyc evaluates a generator expression eagerly
            if not reference.acked:
                yield reference

    def oldest_arrival(self) -> int:
        """Return when the first message arrived, in ms since 1970; 0: there is none, or unknown.

        Messages in memory are before those that are paged out, of which the first is read from
        the store once.
        """
        for reference in self.references:
            return (reference.cached or reference.message).broker_in_time
        if not self.contents.paged_out_count:
            return 0
        statistics = self.statistics
        known = (statistics.dequeues << 40) + statistics.messages
        if self._oldest_known != known:
            page = self.contents.first_paged_out(1)
            self._oldest_known = known
            self._oldest_paged_out = page[0].message.broker_in_time if page else 0
        return self._oldest_paged_out

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
            self.notify_watchers()
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
        self.on_expired(self.broker.context, reference, None)
        self.forget_duplicate(reference)

    def expire_messages(self) -> None:
        """Expire the expired among the first `max_expire_page_size` undispatched messages."""
        if self.dispatcher.is_paused:
            return
        page = self.policy.max_expire_page_size
        scanned = list(islice(self.references, page))
        for reference in scanned:
            is_waiting = reference.owner is None and not (reference.dropped or reference.acked)
            if is_waiting and self._may_expire(reference):
                self.dispatcher.remove(reference)
                self.expire(reference)
        for reference in self.contents.first_paged_out(page - len(scanned)):
            if self._may_expire(reference) and self.contents.may_be_paged_out(reference):
                self.count_expired(reference)
                self.remove_paged_out(reference)
        self.dispatcher.iterate()

    def _may_expire(self, reference: MessageReference) -> bool:
        reader = self.reader
        return reference.is_expired() and not (reader is not None and reader.keeps(reference))

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
