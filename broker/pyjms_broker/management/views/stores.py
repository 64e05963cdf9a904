"""Views of the message store, prepared XA transactions, the scheduler's jobs and the trail.

(ActiveMQ PersistenceAdapterView, RecoveredXATransactionView, JobSchedulerView; activemq-edges 7)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.model import Action, Entry, ViewKind, part, view_kind
from pyjms_broker.region.message_trail import MessageTrail
from pyjms_broker.store.api import PersistenceAdapter
from pyjms_broker.store.jobs.api import DEFAULT_SCHEDULER, ScheduledJob
from pyjms_broker.store.jobs.scheduler import JobScheduler

_Store: TypeAlias = Managed[PersistenceAdapter]

_SEGMENT: Final = re.compile(r"db-(\d+)\.log")


def store_name(store: PersistenceAdapter) -> str:
    """Return a store's name: its kind and, in brackets, its directory."""
    directory: Path | None = getattr(store, "directory", None)
    kind = type(store).__name__
    return kind if directory is None else f"{kind}[{directory}]"


def _segments(s: _Store) -> str:
    directory: Path | None = getattr(s.it, "directory", None)
    if directory is None or not directory.is_dir():
        return "[]"
    found = (_SEGMENT.fullmatch(path.name) for path in directory.iterdir())
    return str(sorted(int(match[1]) for match in found if match))


def _transactions(s: _Store) -> str:
    broker = s.tree.host.broker
    prepared = broker.prepared_transactions(s.tree.client)
    return f"[{';'.join(str(xid) for xid in prepared)}]"


PERSISTENCE_ADAPTER: Final[ViewKind[_Store]] = view_kind(
    "PersistenceAdapterView",
    "The message store.",
    attributes.PERSISTENCE_ADAPTER,
    {
        "Name": lambda s: store_name(s.it),
        "Data": _segments,
        "Transactions": _transactions,
    },
)


_Branch: TypeAlias = Managed[XATransactionId]


def _bytes(data: bytes | None) -> list[int]:
    """Return bytes as Java's signed bytes, from -128 to 127."""
    return [byte - 256 if byte > 127 else byte for byte in data or b""]


XA_TRANSACTION: Final[ViewKind[_Branch]] = view_kind(
    "RecoveredXATransactionView",
    "A prepared XA transaction that waits for its transaction manager.",
    attributes.XA_TRANSACTION,
    {
        "GlobalTransactionId": lambda t: _bytes(t.it.global_transaction_id),
        "BranchQualifier": lambda t: _bytes(t.it.branch_qualifier),
    },
    {
        "void heuristicCommit()": Action(
            "Commit the branch without its transaction manager.",
            lambda t: t.tree.host.broker.commit_transaction(t.tree.client, t.it, one_phase=False),
        ),
        "void heuristicRollback()": Action(
            "Roll back the branch without its transaction manager.",
            lambda t: t.tree.host.broker.rollback_transaction(t.tree.client, t.it),
        ),
    },
)


_Jobs: TypeAlias = Managed[JobScheduler]

_FORMAT: Final = "%Y-%m-%d %H:%M:%S"


def _time(milliseconds: int) -> str:
    """Return a time in ActiveMQ's format, in the broker's time zone. Source: JobSupport."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime(_FORMAT)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.strptime(text, _FORMAT).astimezone().timestamp()) * 1000
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentException(
            f"{text[:100]!r} is not a time", hint="write it as 2026-01-31 23:59:59"
        ) from error


def _rows(jobs: Iterable[ScheduledJob]) -> list[dict[str, object]]:
    return [
        {
            "jobId": job.job_id,
            "cronEntry": job.cron_entry,
            "start": _time(job.start_time),
            "delay": job.delay,
            "next": _time(job.next_time),
            "period": job.period,
            "repeat": job.repeat,
        }
        for job in jobs
    ]


def _range(start: str, finish: str) -> tuple[int, int]:
    """Return two times in milliseconds; all of the second one's second is included."""
    return _milliseconds(start), _milliseconds(finish) + 999


def _next_jobs(s: _Jobs) -> list[dict[str, object]]:
    first = s.it.next_time
    return [] if first is None else _rows(s.it.jobs(first, first))


def _execution_count(s: _Jobs, job_id: str) -> int:
    job = s.it.get(job_id)
    return 0 if job is None else job.execution_count


JOB_SCHEDULER: Final[ViewKind[_Jobs]] = view_kind(
    "JobSchedulerView",
    "The scheduler's jobs.",
    attributes.JOB_SCHEDULER,
    {
        "AllJobs": lambda s: _rows(s.it.jobs()),
        "NextScheduleJobs": _next_jobs,
        "NextScheduleTime": lambda s: "" if s.it.next_time is None else _time(s.it.next_time),
        "DelayedMessageCount": lambda s: sum(job.delay > 0 for job in s.it.jobs()),
        "ScheduledMessageCount": lambda s: len(s.it),
    },
    {
        "TabularData getAllJobs(String start, String finish)": Action(
            "Return the jobs that are due between two times, inclusive.",
            lambda s, start, finish: _rows(s.it.jobs(*_range(start, finish))),
        ),
        "int getExecutionCount(String jobId)": Action(
            "Return the number of executions of a job; 0: no such job.", _execution_count
        ),
        "void removeJob(String jobId)": Action(
            "Remove a job; unknown ids are ignored.",
            lambda s, job_id: s.it.remove(job_id, sync=True),
        ),
        "void removeAllJobs()": Action("Remove all jobs.", lambda s: s.it.remove_range()),
        "void removeAllJobs(String start, String finish)": Action(
            "Remove the jobs that are due between two times, inclusive.",
            lambda s, start, finish: s.it.remove_range(*_range(start, finish)),
        ),
        "void removeAllJobsAtScheduledTime(String time)": Action(
            "Remove the jobs that are due in the given second.",
            lambda s, time: s.it.remove_range(*_range(time, time)),
        ),
    },
)


_Trail: TypeAlias = Managed[MessageTrail]


MESSAGE_TRAIL: Final[ViewKind[_Trail]] = view_kind(
    "MessageTrailView",
    "What happened to the messages of some destinations.",
    attributes.MESSAGE_TRAIL,
    {
        "Directory": lambda t: str(t.it.directory),
        "Size": lambda t: sum(each.stat().st_size for each in t.it.files()),
    },
    {
        "List trace(String messageId)": Action(
            "Return a message's events.", lambda t, message_id: t.it.find(message_id)
        ),
        "List traceCorrelation(String correlationId)": Action(
            "Return the events of the messages with a correlation id.",
            lambda t, correlation_id: t.it.find(correlation_id=correlation_id),
        ),
    },
)


def _message_trail(context: ManagementContext) -> Iterator[Entry]:
    if context.region.trail is not None:
        yield context.names.service("MessageTrail"), MESSAGE_TRAIL, context.region.trail


def _job_schedulers(context: ManagementContext) -> Iterator[Entry]:
    jobs = context.host.job_store
    if jobs is not None:
        name = context.names.service("JobScheduler", name=DEFAULT_SCHEDULER)
        yield name, JOB_SCHEDULER, jobs.scheduler()


def _stores(context: ManagementContext) -> Iterator[Entry]:
    store = context.region.store
    name = context.names.service("PersistenceAdapter", instanceName=store_name(store))
    yield name, PERSISTENCE_ADAPTER, store


def _xa_transactions(context: ManagementContext) -> Iterator[Entry]:
    for xid in context.host.broker.prepared_transactions(context.client):
        yield context.names.xa_transaction(xid), XA_TRANSACTION, xid


PARTS: Final = (
    part(_message_trail, "service"),
    part(_job_schedulers, "service", "name"),
    part(_stores, "service", "instanceName"),
    part(_xa_transactions, "transactionType", "xid"),
)
