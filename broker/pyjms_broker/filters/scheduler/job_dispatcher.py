"""The dispatcher of scheduled jobs, which delivers due jobs and reschedules or removes them.

Theory of operation
===================

A scheduled message passes through three stages. The client's send is redirected to the queue
`PyJMS.Scheduled` (`filter`), where it is a stored message like any other: part of the client's
transaction, subject to flow control, checked for duplicates after a failover. Once it is visible in
the queue, it becomes a job in the job store, and the message is removed (`ScheduleRequests`). The
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

Admission. A delivery in flight keeps its message in memory, not counted in the broker's memory
usage, possibly for as long as its destination is full. Only a few deliveries per destination are
therefore in flight; further due jobs wait in its queue as ids. A waiting job starts when a delivery
ends; after a failed delivery, the queue is paused for some seconds. A full destination thus delays
only its own jobs.

The queues are also bounded. When one is full, further jobs are skipped, and the queue stores the
due time of the first skipped one (`skipped_from`). Once half the queue is free, the scan is set
back to that time. The invariant is: every due job is known (in flight or waiting), covered by the
`skipped_from` of its queue, or not before `_scan_from`, or ahead of the scan in progress. A backlog
of any length is therefore scanned once, page by page, and not at every wake-up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import anyio

from pyjms.errors import (
    DestinationDoesNotExistException,
    InvalidDestinationException,
    JMSException,
    ResourceAllocationException,
)
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Queue
from pyjms.jms.failure_reason import FAILURE_CAUSE
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.jms.scheduled import AMQ_SCHEDULED_ID
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion, completion_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import copy_command
from pyjms_broker.filters.scheduler.cron import next_time
from pyjms_broker.filters.scheduler.schedule_properties import (
    SCHEDULE_PROPERTIES,
    ScheduleProperties,
    check_target,
)
from pyjms_broker.region.flow_control import abort_blocked_sends
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.system_usage import DiskUsage
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.scheduler import JobScheduler, JobSchedulerStore

logger = get_logger(__name__)

_MAX_IN_FLIGHT: Final = 10
_MAX_TOTAL_IN_FLIGHT: Final = 1000
_MAX_WAITING: Final = 1000
_MAX_TOTAL_WAITING: Final = 10_000
_MAX_DUE_PER_TURN: Final = 100
_MAX_SCANNED_PER_TURN: Final = 1000
_SCAN_INTERVAL: Final = 0.01
"""Seconds until an unfinished scan continues."""
_RETRY_DELAY: Final = 5.0
"""Seconds until a delivery that failed, for lack of space or on reading, is retried."""


class _DeliveryQueue:
    """The due jobs of one destination."""

    __slots__ = ("in_flight", "paused_until", "skipped_from", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting: deque[str] = deque()
        self.skipped_from: int | None = None
        """The due time of the first job that was skipped because the queue is full."""
        self.paused_until: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a delivery may start."""
        return self.paused_until is None and self.in_flight < _MAX_IN_FLIGHT

    @property
    def is_empty(self) -> bool:
        return not (self.in_flight or self.waiting) and self.skipped_from is None


class DeliveryQueues:
    """Tracks which jobs are in flight or waiting, and finds the next ones in the store."""

    def __init__(self, jobs: JobScheduler, arriving: Container[str]) -> None:
        """Skip the jobs in `arriving`; whoever removes one from it must call `scan_from`."""
        self._jobs = jobs
        self._arriving = arriving
        self._queues: dict[Hashable, _DeliveryQueue] = {}
        self._known: set[str] = set()
        """The ids of all jobs in flight or waiting."""
        self._in_flight = 0
        self._waiting = 0
        self._scan_from = 0
        self._scan: Iterator[ScheduledJob] | None = None

    @property
    def in_flight(self) -> int:
        """The number of deliveries that have not ended."""
        return self._in_flight

    def scan_from(self, time: int = 0) -> None:
        """Make the next scan include the jobs that are due at `time` or later."""
        self._scan_from = min(self._scan_from, time)

    def restart_scan(self) -> None:
        """Scan all jobs again after an incomplete scan."""
        self._scan, self._scan_from = None, 0

    def due(self) -> list[ScheduledJob]:
        """Return a bounded number of unknown due jobs, each of which must be passed to `admit`."""
        now = _clock.time_ms()
        found: list[ScheduledJob] = []
        if self._in_flight >= _MAX_TOTAL_IN_FLIGHT:
            return found
        if self._scan is None:
            self._scan = self._jobs.jobs(self._scan_from, now)
            self._scan_from = max(self._scan_from, now + 1)
        for _ in range(_MAX_SCANNED_PER_TURN):
            job = next(self._scan, None)
            if job is None:
                self._scan = None
                return found
            if job.job_id in self._known or job.job_id in self._arriving:
                continue
            current = self._jobs.get(job.job_id)  # it may have fired since its page was read
            if current is not None and current.next_time <= now:
                found.append(current)
                if len(found) >= _MAX_DUE_PER_TURN:
                    break
        return found

    def admit(self, job: ScheduledJob, key: Hashable) -> bool:
        """Start a job, or queue it behind its destination's others; return whether it started."""
        queue = self._queues.setdefault(key, _DeliveryQueue())
        starts = queue.is_ready and not queue.waiting and self._in_flight < _MAX_TOTAL_IN_FLIGHT
        if starts:
            self._known.add(job.job_id)
            queue.in_flight += 1
            self._in_flight += 1
        elif not self._append(queue, job.job_id):
            first = queue.skipped_from
            queue.skipped_from = job.next_time if first is None else min(first, job.next_time)
        return starts

    def finish(self, job_id: str, key: Hashable) -> None:
        """End the delivery of a job in flight."""
        self._known.discard(job_id)
        self._end_flight(key)

    def retry_later(self, job_id: str, key: Hashable) -> None:
        """End a failed delivery: queue its job behind the others, and pause the queue."""
        queue = self._queues[key]
        queue.paused_until = _clock.now() + _RETRY_DELAY
        self._known.discard(job_id)
        if not self._append(queue, job_id):
            queue.skipped_from = 0
        self._end_flight(key)

    def start_waiting(self) -> list[tuple[ScheduledJob, Hashable]]:
        """Start the waiting jobs for which there is capacity, and return them."""
        found = []
        for key, queue in tuple(self._queues.items()):
            if queue.paused_until is not None and queue.paused_until <= _clock.now():
                queue.paused_until = None
            while queue.waiting and queue.is_ready and self._in_flight < _MAX_TOTAL_IN_FLIGHT:
                job = self._start_first(queue)
                if job is not None:
                    found.append((job, key))
            has_capacity = queue.is_ready and len(queue.waiting) < _MAX_WAITING // 2
            if queue.skipped_from is not None and has_capacity:
                self.scan_from(queue.skipped_from)
                queue.skipped_from = None
            if queue.is_empty and queue.paused_until is None:
                del self._queues[key]
        return found

    def idle_time(self) -> float | None:
        """Return the seconds until more can be started; None: not before a delivery ends."""
        if self._in_flight >= _MAX_TOTAL_IN_FLIGHT:
            return None
        if self._scan is not None:
            return _SCAN_INTERVAL
        waits = [
            queue.paused_until - _clock.now()
            for queue in self._queues.values()
            if queue.paused_until is not None
        ]
        first = next(self._jobs.jobs(self._scan_from), None)
        if first is not None:
            waits.append((first.next_time - _clock.time_ms()) / 1000)
        return min(waits, default=None)

    def _append(self, queue: _DeliveryQueue, job_id: str) -> bool:
        if len(queue.waiting) >= _MAX_WAITING or self._waiting >= _MAX_TOTAL_WAITING:
            return False
        self._known.add(job_id)
        queue.waiting.append(job_id)
        self._waiting += 1
        return True

    def _end_flight(self, key: Hashable) -> None:
        self._queues[key].in_flight -= 1
        self._in_flight -= 1

    def _start_first(self, queue: _DeliveryQueue) -> ScheduledJob | None:
        """Start the first waiting job; None if it was meanwhile removed or rescheduled."""
        job_id = queue.waiting.popleft()
        self._waiting -= 1
        job = self._jobs.get(job_id)
        if job is None or job.next_time > _clock.time_ms():
            self._known.discard(job_id)
            if job is not None:
                self.scan_from(job.next_time)
            return None
        queue.in_flight += 1
        self._in_flight += 1
        return job


DEAD_LETTERS: Final = Queue(DEFAULT_DEAD_LETTER_QUEUE)
_OWN_PROPERTIES: Final = (*SCHEDULE_PROPERTIES, DUPLICATE_ID_PROPERTY)
"""Properties of the message that was sent, which its repetitions must not have."""


def _delivery_of(job: ScheduledJob, message: ActiveMQMessage) -> ActiveMQMessage:
    """Return the copy for the destination; its time to live begins now. (activemq-broker S5)

    The id of a repetition is derived from the job's id and its execution count. A repetition that
    is sent twice, after a crash or because one of several destinations was full, therefore has the
    same id both times, and queues drop the duplicate.
    """
    is_repeated = bool(job.repeat or job.execution_count or job.cron_entry)
    copy = copy_of_job(job, message, _OWN_PROPERTIES if is_repeated else SCHEDULE_PROPERTIES)
    if is_repeated:
        copy.message_id = _id_of(job)
    if message.timestamp > 0 and message.expiration > 0:
        now = _clock.time_ms()
        copy.expiration = now + message.expiration - message.timestamp
        copy.timestamp = now
    copy.response_required = True  # the send completes when the message is stored
    return copy


def _dead_letter_of(
    job: ScheduledJob, message: ActiveMQMessage, error: Exception
) -> ActiveMQMessage:
    """Return the dead letter of a message that cannot be delivered."""
    copy = copy_of_job(job, message, _OWN_PROPERTIES, {FAILURE_CAUSE: str(error)})
    copy.message_id = _id_of(job)
    copy.original_destination, copy.destination = message.destination, DEAD_LETTERS
    copy.persistent = copy.response_required = True
    copy.expiration = 0
    return copy


def copy_of_job(
    job: ScheduledJob,
    message: ActiveMQMessage,
    without: Sequence[str],
    more: Mapping[str, object] = {},
) -> ActiveMQMessage:
    """Return a copy of a job's message with the job's id, and with other properties."""
    properties = message.properties
    for name in without:
        properties.pop(name, None)
    properties |= {AMQ_SCHEDULED_ID: job.job_id, **more}
    copy = copy_command(message)
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None
    return copy


def _id_of(job: ScheduledJob) -> MessageId:
    return MessageId(None, ProducerId(job.job_id), job.execution_count + 1)


_MAX_SLEEP: Final = 60.0
"""Seconds, limited because the wall clock may be set, and the machine may be suspended."""
_STORE_POLL_INTERVAL: Final = 0.5
"""Seconds between checks of whether the store is running again."""
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
        self, chain: Broker, region: RegionBroker, store: JobSchedulerStore, usage: DiskUsage
    ) -> None:
        """Send due messages to `chain`, subject to flow control like a client's sends.

        Jobs start other jobs only while `usage` is below its limit.
        """
        self.jobs: JobScheduler = store.scheduler()
        self.usage = usage
        self.arriving: set[str] = set()
        """Jobs that do not fire yet; whoever removes one must call `wake`."""
        self._chain = chain
        self._region = region
        self._store = store
        self._context = ConnectionContext()  # with no more rights than a client's
        self._queues = DeliveryQueues(self.jobs, self.arriving)
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
        abort_blocked_sends(self._context)
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
            message = self.jobs.message(job.job_id)
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
            self._check(message)
            next_time(job)
        except JMSException as error:
            self._dead_letter(execution, error, is_last=True)
        except Exception as error:
            self._retry_or_dead_letter(execution, error)
        else:
            self._fire(execution)

    def _check(self, message: ActiveMQMessage) -> None:
        """Check that a message can be delivered."""
        to, region = message.destination, self._region
        if to is None:
            raise InvalidDestinationException("A job must have a destination")
        check_target(to)
        may_be_deleted = to.is_temporary and not to.is_composite
        if (
            may_be_deleted
            and not region.allow_temp_auto_creation_on_send
            and not region.destinations_matching(to)
        ):
            raise DestinationDoesNotExistException(
                to.qualified_name, hint=f"The destination {to} does not exist."
            )

    def _send(self, message: ActiveMQMessage) -> Completion:
        """Send a message; completed when the message is stored."""
        return completion_of(
            self._chain.send(ProducerExchange(self._context), message), self._chain, "send"
        )

    def _fire(self, execution: _Execution) -> None:
        job, message, _ = execution
        try:
            if job.cron_entry and job.repeat:
                done = self._start_repetitions(job, message)
            else:
                done = self._send(_delivery_of(job, message))
        except Exception as error:
            self._retry_or_dead_letter(execution, error)
            return
        done.then(lambda end: self._on_sent(execution, end))

    def _on_sent(self, execution: _Execution, end: Completion) -> None:
        if end.error is None:
            self._settle(execution)
        elif self._is_open:
            self._retry_or_dead_letter(execution, end.error)
        else:
            self._queues.finish(execution.job.job_id, execution.queue)
            self._changed.set()

    def _start_repetitions(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion:
        """Start the job of one time of a cron entry with repetitions (activemq-broker S4).

        If a crash interrupted an earlier attempt, that job exists; if it has fired, it is kept.
        """
        full = self.usage.full()
        if full is not None:
            raise ResourceAllocationException(full.reason(), hint="raise job_scheduler_limit")
        job_id = f"{job.job_id}:{job.execution_count}"
        existing = self.jobs.get(job_id)
        if existing is not None and existing.execution_count:
            return COMPLETED
        schedule = ScheduleProperties(job.delay, job.period, job.repeat, "")
        started = schedule.job(job_id, _clock.time_ms())
        self._queues.scan_from(started.next_time)
        return self.jobs.add(started, message)

    def _settle(self, execution: _Execution, *, is_last: bool = False) -> None:
        """Store that a job was delivered: reschedule it, or remove it after its last execution."""
        job, _, queue = execution
        try:
            following = None if is_last else next_time(job)
            if following is None:
                self.jobs.remove(job.job_id)
            else:
                self.jobs.reschedule(job.job_id, following)
                self._queues.scan_from(following)
        except Exception:
            logger.exception(
                "Job %s was delivered, but could not be rescheduled or removed", job.job_id
            )
            self._retry_later(execution)
            return
        self._queues.finish(job.job_id, queue)
        self._changed.set()

    def _retry_or_dead_letter(self, execution: _Execution, error: Exception) -> None:
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
            done = self._send(_dead_letter_of(job, execution.message, error))
        except Exception as send_error:
            logger.error("Job %s: its dead letter was not sent: %s", job.job_id, send_error)
            self._retry_later(execution)
            return
        done.then(lambda end: self._on_dead_letter_sent(execution, end, is_last))

    def _on_dead_letter_sent(self, execution: _Execution, end: Completion, is_last: bool) -> None:
        if end.error is None:
            self._settle(execution, is_last=is_last)
        else:
            self._retry_later(execution)

    def _retry_later(self, execution: _Execution) -> None:
        self._queues.retry_later(execution.job.job_id, execution.queue)
        self._changed.set()
