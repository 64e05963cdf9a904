"""The journal: records are appended, written in batches, synced for those who wait, and read.

All of it belongs to one loop. `append` never waits: the loop alone lays the batches out, so a
record's place is known at once, before it is written. Waiters are answered on the loop, in the
journal's order, by the sync that covers them. (persistence K3 to K6, K13, K27)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread

from broker.completion import Completion
from broker.store.api import StoreState
from broker.store.journal.batch import WriteJob
from broker.store.journal.batch_builder import BatchLayout
from broker.store.journal.disk import OS_DISK, Disk
from broker.store.journal.group_commit import GroupCommit
from broker.store.journal.recovery import recover
from broker.store.journal.segment_files import SegmentFiles, runs
from broker.store.journal.segment_writer import SegmentWriter
from broker.store.journal.settings import DiskSyncStrategy, JournalSettings, PreallocationScope
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, LoopHandle, spawn
from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import JournalRecord, SegmentReader, Skipped

__all__ = ["Journal"]

logger = logging.getLogger(__name__)

_SOON = 0.005
"""Seconds that a record with nobody waiting for it may stay unwritten: acknowledgements come
from many consumers, and a write for each costs more than all the rest of it."""

StateListener = Callable[[StoreState, Exception | None], None]


class Journal(BatchLayout):
    """A folder of segments that grows at its end.

    `corrupt` says what `open` found damaged. `syncs`, `batches` and `records` count.
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
        """Make it; `open` opens it. `inline` forces where it writes (None: adapts)."""
        self.directory = directory
        super().__init__(settings or JournalSettings())
        self.on_state = on_state
        self.state = StoreState.RUNNING
        self.error: Exception | None = None
        self.corrupt: tuple[Skipped, ...] = ()
        self._disk = disk
        self._inline = inline
        self._files = SegmentFiles(directory, self.settings, disk)
        self._writer: SegmentWriter | None = None
        self._commit: GroupCommit | None = None
        self._tasks: list[BackgroundTask] = []
        self._spare_for = 0

    # -- opening and closing

    async def open(self) -> None:
        """Find the end of the journal, cut what is torn behind it, and get ready to append.

        Raises:
            ResourceAllocationException: the disk does not let it.
        """
        try:
            await anyio.to_thread.run_sync(self._open)
        except OSError as error:
            raise self._not_opened(error) from error
        self._begin()

    def open_now(self) -> None:
        """Open it on the loop, which it blocks: for a small or new journal. Raises as `open`."""
        try:
            self._open()
        except OSError as error:
            raise self._not_opened(error) from error
        self._begin()

    def _not_opened(self, error: OSError) -> ResourceAllocationException:
        self._close_files()
        return ResourceAllocationException(f"Cannot open the journal in {self.directory}: {error}")

    def _begin(self) -> None:
        assert self._writer is not None
        self.state, self.error = StoreState.RUNNING, None
        self._loop = LoopHandle()
        self._chunk = self._loop.turn
        self._commit = GroupCommit(
            self._writer, self.settings, self._take, self._done, self._set_state, self._inline
        )
        if self.settings.disk_sync_strategy is DiskSyncStrategy.PERIODIC:
            self._tasks.append(spawn(self._sync_periodically, name="pyjms journal sync"))

    def _open(self) -> None:
        found = recover(self._files, self.settings, self._disk)
        self.corrupt = found.corrupt
        self._file_id, self._at = found.end
        self._writer = SegmentWriter(self._files, self.settings, self._disk, found.end)
        self._writer.open()

    def hurry(self) -> None:
        """From now on do not wait for space on the disk: it is about to be closed."""
        if self._commit is not None:
            self._commit.hurry()

    async def close(self) -> None:
        """Write and sync all that was appended, and let go of the files. Idempotent.

        Raises:
            ResourceAllocationException: it could not be written.
        """
        commit, self._commit = self._commit, None
        if commit is None:
            return
        with anyio.CancelScope(shield=True):
            self._close_batch()
            commit.hurry()
            error = await self._write_all(commit)
            for task in self._tasks:
                task.cancel()
                await task.wait()
            self._tasks.clear()
            await anyio.to_thread.run_sync(commit.stop)
            await anyio.to_thread.run_sync(self._close_files)
        if error is not None:
            raise ResourceAllocationException(
                f"The end of the journal in {self.directory} is not written: {error}"
            ) from error

    async def _write_all(self, commit: GroupCommit) -> Exception | None:
        if self.state is StoreState.FAILED:
            return None  # everybody has heard of it
        written = Completion()
        ended = anyio.Event()
        written.then(lambda _: ended.set())
        self._waiters.append(written)
        self._senders += 1
        self._sync = True
        self._requested = True
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

    def barrier(self, sync: bool = True) -> Completion | None:
        """Return what is done when all appended so far is written, and synced if asked.

        None: it is already. With the strategy NEVER nothing is synced.
        """
        commit = self._opened()
        writer = self._written_by()
        pending = self._batch is not None or self._full or commit.job is not None
        if not pending and (not sync or writer.synced >= writer.written):
            return None
        waiter = Completion()
        self._waiters.append(waiter)
        self._senders += 1
        self._sync |= sync
        if not self._requested:
            self._request()
        return waiter

    def _request(self) -> None:
        self._requested = True
        self._opened().request()

    def _request_soon(self) -> None:
        self._loop.call_later(_SOON, self._is_due)

    def _is_due(self) -> None:
        self._is_timed = False
        open_still = self._commit is not None and self.state is not StoreState.FAILED
        if open_still and not self._requested and (self._batch is not None or self._full):
            self._request()

    # -- what the group commit asks for and tells

    def _done(self, job: WriteJob, error: Exception | None) -> Exception | None:
        """Hear of a job's end; returns what its waiters are told."""
        if error is None:
            if (
                self.state is StoreState.CONGESTED
                and self._full_bytes <= self.settings.max_waiting_bytes // 2
                and len(self._waiters) <= self.settings.max_async_jobs // 2
            ):
                self._set_state(StoreState.RUNNING, None)
            return None
        logger.error("The journal in %s has failed", self.directory, exc_info=error)
        failure = ResourceAllocationException(f"Cannot write the journal: {error}")
        failure.__cause__ = error
        self._close_batch()
        job.waiters += self._waiters
        self._full, self._full_bytes, self._waiters = [], 0, []
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

    def _make_spare(self) -> None:
        """Have the next segment made while this one fills."""
        settings = self.settings
        if (
            settings.preallocation_scope is not PreallocationScope.NONE
            and self._spare_for != self._file_id
            and self._at > settings.max_file_length // 2
        ):
            self._spare_for = self._file_id
            self._tasks = [task for task in self._tasks if not task.done]
            make = anyio.to_thread.run_sync
            self._tasks.append(spawn(make, self._files.prepare, name="pyjms journal segment"))

    def _check_open(self) -> None:
        self._opened()

    def _opened(self) -> GroupCommit:
        commit = self._check_readable()
        if self.state is StoreState.FAILED:
            raise ResourceAllocationException(f"The journal has failed: {self.error}")
        return commit

    def _check_readable(self) -> GroupCommit:
        if self._commit is None:
            raise IllegalStateException(f"The journal in {self.directory} is not open")
        return self._commit

    def _written_by(self) -> SegmentWriter:
        if self._writer is None:
            raise IllegalStateException(f"The journal in {self.directory} was never open")
        return self._writer

    # -- reading

    def read(self, location: Location) -> bytes:
        """Return the payload of the record at `location`; reads the disk if it was written.

        Raises:
            KahaDBFormatError: no record begins there.
            ResourceAllocationException: it cannot be read.
        """
        self._check_readable()
        if location >= self.written:
            payload = self._unwritten(location)
            if payload is not None:
                return payload
        try:
            return self._files.read(location)
        except OSError as error:
            raise _unreadable(location, error) from error

    def read_run(self, locations: Sequence[Location]) -> list[bytes]:
        """Return the payloads of several records; neighbours cost one read.

        Raises:
            KahaDBFormatError: no record begins at one of them.
            ResourceAllocationException: one cannot be read.
        """
        self._check_readable()
        payloads: list[bytes] = []
        written = self.written
        for run in runs(locations):
            if len(run) == 1 or run[-1] >= written:
                payloads += [self.read(location) for location in run]
                continue
            try:
                payloads += self._files.read_run(run)
            except OSError as error:
                raise _unreadable(run[0], error) from error
        return payloads

    def _unwritten(self, location: Location) -> bytes | None:
        batches = [*self._full, self._batch] if self._batch is not None else self._full
        job = self._commit.job if self._commit is not None else None
        for batch in [*job.batches, *batches] if job is not None else batches:
            payload = batch.payload(location)
            if payload is not None:
                return payload
        return None

    def records_from(
        self, start: Location | None = None, skipped: list[Skipped] | None = None
    ) -> Iterator[JournalRecord]:
        """Yield all written records of whole batches from `start` on; blocks, for a thread.

        What is damaged is passed over and noted in `skipped`.

        Raises:
            OSError: a segment cannot be read.
        """
        end = self.written
        first = start or Location(0, 0)
        for file_id in self.segments():
            if not first.file_id <= file_id <= end.file_id:
                continue
            data = memoryview(self._files.read_segment(file_id))
            if file_id == end.file_id:
                data = data[: end.offset]
            offset = first.offset if file_id == first.file_id else 0
            reader = SegmentReader(data, file_id, start=offset)
            yield from reader.records()
            if skipped is not None:
                skipped += reader.skipped

    # -- segments and figures

    def segments(self) -> list[int]:
        """Return the numbers of the segments on the disk, ascending."""
        return sorted(self._files.lengths)

    async def delete(self, file_id: int) -> None:
        """Remove a segment, or move it to the archive; for good when it returns.

        Raises:
            ValueError: it is not there, or still written to.
            ResourceAllocationException: the disk does not let it.
        """
        if file_id not in self._files.lengths or file_id >= self.written.file_id:
            raise ValueError(f"Segment {file_id} cannot be removed")
        self._files.forget(file_id)
        try:
            await anyio.to_thread.run_sync(self._files.delete, file_id)
        except OSError as error:
            raise ResourceAllocationException(
                f"Cannot remove segment {file_id}: {error}"
            ) from error

    @property
    def written(self) -> Location:
        """Up to where the journal is written."""
        return self._written_by().written

    @property
    def synced(self) -> Location:
        """Up to where it is safe; with the strategy NEVER, what is written."""
        return self._written_by().synced

    @property
    def size(self) -> int:
        """Bytes of all segments on the disk."""
        return self._files.lengths.total

    @property
    def syncs(self) -> int:
        """How often the disk was synced for what was written."""
        return self._written_by().syncs

    @property
    def batches(self) -> int:
        """How many batches were written."""
        return self._written_by().batches


def _unreadable(location: Location, error: OSError) -> ResourceAllocationException:
    return ResourceAllocationException(f"Cannot read the journal at {location}: {error}")
