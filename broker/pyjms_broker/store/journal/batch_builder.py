"""The layout of records in batches and segments, before anything is written.

Only the loop appends, and a batch's offset is fixed when the batch begins. The location of a
record is therefore known as soon as it is appended, long before it is on disk, and the index can
be updated at once. (activemq-persistence K4, K6, K27)

`append` is the hot path: about half a microsecond per record. That is why the builder and its
batch share their lists, and why one comparison, `end > self._batch_limit`, detects all rare cases
(a new batch, a new segment).

Three limits determine where the next record goes:

    _batch_limit    beyond it the record needs a new batch: the batch has reached its maximum size,
                    or the segment is full. -1 when no batch is open.
    _lazy_limit     beyond it, even a lazy record requests a write.
    _segment_limit  the end of the segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pyjms._wakeup import Turn
from pyjms.errors import LocalProtocolError
from pyjms.wire.kahadb.journal import BATCH_CONTROL_SIZE, RECORD_HEAD, USER_TYPE, Location
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.journal.batch import OpenBatch, WriteJob
from pyjms_broker.store.journal.settings import DiskSyncStrategy, JournalSettings

__all__ = ["BatchBuilder", "BatchEvents"]

_HEAD: Final = RECORD_HEAD.size
_LARGEST: Final = 0x7FFFFFFF
_LAZY_BYTES: Final = 1 << 20
_MIN_HEADERS: Final = 2
"""A segment is at least this many times as long as its header."""
_head = RECORD_HEAD.pack
_location = tuple.__new__  # takes half the time of Location(...)


def _no_loop(_function: Callable[[], object]) -> None:
    """Ignore the end of a turn: there is no loop yet."""


def _no_header() -> Sequence[bytes]:
    return ()


class BatchEvents(NamedTuple):
    """The journal's callbacks for a batch builder."""

    check_writable: Callable[[], None]
    """Raises an error if nothing can be appended."""
    request_write: Callable[[], None]
    """Requests a job that writes everything appended; called once per job."""
    request_write_soon: Callable[[], None]
    """Schedules a call of `timer_expired` in a few milliseconds."""
    congested: Callable[[], None]
    """Reports that too much waits to be written."""
    batch_started: Callable[[Location], None]
    """Reports that a batch begins, with its first record at this location."""


class BatchBuilder:
    """Fills batches with records; `next_job` returns the batches to write.

    `header` returns the payloads with which each new segment begins. It is called inside `append`,
    before the record that needs the segment gets its location, and must not append itself.
    `records` is a counter. Not thread-safe: use it on the loop.
    """

    def __init__(self, settings: JournalSettings, events: BatchEvents) -> None:
        self.header: Callable[[], Sequence[bytes]] = _no_header
        self.records = 0
        self.requested = False
        """Whether a write was requested since the last job."""
        self._events = events
        self._settings = settings
        self._always = settings.disk_sync_strategy is DiskSyncStrategy.ALWAYS
        self._most_waiters = settings.max_async_jobs
        # the open batch, and the offset of its next record
        self._batch: OpenBatch | None = None
        self._parts: list[bytes] = []
        self._offsets: list[int] = []
        self._file_id = 1
        self._offset = 0
        self._batch_limit = -1
        self._lazy_limit = 0
        self._segment_limit = settings.max_file_length
        # the contents of the next job
        self._closed: list[OpenBatch] = []
        self._closed_bytes = 0
        self._waiters: list[Completion] = []
        self._sync = False
        self._timer_set = False  # `request_write_soon` was called and has not expired
        # distinct senders among the waiters; all waiters of one chunk of input count as one
        self._senders = 0
        self._last_turn = 0
        self._turn = Turn(_no_loop)

    def start(self, end: Location, turn: Turn) -> None:
        """Continue at `end`; `turn` identifies the chunk of input that the loop is handling."""
        self._file_id, self._offset = end
        self._turn = turn

    def append(
        self,
        payload: bytes,
        waiter: Completion = COMPLETED,
        *,
        sync: bool = False,
        lazy: bool = False,
        soon: bool = False,
    ) -> Location:
        """Append a record and return its location. Never blocks.

        The record is written at the end of this loop turn at the latest, or as soon as the
        running job is done. A `lazy` record may wait for the next record that is not lazy, or
        for a `barrier`; so may a `soon` record, but only for a few milliseconds. `waiter` is
        completed when the record is written (and synced, if `sync` is set and the strategy is
        ALWAYS); pass `COMPLETED` if nobody waits.

        Raises:
            IllegalStateException: the journal is not open.
            ResourceAllocationException: the journal has failed.
            LocalProtocolError: the payload is empty or larger than 2 GiB.
        """
        size = len(payload) + _HEAD
        offset = self._offset
        end = offset + size
        if end > self._batch_limit or size == _HEAD:
            offset = self._start_batch(size)
            end = offset + size
        self._parts += (_head(size, USER_TYPE), payload)
        self._offsets.append(offset)
        self._offset = end
        if waiter is not COMPLETED:
            self._waiters.append(waiter)
            turn = self._turn.number
            if not turn or turn != self._last_turn:
                self._senders += 1
                self._last_turn = turn
            if len(self._waiters) > self._most_waiters:
                self._events.congested()
        if sync:
            self._sync |= self._always
        if not self.requested:
            if not (lazy or soon) or end > self._lazy_limit:
                self.requested = True
                self._events.request_write()
            elif soon and not self._timer_set:
                self._timer_set = True
                self._events.request_write_soon()
        return _location(Location, (self._file_id, offset))

    def append_together(self, payloads: Sequence[bytes]) -> list[Location]:
        """Append lazy records atomically, in one batch: a crash loses all of them or none.

        Raises as `append`.
        """
        size = sum(map(len, payloads)) + _HEAD * len(payloads)
        if self._offset + size > self._batch_limit:
            self._start_batch(size)
            self._batch_limit = max(self._batch_limit, self._offset + size)
        return [self.append(payload, lazy=True) for payload in payloads]

    def announce(self) -> None:
        """Request a job, and count a sender whose record is appended when that job starts.

        Raises as `append`.
        """
        turn = self._turn.number
        if not turn or turn != self._last_turn:
            self._senders += 1
            self._last_turn = turn
        if not self.requested:
            self.requested = True
            self._events.request_write()

    def add_waiters(self, waiters: list[Completion]) -> None:
        """Complete the waiters of announced records with the next job."""
        self._waiters += waiters
        if len(self._waiters) > self._most_waiters:
            self._events.congested()

    def add_waiter(self, waiter: Completion, *, sync: bool) -> None:
        """Complete `waiter` with the next job, after a sync if `sync` is set; requests no job."""
        self._waiters.append(waiter)
        self._senders += 1
        self._sync |= sync

    def timer_expired(self) -> bool:
        """End the delay of `request_write_soon`; return whether to write now."""
        self._timer_set = False
        return not self.requested and self.has_records

    @property
    def end(self) -> Location:
        """The location where the next batch begins or continues; later records lie behind it."""
        return Location(self._file_id, self._offset)

    @property
    def has_records(self) -> bool:
        """Whether records wait for the next job."""
        return self._batch is not None or bool(self._closed)

    @property
    def is_congested(self) -> bool:
        """Whether more than half of the amount that makes the journal CONGESTED is waiting."""
        settings = self._settings
        return (
            self._closed_bytes > settings.max_waiting_bytes // 2
            or len(self._waiters) > settings.max_async_jobs // 2
        )

    def batches(self) -> list[OpenBatch]:
        """The batches of the next job, the open one last."""
        return [*self._closed, self._batch] if self._batch is not None else self._closed

    def close_batch(self) -> None:
        """Close the open batch, if any: the next record begins another one."""
        batch = self._batch
        if batch is not None:
            self._batch = None
            self._batch_limit = -1
            batch.end = self._offset
            self._closed.append(batch)
            self._closed_bytes += batch.end - batch.offset
            self.records += len(batch.offsets)

    def next_job(self) -> WriteJob:
        """Close the open batch and return everything that waits as one job."""
        self.close_batch()
        job = WriteJob(self._closed, self._waiters, sync=self._sync, senders=self._senders)
        self._closed, self._closed_bytes, self._waiters = [], 0, []
        self._senders = self._last_turn = 0
        self._sync = self.requested = False
        return job

    def discard(self) -> list[Completion]:
        """Drop everything that waits, because the journal has failed; return the waiters."""
        self.close_batch()
        waiters, self._waiters = self._waiters, []
        self._closed, self._closed_bytes = [], 0
        self.requested = False  # the next request is refused
        return waiters

    def _start_batch(self, size: int) -> int:
        """Begin a batch for a record of `size` bytes and return the record's offset."""
        self._events.check_writable()
        settings = self._settings
        if size <= _HEAD or size > _LARGEST - settings.max_file_length:
            raise LocalProtocolError("A journal record is empty, or larger than 2 GiB")
        self.close_batch()
        needed = BATCH_CONTROL_SIZE + size
        if self._offset and self._offset + needed > self._segment_limit:
            self._file_id += 1
            self._offset = 0
        batch = OpenBatch(self._file_id, self._offset)
        first = self._offset + BATCH_CONTROL_SIZE
        self._parts, self._offsets = batch.parts, batch.offsets
        if not self._offset:
            for payload in self.header():
                self._parts += (_head(len(payload) + _HEAD, USER_TYPE), payload)
                self._offsets.append(first)
                first += _HEAD + len(payload)
            # the header of a great many destinations may fill a whole segment
            self._segment_limit = max(settings.max_file_length, _MIN_HEADERS * first)
        self._batch = batch
        self._offset = first
        self._batch_limit = min(self._segment_limit, batch.offset + settings.max_write_batch_size)
        self._lazy_limit = batch.offset + _LAZY_BYTES
        if self._closed_bytes > settings.max_waiting_bytes:
            self._events.congested()
        self._events.batch_started(Location(self._file_id, first))
        return first
