"""The dispatcher of scheduled jobs, which delivers due jobs and reschedules or removes them.

Theory of operation
===================

A scheduled message passes through three stages. The client's send is redirected to the queue
`PyJMS.Scheduled` (`filter`), where it is a stored message like any other: part of the client's
transaction, subject to flow control, checked for duplicates after a failover. Once it is visible in
the queue, it becomes a job in the job store, and the message is removed (`schedule_requests`). The
dispatcher, the subject of this module, turns due jobs into sends.

Invariants:

1. A job is rescheduled or removed only after its delivery is stored. A crash in between may repeat
   a delivery but loses none. The repetition has the same message id (`deliveries`), so the
   destination's duplicate check drops it if it was stored before.
2. A job does not fire while its request is still in `PyJMS.Scheduled` (it is in `arriving`). On
   disk, the removal of the request therefore precedes the delivery. Otherwise, after a crash, the
   request could start the job a second time after the job was delivered and removed.
3. A job is in flight at most once, and the number of deliveries in flight is bounded per
   destination and in total (`delivery_queues`).
4. A job never disappears without a delivery or a dead letter, except by a management request.

States of a job, in addition to the store's `next_time` and `execution_count`, which survive a
restart:

    stored --due--> waiting --capacity--> in flight --sent--> removed, or stored with its next time
                       ^                    |    |
                       +--- no space, ------+    +--- any other error --> dead letter sent -->
                            store failure             removed, or stored with its next time

- After a transient error (no space, a store that is not running) the job is kept: it waits behind
  the others of its destination, whose queue is paused for some seconds.
- After any other error a dead letter is sent, and the job continues with its next repetition. If
  the destination can never accept messages, or the schedule is invalid, the job ends with the dead
  letter.
- Any number of executions may be missed while the broker is down. They are delivered once, at the
  start, and the job continues on its original schedule (`recurrence`), as in ActiveMQ.
- A cron entry with a repeat count delivers nothing itself: each of its times starts another job,
  whose id is derived from the execution count, so a repeated start after a crash has no effect.

Why one task with callbacks, and not one task per job: there may be millions of jobs, and a
completed send calls back in the loop turn in which it is stored. The task sleeps until the first
due time, the end of a pause or an event (`_changed`); a sleep is limited because the wall clock,
unlike the loop's clock, may be set.

(activemq-broker S2 to S6; activemq-persistence E3)
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from typing import Final, NamedTuple

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.scheduler.deliveries import Deliveries
from pyjms_broker.scheduler.delivery_queues import DeliveryQueues
from pyjms_broker.scheduler.destination_throttle import DestinationThrottle
from pyjms_broker.scheduler.recurrence import next_time
from pyjms_broker.scheduler.schedule_properties import ScheduleProperties
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jobs.api import JobScheduler, JobSchedulerStore, ScheduledJob

__all__ = ["JobDispatcher"]

logger = get_logger(__name__)

_MAX_SLEEP: Final = 60.0
"""Seconds, limited because the wall clock may be set, and the machine may be suspended."""
_STORE_POLL_INTERVAL: Final = 0.5
"""Seconds between checks of whether the store is running again."""
_RETRY_DELAY: Final = 5.0
"""Seconds until the dispatcher continues after an unexpected error."""
_STOP_TIMEOUT: Final = 5.0
"""Seconds for which a stop waits for deliveries that the store is writing."""
_UNREADABLE: Final = "unreadable"
_CRON_STARTS: Final = "cron starts"
"""Keys of delivery queues without a destination: unreadable jobs, and jobs that start others."""


class _Execution(NamedTuple):
    """One execution of a job, and the key of its delivery queue."""

    job: ScheduledJob
    message: ActiveMQMessage
    queue: Hashable


class JobDispatcher:
    """Delivers the due jobs of a job store; see the module's theory of operation."""

    def __init__(
        self,
        store: JobSchedulerStore,
        deliveries: Deliveries,
        throttle: DestinationThrottle,
        usage: DiskUsage,
        arriving: Container[str],
    ) -> None:
        """Send due messages through `throttle`.

        Jobs start other jobs only while `usage` is below its limit. Jobs in `arriving` do not fire;
        whoever removes one from it must call `wake`.
        """
        self._store = store
        self._jobs: JobScheduler = store.scheduler()
        self._deliveries = deliveries
        self._throttle = throttle
        self._usage = usage
        self._queues = DeliveryQueues(self._jobs, arriving)
        self._changed = anyio.Event()
        self._is_open = True
        self._unreadable: set[str] = set()
        """The jobs with unreadable messages, each of which is logged once."""

    def wake(self, time: int = 0) -> None:
        """Check for jobs that are due at `time` (milliseconds since the epoch) or later."""
        self._queues.scan_from(time)
        self._changed.set()

    async def run(self) -> None:
        """Deliver due jobs until cancelled; errors are only logged."""
        while True:
            self._changed = anyio.Event()
            try:
                idle_time = self._fire_due()
            except Exception:
                logger.exception("The message scheduler failed; it continues in %g s", _RETRY_DELAY)
                self._queues.restart_scan()
                await _clock.sleep(_RETRY_DELAY)
                continue
            with _clock.timeout(idle_time):
                await self._changed.wait()
                await _clock.sleep(0)

    async def close(self) -> None:
        """Abort sends that wait for space, and wait until the other deliveries are stored.

        Jobs that are not delivered by then are delivered after the next start.
        """
        self._is_open = False
        self._throttle.close()
        with _clock.timeout(_STOP_TIMEOUT):
            while self._queues.in_flight and self._store.state is StoreState.RUNNING:
                self._changed = anyio.Event()
                await self._changed.wait()

    def _fire_due(self) -> float | None:
        """Start the jobs that can start; return the seconds to sleep (None: until a change)."""
        if self._store.state is not StoreState.RUNNING:
            return _STORE_POLL_INTERVAL
        for job, queue in self._queues.start_waiting():
            message, _ = self._read(job)
            self._start(job, message, queue)
        for job in self._queues.due():
            message, queue = self._read(job)
            if self._queues.admit(job, queue):
                self._start(job, message, queue)
        idle_time = self._queues.idle_time()
        return None if idle_time is None else min(max(idle_time, 0.0), _MAX_SLEEP)

    def _read(self, job: ScheduledJob) -> tuple[ActiveMQMessage | None, Hashable]:
        """Return a job's message, and the key of its delivery queue."""
        try:
            message = self._jobs.message(job.job_id)
        except Exception as error:
            if job.job_id not in self._unreadable:
                self._unreadable.add(job.job_id)
                logger.error("Job %s: its message cannot be read: %s", job.job_id, error)
            return None, _UNREADABLE
        if message is None:
            return None, _UNREADABLE
        return message, _CRON_STARTS if job.cron_entry and job.repeat else message.destination

    def _start(self, job: ScheduledJob, message: ActiveMQMessage | None, queue: Hashable) -> None:
        if message is None:
            self._queues.retry_later(job.job_id, queue)
            return
        execution = _Execution(job, message, queue)
        try:
            self._throttle.check(message)
            next_time(job)
        except JMSException as error:
            self._dead_letter(execution, error, is_last=True)
        except Exception as error:
            self._failed(execution, error)
        else:
            self._fire(execution)

    def _fire(self, execution: _Execution) -> None:
        job, message, _ = execution
        try:
            if job.cron_entry and job.repeat:
                done = self._start_repetitions(job, message)
            else:
                done = self._throttle.send(self._deliveries.of(job, message))
        except Exception as error:
            self._failed(execution, error)
            return
        done.then(lambda end: self._sent(execution, end))

    def _sent(self, execution: _Execution, end: Completion) -> None:
        if end.error is None:
            self._settle(execution)
        elif self._is_open:
            self._failed(execution, end.error)
        else:
            self._queues.finish(execution.job.job_id, execution.queue)
            self._changed.set()

    def _start_repetitions(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion:
        """Start the job of one time of a cron entry with repetitions (activemq-broker S4).

        If a crash interrupted an earlier attempt, that job exists; if it has fired, it is kept.
        """
        full = self._usage.full()
        if full is not None:
            raise ResourceAllocationException(full.reason(), hint="raise job_scheduler_limit")
        job_id = f"{job.job_id}:{job.execution_count}"
        existing = self._jobs.get(job_id)
        if existing is not None and existing.execution_count:
            return COMPLETED
        schedule = ScheduleProperties(job.delay, job.period, job.repeat, "")
        started = schedule.job(job_id, _clock.time_ms())
        self._queues.scan_from(started.next_time)
        return self._jobs.add(started, message)

    def _settle(self, execution: _Execution, *, is_last: bool = False) -> None:
        """Store that a job was delivered: reschedule it, or remove it after its last execution."""
        job, _, queue = execution
        try:
            following = None if is_last else next_time(job)
            if following is None:
                self._jobs.remove(job.job_id)
            else:
                self._jobs.reschedule(job.job_id, following)
                self._queues.scan_from(following)
        except Exception:
            logger.exception(
                "Job %s was delivered, but could not be rescheduled or removed", job.job_id
            )
            self._retry_later(execution)
            return
        self._queues.finish(job.job_id, queue)
        self._changed.set()

    def _failed(self, execution: _Execution, error: Exception) -> None:
        is_temporary = isinstance(error, ResourceAllocationException)
        if is_temporary or self._store.state is not StoreState.RUNNING:
            logger.error("Job %s is delivered later: %s", execution.job.job_id, error)
            self._retry_later(execution)
        else:
            self._dead_letter(execution, error, is_last=False)

    def _dead_letter(self, execution: _Execution, error: Exception, *, is_last: bool) -> None:
        """Send a dead letter instead of the delivery; with `is_last` the job ends."""
        job = execution.job
        logger.error("Job %s is sent to the dead-letter queue: %s", job.job_id, error)
        try:
            dead_letter = self._deliveries.dead_letter(job, execution.message, error)
            done = self._throttle.send(dead_letter)
        except Exception as send_error:
            logger.error("Job %s: its dead letter was not sent: %s", job.job_id, send_error)
            self._retry_later(execution)
            return
        done.then(lambda end: self._dead_letter_sent(execution, end, is_last))

    def _dead_letter_sent(self, execution: _Execution, end: Completion, is_last: bool) -> None:
        if end.error is None:
            self._settle(execution, is_last=is_last)
        else:
            self._retry_later(execution)

    def _retry_later(self, execution: _Execution) -> None:
        self._queues.retry_later(execution.job.job_id, execution.queue)
        self._changed.set()
