"""A queue that is, or was, read by its numbers: what it shows, keeps and gives up.

While it is leased nothing is dispatched, everything that comes is stored, and shown when it is.
So all numbers below `next` are settled: the message is there to be read, or never will be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import anyio

from broker.api.message import NO_TRANSACTION, Position, StoredMessage
from broker.ranges.marks import Mark, Marks
from broker.ranges.protocol import RangesError
from broker.ranges.reading import first_arrival, messages_between
from broker.region.queue.queue import Queue
from broker.store.api import MessageStore
from pyjms import _clock

if TYPE_CHECKING:
    from broker.api.message import MessageReference

__all__ = ["QueueReading"]

logger = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 0.02
_AT_ONCE: Final = 200
_EPOCHS_APART: Final = 1000
_BEHIND_ALL_WITHOUT_PRIORITY: Final = Position(0, 2**62)


class QueueReading:
    """The queue's `reader`, from its first lease on."""

    def __init__(self, queue: Queue, store: MessageStore, marks: Marks, epoch: int) -> None:
        """Begin with what `marks` know; `epoch` changes when the queue is made anew."""
        self.is_leased = False
        self.next = 1
        """The number behind the last settled one."""
        self.first = 1
        """The number of the first message that is kept, or `next`."""
        self._queue = queue
        self._store = store
        self._marks = marks
        self._epoch = epoch
        self._is_volatile = queue.broker.store_capabilities.is_volatile
        self._prioritized = queue.policy.prioritized_messages
        self._was_paused = False
        self._holder: object = None
        self._news = anyio.Event()

    # what the queue asks
    def arrived(self, reference: MessageReference) -> None:
        if not self.is_leased:
            return
        if reference.position is None:  # sent without need of a store, in an older transaction
            self._take_out(reference)
            self._come_again(reference)
            return
        if self._is_volatile:
            self._store.mark_visible(reference)
        if reference.position.arrival >= self.next:
            self.next = reference.position.arrival + 1
            news, self._news = self._news, anyio.Event()
            news.set()

    def keeps(self, reference: MessageReference) -> bool:
        position = reference.position
        return position is not None and position.arrival < self.mark.held

    def may_purge(self) -> bool:
        if self.is_leased:
            logger.warning("%s is being read by its numbers: it is not purged", self._queue)
            return False
        mark = self.mark
        self._marks.note(self._queue.destination, Mark(mark.held, mark.changes + 1))
        return True

    # what leases ask
    @property
    def mark(self) -> Mark:
        """What is remembered of the queue."""
        return self._marks.of(self._queue.destination)

    @property
    def epoch(self) -> int:
        """Which numbering it is."""
        return self._epoch * _EPOCHS_APART + self.mark.changes

    @property
    def message_count(self) -> int:
        """How many messages the store has."""
        return self._store.message_count

    @property
    def message_size(self) -> int:
        """How many bytes they are, as memory counts them."""
        return self._store.message_size

    async def open(self, holder: object, wait: float) -> None:
        """Have the queue for `holder` alone; `wait` seconds for what consumers have.

        Who had it has it no more.

        Raises:
            RangesError: in_flight, consumers still have messages.
            JMSException: the store fails.
        """
        queue = self._queue
        self._holder = holder
        if not self.is_leased:
            self._was_paused = queue.dispatcher.is_paused
            queue.pause()
            self.is_leased = True
        try:
            await self._wait_for_consumers(wait)
            self._store_all()
            self.next = self._store.last_arrival + 1
            await self._marks.set(queue.destination, self.mark)  # all before it is stored now
            if self._store.next_messages(_BEHIND_ALL_WITHOUT_PRIORITY, 1):
                self._prioritized = True  # the policy was another one when these came
            self.first = self._first()
        except BaseException:
            self.close(holder)
            raise

    def close(self, holder: object) -> None:
        """Let the queue go, if `holder` has it."""
        if self._holder is not holder:
            return
        self._holder = None
        self.is_leased = False
        if not self._was_paused:
            self._queue.resume()

    async def wait_for_more(self, than: int, seconds: float) -> None:
        """Wait until `next` is greater than a number, `seconds` at most."""
        with _clock.timeout(seconds):
            while self.next <= than:
                await self._news.wait()

    def glance(self) -> None:
        """Bring `first` and `next` up to date without a lease: consumers may take what is there."""
        if self.is_leased:
            return
        if self._is_volatile:
            for reference in self._queue.references:
                self._store.mark_visible(reference)
        self.next = self._store.last_arrival + 1
        self.first = self._first()

    async def hold(self, end: int) -> None:
        """Promise that the messages before `end` are read again as they are, until trimmed."""
        self.check(end)
        mark = self.mark
        if end > mark.held:
            await self._marks.set(self._queue.destination, Mark(end, mark.changes))

    def check(self, end: int) -> None:
        """Check that the numbers before `end` are settled.

        Raises:
            RangesError: ahead.
        """
        if end > self.next:
            raise RangesError(
                "ahead", f"{self._queue} has no messages from {self.next} on, and {end} was named"
            )

    def messages(self, start: int, end: int) -> Iterator[StoredMessage]:
        """Go through the messages from `start` on, before `end`; a page is read at a time.

        Raises:
            RangesError: trimmed, or ahead.
        """
        self.check(end)
        if start < self.first:
            raise RangesError(
                "trimmed", f"{self._queue} begins with {self.first}, and {start} was named"
            )
        return messages_between(self._store, start, end, prioritized=self._prioritized)

    def messages_left(self, start: int, end: int) -> Iterator[StoredMessage]:
        """Go through those of a range that nobody has taken yet."""
        return messages_between(self._store, start, end, prioritized=self._prioritized)

    def reference_to(self, stored: StoredMessage) -> MessageReference:
        """Return a reference to a message that was read, for selectors."""
        return self._queue.reference_to(stored.message, stored.position)

    async def trim(self, end: int) -> None:
        """Remove the messages before `end`; it is on the disk when this returns.

        Raises:
            RangesError: ahead.
        """
        self.check(end)
        if end <= self.first:
            return
        removed = await self._remove_from_memory(end)
        removed += await self._remove_outside(end)
        self.first = max(self.first, end)
        if removed:
            await self._marks.set(self._queue.destination, self.mark)

    # inside
    async def _wait_for_consumers(self, seconds: float) -> None:
        queue, until = self._queue, _clock.now() + seconds
        while queue.statistics.inflight or any(r.acked for r in queue.references):
            if _clock.now() >= until:
                raise RangesError(
                    "in_flight",
                    f"Consumers of {queue} have {queue.statistics.inflight} messages, or prepared "
                    "transactions have acknowledged some",
                )
            await _clock.sleep(_LOOK_AGAIN)

    def _store_all(self) -> None:
        """Have the store keep what only memory has; it gets the last numbers."""
        queue = self._queue
        for reference in tuple(queue.references):
            if reference.position is None:
                self._take_out(reference)
                self._come_again(reference)
            elif self._is_volatile:
                self._store.mark_visible(reference)
        while spooled := queue.contents.take_spooled(_AT_ONCE):
            for reference in spooled:
                queue.statistics.messages -= 1
                self._come_again(reference)

    def _take_out(self, reference: MessageReference) -> None:
        self._queue.dispatcher.forget(reference)
        self._queue.drop(reference)
        self._queue.statistics.dequeues -= 1

    def _come_again(self, reference: MessageReference) -> None:
        queue = self._queue
        fresh = queue.reference_to(reference.message)
        fresh.redelivery_counter = reference.redelivery_counter
        queue.forget_duplicate(fresh)
        queue.statistics.enqueues -= 1
        queue.accept(queue.broker.context, fresh)

    def _first(self) -> int:
        first = first_arrival(self._store, prioritized=self._prioritized)
        return self.next if first is None else min(first, self.next)

    async def _remove_from_memory(self, end: int) -> int:
        queue = self._queue
        held = (r for r in queue.references if r.position is not None and r.position.arrival < end)
        removed = 0
        for reference in tuple(held):
            queue.dispatcher.forget(reference)
            queue.store_removal(NO_TRANSACTION, reference)
            queue.drop(reference)
            removed += 1
            if removed % _AT_ONCE == 0:
                await _clock.sleep(0)
        return removed

    async def _remove_outside(self, end: int) -> int:
        queue = self._queue
        removed = 0
        for stored in messages_between(self._store, 1, end, prioritized=self._prioritized):
            queue.remove_outside(queue.broker.context, self.reference_to(stored))
            removed += 1
            if removed % _AT_ONCE == 0:
                await _clock.sleep(0)
        return removed
