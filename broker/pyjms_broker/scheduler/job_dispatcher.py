"""Delivers what is due: a job is done with when its delivery is safe, not before.

A crash in between repeats a delivery and loses none. Jobs that were due while the broker was
away are delivered once at the start, then go on in their rhythm.
(activemq-broker S2 to S6; activemq-persistence E3)
"""

from __future__ import annotations

import logging
from collections.abc import Container, Hashable
from typing import Final, NamedTuple

import anyio

from pyjms import _clock
from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.scheduler.deliveries import Deliveries
from pyjms_broker.scheduler.delivery_queues import DeliveryQueues
from pyjms_broker.scheduler.destination_throttle import DestinationThrottle
from pyjms_broker.scheduler.recurrence import next_time
from pyjms_broker.scheduler.schedule_properties import ScheduleProperties
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jobs.api import JobScheduler, JobSchedulerStore, ScheduledJob

__all__ = ["JobDispatcher"]

logger = logging.getLogger(__name__)

_LONGEST_SLEEP: Final = 60.0
"""Seconds: the wall clock may be set, and a machine may have slept."""
_LOOK_AGAIN: Final = 0.5
"""Seconds until it is seen that the store takes something again."""
_RETRY: Final = 5.0
"""Seconds until the clock goes on after an error."""
_LAST_ANSWERS: Final = 5.0
"""Seconds that a stop waits for deliveries which the store is at."""
_UNREADABLE: Final = "unreadable"
_BEGINNING: Final = "beginning"
"""DeliveryQueues of jobs that cannot be read, and of those that begin others: no destination's."""


class _Turn(NamedTuple):
    """One delivery of a job."""

    job: ScheduledJob
    message: ActiveMQMessage
    queue: Hashable


class JobDispatcher:
    """The clock of a job store."""

    def __init__(
        self,
        store: JobSchedulerStore,
        deliveries: Deliveries,
        throttle: DestinationThrottle,
        usage: DiskUsage,
        arriving: Container[str],
    ) -> None:
        """Have `throttle` take what is due; where it answers later, the job waits for that.

        Jobs begin others while `usage` has room. What is in `arriving` waits for `wake`.
        """
        self._store = store
        self._jobs: JobScheduler = store.scheduler()
        self._deliveries = deliveries
        self._throttle = throttle
        self._usage = usage
        self._queues = DeliveryQueues(self._jobs, arriving)
        self._news = anyio.Event()
        self._is_open = True

    def wake(self, time: int = 0) -> None:
        """Look again: there is something new that is due at `time`."""
        self._queues.check_from(time)
        self._news.set()

    async def run(self) -> None:
        """Deliver until cancelled, whatever fails."""
        while True:
            self._news = anyio.Event()
            try:
                rest = self._fire_due()
            except Exception:
                logger.exception("The message scheduler failed; it goes on in %g s", _RETRY)
                self._queues.start_over()
                await _clock.sleep(_RETRY)
                continue
            with _clock.timeout(rest):
                await self._news.wait()
                await _clock.sleep(0)

    async def close(self) -> None:
        """Fire nothing more, and hear what becomes of the last deliveries.

        What was not delivered by then is, after the next start.
        """
        self._is_open = False
        self._throttle.close()
        with _clock.timeout(_LAST_ANSWERS):
            while self._queues.in_hand and self._store.state is StoreState.RUNNING:
                self._news = anyio.Event()
                await self._news.wait()

    def _fire_due(self) -> float | None:
        """Fire what can be; return how many seconds there are to wait, None: for news."""
        if self._store.state is not StoreState.RUNNING:
            return _LOOK_AGAIN
        for job, queue in self._queues.following():
            message, _ = self._read(job)
            self._begin(job, message, queue)
        for job in self._queues.due():
            message, queue = self._read(job)
            if self._queues.enter(job, queue):
                self._begin(job, message, queue)
        rest = self._queues.rest()
        return None if rest is None else min(max(rest, 0.0), _LONGEST_SLEEP)

    def _read(self, job: ScheduledJob) -> tuple[ActiveMQMessage | None, Hashable]:
        """Return a job's message, and its queue."""
        try:
            message = self._jobs.message(job.job_id)
        except Exception as error:
            logger.error("The message of job %s cannot be read now: %s", job.job_id, error)
            return None, _UNREADABLE
        if message is None:
            return None, _UNREADABLE
        return message, _BEGINNING if job.cron_entry and job.repeat else message.destination

    def _begin(self, job: ScheduledJob, message: ActiveMQMessage | None, queue: Hashable) -> None:
        if message is None:
            self._queues.delay(job.job_id, queue)
            return
        turn = _Turn(job, message, queue)
        try:
            self._throttle.check(message)
            next_time(job)
        except JMSException as error:
            self._dead_letter(turn, error, is_last=True)
        except Exception as error:
            self._failed(turn, error)
        else:
            self._fire(turn)

    def _fire(self, turn: _Turn) -> None:
        job, message, _ = turn
        try:
            if job.cron_entry and job.repeat:
                done = self._begin_another(job, message)
            else:
                done = self._throttle.send(self._deliveries.of(job, message))
        except Exception as error:
            self._failed(turn, error)
            return
        if done is None:
            self._settle(turn)
        else:
            done.then(lambda end: self._answered(turn, end))

    def _answered(self, turn: _Turn, end: Completion) -> None:
        if end.error is None:
            self._settle(turn)
        elif self._is_open:
            self._failed(turn, end.error)
        else:
            self._queues.done(turn.job.job_id, turn.queue)
            self._news.set()

    def _begin_another(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion | None:
        """Start a job: a cron entry with repetitions delivers nothing itself (activemq-broker S4).

        After a crash it has the same id. If it has fired by then, it goes on.
        """
        full = self._usage.full()
        if full is not None:
            raise ResourceAllocationException(full.trouble(), hint="raise job_scheduler_limit")
        job_id = f"{job.job_id}:{job.execution_count}"
        there = self._jobs.get(job_id)
        if there is not None and there.execution_count:
            return None
        order = ScheduleProperties(job.delay, job.period, job.repeat, "")
        other = order.job(job_id, _clock.time_ms())
        self._queues.check_from(other.next_time)
        return self._jobs.add(other, message)

    def _settle(self, turn: _Turn, *, is_last: bool = False) -> None:
        """Note that a job was delivered, and when it is due again."""
        job, _, queue = turn
        try:
            again = None if is_last else next_time(job)
            if again is None:
                self._jobs.remove(job.job_id)
            else:
                self._jobs.reschedule(job.job_id, again)
                self._queues.check_from(again)
        except Exception:
            logger.exception("Job %s was delivered, which could not be noted", job.job_id)
            self._tire(turn)
            return
        self._queues.done(job.job_id, queue)
        self._news.set()

    def _failed(self, turn: _Turn, error: Exception) -> None:
        can_wait = isinstance(error, ResourceAllocationException)
        if can_wait or self._store.state is not StoreState.RUNNING:
            logger.error("Job %s is delivered later: %s", turn.job.job_id, error)
            self._tire(turn)
        else:
            self._dead_letter(turn, error, is_last=False)

    def _dead_letter(self, turn: _Turn, error: Exception, *, is_last: bool) -> None:
        """Have the dead letters take what is not delivered; with `is_last` the job ends."""
        job = turn.job
        logger.error("Job %s goes to the dead letters: %s", job.job_id, error)
        try:
            letter = self._deliveries.dead_letter(job, turn.message, error)
            done = self._throttle.send(letter)
        except Exception as worse:
            logger.error("Job %s: its dead letter was not sent: %s", job.job_id, worse)
            self._tire(turn)
            return
        if done is None:
            self._settle(turn, is_last=is_last)
        else:
            done.then(lambda end: self._dead(turn, end, is_last))

    def _dead(self, turn: _Turn, end: Completion, is_last: bool) -> None:
        if end.error is None:
            self._settle(turn, is_last=is_last)
        else:
            self._tire(turn)

    def _tire(self, turn: _Turn) -> None:
        self._queues.delay(turn.job.job_id, turn.queue)
        self._news.set()
