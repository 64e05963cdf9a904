"""The journal: an append-only sequence of segments with group commit.

Theory of operation
-------------------

    append -> the open batch -> WriteJob -> SegmentWriter, on the loop or in its thread -> Disk
                                  |
              waiters <- _finish on the loop, in the order of the journal

Everything above the disk runs on one event loop. `append` never blocks: records are laid out in
batches on the loop, and a batch's offset is fixed when the batch begins. The location of a record
is therefore known as soon as it is appended, long before it is on disk, and the index is updated at
once. (activemq-persistence K3 to K6, K13, K27)

Three positions never decrease:

    synced <= written <= end

`end` is where the next record goes. Data before `written` has been passed to the operating system;
data before `synced` survives a power failure. A record is read from the open batches while it lies
behind `written`, and from its segment afterwards.

The records of a transaction, or of several senders, may share a batch. A batch is valid as a whole
or not at all, because its checksum covers all its records. A torn write at the end therefore never
leaves a partial record, and `append_together` is atomic.

Appending is the hot path: about half a microsecond per record. That is why the journal and its open
batch share their lists, and why one comparison, `end > self._batch_limit`, detects all rare cases
(a new batch, a new segment). Three limits determine where the next record goes:

    _batch_limit    beyond it the record needs a new batch: the batch has reached its maximum size,
                    or the segment is full. -1 when no batch is open.
    _lazy_limit     beyond it, even a lazy record requests a write.
    _segment_limit  the end of the segment.

Group commit. A job consists of all records appended since the previous job and the completions that
wait for them. One sync serves all of them, so the more senders there are, the more records share a
sync. No timer delays a batch so that it fills: it fills during the running sync.

    idle                a request  -> turn scheduled
    turn scheduled      the turn   -> running, on the loop or in the thread
    running             a request  -> running, requested
    running             done       -> idle
    running, requested  done       -> running (the next job) or turn scheduled
    running             disk full  -> suspended: the same job is retried until there is space,
                                   or a file handle
    running             error      -> failed: the job's waiters and all later ones get the error

`_job` is the running (or suspended) job, and None in the other states; `_turn_scheduled` and
`_requested` hold the rest of the state.

Where a job runs. A single sender gets its response sooner if the loop itself writes and syncs,
which saves two thread switches. With several senders the thread is better, because the next batch
fills meanwhile. A job with one sender that follows another such job therefore runs on the loop, as
long as measurements show that this is quicker (`InlineWritePolicy`). Small jobs that need no sync
also run on the loop; all others run in the thread. All records caused by one chunk of input from a
socket count as one sender. The job of a single sender even starts within the turn that read its
message, which saves an iteration of the event loop; with several senders, the job starts in the
next turn, when all of them have been read. (activemq-persistence K6, K24)

Completions are completed on the loop, in journal order. If several senders wait, the next job is
passed to the thread before they are completed, so that the disk is busy while the loop writes the
responses.

States, as `state` and `on_state` report them; see `StoreState`:

    RUNNING    too much waits        -> CONGESTED
    CONGESTED  half of it is written -> RUNNING
    RUNNING, CONGESTED  disk full    -> SUSPENDED
    SUSPENDED  a retry succeeds      -> RUNNING
    any        another error         -> FAILED, permanently

After a failure nothing is retried: it is unknown whether the failed write reached the disk, and a
later record must never be durable without an earlier one. All waiters get the error, and `append`
raises. The next start reads what was written.
"""

from __future__ import annotations

import errno
import struct
import threading
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Protocol, Self

import anyio
import anyio.to_thread

from pyjms.errors import IllegalStateException, LocalProtocolError, ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import stopwatch
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.turn import Turn
from pyjms.wire.kahadb.journal import (
    BATCH_CONTROL_HEAD,
    BATCH_CONTROL_SIZE,
    END_MARKER,
    RECORD_HEAD,
    USER_TYPE,
    Location,
)
from pyjms.wire.kahadb.segments import JournalRecord, SegmentReader, Skipped
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.disk import NO_HANDLE_ERRORS, NO_SPACE_ERRORS, OS_DISK, Disk
from pyjms_broker.store.journal.segments import SegmentFiles, contiguous_runs, recover
from pyjms_broker.store.journal.settings import (
    DiskSyncStrategy,
    JournalSettings,
    PreallocationScope,
)

logger = get_logger(__name__)

StateListener = Callable[[StoreState, Exception | None], None]

_HEAD: Final = RECORD_HEAD.size
_HEAD_ROOM: Final = BATCH_CONTROL_HEAD + bytes(BATCH_CONTROL_SIZE - len(BATCH_CONTROL_HEAD))
_SIZES: Final = struct.Struct(">iq")
_LARGEST: Final = 0x7FFFFFFF
_LAZY_BYTES: Final = 1 << 20
_INLINE_BYTES: Final = 256 << 10
_MIN_HEADERS: Final = 2
"""A segment is at least this many times as long as its header."""
_SOON: Final = 0.005
"""Seconds for which a record that nobody waits for may stay unwritten. Acknowledgements come from
many consumers, and one write for each would cost more than all their other processing."""
_QUICK: Final = 0.002  # seconds; longer writes never run on the loop
_LOOP_ADVANTAGE: Final = 1.25  # the loop also saves two of its iterations and thread switches
_EXPLORE_EVERY: Final = 64  # jobs
_head = RECORD_HEAD.pack
_location = tuple.__new__  # takes half the time of Location(...)


class OpenBatch:
    """The records of one batch at `offset` of a segment, filled on the loop.

    Its bytes are joined when they are written. (activemq-persistence K4, K5)

    `parts` are the batch's header, and the header and payload of each record; `offsets` are those
    of the records; `end` is the end of the batch (without the end marker) once it is closed.
    """

    __slots__ = ("end", "file_id", "offset", "offsets", "parts")

    def __init__(self, file_id: int, offset: int) -> None:
        self.file_id = file_id
        self.offset = offset
        self.end = offset + BATCH_CONTROL_SIZE
        self.parts: list[bytes] = [_HEAD_ROOM]
        self.offsets: list[int] = []

    def payload(self, location: Location) -> bytes | None:
        """Return the payload of the record at `location`; None: it is not in this batch."""
        offset = location.offset
        if location.file_id != self.file_id or offset <= self.offset:
            return None
        index = bisect_left(self.offsets, offset)
        if index == len(self.offsets) or self.offsets[index] != offset:
            return None
        return self.parts[2 * index + 2]

    def encode(self, checksum: bool) -> bytearray:
        """Return the bytes to write, including the end marker."""
        data = bytearray().join(self.parts)
        size = len(data) - BATCH_CONTROL_SIZE
        with memoryview(data) as view:
            # a checksum of 0 means "not checked"
            adler = zlib.adler32(view[BATCH_CONTROL_SIZE:]) if checksum else 0
        _SIZES.pack_into(data, len(BATCH_CONTROL_HEAD), size, adler)
        data += END_MARKER
        return data


class WriteJob:
    """One write: batches in their order, then a sync if needed.

    `waiters` are completed when it is done. Without batches it only syncs. `senders` is the number
    of distinct senders among the waiters; all waiters of one chunk of input count as one.
    """

    __slots__ = ("batches", "senders", "size", "sync", "waiters")

    def __init__(
        self,
        batches: list[OpenBatch],
        waiters: list[Completion],
        *,
        sync: bool,
        senders: int | None = None,
    ) -> None:
        self.batches = batches
        self.waiters = waiters
        self.senders = len(waiters) if senders is None else senders
        self.sync = sync
        self.size = 0
        for batch in batches:
            self.size += batch.end - batch.offset


class SegmentWriter:
    """Writes the last segment of a journal, and begins new ones. Blocks; one caller at a time.

    `written` and `synced` are the ends of the written and the durable data; with the strategy
    NEVER, `synced` merely follows `written`. `syncs` and `batches` are counters.

    After an error the same job is run again: synced data stays, the rest is written again at the
    same offsets. After a failed sync the kernel may have dropped the pages written before it, and
    it reports the error only once. Those pages are therefore read back, checked, and written again
    first.
    """

    def __init__(
        self, files: SegmentFiles, settings: JournalSettings, disk: Disk, end: Location
    ) -> None:
        self.written = end
        self.synced = end
        self.syncs = 0
        self.batches = 0
        self._files = files
        self._disk = disk
        self._checksum = settings.checksum
        self._never = settings.disk_sync_strategy is DiskSyncStrategy.NEVER
        self._file_id = end.file_id
        self._fd = -1
        self._sync_failed = False  # if True, data written before the sync may be lost

    def open(self) -> None:
        """Open the last segment, or create it."""
        if self._file_id in self._files.lengths:
            self._fd = self._files.open(self._file_id)
        else:
            self._fd = self._files.create(self._file_id)
        if not self._never:
            # data written by the previous process may not be durable yet
            self._disk.sync(self._fd)

    def run(self, job: WriteJob) -> None:
        """Run a job; after an error, call it again with the same one."""
        batches = job.batches
        if batches and (batches[0].file_id, batches[0].end) <= self.synced:  # a retry
            batches = [b for b in batches if (b.file_id, b.end) > self.synced]
        if self._sync_failed:
            self._rewrite_unsynced(batches)
        disk = self._disk
        for batch in batches:
            if batch.file_id != self._file_id:
                self._roll(batch.file_id)
            disk.write(self._fd, batch.encode(self._checksum), batch.offset)
            self.batches += 1
            self.written = _location(Location, (batch.file_id, batch.end))
            if batch.end + len(END_MARKER) > self._files.lengths[batch.file_id]:
                self._note_length()
        if job.sync and self.synced < self.written:
            self.sync()

    def sync(self) -> None:
        """Make everything written durable."""
        if self.synced < self.written:
            if not self._never:
                try:
                    self._disk.sync(self._fd)
                except OSError:
                    self._sync_failed = True
                    raise
                self.syncs += 1
            self.synced = self.written

    def close(self) -> None:
        """Close the segment without a sync. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close(fd)

    def _roll(self, file_id: int) -> None:
        """Sync the old segment and begin a new one."""
        self.sync()
        self._note_length()
        fd = self._files.create(file_id)
        self._disk.close(self._fd)
        self._fd = fd
        self._file_id = file_id

    def _note_length(self) -> None:
        """Record the segment's length, in case it was not preallocated."""
        file_id, offset = self.written
        end = offset + len(END_MARKER)
        if file_id == self._file_id and end > self._files.lengths[file_id]:
            self._files.set_length(file_id, end)

    def _rewrite_unsynced(self, batches: Sequence[OpenBatch]) -> None:
        """Read back and rewrite the data before `batches` that was written but not synced."""
        start = self.synced.offset if self.synced.file_id == self._file_id else 0
        end = self.written.offset
        if batches and batches[0].file_id == self._file_id:
            end = min(end, batches[0].offset)
        size = end - start
        data = self._disk.read(self._fd, size, start)
        reader = SegmentReader(data, self._file_id)
        for _ in reader.batches():
            pass
        if size > 0 and (reader.end != size or reader.skipped):
            raise OSError(errno.EIO, "Data written before a failed sync is lost")
        if size > 0:
            self._disk.write(self._fd, data, start)
        self._sync_failed = False


class InlineWritePolicy:
    """Decides where a single sender's records are written: on the loop or in the thread.

    The loop saves two thread switches, which is 1.4 times as fast on an idle machine. A busy
    machine may schedule the thread sooner, and a slow disk must not block the loop. Both are
    therefore measured: the quicker one is used, and the other one is tried now and then. The
    averages are in seconds; None: not tried yet.
    """

    def __init__(self) -> None:
        self.loop: float | None = None
        self.thread: float | None = None
        self._is_loop_better = True
        self._jobs = 0

    def use_loop(self) -> bool:
        """Return whether the next job runs on the loop."""
        self._jobs += 1
        return self._is_loop_better != (self._jobs % _EXPLORE_EVERY == 0)

    def record(self, on_loop: bool, seconds: float) -> None:
        """Record the duration of a job, from its start to its end as seen by the loop."""
        average = self.loop if on_loop else self.thread
        # a value that is rarely measured needs a larger weight
        weight = 0.125 if on_loop == self._is_loop_better else 0.5
        average = seconds if average is None else average + weight * (seconds - average)
        if on_loop:
            self.loop = average
        else:
            self.thread = average
        loop, thread = self.loop, self.thread
        self._is_loop_better = loop is None or (
            loop < _QUICK and (thread is None or loop <= _LOOP_ADVANTAGE * thread)
        )


class LateRecords(Protocol):
    """Records that are appended when a job starts, and may be withdrawn until then."""

    count: int
    """The number of records."""

    def write(self) -> None:
        """Append all of them."""

    def discard(self) -> list[Completion]:
        """Drop all of them, because the journal has failed; return their waiters."""


class Journal:
    """An append-only sequence of records in a directory of segments.

    Create it, then `open` it (or use it as an async context manager). Call `append`,
    `append_together`, `barrier` and `read` on the loop that opened it; methods that block say so.

    `corrupt` lists the damage that `open` found.
    """

    def __init__(
        self,
        directory: Path,
        settings: JournalSettings | None = None,
        disk: Disk = OS_DISK,
        on_state: StateListener | None = None,
        *,
        inline: bool | None = None,
    ) -> None:
        """Create a closed journal. `inline` fixes where it writes (None: adaptive)."""
        self.directory = directory
        self.settings = settings = settings or JournalSettings()
        self.on_state = on_state
        self.state = StoreState.RUNNING
        self.error: Exception | None = None
        self.corrupt: tuple[Skipped, ...] = ()
        self.records = 0
        """The number of records in closed batches, written or not."""
        self.late: LateRecords | None = None
        """The source of records that are appended when a job starts."""
        self.last: Location | None = None
        """The last record that was appended, or found by a recovery."""
        self.files = SegmentFiles(directory, settings, disk)
        self._disk = disk
        self._writer: SegmentWriter | None = None
        self._is_open = False
        self._is_writable = False  # open, and not FAILED
        self._tasks: list[BackgroundTask] = []
        self._preallocated_after = 0
        self.size = 0
        """The used bytes: preallocated space behind the end does not count."""
        self._header: Callable[[], Sequence[bytes]] = tuple
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
        self._requested = False
        self._timer_set = False
        # distinct senders among the waiters; all waiters of one chunk of input count as one
        self._senders = 0
        self._last_turn = 0
        self._turn = Turn(lambda _: None)  # until there is a loop
        # the running job
        self._job: WriteJob | None = None
        self._is_inline = inline
        self._turn_scheduled = False
        self._last_senders = 1
        self._policy = InlineWritePolicy()
        self._measured: bool | None = None  # a single sender's running job: True on the loop
        self._started = 0.0
        self._failures = 0
        self._fail_fast = False
        self._retry: BackgroundTask | None = None
        self._loop: LoopHandle
        self._writer_thread: threading.Thread
        self._jobs: SimpleQueue[WriteJob | None] = SimpleQueue()

    # -- opening and closing

    async def open(self) -> None:
        """Find the end of the journal, truncate a torn write there, and prepare for appending.

        Raises:
            ResourceAllocationException: the files cannot be read or written.
        """
        try:
            await anyio.to_thread.run_sync(self._open)
        except OSError as error:
            raise self._open_failed(error) from error
        self._start()

    def open_blocking(self) -> None:
        """Open a small or new journal on the loop, blocking the loop. Raises as `open`."""
        try:
            self._open()
        except OSError as error:
            raise self._open_failed(error) from error
        self._start()

    def _open(self) -> None:
        found = recover(self.files, self.settings, self._disk)
        self.corrupt = found.corrupt
        self._writer = SegmentWriter(self.files, self.settings, self._disk, found.end)
        self._writer.open()

    def _open_failed(self, error: OSError) -> ResourceAllocationException:
        self._close_files()
        return ResourceAllocationException(f"Cannot open the journal in {self.directory}: {error}")

    def _start(self) -> None:
        self.state, self.error = StoreState.RUNNING, None
        self._file_id, self._offset = self.written
        self._measure()
        self._loop = LoopHandle()
        self._turn = self._loop.turn
        self._fail_fast = self._turn_scheduled = False
        self._last_senders, self._failures = 1, 0
        self._policy, self._measured = InlineWritePolicy(), None
        self._is_open = self._is_writable = True
        self._writer_thread = threading.Thread(
            target=self._run_jobs, name="pyjms journal", daemon=True
        )
        self._writer_thread.start()
        if self.settings.disk_sync_strategy is DiskSyncStrategy.PERIODIC:
            self._tasks.append(spawn(self._sync_periodically, name="pyjms journal sync"))

    def fail_fast(self) -> None:
        """Stop waiting for disk space or file handles: from now on retry once, then fail."""
        self._fail_fast = True
        if self._retry is not None:
            self._retry.cancel()

    async def close(self) -> None:
        """Write and sync all appended records and close the files. Idempotent.

        Raises:
            ResourceAllocationException: it could not be written.
        """
        if not self._is_open:
            return
        self.write_late()
        self._is_open = self._is_writable = False
        with anyio.CancelScope(shield=True):
            self._close_batch()
            self.fail_fast()
            error = await self._write_all()
            await end_tasks(*self._tasks)
            self._tasks.clear()
            self._jobs.put(None)
            await anyio.to_thread.run_sync(self._writer_thread.join)
            await anyio.to_thread.run_sync(self._close_files)
        if error is not None:
            raise ResourceAllocationException(
                f"Cannot write the end of the journal in {self.directory}: {error}"
            ) from error

    async def _write_all(self) -> Exception | None:
        if self.state is StoreState.FAILED:
            return None  # all waiting callers have been notified
        written = Completion()
        ended = anyio.Event()
        written.then(lambda _: ended.set())
        self._add_waiter(written, sync=True)
        self._request()
        await ended.wait()
        return written.error

    def _close_files(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self.files.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # -- appending

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
                self._congest()
        if sync:
            self._sync |= self._always
        if not self._requested:
            if not (lazy or soon) or end > self._lazy_limit:
                if not self._is_writable:
                    self._require_writable()
                self._request()
            elif soon and not self._timer_set:
                self._timer_set = True
                self._loop.call_later(_SOON, self._on_timer)
        self.last = location = _location(Location, (self._file_id, offset))
        return location

    def append_together(self, payloads: Sequence[bytes]) -> list[Location]:
        """Append lazy records atomically, in one batch: a crash loses all of them or none."""
        size = sum(map(len, payloads)) + _HEAD * len(payloads)
        if self._offset + size > self._batch_limit:
            self._start_batch(size)
            self._batch_limit = max(self._batch_limit, self._offset + size)
        return [self.append(payload, lazy=True) for payload in payloads]

    def announce(self, *, soon: bool = False) -> None:
        """Request a job, and count a sender whose record is appended when that job starts.

        With `soon`, nobody waits for the record: the job may start a few milliseconds later.
        """
        if soon:
            if not self._is_writable:
                self._require_writable()
            if not (self._requested or self._timer_set):
                self._timer_set = True
                self._loop.call_later(_SOON, self._on_timer)
            return
        turn = self._turn.number
        if not turn or turn != self._last_turn:
            self._senders += 1
            self._last_turn = turn
        if not self._requested:
            if not self._is_writable:
                self._require_writable()
            self._request()

    def add_waiters(self, waiters: list[Completion]) -> None:
        """Complete the waiters of announced records with the next job."""
        self._waiters += waiters
        if len(self._waiters) > self._most_waiters:
            self._congest()

    def barrier(self, sync: bool = True) -> Completion:
        """Return a completion for all records appended so far: written, and with `sync` synced.

        It is `COMPLETED` if they are already. With the strategy NEVER nothing is synced.
        """
        self._require_writable()
        self.write_late()
        writer = self._require_writer()
        pending = self._has_records or self._job is not None
        if not pending and (not sync or writer.synced >= writer.written):
            return COMPLETED
        waiter = Completion()
        self._add_waiter(waiter, sync=sync)
        if not self._requested:
            self._request()
        return waiter

    def set_segment_header(self, header: Callable[[], Sequence[bytes]]) -> None:
        """Begin each new segment with the payloads returned by `header`, which must not append.

        It is called inside `append`, before the record that needs the segment gets its location.
        """
        self._header = header

    def write_late(self) -> None:
        """Append the late records now."""
        if self.late is not None:
            self.late.write()

    def call_next(self, function: Callable[[], object]) -> None:
        """Call `function()` in the loop's next iteration."""
        self._loop.call_next(function)

    def _add_waiter(self, waiter: Completion, *, sync: bool) -> None:
        self._waiters.append(waiter)
        self._senders += 1
        self._sync |= sync

    def _on_timer(self) -> None:
        self._timer_set = False
        has_late = self.late is not None and self.late.count > 0
        due = not self._requested and (self._has_records or has_late)
        if due and self._is_open and self.state is not StoreState.FAILED:
            self._requested = True
            self._start_turn()

    @property
    def _has_records(self) -> bool:
        return self._batch is not None or bool(self._closed)

    @property
    def _is_congested(self) -> bool:
        """Whether more than half of the amount that makes the journal CONGESTED is waiting."""
        return (
            self._closed_bytes > self.settings.max_waiting_bytes // 2
            or len(self._waiters) > self._most_waiters // 2
        )

    def _start_batch(self, size: int) -> int:
        """Begin a batch for a record of `size` bytes and return the record's offset."""
        if not self._is_writable:
            self._require_writable()
        settings = self.settings
        if size <= _HEAD or size > _LARGEST - settings.max_file_length:
            raise LocalProtocolError("A journal record is empty, or larger than 2 GiB")
        if self._batch is not None:
            self._close_batch()
        needed = BATCH_CONTROL_SIZE + size
        if self._offset and self._offset + needed > self._segment_limit:
            self._file_id += 1
            self._offset = 0
        batch = OpenBatch(self._file_id, self._offset)
        first = self._offset + BATCH_CONTROL_SIZE
        self._parts, self._offsets = batch.parts, batch.offsets
        if not self._offset:
            for payload in self._header():
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
            self._congest()
        if first > settings.max_file_length // 2 and self._preallocated_after != self._file_id:
            self._preallocate_next()
        return first

    def _close_batch(self) -> None:
        """Close the open batch, if any: the next record begins another one."""
        batch = self._batch
        if batch is not None:
            self._batch = None
            self._batch_limit = -1
            batch.end = self._offset
            self._closed.append(batch)
            self._closed_bytes += batch.end - batch.offset
            self.records += len(batch.offsets)

    def _measure(self) -> None:
        files = self.files
        self.size = files.size - files.lengths.get(self._file_id, 0) + self._offset

    def begin_segment(self) -> None:
        """Make the next record begin a new segment, so that the current one can be deleted."""
        self._close_batch()
        self._segment_limit = 0

    def _preallocate_next(self) -> None:
        """Start preallocating the next segment: this one is filled up to its half."""
        self._preallocated_after = self._file_id
        if self.settings.preallocation_scope is not PreallocationScope.NONE:
            self._tasks = [task for task in self._tasks if not task.done]
            run = anyio.to_thread.run_sync
            self._tasks.append(spawn(run, self.files.prepare, name="pyjms journal segment"))

    # -- group commit

    def _request(self) -> None:
        """Request a write of everything that waits, at the end of this loop turn at the latest."""
        self._requested = True
        if self._job is None and not self._turn_scheduled:
            self._turn_scheduled = True
            # a single sender gets its response in the turn that read its message
            if self._last_senders > 1 or not self._turn.finish_with(self._start_turn):
                self._loop.call_next(self._start_turn)

    def _start_turn(self) -> None:
        self._turn_scheduled = False
        if self._requested and self._job is None:
            job = self._start_job()
            if self._runs_on_loop(job):
                self._finish(job, self._run(job))
            else:
                self._jobs.put(job)

    def _start_job(self) -> WriteJob:
        """Make a job of everything that waits."""
        if self.late is not None and self.late.count:
            self.late.write()
        if self._batch is not None:
            self._close_batch()
        job = WriteJob(self._closed, self._waiters, sync=self._sync, senders=self._senders)
        self._closed, self._closed_bytes, self._waiters = [], 0, []
        self._senders = self._last_turn = 0
        self._sync = self._requested = False
        self._job = job
        return job

    def _runs_on_loop(self, job: WriteJob) -> bool:
        senders, before = job.senders, self._last_senders
        if senders:
            self._last_senders = senders
        if self._is_inline is not None:
            return self._is_inline
        if job.size > _INLINE_BYTES or senders > 1:
            return False
        if not job.sync:
            return True
        if senders == 0 or before > 1:
            return False
        self._started = stopwatch()
        self._measured = self._policy.use_loop()
        return self._measured

    def _run(self, job: WriteJob) -> Exception | None:
        """Run a job, on the loop or in the thread, and return its error."""
        writer = self._writer
        assert writer is not None, "the journal is open"
        try:
            writer.run(job)
        except Exception as error:
            return error
        return None

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            error = self._run(job)
            try:
                self._loop.call_soon(self._finish_in_turn, job, error)
            except RuntimeError:
                logger.warning("The event loop of a journal ended before the journal was closed")
                return

    def _finish_in_turn(self, job: WriteJob, error: Exception | None) -> None:
        """Handle the end of a job of the thread, and send the responses to its senders at once."""
        self._turn.run(partial(self._finish, job, error), is_alone=True)

    def _finish(self, job: WriteJob, error: Exception | None) -> None:
        """Handle the end of a job. On the loop."""
        if error is not None and not self._fail_fast and self._is_transient(error):
            self._measured = None
            self._suspend(job, error)
            return
        self._retry = None
        if self._measured is not None:
            self._policy.record(self._measured, stopwatch() - self._started)
            self._measured = None
        if error is None and self._failures:
            self._failures = 0
            logger.info("The journal can be written again")
            self._set_state(StoreState.RUNNING, None)
        self._job = None
        self._measure()
        failure = None if error is None else self._fail(job, error)
        if self.state is StoreState.CONGESTED and not self._is_congested:
            self._set_state(StoreState.RUNNING, None)
        if error is None and self._requested:
            if job.senders > 1:
                # start the next write before the senders get their responses
                following = self._start_job()
                self._last_senders = following.senders or self._last_senders
                self._jobs.put(following)
            else:
                self._request()
        for waiter in job.waiters:
            waiter.complete(failure)

    def _is_transient(self, error: Exception) -> bool:
        """Return whether the disk is merely full, or the process is out of file handles."""
        if not isinstance(error, OSError):
            return False
        if error.errno in NO_HANDLE_ERRORS:
            return True
        return self.settings.ignore_no_space_errors and (
            error.errno in NO_SPACE_ERRORS or "space" in str(error).lower()
        )

    def _suspend(self, job: WriteJob, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            self._set_state(StoreState.SUSPENDED, error)
        if self._failures & (self._failures - 1) == 0:  # log attempts 1, 2, 4, 8, ...
            logger.warning(
                "The journal waits for disk space or file handles, attempt %d: %s",
                self._failures,
                error,
            )
        self._retry = spawn(self._retry_later, job, name="pyjms journal retry")

    async def _retry_later(self, job: WriteJob) -> None:
        try:
            await _clock.sleep(self.settings.resume_check_sleep_period)
        finally:  # if `fail_fast` cancels the wait: at once
            self._jobs.put(job)

    def _fail(self, job: WriteJob, error: Exception) -> Exception:
        """Fail for good, and return the error with which all waiters are completed."""
        logger.error("The journal in %s has failed", self.directory, exc_info=error)
        failure = ResourceAllocationException(
            f"Cannot write the journal in {self.directory}: {error}",
            hint="restart the broker when the disk works: it reads what was written",
        )
        failure.__cause__ = error
        self._close_batch()
        job.waiters += self._waiters
        self._waiters, self._closed, self._closed_bytes = [], [], 0
        self._requested = False  # the next request is refused
        if self.late is not None:
            job.waiters += self.late.discard()
        self._set_state(StoreState.FAILED, failure)
        return failure

    async def _sync_periodically(self) -> None:
        while True:
            await _clock.sleep(self.settings.disk_sync_interval)
            if not self._is_open or self.state is StoreState.FAILED:
                return
            if self.state is not StoreState.SUSPENDED:
                self.barrier(sync=True)

    def _congest(self) -> None:
        if self.state is StoreState.RUNNING:
            self._set_state(StoreState.CONGESTED, None)

    def _set_state(self, state: StoreState, error: Exception | None) -> None:
        self.state = state
        self.error = error
        self._is_writable = self._is_open and state is not StoreState.FAILED
        if self.on_state is not None:
            self.on_state(state, error)

    def _require_writable(self) -> None:
        self._require_open()
        if self.state is StoreState.FAILED:
            raise ResourceAllocationException(
                f"The journal in {self.directory} has failed: {self.error}"
            )

    def _require_open(self) -> None:
        if not self._is_open:
            raise IllegalStateException(f"The journal in {self.directory} is not open")

    def _require_writer(self) -> SegmentWriter:
        if self._writer is None:
            raise IllegalStateException(f"The journal in {self.directory} was never open")
        return self._writer

    # -- reading

    def read(self, location: Location) -> bytes:
        """Return the payload of the record at `location`. Blocks on the disk for a written record.

        With `verify_checksums_at_reading`, a written record is returned only from a valid batch.

        Raises:
            KahaDBFormatError: no record begins there, or its batch is damaged.
            ResourceAllocationException: it cannot be read.
        """
        payload = self._unwritten(location)
        return self._read_written((location,))[0] if payload is None else payload

    def read_unchecked(self, location: Location) -> bytes:
        """Return the payload of the record at `location` without verifying its batch's checksum.

        For callers that compare it with their own digest. Blocks and raises as `read`.
        """
        payload = self._unwritten(location)
        if payload is not None:
            return payload
        try:
            return self.files.read(location)
        except OSError as error:
            raise _unreadable(location, error) from error

    def read_run(self, locations: Sequence[Location]) -> list[bytes]:
        """Return the payloads of several records, reading adjacent ones together. Blocks."""
        self._require_open()
        payloads: list[bytes] = []
        written = self.written
        for run in contiguous_runs(locations):
            if run[-1] >= written:
                payloads += [self.read(location) for location in run]
            else:
                payloads += self._read_written(run)
        return payloads

    def records_from(
        self, start: Location | None = None, skipped: list[Skipped] | None = None
    ) -> Iterator[JournalRecord]:
        """Yield all written records of complete batches from `start` on. Blocks: for a thread.

        Damaged parts are skipped and added to `skipped`.

        Raises:
            OSError: a segment cannot be read.
        """
        self._require_open()
        end = self.written
        first = start or Location(0, 0)
        for file_id in sorted(self.files.lengths):
            if not first.file_id <= file_id <= end.file_id:
                continue
            # nothing is written behind the end, and preallocated segments are large
            data = self.files.read_segment(file_id, end.offset if file_id == end.file_id else None)
            offset = first.offset if file_id == first.file_id else 0
            reader = SegmentReader(data, file_id, start=offset)
            yield from reader.records()
            if skipped is not None:
                skipped += reader.skipped

    def _unwritten(self, location: Location) -> bytes | None:
        """Return the payload of a record that is in no segment yet."""
        self._require_open()
        if location < self.written:
            return None
        running = [] if self._job is None else self._job.batches
        opened = [] if self._batch is None else [self._batch]
        for batch in (*running, *self._closed, *opened):
            payload = batch.payload(location)
            if payload is not None:
                return payload
        return None

    def _read_written(self, run: Sequence[Location]) -> list[bytes]:
        """Return the payloads of nearby records of one segment."""
        try:
            if self.settings.verify_checksums_at_reading:
                return self.files.read_sound_run(run, self.written)
            return self.files.read_run(run)
        except OSError as error:
            raise _unreadable(run[0], error) from error

    # -- segments and statistics

    def segments(self) -> list[int]:
        """Return the numbers of the segments on the disk, ascending."""
        return sorted(self.files.lengths)

    async def delete(self, file_id: int) -> None:
        """Remove a segment, or move it to the archive; the change is durable on return.

        Raises:
            ValueError: it does not exist, or is still being written.
            ResourceAllocationException: the file cannot be removed.
        """
        if file_id not in self.files.lengths or file_id >= self.written.file_id:
            raise ValueError(
                f"Segment {file_id} cannot be removed: it does not exist, or is still written to"
            )
        self.files.close_reader(file_id)
        try:
            await anyio.to_thread.run_sync(self.files.delete, file_id)
        except OSError as error:
            raise ResourceAllocationException(
                f"Cannot remove segment {file_id} from {self.directory}: {error}"
            ) from error
        self._measure()

    @property
    def end(self) -> Location:
        """The location of the next record; everything appended so far lies before it."""
        return Location(self._file_id, self._offset)

    @property
    def written(self) -> Location:
        """The end of what is written."""
        return self._require_writer().written

    @property
    def synced(self) -> Location:
        """The end of what is durable; with the strategy NEVER, of what is written."""
        return self._require_writer().synced

    @property
    def syncs(self) -> int:
        """How often written data was synced."""
        return self._require_writer().syncs

    @property
    def batches(self) -> int:
        """How many batches were written."""
        return self._require_writer().batches

    @property
    def is_writing(self) -> bool:
        """Whether a write is in progress, or is retried until the disk has space."""
        return self._job is not None


def _unreadable(location: Location, error: OSError) -> ResourceAllocationException:
    return ResourceAllocationException(f"Cannot read the journal at {location}: {error}")
