"""The jobs of one scheduler, kept as a log of commands and an index.

(activemq-persistence K7, K8, E3)

Theory of operation of the job store
------------------------------------

The journal is the only authority. Every change of a job is a KahaDB command that is appended to
the journal and then applied to the index; recovery applies the same commands, read back from the
journal. So `apply` is the only function that changes jobs in the index, and an index that is
missing, damaged or ActiveMQ's is simply rebuilt.

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

- The message of a job is only in its add record; the index has its location. An add record must
  therefore stay in the journal for as long as its job lives, whatever was rescheduled since.
- A record that removes a job stays in the journal for longer than the record that added it. If it
  were lost first, the next rebuild would bring the job back. `cleanup` guarantees that by removing
  segments strictly from the oldest to the newest.
- A job is rescheduled only after its message is safe in its destination. After a crash in between
  it is sent again: a job may be duplicated, never lost.
- The index covers the journal up to one exact record: `Coverage` has its location and the checksum
  of its payload, written in the same SQLite transaction as the jobs. Recovery replays what follows.

A job that lives for long would keep every segment since its add record, because of the order in
which segments are removed. Cleanup therefore rewrites the jobs of the oldest segment: a remove, an
add with the present state and, if the job was sent before, a reschedule with the count. The records
are in one batch, so no crash can leave the job out, and the remove comes first because ActiveMQ,
which may replay the old add record as well, would otherwise have the job twice.
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
from pyjms_broker.store.jobs.api import EARLIEST, LATEST, ScheduledJob
from pyjms_broker.store.jobs.index import JobEntry, JobIndex

__all__ = ["JobLog", "JournaledJobScheduler", "apply", "rewrite_commands"]


class JobLog(Protocol):
    """The journal, or memory, that keeps the records of all schedulers, and their index."""

    @property
    def index(self) -> JobIndex: ...

    def record(self, command: KahaCommand, *, sync: bool) -> Completion:
        """Store the command and apply it to the index."""

    def frame(self, location: Location) -> bytes:
        """Return the marshalled message of the job whose add record is at `location`.

        Raises:
            JMSException: it cannot be read.
        """


class JournaledJobScheduler:
    """A scheduler of a store with a job log; see JobScheduler for the methods."""

    def __init__(self, name: str, log: JobLog) -> None:
        self.name = name
        self._log = log

    def __len__(self) -> int:
        """Return how many jobs it has."""
        return self._log.index.count(self.name)

    @property
    def next_time(self) -> int | None:
        """When the first job is due, or None if there is none."""
        return self._log.index.next_time(self.name)

    def add(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion:
        """Store a job, replacing one with the same id; complete when it is durable.

        Raises:
            LocalProtocolError: the message cannot be marshalled, or a number is too large.
        """
        patch_raw(message)
        command = _add_command(self.name, job, encode_message(message))
        self.remove(job.job_id)
        return self._log.record(command, sync=True)

    def reschedule(self, job_id: str, next_time: int) -> Completion:
        """Record that a job was sent, and when it is due again; one repetition is used up.

        To be called after its message is safe in its destination: a crash in between repeats
        the message and loses none. An unknown job is ignored.
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
        """Remove a job; an unknown one is ignored. Complete when written, or synced."""
        job = self.get(job_id)
        if job is None:
            return COMPLETED
        return self._log.record(
            KahaRemoveScheduledJobCommand(self.name, job_id, job.next_time), sync=sync
        )

    def remove_range(self, start: int = EARLIEST, end: int = LATEST) -> Completion:
        """Remove the jobs due from `start` to `end`, both included; by default all."""
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
        """Return at most `limit` jobs that are due, in the order of their times."""
        return self._log.index.due(self.name, now, limit)

    def jobs(self, start: int = EARLIEST, end: int = LATEST) -> Iterator[ScheduledJob]:
        """Iterate over the jobs due from `start` to `end`, in the order of their times.

        A page is read at a time: jobs added or removed meanwhile may be seen or not.
        """
        return self._log.index.jobs(self.name, start, end)


def rewrite_commands(entry: JobEntry, frame: bytes) -> list[KahaCommand]:
    """Return the commands that remove a job and add it again in its present state.

    An add record cannot say how often the job was sent: a reschedule record that does follows
    it, and uses up a repetition.
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
