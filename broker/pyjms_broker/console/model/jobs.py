"""The table of scheduled messages."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.errors import IllegalStateException, JMSException
from pyjms_broker.api.completion import wait_for
from pyjms_broker.console.model.messages import time_text
from pyjms_broker.console.model.paging import Page, page_of_iterable
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.store.jobs.api import JobScheduler, ScheduledJob

__all__ = ["JobRow", "job_page", "remove_job"]


@dataclass(frozen=True, slots=True)
class JobRow:
    """A scheduled message; times in UTC, `delay` and `period` in milliseconds."""

    job_id: str
    destination: str
    cron: str
    next_time: str
    start: str
    delay: int
    period: int
    repeat: str
    executed: int


def _scheduler(context: ManagementContext) -> JobScheduler | None:
    store = context.host.job_store
    return None if store is None else store.scheduler()


def job_page(context: ManagementContext, number: int, size: int) -> Page[JobRow] | None:
    """Return a page of scheduled messages, ordered by time; None if there is no scheduler."""
    scheduler = _scheduler(context)
    if scheduler is None:
        return None
    page = page_of_iterable(scheduler.jobs(), number, size)
    rows = [_row(scheduler, job) for job in page.items]
    return Page(rows, page.number, page.first, page.has_next, len(scheduler))


def _row(scheduler: JobScheduler, job: ScheduledJob) -> JobRow:
    try:
        message = scheduler.message(job.job_id)
        destination = "" if message is None else str(message.destination)
    except JMSException as error:
        destination = f"(cannot be read: {type(error).__name__})"
    return JobRow(
        job.job_id,
        destination,
        job.cron_entry,
        time_text(job.next_time),
        time_text(job.start_time),
        job.delay,
        job.period,
        "for ever" if job.repeat < 0 else str(job.repeat),
        job.execution_count,
    )


async def remove_job(context: ManagementContext, job_id: str) -> bool:
    """Remove a scheduled message durably; return whether there was one.

    Raises:
        IllegalStateException: the broker has no scheduler.
    """
    scheduler = _scheduler(context)
    if scheduler is None:
        raise IllegalStateException(
            "This broker has no scheduler", hint="set scheduler_support: true in broker.yaml"
        )
    if scheduler.get(job_id) is None:
        return False
    await wait_for(scheduler.remove(job_id, sync=True))
    return True
