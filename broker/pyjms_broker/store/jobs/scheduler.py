"""The store of jobs: a log of commands and an index of the jobs, ordered by due time.

(activemq-persistence K7, K8, E3)

Theory of operation of the job store
------------------------------------

The journal is authoritative. Every change of a job is a KahaDB command that is appended to the
journal and then applied to the index; recovery applies the same commands, read back from the
journal. Only `apply` changes jobs in the index, and an index that is missing, damaged or
ActiveMQ's is simply rebuilt.

A job passes through these states:

=============  ======================  ===========================================================
state          command                 next state
=============  ======================  ===========================================================
(none)         add                     scheduled, due at `next_execution_time`
scheduled      reschedule              scheduled, due at another time; one repetition is used up
scheduled      add with the same id    scheduled, as the new job; `add` writes a remove first
scheduled      remove, remove range,   (none)
               destroy scheduler
=============  ======================  ===========================================================

Invariants:

- The message of a job is stored only in its add record; the index has its location. An add record
  must therefore stay in the journal as long as its job exists, even if the job was rescheduled.
- A record that removes a job stays in the journal longer than the record that added the job. If it
  were deleted first, the next rebuild would bring the job back. `cleanup` prevents that by removing
  segments strictly from the oldest to the newest.
- A job is rescheduled only after its message is durable in its destination. After a crash in
  between it is sent again: a job may be duplicated, but is never lost.
- The index covers the journal up to one exact record: `Coverage` has its location and the checksum
  of its payload, written in the same SQLite transaction as the jobs. Recovery replays the rest.

Because of the order in which segments are removed, a long-lived job would keep all segments since
its add record. Cleanup therefore rewrites the jobs of the oldest segment: a remove, an add with
the present state and, if the job was sent before, a reschedule with the count. The records are in
one batch, so a crash cannot lose the job. The remove comes first, because ActiveMQ may replay the
old add record as well, and would otherwise have the job twice.
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyjms.wire.kahadb.commands import (
    KahaAddScheduledJobCommand,
    KahaCommand,
    KahaDestroySchedulerCommand,
    KahaRemoveScheduledJobCommand,
    KahaRemoveScheduledJobsCommand,
    KahaRescheduleJobCommand,
)
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.fast_writer import patch_raw
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.files import create_private_file
from pyjms_broker.store.jobs.api import DEFAULT_SCHEDULER, EARLIEST, LATEST, ScheduledJob

_VERSION: Final = 1
_PAGE: Final = 500
_NUMBER: Final = 32
_CREATE: Final = (
    """CREATE TABLE jobs (
        scheduler TEXT NOT NULL, job_id TEXT NOT NULL, next_time INTEGER NOT NULL,
        number INTEGER NOT NULL, start_time INTEGER NOT NULL, cron_entry TEXT NOT NULL,
        delay INTEGER NOT NULL, period INTEGER NOT NULL, repeat INTEGER NOT NULL,
        execution_count INTEGER NOT NULL, file_id INTEGER NOT NULL, file_offset INTEGER NOT NULL,
        size INTEGER NOT NULL, PRIMARY KEY (scheduler, job_id)) WITHOUT ROWID""",
    "CREATE INDEX jobs_due ON jobs (scheduler, next_time, number)",
    "CREATE INDEX jobs_file ON jobs (file_id, file_offset, size)",
    """CREATE TABLE covered (
        file_id INTEGER NOT NULL, file_offset INTEGER NOT NULL, last_file_id INTEGER NOT NULL,
        last_offset INTEGER NOT NULL, last_digest INTEGER NOT NULL)""",
    f"PRAGMA user_version = {_VERSION}",
)
_JOB: Final = (
    "SELECT job_id, start_time, next_time, cron_entry, delay, period, repeat, execution_count"
)

_OUTSIDE: Final = "FROM jobs WHERE file_id NOT IN (SELECT value FROM json_each(?))"


class Coverage(NamedTuple):
    """The part of the journal that an index covers."""

    end: Location
    """The end of the covered records: the location of the first record not in the index."""
    last: Location
    """The location of the last covered record."""
    digest: int
    """The CRC-32 of the payload of the last covered record."""


class JobEntry(NamedTuple):
    """A job, its scheduler, and the location of its add record, which contains the message."""

    scheduler: str
    job: ScheduledJob
    location: Location


class JobIndex:
    """The jobs of all schedulers, in an SQLite file beside the journal.

    It contains the locations of the messages, not the messages. Changes stay in one open
    transaction until `commit` records how much of the journal they cover, so after a crash the
    index exactly matches the journal up to some record. It may be passed from one thread to
    another, but two threads must not use it concurrently. All methods raise sqlite3.Error.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the index at `path`, or in memory if None.

        A file of another version is emptied and set up again.
        """
        import sqlite3  # noqa: PLC0415 - a broker in memory opens no index before its first job

        if path is not None:
            create_private_file(path)
        self._connection = sqlite3.connect(
            ":memory:" if path is None else path, isolation_level=None, check_same_thread=False
        )
        try:
            self._open()
        except self._connection.Error:
            self._connection.close()
            raise

    def _open(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        if execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self._connection.DatabaseError("the index is damaged")
        if execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            tables = execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            execute("BEGIN")
            for (name,) in tables:
                execute(f'DROP TABLE "{name}"')
            for statement in _CREATE:
                execute(statement)
            execute("COMMIT")
        execute("BEGIN")

    @property
    def in_transaction(self) -> bool:
        """Whether the changes since the last commit can still be committed."""
        return self._connection.in_transaction

    def close(self) -> None:
        """Close the index, discarding uncommitted changes."""
        self._connection.close()

    def coverage(self) -> Coverage | None:
        """Return how much of the journal the index covers, or None if it is new."""
        row = self._connection.execute("SELECT * FROM covered").fetchone()
        return None if row is None else Coverage(Location(*row[:2]), Location(*row[2:4]), row[4])

    def commit(self, covered: Coverage) -> None:
        """Commit the changes so far, which cover the journal up to `covered`."""
        execute = self._connection.execute
        execute("DELETE FROM covered")
        execute(
            "INSERT INTO covered VALUES (?, ?, ?, ?, ?)",
            (*covered.end, *covered.last, covered.digest),
        )
        execute("COMMIT")
        execute("BEGIN")

    def clear(self) -> None:
        """Delete all jobs and the coverage."""
        self._connection.execute("DELETE FROM jobs")
        self._connection.execute("DELETE FROM covered")

    def add(self, scheduler: str, job: ScheduledJob, location: Location, size: int) -> None:
        """Add the job whose add record is at `location`, replacing one with the same id."""
        self._connection.execute(
            "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(scheduler, job.job_id, job.next_time, _number(location), job.start_time),
                *(job.cron_entry, job.delay, job.period, job.repeat, job.execution_count),
                *(location.file_id, location.offset, size),
            ),
        )

    def reschedule(
        self, scheduler: str, job_id: str, next_time: int, count: int, location: Location
    ) -> None:
        """Record that a job was sent for the `count`th time, which uses up one repetition.

        A cron job uses up none: its repetitions apply to the jobs that it starts.
        (activemq-broker S4)
        """
        self._connection.execute(
            "UPDATE jobs SET next_time = ?, number = ?, execution_count = ?,"
            " repeat = repeat - (repeat > 0 AND cron_entry = '')"
            " WHERE scheduler = ? AND job_id = ?",
            (next_time, _number(location), count, scheduler, job_id),
        )

    def remove(self, scheduler: str, job_id: str) -> None:
        """Delete a job."""
        self._connection.execute(
            "DELETE FROM jobs WHERE scheduler = ? AND job_id = ?", (scheduler, job_id)
        )

    def remove_range(self, scheduler: str, start: int, end: int) -> None:
        """Delete the jobs due from `start` to `end` inclusive."""
        self._connection.execute(
            "DELETE FROM jobs WHERE scheduler = ? AND next_time BETWEEN ? AND ?",
            (scheduler, start, end),
        )

    def remove_scheduler(self, scheduler: str) -> None:
        """Delete all jobs of a scheduler."""
        self._connection.execute("DELETE FROM jobs WHERE scheduler = ?", (scheduler,))

    def get(self, scheduler: str, job_id: str) -> JobEntry | None:
        """Return a job, or None."""
        try:
            job_id.encode()
        except UnicodeEncodeError:  # sqlite3 cannot look up such an id, and no job has it
            return None
        row = self._connection.execute(
            f"{_JOB}, file_id, file_offset FROM jobs WHERE scheduler = ? AND job_id = ?",
            (scheduler, job_id),
        ).fetchone()
        return None if row is None else _entry(scheduler, row)

    def next_time(self, scheduler: str) -> int | None:
        """Return the due time of the first job, or None if there is none."""
        found: int | None = self._connection.execute(
            "SELECT min(next_time) FROM jobs WHERE scheduler = ?", (scheduler,)
        ).fetchone()[0]
        return found

    def due(self, scheduler: str, now: int, limit: int) -> list[ScheduledJob]:
        """Return at most `limit` due jobs, ordered by due time."""
        rows = self._connection.execute(
            f"{_JOB} FROM jobs WHERE scheduler = ? AND next_time <= ?"
            " ORDER BY next_time, number LIMIT ?",
            (scheduler, now, limit),
        ).fetchall()
        return [ScheduledJob(*row) for row in rows]

    def jobs(self, scheduler: str, start: int, end: int) -> Iterator[ScheduledJob]:
        """Iterate over the jobs due from `start` to `end` in order, reading page by page."""
        at = (start, 0)
        while True:
            rows = self._connection.execute(
                f"{_JOB}, number FROM jobs WHERE scheduler = ? AND next_time <= ?"
                " AND (next_time, number) >= (?, ?) ORDER BY next_time, number LIMIT ?",
                (scheduler, end, *at, _PAGE),
            ).fetchall()
            for row in rows:
                yield ScheduledJob(*row[:8])
            if len(rows) < _PAGE:
                return
            at = (rows[-1][2], rows[-1][8] + 1)

    def count(self, scheduler: str) -> int:
        """Return the number of a scheduler's jobs."""
        found: int = self._connection.execute(
            "SELECT count(*) FROM jobs WHERE scheduler = ?", (scheduler,)
        ).fetchone()[0]
        return found

    def schedulers(self) -> list[str]:
        """Return the names of the schedulers that have jobs, sorted."""
        rows = self._connection.execute("SELECT DISTINCT scheduler FROM jobs ORDER BY scheduler")
        return [row[0] for row in rows]

    def in_segments_up_to(self, file_id: int, limit: int) -> list[JobEntry]:
        """Return at most `limit` jobs with add records in segment `file_id` or older ones."""
        rows = self._connection.execute(
            f"{_JOB}, file_id, file_offset, scheduler FROM jobs WHERE file_id <= ?"
            " ORDER BY file_id, file_offset LIMIT ?",
            (file_id, limit),
        ).fetchall()
        return [_entry(row[10], row) for row in rows]

    def count_outside_segments(self, file_ids: list[int]) -> int:
        """Return the number of jobs whose add records are in none of these segments."""
        found: int = self._connection.execute(
            f"SELECT count(*) {_OUTSIDE}", (json.dumps(file_ids),)
        ).fetchone()[0]
        return found

    def retain_segments(self, file_ids: list[int]) -> None:
        """Delete the jobs whose add records are in none of these segments."""
        self._connection.execute(f"DELETE {_OUTSIDE}", (json.dumps(file_ids),))

    def live_size(self) -> int:
        """Return the size of all jobs' add records in the journal, in bytes."""
        found: int = self._connection.execute("SELECT total(size) FROM jobs").fetchone()[0]
        return int(found)


def _number(location: Location) -> int:
    """Encode a journal location as a number, which orders jobs due at the same time."""
    return location.file_id << _NUMBER | location.offset


def _entry(scheduler: str, row: tuple[object, ...]) -> JobEntry:
    job = ScheduledJob(*row[:8])  # type: ignore[arg-type]
    return JobEntry(scheduler, job, Location(*row[8:10]))  # type: ignore[arg-type]


class JobSchedulerStore(ABC):
    """The schedulers of a broker. Call `start` before use, and all methods on the broker's loop.

    A subclass stores the records of all schedulers and their index. It only stores and finds jobs;
    the clock and the dispatch are the broker's scheduler's. (ActiveMQ JobSchedulerStore)
    """

    on_state: Callable[[StoreState, Exception | None], None] | None = None
    """Called on the broker's loop when the state changes, with the error that caused it."""
    state: StoreState = StoreState.RUNNING

    @abstractmethod
    async def start(self) -> None:
        """Open the store, waiting for its lock while another broker holds it. Cancellable."""

    @abstractmethod
    async def stop(self) -> None:
        """Write everything and close the store. Idempotent."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The size on disk, or of the messages in memory, in bytes."""

    @abstractmethod
    async def checkpoint(self) -> None:
        """Bring the index on disk up to date with the journal."""

    def scheduler(self, name: str = DEFAULT_SCHEDULER) -> JobScheduler:
        """Return a scheduler; one without jobs is the same as none."""
        return JobScheduler(name, self)

    def schedulers(self) -> list[str]:
        """Return the names of the schedulers that have jobs, sorted."""
        return self.index.schedulers()

    def remove_scheduler(self, name: str) -> Completion:
        """Remove a scheduler with its jobs."""
        return self.record(KahaDestroySchedulerCommand(name), sync=True)

    @property
    @abstractmethod
    def index(self) -> JobIndex:
        """The index of the records."""

    @property
    def is_empty(self) -> bool:
        """Whether there are certainly no jobs, which the index need not be asked for."""
        return False

    @abstractmethod
    def record(self, command: KahaCommand, *, sync: bool) -> Completion:
        """Store the command and apply it to the index; completed when written, or synced."""

    @abstractmethod
    def frame(self, location: Location) -> bytes:
        """Return the marshalled message of the job whose add record is at `location`."""


class JobScheduler:
    """The jobs under one scheduler name; returned by a `JobSchedulerStore`.

    The methods never wait. Those that change something return a `Completion`, `COMPLETED` if the
    change is already durable. A change is visible to the next call, before it is durable.

    Source: ActiveMQ JobScheduler, without its clock.
    """

    def __init__(self, name: str, store: JobSchedulerStore) -> None:
        self.name = name
        self._store = store

    def __len__(self) -> int:
        """Return the number of jobs."""
        return self._store.index.count(self.name)

    @property
    def next_time(self) -> int | None:
        """The due time of the first job, or None if there is none."""
        return self._store.index.next_time(self.name)

    def add(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion:
        """Store a job, replacing one with the same id; completed when it is durable."""
        patch_raw(message)
        command = _add_command(self.name, job, encode_message(message))
        self.remove(job.job_id)
        return self._store.record(command, sync=True)

    def reschedule(self, job_id: str, next_time: int) -> Completion:
        """Record that a job was sent, and its next due time; this uses up one repetition.

        Call it once the message is durable in its destination, so that a crash in between can
        only duplicate the message, not lose it. An unknown job is ignored.
        """
        job = self.get(job_id)
        if job is None:
            return COMPLETED
        count = job.execution_count + 1
        return self._store.record(
            KahaRescheduleJobCommand(self.name, job_id, job.next_time, next_time, count),
            sync=False,
        )

    def remove(self, job_id: str, *, sync: bool = False) -> Completion:
        """Remove a job; an unknown one is ignored. Completed when written (`sync`: synced)."""
        job = self.get(job_id)
        if job is None:
            return COMPLETED
        return self._store.record(
            KahaRemoveScheduledJobCommand(self.name, job_id, job.next_time), sync=sync
        )

    def remove_range(self, start: int = EARLIEST, end: int = LATEST) -> Completion:
        """Remove the jobs due from `start` to `end` inclusive; by default all."""
        return self._store.record(KahaRemoveScheduledJobsCommand(self.name, start, end), sync=True)

    def get(self, job_id: str) -> ScheduledJob | None:
        """Return a job, or None."""
        entry = self._store.index.get(self.name, job_id)
        return None if entry is None else entry.job

    def message(self, job_id: str) -> ActiveMQMessage | None:
        """Return a job's message as it was added, or None if there is no such job. May block."""
        entry = self._store.index.get(self.name, job_id)
        return None if entry is None else decode_message(self._store.frame(entry.location))

    def due(self, now: int, limit: int = 100) -> list[ScheduledJob]:
        """Return at most `limit` due jobs, ordered by due time."""
        return self._store.index.due(self.name, now, limit)

    def jobs(self, start: int = EARLIEST, end: int = LATEST) -> Iterator[ScheduledJob]:
        """Iterate over the jobs due from `start` to `end` inclusive, ordered by due time.

        Jobs are read page by page: those added or removed meanwhile may or may not be included.
        """
        return iter(()) if self._store.is_empty else self._store.index.jobs(self.name, start, end)


def rewrite_commands(entry: JobEntry, frame: bytes) -> list[KahaCommand]:
    """Return the commands that remove a job and add it again in its present state.

    An add record has no count of executions, so a reschedule record with the count follows it,
    which uses up a repetition.
    """
    scheduler, job = entry.scheduler, entry.job
    count = job.execution_count
    counted = count > 0 and job.repeat >= 0 and not job.cron_entry
    before = job._replace(repeat=job.repeat + 1) if counted else job
    commands: list[KahaCommand] = [
        KahaRemoveScheduledJobCommand(scheduler, job.job_id, job.next_time),
        _add_command(scheduler, before, frame),
    ]
    if count:
        time = job.next_time
        commands.append(KahaRescheduleJobCommand(scheduler, job.job_id, time, time, count))
    return commands


def _add_command(scheduler: str, job: ScheduledJob, frame: bytes) -> KahaAddScheduledJobCommand:
    repetition = (job.cron_entry, job.delay, job.period, job.repeat)
    return KahaAddScheduledJobCommand(
        scheduler, job.job_id, job.start_time, *repetition, frame, job.next_time
    )


def apply(index: JobIndex, command: KahaCommand, location: Location, size: int) -> None:
    """Apply a record to the index; records of other kinds have no effect."""
    action = _ACTIONS.get(command.CODE)
    if action is not None:
        action(index, command, location, size)


def _add(index: JobIndex, c: KahaAddScheduledJobCommand, location: Location, size: int) -> None:
    times = (c.start_time, c.next_execution_time)
    job = ScheduledJob(c.job_id, *times, c.cron_entry, c.delay, c.period, c.repeat)
    index.add(c.scheduler, job, location, size)


_ACTIONS: Final[dict[int, Callable[[JobIndex, Any, Location, int], None]]] = {
    KahaAddScheduledJobCommand.CODE: _add,
    KahaRescheduleJobCommand.CODE: lambda index, c, location, _: index.reschedule(
        c.scheduler, c.job_id, c.next_execution_time, c.rescheduled_count, location
    ),
    KahaRemoveScheduledJobCommand.CODE: lambda index, c, *_: index.remove(c.scheduler, c.job_id),
    KahaRemoveScheduledJobsCommand.CODE: lambda index, c, *_: index.remove_range(
        c.scheduler, c.start_time, c.end_time
    ),
    KahaDestroySchedulerCommand.CODE: lambda index, c, *_: index.remove_scheduler(c.scheduler),
}


_SINGLE_JOB_COMMANDS: Final = (KahaAddScheduledJobCommand, KahaRemoveScheduledJobCommand)
_MULTI_JOB_COMMANDS: Final = (KahaRemoveScheduledJobsCommand, KahaDestroySchedulerCommand)


class MemoryJobSchedulerStore(JobSchedulerStore):
    """A job store in memory: its jobs are lost when the broker stops. (activemq-persistence E1)

    Source: ActiveMQ InMemoryJobSchedulerStore.
    """

    def __init__(self) -> None:
        self._size = 0
        self._index: JobIndex | None = None
        self._frames: dict[Location, bytes] = {}
        self._numbers = itertools.count(1)

    @property
    def size(self) -> int:
        """The size of the jobs' messages in bytes."""
        return self._size

    @property
    def index(self) -> JobIndex:
        if self._index is None:
            self._index = JobIndex(None)
        return self._index

    @property
    def is_empty(self) -> bool:
        return not self._frames

    async def start(self) -> None:
        """Do nothing: there is nothing to open."""

    async def stop(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        self._frames.clear()
        self._size = 0

    async def checkpoint(self) -> None:
        """Do nothing: changes in memory cannot be made more durable."""

    def record(self, command: KahaCommand, *, sync: bool) -> Completion:
        """Apply the command to the index; completed at once."""
        location = Location(0, next(self._numbers))
        if isinstance(command, _SINGLE_JOB_COMMANDS):
            entry = self.index.get(command.scheduler, command.job_id)
            if entry is not None:
                self._discard_frame(entry.location)
        if isinstance(command, KahaAddScheduledJobCommand):
            self._frames[location] = command.payload
            self._size += len(command.payload)
        apply(self.index, command, location, 1)
        if isinstance(command, _MULTI_JOB_COMMANDS):
            kept = {entry.location for entry in self.index.in_segments_up_to(0, len(self._frames))}
            for removed in self._frames.keys() - kept:
                self._discard_frame(removed)
        return COMPLETED

    def frame(self, location: Location) -> bytes:
        """Return the marshalled message of the job that `record` stored at `location`."""
        return self._frames[location]

    def _discard_frame(self, location: Location) -> None:
        self._size -= len(self._frames.pop(location))
