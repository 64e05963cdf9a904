"""The job index: the jobs ordered by due time, in an SQLite file beside the journal.

It contains the locations of the messages, not the messages, and can be rebuilt from the journal at
any time. Changes stay in one open transaction until `commit` records how much of the journal they
cover, so after a crash the index exactly matches the journal up to some record. It may be passed
from one thread to another, but two threads must not use it concurrently.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pyjms.wire.kahadb.journal import Location
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.private_files import create_private_file

__all__ = ["Coverage", "JobEntry", "JobIndex"]

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
    """The jobs of all schedulers. All methods raise sqlite3.Error."""

    def __init__(self, path: Path | None) -> None:
        """Open the index at `path`, or in memory if None.

        A file of another version is emptied and set up again.
        """
        if path is not None:
            create_private_file(path)
        self._connection = sqlite3.connect(
            ":memory:" if path is None else path, isolation_level=None, check_same_thread=False
        )
        try:
            self._open()
        except sqlite3.Error:
            self._connection.close()
            raise

    def _open(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        if execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("the index is damaged")
        if execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            tables = execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (name,) in tables:
                execute(f'DROP TABLE "{name}"')
            for statement in _CREATE:
                execute(statement)
        execute("BEGIN")

    @property
    def in_transaction(self) -> bool:
        """Whether the changes since the last commit can still be committed."""
        return self._connection.in_transaction

    def close(self) -> None:
        """Close the index, discarding uncommitted changes."""
        self._connection.close()

    def covered(self) -> Coverage | None:
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
