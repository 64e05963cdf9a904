"""The job store in a KahaDB journal, which both ActiveMQ and this broker can open.

The journal is authoritative; an index that does not match it is rebuilt. If the directory contains
ActiveMQ's index, ActiveMQ has written last: that index is moved to `activemq-index`, so that
ActiveMQ will rebuild it, too. `scheduler` has the theory of operation. (activemq-persistence K2,
K7, K30, E3)

Segments are removed strictly from the oldest to the newest, so that the record that removes a job
always outlives the record that added it. A segment is removed when it contains no live job's add
record. When the journal is more than twice as large as its live records (plus two segments), the
jobs of the oldest segment are rewritten at the end of the journal; otherwise a single job that is
due next year would keep all later segments. ActiveMQ counts references per segment instead.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
from anyio import lowlevel, to_thread

from pyjms.errors import IllegalStateException, JMSException, ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import decode_command, encode_command
from pyjms.wire.kahadb.commands import KahaAddScheduledJobCommand, KahaCommand
from pyjms.wire.kahadb.journal import RECORD_HEAD, Location
from pyjms.wire.kahadb.segments import JournalRecord, Skipped
from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.store.adapters import FileAdapter
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.damage import Quarantine, is_damage, quarantine_record
from pyjms_broker.store.files import make_private_directory
from pyjms_broker.store.jobs.scheduler import (
    Coverage,
    JobIndex,
    JobSchedulerStore,
    apply,
    rewrite_commands,
)
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import JournalSettings

logger = get_logger(__name__)

INDEX: Final = "pyjms-index.db"
_INDEX_FILES: Final = (INDEX, f"{INDEX}-wal", f"{INDEX}-shm")
_ACTIVEMQ_INDEX: Final = ("scheduleDB.data", "scheduleDB.redo", "scheduleDB.free")
_ARCHIVE: Final = "activemq-index"
_PAGE: Final = 200
_SPARE_SEGMENTS: Final = 2

Last = tuple[Location, bytes]


def _recover(
    directory: Path, journal: Journal, ignore_missing: bool
) -> tuple[JobIndex, Last | None]:
    """Return the index, brought up to date with the journal, and the journal's last record."""
    if _archive_activemq_index(directory):
        _remove_index(directory)
    index, covered = _open(directory, journal)
    try:
        return index, _replay(index, journal, covered, ignore_missing)
    except BaseException:
        index.close()
        raise


def _archive_activemq_index(directory: Path) -> bool:
    """Move ActiveMQ's index out of ActiveMQ's sight; return whether there was one."""
    found = [directory / name for name in _ACTIVEMQ_INDEX if (directory / name).exists()]
    if found:
        # Our index first: ActiveMQ's is the only evidence, after a crash, that ActiveMQ wrote.
        _remove_index(directory)
        archive = directory / _ARCHIVE
        make_private_directory(archive)
        for path in found:
            path.replace(archive / path.name)
        logger.info("ActiveMQ has written to %s: rebuilding the job index", directory)
    return bool(found)


def _remove_index(directory: Path) -> None:
    for name in _INDEX_FILES:
        (directory / name).unlink(missing_ok=True)


def _open(directory: Path, journal: Journal) -> tuple[JobIndex, Coverage | None]:
    """Return the index and its coverage of the journal; (empty, None) if it is not usable."""
    path = directory / INDEX
    try:
        index = JobIndex(path)
    except sqlite3.DatabaseError as e:
        logger.warning("%s cannot be used and is rebuilt: %s", path, e)
        _remove_index(directory)
        return JobIndex(path), None
    covered = index.coverage()
    if covered is not None and not _matches(covered, journal):
        logger.warning("%s does not match the journal and is rebuilt", path)
        covered = None
    if covered is None:
        index.clear()
    return index, covered


def _matches(covered: Coverage, journal: Journal) -> bool:
    """Return whether the index covers an initial part of this journal."""
    if covered.end > journal.end:
        return False
    try:
        return zlib.crc32(journal.read_unchecked(covered.last)) == covered.digest
    except JMSException:
        return False


def _replay(
    index: JobIndex, journal: Journal, covered: Coverage | None, ignore_missing: bool
) -> Last | None:
    """Apply the records that the index does not cover yet; return the last record."""
    skipped: list[Skipped] = []
    replayed = 0
    last: JournalRecord | None = None
    for record in journal.records_from(None if covered is None else covered.end, skipped):
        try:
            apply(index, record.command(), record.location, record.size)
        except Exception as error:
            if not is_damage(error) and not isinstance(error, sqlite3.IntegrityError):
                raise
            quarantine_record(journal.directory, record.location, record.payload, error)
        last = record
        replayed += 1
    _check(index, journal, skipped, ignore_missing)
    if replayed:
        logger.info("Recovery replayed %d records of the job journal", replayed)
    if last is not None:
        return last.location, last.payload
    return None if covered is None else (covered.last, journal.read_unchecked(covered.last))


def _check(index: JobIndex, journal: Journal, skipped: list[Skipped], ignore_missing: bool) -> None:
    """Check that no segment with a job's message is missing or damaged."""
    damaged = {*journal.corrupt, *skipped}
    missing = index.count_outside_segments(journal.segments())
    if not damaged and not missing:
        return
    found = f"{len(damaged)} damaged areas in the journal, {missing} jobs in missing segments"
    if not ignore_missing:
        raise ResourceAllocationException(
            f"Detected missing/corrupt journal files in {journal.directory}: {found}",
            hint="restore the files, or set ignore_missing_journalfiles to start without them",
        )
    logger.error("%s: %s; starting without them", journal.directory, found)
    index.retain_segments(journal.segments())


class KahaDBJobSchedulerStore(FileAdapter, JobSchedulerStore):
    """A job store in a directory. Source: ActiveMQ JobSchedulerStoreImpl."""

    def __init__(
        self,
        directory: Path,
        journal: JournalSettings | None = None,
        *,
        disk: Disk = OS_DISK,
        checkpoint_interval: float = 5.0,
        cleanup_interval: float = 30.0,
        ignore_missing_journalfiles: bool = False,
        use_lock: bool = True,
        fail_if_locked: bool = False,
        lock_acquire_sleep_interval: float = 10.0,
    ) -> None:
        """Configure the store; `start` opens it. Intervals are in seconds; 0: only at the stop.

        With `ignore_missing_journalfiles`, jobs whose records are missing or damaged are dropped
        and their number is logged; otherwise `start` fails.
        """
        super().__init__(
            directory,
            use_lock=use_lock,
            fail_if_locked=fail_if_locked,
            lock_acquire_sleep_interval=lock_acquire_sleep_interval,
        )
        self.journal = Journal(directory, journal, disk, self._journal_state)
        self._index: JobIndex | None = None
        self._last: tuple[Location, bytes] | None = None
        self._checkpoint_interval = checkpoint_interval
        self._cleanup_interval = cleanup_interval
        self._ignore_missing = ignore_missing_journalfiles
        self._quarantine = Quarantine()
        self._tasks: list[event_loop.BackgroundTask] = []
        self._maintenance_lock = anyio.Lock()

    async def start(self) -> None:
        """Open the store, waiting for its lock while another broker holds it. Cancellable."""
        try:  # the lock's file is in the directory
            await to_thread.run_sync(make_private_directory, self.directory)
        except OSError as error:
            raise self._cannot_open(error) from error
        await super().start()
        for interval, work in (
            (self._checkpoint_interval, self.checkpoint),
            (self._cleanup_interval, self.cleanup),
        ):
            if interval:
                self._tasks.append(
                    event_loop.spawn(
                        _repeat, interval, work, name="job store", on_error=self._fail_with
                    )
                )

    async def _open(self) -> None:
        try:
            await self.journal.open()
            self._index, self._last = await to_thread.run_sync(
                _recover, self.directory, self.journal, self._ignore_missing
            )
        except (OSError, sqlite3.Error) as error:
            raise self._cannot_open(error) from error

    def _cannot_open(self, error: Exception) -> ResourceAllocationException:
        return ResourceAllocationException(
            f"The job store in {self.directory} cannot be opened: {error}"
        )

    @property
    def _is_open(self) -> bool:
        return self._index is not None

    async def stop(self) -> None:
        """Write everything and close the store. Idempotent."""
        tasks, self._tasks = self._tasks, []
        await event_loop.end_tasks(*tasks)
        self.journal.fail_fast()  # a full disk must not keep the store from closing
        if self._index is not None and self.state is not StoreState.FAILED:
            try:
                await self.cleanup()
            except JMSException as e:
                logger.error(
                    "The job store in %s is closed without a last checkpoint: %s", self.directory, e
                )
        await self._close()

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            index, self._index = self._index, None
            if index is not None:
                index.close()
            try:
                await self.journal.close()
            finally:
                self._lock.release()

    @property
    def size(self) -> int:
        """The size of the journal's segments in bytes."""
        return self.journal.size

    async def checkpoint(self) -> None:
        """Sync the journal and commit the index up to its end."""
        async with self._maintenance_lock:
            await self._checkpoint()

    async def cleanup(self) -> None:
        """Write a checkpoint and remove the segments that no job needs."""
        async with self._maintenance_lock:
            await self._delete_oldest_segments()

    async def _delete_oldest_segments(self) -> None:
        """Delete the oldest segments that hold no jobs, or few enough to rewrite them."""
        journal, index = self.journal, self.index
        await self._checkpoint()
        while True:
            oldest = journal.segments()[:1]
            if not oldest or oldest[0] >= journal.written.file_id:
                return
            if index.in_segments_up_to(oldest[0], 1):
                spare = _SPARE_SEGMENTS * journal.settings.max_file_length
                if journal.size <= 2 * index.live_size() + spare:
                    return
                while page := index.in_segments_up_to(oldest[0], _PAGE):
                    for entry in page:
                        if not self.rewrite(entry.scheduler, entry.job.job_id):
                            return  # later segments may hold records that remove jobs of this one
                    await lowlevel.checkpoint()
                await self._checkpoint()
            await journal.delete(oldest[0])

    @property
    def index(self) -> JobIndex:
        """The index."""
        if self._index is None:
            raise IllegalStateException(f"The job store in {self.directory} is not open")
        return self._index

    def record(self, command: KahaCommand, *, sync: bool) -> Completion:
        """Append the command and apply it to the index; completed when written, or synced."""
        payload = encode_command(command)
        waiter = Completion()
        self._apply(command, self.journal.append(payload, waiter, sync=sync), payload)
        return waiter

    def rewrite(self, scheduler: str, job_id: str) -> bool:
        """Append a job's records again, with its present state, and index their locations.

        They are in one batch, so a crash cannot lose the job. The first record removes the job:
        ActiveMQ may replay the old records as well, and would otherwise have the job twice.
        Returns False if the job cannot be read: its record must stay.
        """
        entry = self.index.get(scheduler, job_id)
        if entry is None:
            return True
        try:
            frame = self.frame(entry.location)
        except Exception as error:
            if not is_damage(error):
                raise
            self._quarantine.add(f"scheduler {scheduler}", job_id, entry.location, error)
            return False
        commands = rewrite_commands(entry, frame)
        payloads = [encode_command(command) for command in commands]
        locations = self.journal.append_together(payloads)
        for command, payload, location in zip(commands, payloads, locations, strict=True):
            self._apply(command, location, payload)
        return True

    def frame(self, location: Location) -> bytes:
        """Return the marshalled message of the job whose add record is at `location`."""
        command = decode_command(self.journal.read(location))
        assert isinstance(command, KahaAddScheduledJobCommand), "only add records are indexed"
        return command.payload

    def _apply(self, command: KahaCommand, location: Location, payload: bytes) -> None:
        try:
            apply(self.index, command, location, RECORD_HEAD.size + len(payload))
        except sqlite3.Error as e:
            raise self._fail(e) from e
        self._last = (location, payload)

    async def _checkpoint(self) -> None:
        await wait_for(self.journal.barrier(sync=True))
        if self._last is None:
            return
        location, payload = self._last
        try:
            self.index.commit(Coverage(self.journal.end, location, zlib.crc32(payload)))
        except sqlite3.Error as e:
            if not self.index.in_transaction:
                raise self._fail(e) from e
            logger.warning(
                "The job index in %s cannot be written and will be retried: %s", self.directory, e
            )

    def _journal_state(self, state: StoreState, error: Exception | None) -> None:
        if self.state is not StoreState.FAILED:
            self._report(state, error)

    def _fail_with(self, error: BaseException) -> None:
        self._fail(error)

    def _fail(self, error: BaseException) -> JMSException:
        failure = ResourceAllocationException(f"The job store in {self.directory}: {error}")
        if self.state is not StoreState.FAILED:
            logger.error("%s", failure, exc_info=error)
            self._report(StoreState.FAILED, failure)
        return failure


async def _repeat(interval: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await _clock.sleep(interval)
        await work()
