"""The reader attached to a queue that is, or was, read by number.

While the queue is leased nothing is dispatched, and every arriving message is stored and becomes
visible once it is stored. All numbers below `next` are therefore settled: their messages can be
read now, or never. `leases` has the theory of operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import anyio

from pyjms import _clock
from pyjms._forwarding import DelegatedAttribute
from pyjms._logger import get_logger
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.message import NO_TRANSACTION, Position, StoredMessage
from pyjms_broker.ranges.progress import Progress, ProgressRecords
from pyjms_broker.ranges.protocol import RangesError
from pyjms_broker.ranges.reading import first_arrival, messages_between
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.store.api import MessageStore

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["QueueReading"]

logger = get_logger(__name__)

_POLL_INTERVAL: Final = 0.02
_BATCH: Final = 200
_EPOCHS_APART: Final = 1000
_AFTER_ALL_WITHOUT_PRIORITY: Final = Position(0, 2**62)


class QueueReading:
    """The `reader` of a queue, from its first lease on."""

    def __init__(
        self, queue: Queue, store: MessageStore, progress: ProgressRecords, epoch: int
    ) -> None:
        """Start with the stored progress; `epoch` differs for each creation of the queue."""
        self.is_leased = False
        self.next = 1
        """The number after the last settled one."""
        self.first = 1
        """The number of the first message in the store, or `next`."""
        self._queue = queue
        self._store = store
        self._progress = progress
        self._epoch = epoch
        self._is_volatile = queue.broker.store_capabilities.is_volatile
        self._prioritized = queue.policy.prioritized_messages
        self._was_paused = False
        self._holder: object = None
        self._changed = anyio.Event()

    # called by the queue
    def arrived(self, reference: MessageReference) -> None:
        if not self.is_leased:
            return
        if reference.position is None:  # unstored, sent in a transaction begun before the lease
            self._withdraw(reference)
            self._store_again(reference)
            return
        if self._is_volatile:
            self._store.mark_visible(reference)
        if reference.position.arrival >= self.next:
            self.next = reference.position.arrival + 1
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    def keeps(self, reference: MessageReference) -> bool:
        position = reference.position
        return position is not None and position.arrival < self.progress.held

    def may_purge(self) -> bool:
        if self.is_leased:
            logger.warning("%s is being read by its numbers: it is not purged", self._queue)
            return False
        progress = self.progress
        self._progress.note(self._queue.destination, Progress(progress.held, progress.changes + 1))
        return True

    # called by leases and operations
    @property
    def progress(self) -> Progress:
        """The progress record of the queue."""
        return self._progress.of(self._queue.destination)

    @property
    def epoch(self) -> int:
        """The epoch of the numbering, which changes when numbers become invalid."""
        return self._epoch * _EPOCHS_APART + self.progress.changes

    message_count = DelegatedAttribute[int](
        attrgetter("_store"), "The number of messages in the store.", read_only=True
    )
    message_size = DelegatedAttribute[int](
        attrgetter("_store"), "Their size in bytes, as counted for memory usage.", read_only=True
    )

    async def open(self, holder: object, wait: float) -> None:
        """Give the queue exclusively to `holder`, waiting up to `wait` seconds for consumers.

        A previous holder loses the queue.

        Raises:
            RangesError: in_flight, if consumers still have messages.
            JMSException: the store failed.
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
            await self._progress.set(
                queue.destination, self.progress
            )  # syncs everything stored before it
            if self._store.next_messages(_AFTER_ALL_WITHOUT_PRIORITY, 1):
                self._prioritized = True  # stored under another policy
            self.first = self._first()
        except BaseException:
            self.close(holder)
            raise

    def close(self, holder: object) -> None:
        """Release the queue, if `holder` has it."""
        if self._holder is not holder:
            return
        self._holder = None
        self.is_leased = False
        if not self._was_paused:
            self._queue.resume()

    async def wait_for_more(self, than: int, seconds: float) -> None:
        """Wait up to `seconds` until `next` is greater than `than`."""
        with _clock.timeout(seconds):
            while self.next <= than:
                await self._changed.wait()

    def refresh(self) -> None:
        """Update `first` and `next` without a lease; consumers may still remove messages."""
        if self.is_leased:
            return
        if self._is_volatile:
            for reference in self._queue.references:
                self._store.mark_visible(reference)
        self.next = self._store.last_arrival + 1
        self.first = self._first()

    async def hold(self, end: int) -> None:
        """Guarantee that messages before `end` can be read again unchanged until trimmed."""
        self.check(end)
        progress = self.progress
        if end > progress.held:
            await self._progress.set(self._queue.destination, Progress(end, progress.changes))

    def check(self, end: int) -> None:
        """Check that the numbers before `end` are settled.

        Raises:
            RangesError: ahead.
        """
        if end > self.next:
            raise RangesError(
                "ahead",
                f"The messages of {self._queue} end before {self.next}, but {end} was requested",
            )

    def messages(self, start: int, end: int) -> Iterator[StoredMessage]:
        """Iterate over the messages with numbers in `start <= number < end`, reading by pages.

        Raises:
            RangesError: trimmed, or ahead.
        """
        self.check(end)
        if start < self.first:
            raise RangesError(
                "trimmed",
                f"The messages of {self._queue} begin at {self.first}, but {start} was requested",
            )
        return messages_between(self._store, start, end, prioritized=self._prioritized)

    def messages_left(self, start: int, end: int) -> Iterator[StoredMessage]:
        """Iterate over the messages of a range that have not been removed yet."""
        return messages_between(self._store, start, end, prioritized=self._prioritized)

    def reference_to(self, stored: StoredMessage) -> MessageReference:
        """Return a reference to a stored message, for selectors."""
        return self._queue.reference_to(stored.message, stored.position)

    async def trim(self, end: int) -> None:
        """Remove the messages before `end`; the removal is on disk when this returns.

        Raises:
            RangesError: ahead.
        """
        self.check(end)
        if end <= self.first:
            return
        removed = await self._remove_from_memory(end)
        removed += await self._remove_from_store(end)
        self.first = max(self.first, end)
        if removed:
            await self._progress.set(self._queue.destination, self.progress)

    # internals
    async def _wait_for_consumers(self, seconds: float) -> None:
        queue, until = self._queue, _clock.now() + seconds
        while queue.statistics.inflight or any(r.acked for r in queue.references):
            if _clock.now() >= until:
                raise RangesError(
                    "in_flight",
                    f"Consumers of {queue} hold {queue.statistics.inflight} messages, or prepared "
                    "transactions have acknowledged some",
                )
            await _clock.sleep(_POLL_INTERVAL)

    def _store_all(self) -> None:
        """Store the messages that are only in memory; they get the highest numbers."""
        queue = self._queue
        # each is removed from memory or the temp store only once the store has accepted it
        for reference in tuple(queue.references):
            if reference.position is None:
                self._store_again(reference)
                self._withdraw(reference)
            elif self._is_volatile:
                self._store.mark_visible(reference)
        queue.contents.move_spooled(self._store_again, _BATCH)

    def _withdraw(self, reference: MessageReference) -> None:
        self._queue.dispatcher.remove(reference)
        self._queue.drop(reference)
        self._queue.statistics.dequeues -= 1

    def _store_again(self, reference: MessageReference) -> None:
        queue = self._queue
        fresh = queue.reference_to(reference.message)
        fresh.redelivery_counter = reference.redelivery_counter
        queue.forget_duplicate(fresh)
        queue.accept(ProducerExchange(queue.broker.context), fresh)
        queue.statistics.enqueues -= 1
        queue.statistics.total_size -= fresh.size

    def _first(self) -> int:
        first = first_arrival(self._store, prioritized=self._prioritized)
        return self.next if first is None else min(first, self.next)

    async def _remove_from_memory(self, end: int) -> int:
        queue = self._queue
        held = (r for r in queue.references if r.position is not None and r.position.arrival < end)
        removed = 0
        for reference in tuple(held):
            queue.dispatcher.remove(reference)
            queue.store_acknowledgement(NO_TRANSACTION, reference, None)
            queue.drop(reference)
            removed += 1
            if removed % _BATCH == 0:
                await _clock.sleep(0)
        return removed

    async def _remove_from_store(self, end: int) -> int:
        queue = self._queue
        removed = 0
        for stored in messages_between(self._store, 1, end, prioritized=self._prioritized):
            queue.remove_paged_out(self.reference_to(stored))
            removed += 1
            if removed % _BATCH == 0:
                await _clock.sleep(0)
        return removed
