"""The job store in KahaDB's journal: ActiveMQ opens it, and it opens ActiveMQ's.

The journal is the only truth; the index is made again from it when it does not fit. ActiveMQ's
own index in the folder means that ActiveMQ wrote last: it is moved aside, so that ActiveMQ, too,
makes its own again. Segments go in their order only, so no removal is forgotten before what it
removed; `cleanup` says how. (persistence K2, K7, K30, E3)
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from broker.api.completion import Completion, wait_for
from broker.store.api import StoreState
from broker.store.file_lock import SharedFileLock
from broker.store.jobs.api import DEFAULT_SCHEDULER, JobScheduler
from broker.store.jobs.cleanup import clean_up
from broker.store.jobs.index import Coverage, JobIndex
from broker.store.jobs.recovery import delete_job_files, recover
from broker.store.jobs.scheduler import JournaledJobScheduler, apply, rewrite_commands
from broker.store.journal.disk import OS_DISK, Disk
from broker.store.journal.journal import Journal
from broker.store.journal.settings import JournalSettings
from pyjms import _clock, _wakeup
from pyjms.errors import IllegalStateException, JMSException, ResourceAllocationException
from pyjms.wire.kahadb.codec import decode_command, encode_command
from pyjms.wire.kahadb.commands import KahaAddScheduledJobCommand, KahaDestroySchedulerCommand
from pyjms.wire.kahadb.journal import RECORD_HEAD, Location
from pyjms.wire.kahadb.structures import KahaCommand

__all__ = ["KahaDBJobSchedulerStore"]

logger = logging.getLogger(__name__)

_LOCK: Final = "lock"


class KahaDBJobSchedulerStore:
    """The jobs in a folder. Source: ActiveMQ JobSchedulerStoreImpl."""

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
        """Make it. Intervals are seconds; 0: only at the stop.

        With `ignore_missing_journalfiles` jobs whose records are missing or damaged are
        dropped, with their number in the log, where else the start fails.
        """
        self.directory = directory
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        self.journal = Journal(directory, journal, disk, self._journal_state)
        self._index: JobIndex | None = None
        self._last: tuple[Location, bytes] | None = None
        self._checkpoint_interval = checkpoint_interval
        self._cleanup_interval = cleanup_interval
        self._ignore_missing = ignore_missing_journalfiles
        self._lock = (
            SharedFileLock(
                directory / _LOCK,
                fail_if_locked=fail_if_locked,
                lock_acquire_sleep_interval=lock_acquire_sleep_interval,
            )
            if use_lock
            else None
        )
        self._begin_anew = False
        self._failed = False
        self._tasks: list[_wakeup.BackgroundTask] = []
        self._busy = anyio.Lock()

    # As a JobSchedulerStore.

    async def start(self) -> None:
        """Open it; waits for its lock where another broker has it.

        Raises:
            JMSException: it cannot be opened.
        """
        try:
            await to_thread.run_sync(_make, self.directory)
            if self._lock is not None:
                await self._lock.acquire()
            if self._begin_anew:
                await to_thread.run_sync(delete_job_files, self.directory)
            await self.journal.open()
            self._index, self._last = await to_thread.run_sync(
                recover, self.directory, self.journal, self._ignore_missing
            )
        except (OSError, sqlite3.Error) as e:
            await self._close()
            raise ResourceAllocationException(
                f"The job store in {self.directory} cannot be opened: {e}"
            ) from e
        except BaseException:
            await self._close()
            raise
        self._begin_anew = False
        for interval, work in (
            (self._checkpoint_interval, self.checkpoint),
            (self._cleanup_interval, self.cleanup),
        ):
            if interval:
                self._tasks.append(
                    _wakeup.spawn(
                        _repeat, interval, work, name="job store", on_error=self._task_broken
                    )
                )

    async def stop(self) -> None:
        """Write what is not written and close it. Idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
            await task.wait()
        self.journal.fail_fast()  # a disk that is full now must not keep the store from its end
        if self._index is not None and self.state is not StoreState.FAILED:
            try:
                await self.cleanup()
            except JMSException as e:
                logger.error("The job store in %s is closed unfinished: %s", self.directory, e)
        await self._close()

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            index, self._index = self._index, None
            if index is not None:
                index.close()
            try:
                await self.journal.close()
            finally:
                if self._lock is not None:
                    self._lock.release()

    @property
    def state(self) -> StoreState:
        return StoreState.FAILED if self._failed else self.journal.state

    @property
    def size(self) -> int:
        """Bytes of the journal's segments."""
        return self.journal.size

    def scheduler(self, name: str = DEFAULT_SCHEDULER) -> JobScheduler:
        return JournaledJobScheduler(name, self)

    def schedulers(self) -> list[str]:
        return self.index.schedulers()

    def remove_scheduler(self, name: str) -> Completion | None:
        return self.record(KahaDestroySchedulerCommand(name), sync=True)

    async def checkpoint(self) -> None:
        """Sync the journal, and have the index on the disk reach as far.

        Raises:
            JMSException: the journal has failed.
        """
        async with self._busy:
            await self._checkpoint()

    async def cleanup(self) -> None:
        """A checkpoint, and then the segments go that nobody needs.

        Raises:
            JMSException: the journal has failed.
        """
        async with self._busy:
            await clean_up(self.journal, self.index, self.rewrite, self._checkpoint)

    async def delete_all_jobs(self) -> None:
        """Begin with nothing; before `start` only, which does it once it has the lock."""
        self._begin_anew = True

    # For schedulers.

    @property
    def index(self) -> JobIndex:
        if self._index is None:
            raise IllegalStateException(f"The job store in {self.directory} is not open")
        return self._index

    def record(self, command: KahaCommand, *, sync: bool) -> Completion | None:
        """Append the command and apply it to the index; done when written, or synced."""
        payload = encode_command(command)
        waiter = Completion()
        self._apply(command, self.journal.append(payload, waiter, sync=sync), payload)
        return waiter

    def rewrite(self, scheduler: str, job_id: str) -> None:
        """Append a job's records anew, as it is now, and have the index mean those.

        They lie in one batch, so no crash leaves the job out. It is removed first, since
        ActiveMQ, which may find both, would have it twice.
        """
        entry = self.index.get(scheduler, job_id)
        if entry is None:
            return
        commands = rewrite_commands(entry, self.frame(entry.location))
        payloads = [encode_command(command) for command in commands]
        locations = self.journal.append_together(payloads)
        for command, payload, location in zip(commands, payloads, locations, strict=True):
            self._apply(command, location, payload)

    def frame(self, location: Location) -> bytes:
        """Return the message of the job whose record lies there."""
        command = decode_command(self.journal.read(location))
        assert isinstance(command, KahaAddScheduledJobCommand), "the index says so"
        return command.payload

    def _apply(self, command: KahaCommand, location: Location, payload: bytes) -> None:
        try:
            apply(self.index, command, location, RECORD_HEAD.size + len(payload))
        except sqlite3.Error as e:
            raise self._broken(e) from e
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
                raise self._broken(e) from e
            logger.warning("The index in %s is not written, tried again: %s", self.directory, e)

    def _journal_state(self, state: StoreState, error: Exception | None) -> None:
        if self.on_state is not None:
            self.on_state(state, error)

    def _broken(self, error: BaseException) -> JMSException:
        failure = ResourceAllocationException(f"The job store in {self.directory}: {error}")
        if self.state is not StoreState.FAILED:
            logger.error("%s", failure, exc_info=error)
            self._failed = True
            self._journal_state(StoreState.FAILED, failure)
        return failure

    def _task_broken(self, error: BaseException) -> None:
        self._broken(error)


async def _repeat(interval: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await _clock.sleep(interval)
        await work()


def _make(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
