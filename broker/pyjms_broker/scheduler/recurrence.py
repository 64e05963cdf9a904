"""When a job is due again. (activemq-broker S3, S4, S6)"""

from __future__ import annotations

from pyjms import _clock
from pyjms.errors import MessageFormatException
from pyjms_broker.scheduler.cron import next_tick
from pyjms_broker.store.jobs.api import LATEST, ScheduledJob

__all__ = ["next_time"]


def next_time(job: ScheduledJob) -> int | None:
    """Return the next time of a job that is delivered now; None: that was all.

    What was missed is not made up for.

    Raises:
        MessageFormatException: its orders make no sense: another broker took them.
    """
    if job.repeat < 0 and job.period <= 0:
        raise MessageFormatException(
            f"Job {job.job_id} is endless, without a period", hint="order it anew, with a period"
        )
    now = _clock.time_ms()
    if job.cron_entry:
        return next_tick(job.cron_entry, now)
    if not job.repeat:
        return None
    again = _after(job, now)
    if again > LATEST:
        raise MessageFormatException(f"Job {job.job_id} is due again after the end of time")
    return again


def _after(job: ScheduledJob, now: int) -> int:
    period = max(job.period, 0)
    late = now - job.next_time - period
    if late < 0 or not period:
        return job.next_time + period
    return now + period - late % period
