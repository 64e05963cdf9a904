"""Computation of a job's next time. (activemq-broker S3, S4, S6)"""

from __future__ import annotations

from pyjms import _clock
from pyjms.errors import MessageFormatException
from pyjms_broker.scheduler.cron import next_tick
from pyjms_broker.store.jobs.api import LATEST, ScheduledJob

__all__ = ["next_time"]


def next_time(job: ScheduledJob) -> int | None:
    """Return the next time of a job that is delivered now; None after its last delivery.

    Deliveries that were missed while the broker was down are skipped: the next time is in the
    future, on the job's original schedule.

    Raises:
        MessageFormatException: the job's schedule is invalid. This broker refuses such messages,
            so the job was stored by another one.
    """
    if job.repeat < 0 and job.period <= 0:
        raise MessageFormatException(
            f"Job {job.job_id} repeats endlessly without a period",
            hint="schedule the message again, with AMQ_SCHEDULED_PERIOD",
        )
    now = _clock.time_ms()
    if job.cron_entry:
        return next_tick(job.cron_entry, now)
    if not job.repeat:
        return None
    following = _next_repetition(job, now)
    if following > LATEST:
        raise MessageFormatException(
            f"Job {job.job_id} would be due again after the latest time that can be stored",
            hint="schedule the message again, with a shorter AMQ_SCHEDULED_PERIOD",
        )
    return following


def _next_repetition(job: ScheduledJob, now: int) -> int:
    period = max(job.period, 0)
    late = now - job.next_time - period
    if late < 0 or not period:
        return job.next_time + period
    return now + period - late % period
