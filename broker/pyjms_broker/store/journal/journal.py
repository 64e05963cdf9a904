"""The journal: an append-only sequence of segments with group commit.

Theory of operation
-------------------

    append -> BatchBuilder -> GroupCommit -> SegmentWriter -> Disk
                                  |
              waiters <- _job_done on the loop, in the order of the journal

Everything above the disk runs on one event loop. `append` never blocks: the builder lays records
out on the loop, so their locations are known before they are written, and the index is updated at
once. `GroupCommit` writes one job at a time to disk, on the loop or in its thread; see there.
(activemq-persistence K3 to K6, K13, K27)

Three positions never decrease:

    synced <= written <= end

`end` is where the next record goes. Data before `written` has been passed to the operating system;
data before `synced` survives a power failure. A record is read from the open batches while it lies
behind `written`, and from its segment afterwards.

States, as `state` and `on_state` report them; see `StoreState`:

    RUNNING    too much waits        -> CONGESTED
    CONGESTED  half of it is written -> RUNNING
    RUNNING, CONGESTED  disk full    -> SUSPENDED
    SUSPENDED  a retry succeeds      -> RUNNING
    any        another error         -> FAILED, permanently

After a failure nothing is retried: it is unknown whether the failed write reached the disk, and a
later record must never be durable without an earlier one. All waiters get the error, and `append`
raises. The next start reads what was written.

The records of a transaction, or of several senders, may share a batch. A batch is valid as a whole
or not at all, because its checksum covers all its records. A torn write at the end therefore never
leaves a partial record, and `append_together` is atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self

import anyio
import anyio.to_thread

from pyjms import _clock
from pyjms._forwarding import DelegatedAttribute
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, LoopHandle, end_tasks, spawn
from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import Skipped
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.batch import WriteJob
from pyjms_broker.store.journal.batch_builder import BatchBuilder, BatchEvents
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.group_commit import GroupCommit
from pyjms_broker.store.journal.record_reader import RecordReader
from pyjms_broker.store.journal.recovery import recover
from pyjms_broker.store.journal.segment_files import SegmentFiles
from pyjms_broker.store.journal.segment_writer import SegmentWriter
from pyjms_broker.store.journal.settings import (
    DiskSyncStrategy,
    JournalSettings,
    PreallocationScope,
)

__all__ = ["Journal", "LateRecords", "StateListener"]

logger = get_logger(__name__)

_SOON = 0.005
"""Seconds for which a record that nobody waits for may stay unwritten. Acknowledgements come from
many consumers, and one write for each would cost more than all their other processing."""

StateListener = Callable[[StoreState, Exception | None], None]


class LateRecords(Protocol):
    """Records that are appended when a job starts, and may be withdrawn until then."""

    def write(self) -> None:
        """Append all of them."""

    def discard(self) -> list[Completion]:
        """Drop all of them, because the journal has failed; return their waiters."""


class Journal:
    """An append-only sequence of records in a directory of segments.

    Create it, then `open` it (or use it as an async context manager). Call `append`,
    `append_together`, `barrier` and `read` on the loop that opened it; methods that block say so.

    `corrupt` lists the damage that `open` found. `syncs`, `batches` and `records` are counters.
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
        self.settings = settings or JournalSettings()
        self.on_state = on_state
        self.state = StoreState.RUNNING
        self.error: Exception | None = None
        self.corrupt: tuple[Skipped, ...] = ()
        self._disk = disk
        self._inline = inline
        self._files = SegmentFiles(directory, self.settings, disk)
        self._builder = BatchBuilder(
            self.settings,
            BatchEvents(
                self._check_writable,
                self._request_write,
                self._request_write_soon,
                self._congest,
                self._preallocate_next,
            ),
        )
        # bound here, because one more call per record would be measurable
        self.append = self._builder.append
        """Append a record; see `BatchBuilder.append`."""
        self.append_together = self._builder.append_together
        """Append records in one batch; see `BatchBuilder.append_together`."""
        self.announce = self._builder.announce
        """Request a job for a late record; see `BatchBuilder.announce`."""
        self.add_waiters = self._builder.add_waiters
        """Wait for late records; see `BatchBuilder.add_waiters`."""
        self._reader = RecordReader(
            self._files, self.settings, self._written_for_reading, self._unwritten
        )
        self.read = self._reader.read
        """Return a record's payload; see `RecordReader.read`."""
        self.read_run = self._reader.read_run
        """Return the payloads of several records; see `RecordReader.read_run`."""
        self.read_unchecked = self._reader.read_unchecked
        """Return a record's payload without checking it; see `RecordReader.read_unchecked`."""
        self.records_from = self._reader.records_from
        """Yield all records of sound batches; see `RecordReader.records_from`."""
        self.late: LateRecords | None = None
        """The source of records that are appended when a job starts."""
        self._loop: LoopHandle | None = None
        self._writer: SegmentWriter | None = None
        self._commit: GroupCommit | None = None
        self._tasks: list[BackgroundTask] = []
        self._preallocated_after = 0

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

    def _open_failed(self, error: OSError) -> ResourceAllocationException:
        self._close_files()
        return ResourceAllocationException(f"Cannot open the journal in {self.directory}: {error}")

    def _start(self) -> None:
        assert self._writer is not None
        self.state, self.error = StoreState.RUNNING, None
        self._loop = LoopHandle()
        self._builder.start(self._writer.written, self._loop.turn)
        self._commit = GroupCommit(
            self._writer,
            self.settings,
            self._next_job,
            self._job_done,
            self._set_state,
            self._inline,
        )
        if self.settings.disk_sync_strategy is DiskSyncStrategy.PERIODIC:
            self._tasks.append(spawn(self._sync_periodically, name="pyjms journal sync"))

    def _open(self) -> None:
        self._reader.clear()
        found = recover(self._files, self.settings, self._disk)
        self.corrupt = found.corrupt
        self._writer = SegmentWriter(self._files, self.settings, self._disk, found.end)
        self._writer.open()

    def fail_fast(self) -> None:
        """Stop waiting for disk space, because the journal is about to be closed."""
        if self._commit is not None:
            self._commit.fail_fast()

    async def close(self) -> None:
        """Write and sync all appended records and close the files. Idempotent.

        Raises:
            ResourceAllocationException: it could not be written.
        """
        if self._commit is not None:
            self.write_late()
        commit, self._commit = self._commit, None
        if commit is None:
            return
        with anyio.CancelScope(shield=True):
            self._builder.close_batch()
            commit.fail_fast()
            error = await self._write_all(commit)
            await end_tasks(*self._tasks)
            self._tasks.clear()
            await anyio.to_thread.run_sync(commit.stop)
            await anyio.to_thread.run_sync(self._close_files)
        if error is not None:
            raise ResourceAllocationException(
                f"Cannot write the end of the journal in {self.directory}: {error}"
            ) from error

    async def _write_all(self, commit: GroupCommit) -> Exception | None:
        if self.state is StoreState.FAILED:
            return None  # all waiting callers have been notified
        written = Completion()
        ended = anyio.Event()
        written.then(lambda _: ended.set())
        self._builder.add_waiter(written, sync=True)
        self._builder.requested = True
        commit.request()
        await ended.wait()
        return written.error

    def _close_files(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._files.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # -- writing

    def barrier(self, sync: bool = True) -> Completion:
        """Return a completion for all records appended so far: written, and with `sync` synced.

        It is `COMPLETED` if they are already. With the strategy NEVER nothing is synced.
        """
        commit = self._require_writable()
        self.write_late()
        writer = self._opened_writer()
        builder = self._builder
        pending = builder.has_records or commit.job is not None
        if not pending and (not sync or writer.synced >= writer.written):
            return COMPLETED
        waiter = Completion()
        builder.add_waiter(waiter, sync=sync)
        if not builder.requested:
            builder.requested = True
            commit.request()
        return waiter

    def set_segment_header(self, header: Callable[[], Sequence[bytes]]) -> None:
        """Begin each new segment with the payloads returned by `header`, which must not append."""
        self._builder.header = header

    def _request_write(self) -> None:
        self._require_writable().request()

    def _request_write_soon(self) -> None:
        assert self._loop is not None
        self._loop.call_later(_SOON, self._timer_expired)

    def _timer_expired(self) -> None:
        due = self._builder.timer_expired()
        if due and self._commit is not None and self.state is not StoreState.FAILED:
            self._builder.requested = True
            self._request_write()

    def write_late(self) -> None:
        """Append the late records now."""
        if self.late is not None:
            self.late.write()

    def _next_job(self) -> WriteJob:
        self.write_late()
        return self._builder.next_job()

    def call_next(self, function: Callable[[], object]) -> None:
        """Call `function()` in the loop's next iteration."""
        assert self._loop is not None, "the journal was opened"
        self._loop.call_next(function)

    def _job_done(self, job: WriteJob, error: Exception | None) -> Exception | None:
        """Handle the end of a job; return the error with which its waiters are completed."""
        if error is None:
            if self.state is StoreState.CONGESTED and not self._builder.is_congested:
                self._set_state(StoreState.RUNNING, None)
            return None
        logger.error("The journal in %s has failed", self.directory, exc_info=error)
        failure = ResourceAllocationException(
            f"Cannot write the journal in {self.directory}: {error}",
            hint="restart the broker when the disk works: it reads what was written",
        )
        failure.__cause__ = error
        job.waiters += self._builder.discard()
        if self.late is not None:
            job.waiters += self.late.discard()
        self._set_state(StoreState.FAILED, failure)
        return failure

    def _congest(self) -> None:
        if self.state is StoreState.RUNNING:
            self._set_state(StoreState.CONGESTED, None)

    def _set_state(self, state: StoreState, error: Exception | None) -> None:
        self.state = state
        self.error = error
        if self.on_state is not None:
            self.on_state(state, error)

    async def _sync_periodically(self) -> None:
        while True:
            await _clock.sleep(self.settings.disk_sync_interval)
            if self._commit is None or self.state is StoreState.FAILED:
                return
            if self.state is not StoreState.SUSPENDED:
                self.barrier(sync=True)

    def _preallocate_next(self, location: Location) -> None:
        """Start preallocating the next segment once this one is half full."""
        settings = self.settings
        if (
            settings.preallocation_scope is not PreallocationScope.NONE
            and self._preallocated_after != location.file_id
            and location.offset > settings.max_file_length // 2
        ):
            self._preallocated_after = location.file_id
            self._tasks = [task for task in self._tasks if not task.done]
            run = anyio.to_thread.run_sync
            self._tasks.append(spawn(run, self._files.prepare, name="pyjms journal segment"))

    def _check_writable(self) -> None:
        self._require_writable()

    def _require_writable(self) -> GroupCommit:
        commit = self._require_open()
        if self.state is StoreState.FAILED:
            raise ResourceAllocationException(
                f"The journal in {self.directory} has failed: {self.error}"
            )
        return commit

    def _require_open(self) -> GroupCommit:
        if self._commit is None:
            raise IllegalStateException(f"The journal in {self.directory} is not open")
        return self._commit

    def _opened_writer(self) -> SegmentWriter:
        if self._writer is None:
            raise IllegalStateException(f"The journal in {self.directory} was never open")
        return self._writer

    # -- reading

    def _unwritten(self, location: Location) -> bytes | None:
        job = self._commit.job if self._commit is not None else None
        batches = self._builder.batches()
        for batch in [*job.batches, *batches] if job is not None else batches:
            payload = batch.payload(location)
            if payload is not None:
                return payload
        return None

    def _written_for_reading(self) -> Location:
        self._require_open()
        return self.written

    # -- segments and statistics

    def segments(self) -> list[int]:
        """Return the numbers of the segments on the disk, ascending."""
        return sorted(self._files.lengths)

    async def delete(self, file_id: int) -> None:
        """Remove a segment, or move it to the archive; the change is durable on return.

        Raises:
            ValueError: it does not exist, or is still being written.
            ResourceAllocationException: the file cannot be removed.
        """
        if file_id not in self._files.lengths or file_id >= self.written.file_id:
            raise ValueError(
                f"Segment {file_id} cannot be removed: it does not exist, or is still written to"
            )
        self._files.close_reader(file_id)
        self._reader.drop(file_id)
        try:
            await anyio.to_thread.run_sync(self._files.delete, file_id)
        except OSError as error:
            raise ResourceAllocationException(
                f"Cannot remove segment {file_id} from {self.directory}: {error}"
            ) from error

    @property
    def end(self) -> Location:
        """The location of the next record; everything appended so far lies before it."""
        return self._builder.end

    @property
    def records(self) -> int:
        """The number of records in closed batches, written or not."""
        return self._builder.records

    written = DelegatedAttribute[Location](
        _opened_writer, "The end of what is written.", read_only=True
    )
    synced = DelegatedAttribute[Location](
        _opened_writer,
        "The end of what is durable; with the strategy NEVER, of what is written.",
        read_only=True,
    )
    syncs = DelegatedAttribute[int](
        _opened_writer, "How often written data was synced.", read_only=True
    )
    batches = DelegatedAttribute[int](
        _opened_writer, "How many batches were written.", read_only=True
    )

    @property
    def size(self) -> int:
        """The size of all segments on disk in bytes."""
        return self._files.lengths.total
