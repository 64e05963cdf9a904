"""The jobs of one scheduler, stored as a log of commands and an index.

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

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from pyjms.wire.kahadb.commands import (
    KahaAddScheduledJobCommand,
    KahaDestroySchedulerCommand,
    KahaRemoveScheduledJobCommand,
    KahaRemoveScheduledJobsCommand,
    KahaRescheduleJobCommand,
)
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaCommand
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.raw import patch_raw
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.jobs.api import (
    DEFAULT_SCHEDULER,
    EARLIEST,
    LATEST,
    JobScheduler,
    ScheduledJob,
)
from pyjms_broker.store.jobs.index import JobEntry, JobIndex

__all__ = ["JobLog", "JournaledJobScheduler", "JournaledSchedulers", "apply", "rewrite_commands"]


class JobLog(Protocol):
    """The storage of all schedulers' records (a journal or memory), and their index."""

    @property
    def index(self) -> JobIndex: ...

    def record(self, command: KahaCommand, *, sync: bool) -> Completion:
        """Store the command and apply it to the index."""

    def frame(self, location: Location) -> bytes:
        """Return the marshalled message of the job whose add record is at `location`.

        Raises:
            JMSException: it cannot be read.
        """


class JournaledSchedulers:
    """The schedulers of a store that is a `JobLog`."""

    def scheduler(self: JobLog, name: str = DEFAULT_SCHEDULER) -> JobScheduler:
        """Return a scheduler; one without jobs is the same as none."""
        return JournaledJobScheduler(name, self)

    def schedulers(self: JobLog) -> list[str]:
        """Return the names of the schedulers that have jobs."""
        return self.index.schedulers()

    def remove_scheduler(self: JobLog, name: str) -> Completion:
        """Remove a scheduler with its jobs."""
        return self.record(KahaDestroySchedulerCommand(name), sync=True)


class JournaledJobScheduler:
    """A scheduler on a job log; see `JobScheduler` for the methods."""

    def __init__(self, name: str, log: JobLog) -> None:
        self.name = name
        self._log = log

    def __len__(self) -> int:
        """Return the number of jobs."""
        return self._log.index.count(self.name)

    @property
    def next_time(self) -> int | None:
        """The due time of the first job, or None if there is none."""
        return self._log.index.next_time(self.name)

    def add(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion:
        """Store a job, replacing one with the same id; completed when it is durable.

        Raises:
            LocalProtocolError: the message cannot be marshalled, or a number is too large.
        """
        patch_raw(message)
        command = _add_command(self.name, job, encode_message(message))
        self.remove(job.job_id)
        return self._log.record(command, sync=True)

    def reschedule(self, job_id: str, next_time: int) -> Completion:
        """Record that a job was sent, and its next due time; this uses up one repetition.

        Call it once the message is durable in its destination, so that a crash in between can
        only duplicate the message, not lose it. An unknown job is ignored.
        """
        job = self.get(job_id)
        if job is None:
            return COMPLETED
        count = job.execution_count + 1
        return self._log.record(
            KahaRescheduleJobCommand(self.name, job_id, job.next_time, next_time, count),
            sync=False,
        )

    def remove(self, job_id: str, *, sync: bool = False) -> Completion:
        """Remove a job; an unknown one is ignored. Completed when written (`sync`: synced)."""
        job = self.get(job_id)
        if job is None:
            return COMPLETED
        return self._log.record(
            KahaRemoveScheduledJobCommand(self.name, job_id, job.next_time), sync=sync
        )

    def remove_range(self, start: int = EARLIEST, end: int = LATEST) -> Completion:
        """Remove the jobs due from `start` to `end` inclusive; by default all."""
        return self._log.record(KahaRemoveScheduledJobsCommand(self.name, start, end), sync=True)

    def get(self, job_id: str) -> ScheduledJob | None:
        """Return a job, or None."""
        entry = self._log.index.get(self.name, job_id)
        return None if entry is None else entry.job

    def message(self, job_id: str) -> ActiveMQMessage | None:
        """Return a job's message as it was added, or None if there is no such job. May block.

        Raises:
            JMSException: it cannot be read.
        """
        entry = self._log.index.get(self.name, job_id)
        return None if entry is None else decode_message(self._log.frame(entry.location))

    def due(self, now: int, limit: int = 100) -> list[ScheduledJob]:
        """Return at most `limit` due jobs, ordered by due time."""
        return self._log.index.due(self.name, now, limit)

    def jobs(self, start: int = EARLIEST, end: int = LATEST) -> Iterator[ScheduledJob]:
        """Iterate over the jobs due from `start` to `end` inclusive, ordered by due time.

        Jobs are read page by page: those added or removed meanwhile may or may not be included.
        """
        return self._log.index.jobs(self.name, start, end)


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
