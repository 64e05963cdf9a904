"""Lays records out in batches and segments before anything is written. (persistence K4, K6, K27)

The loop alone appends, and a batch's place is fixed when it begins, so a record's place is known
at once. This is the hot path: about half a microsecond a record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from broker.completion import Completion
from broker.store.journal.batch import OpenBatch, WriteJob
from broker.store.journal.settings import DiskSyncStrategy, JournalSettings
from pyjms._wakeup import Turn
from pyjms.errors import LocalProtocolError
from pyjms.wire.kahadb.journal import BATCH_CONTROL_SIZE, RECORD_HEAD, USER_TYPE, Location

__all__ = ["BatchLayout"]

_HEAD: Final = RECORD_HEAD.size
_LARGEST: Final = 0x7FFFFFFF
_LAZY_BYTES: Final = 1 << 20
_HEADS: Final = 2
"""How many times as long as its head a segment is at least."""
_head = RECORD_HEAD.pack
_location = tuple.__new__  # half the price of Location(...)


def _no_loop(_function: Callable[[], object]) -> None:
    """There is none yet."""


def _no_header() -> Sequence[bytes]:
    return ()


class BatchLayout(ABC):
    """Fills batches; what is full or asked for leaves with `_take`.

    `header` gives the payloads that begin each new segment; it is called inside `append`,
    before the record that needs the segment gets its place, and must not append itself.
    `records` counts.
    """

    def __init__(self, settings: JournalSettings) -> None:
        self.settings = settings
        self.header: Callable[[], Sequence[bytes]] = _no_header
        self.records = 0
        self._always = settings.disk_sync_strategy is DiskSyncStrategy.ALWAYS
        self._most_waiters = settings.max_async_jobs
        # the batch that is open: where the next record goes, and up to where there is room
        self._batch: OpenBatch | None = None
        self._parts: list[bytes] = []
        self._offsets: list[int] = []
        self._file_id = 1
        self._at = 0
        self._room_end = -1
        self._lazy_end = 0
        self._segment_end = settings.max_file_length
        # what waits for the next job
        self._full: list[OpenBatch] = []
        self._full_bytes = 0
        self._waiters: list[Completion] = []
        self._sync = False
        self._requested = False
        self._is_timed = False  # `_request_soon` is under way
        # who waits: those whose chunks came in different turns
        self._senders = 0
        self._last_turn = 0
        self._chunk = Turn(_no_loop)  # the loop's, once it is open

    def append(
        self,
        payload: bytes,
        waiter: Completion | None = None,
        *,
        sync: bool = False,
        lazy: bool = False,
        soon: bool = False,
    ) -> Location:
        """Append a record and return its place. Never waits.

        It is written at the end of this turn of the loop at the latest, or as soon as the
        job before it is done; if `lazy`, perhaps only with something that is not, or with a
        `barrier`; if `soon`, like that or after some milliseconds. `waiter` is completed when it
        is written, and synced if `sync` and the strategy is ALWAYS.

        Raises:
            IllegalStateException: the journal is not open.
            ResourceAllocationException: it has failed.
            LocalProtocolError: the payload is empty or larger than 2 GiB.
        """
        size = len(payload) + _HEAD
        at = self._at
        end = at + size
        if end > self._room_end or size == _HEAD:
            at = self._make_room(size)
            end = at + size
        self._parts += (_head(size, USER_TYPE), payload)
        self._offsets.append(at)
        self._at = end
        if waiter is not None:
            self._waiters.append(waiter)
            turn = self._chunk.number
            if not turn or turn != self._last_turn:
                self._senders += 1
                self._last_turn = turn
            if len(self._waiters) > self._most_waiters:
                self._congest()
        if sync:
            self._sync |= self._always
        if not self._requested:
            if not (lazy or soon) or end > self._lazy_end:
                self._request()
            elif soon and not self._is_timed:
                self._is_timed = True
                self._request_soon()
        return _location(Location, (self._file_id, at))

    def append_together(self, payloads: Sequence[bytes]) -> list[Location]:
        """Append records in one batch: after a crash all of them are there, or none.

        Raises as `append`, whose `lazy` records these are.
        """
        size = sum(map(len, payloads)) + _HEAD * len(payloads)
        if self._at + size > self._room_end:
            self._make_room(size)
            self._room_end = max(self._room_end, self._at + size)
        return [self.append(payload, lazy=True) for payload in payloads]

    @property
    def end(self) -> Location:
        """Where the next batch begins or goes on; every later record lies behind."""
        return Location(self._file_id, self._at)

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if nothing can be appended."""

    @abstractmethod
    def _request(self) -> None:
        """Have what waits written; called once for each job."""

    @abstractmethod
    def _request_soon(self) -> None:
        """Have what waits written in some milliseconds, unless it is before."""

    @abstractmethod
    def _congest(self) -> None:
        """Say that too much waits."""

    @abstractmethod
    def _make_spare(self) -> None:
        """See whether the next segment is to be made; called with each batch."""

    def _make_room(self, size: int) -> int:
        """Begin a batch for a record of `size` bytes; returns where the record goes."""
        self._check_open()
        if size <= _HEAD or size > _LARGEST - self.settings.max_file_length:
            raise LocalProtocolError("A record is empty, or larger than 2 GiB")
        self._close_batch()
        settings = self.settings
        needed = BATCH_CONTROL_SIZE + size
        if self._at and self._at + needed > self._segment_end:
            self._file_id += 1
            self._at = 0
        batch = OpenBatch(self._file_id, self._at)
        first = self._at + BATCH_CONTROL_SIZE
        self._parts, self._offsets = batch.parts, batch.offsets
        if not self._at:
            for payload in self.header():
                self._parts += (_head(len(payload) + _HEAD, USER_TYPE), payload)
                self._offsets.append(first)
                first += _HEAD + len(payload)
            # else a head as long as a segment, of very many destinations, would leave no room
            self._segment_end = max(settings.max_file_length, _HEADS * first)
        self._batch = batch
        self._at = first
        self._room_end = min(self._segment_end, batch.offset + settings.max_write_batch_size)
        self._lazy_end = batch.offset + _LAZY_BYTES
        if self._full_bytes > settings.max_waiting_bytes:
            self._congest()
        self._make_spare()
        return first

    def _close_batch(self) -> None:
        batch = self._batch
        if batch is not None:
            self._batch = None
            self._room_end = -1
            batch.end = self._at
            self._full.append(batch)
            self._full_bytes += batch.end - batch.offset
            self.records += len(batch.offsets)

    def _take(self) -> WriteJob:
        """Return the job of all that waits."""
        self._close_batch()
        job = WriteJob(self._full, self._waiters, sync=self._sync, senders=self._senders)
        self._full, self._full_bytes, self._waiters = [], 0, []
        self._senders = self._last_turn = 0
        self._sync = self._requested = False
        return job
