"""Delivers what is due: a job is done with when its delivery is safe, not before.

A crash in between repeats a delivery and loses none. Jobs that were due while the broker was
away are delivered once at the start, then go on in their rhythm. (ActiveMQ S2 to S6; E3)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import anyio

from broker.completion import Completion
from broker.scheduler.cron import next_tick
from broker.scheduler.deliveries import Deliveries
from broker.scheduler.orders import Order
from broker.store.api import StoreState
from broker.store.jobs.api import JobSchedulerStore, ScheduledJob
from broker.store.jobs.scheduler import JobScheduler
from pyjms import _clock
from pyjms._ids import IdGenerator
from pyjms.errors import ResourceAllocationException
from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["Firing"]

logger = logging.getLogger(__name__)

_LONGEST_SLEEP: Final = 60.0
"""Seconds: the wall clock may be set, and a machine may have slept."""
_LOOK_AGAIN: Final = 0.5
"""Seconds until it is seen that the store takes something again."""
_AT_ONCE: Final = 100
_MOST_IN_HAND: Final = 1000
_RETRY: Final = 5.0
"""Seconds until what found no room, or could not be read, is tried again."""


class Firing:
    """The clock of a job store."""

    def __init__(
        self,
        store: JobSchedulerStore,
        jobs: JobScheduler,
        deliveries: Deliveries,
        send: Callable[[ActiveMQMessage], Completion | None],
    ) -> None:
        """Have `send` take what is due; where it answers later, the job waits for that."""
        self._store = store
        self._jobs = jobs
        self._deliveries = deliveries
        self._send = send
        self._in_hand: set[str] = set()
        self._tired: dict[str, float] = {}
        self._news = anyio.Event()
        self._ids = IdGenerator()
        self._is_open = True

    def close(self) -> None:
        """Take no more answers: what is not settled is delivered after the next start."""
        self._is_open = False

    def wake(self) -> None:
        """Look again: there is a new job, or room."""
        self._news.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            self._news = anyio.Event()
            self._fire_due()
            with _clock.timeout(self._rest()):
                await self._news.wait()
                await _clock.sleep(0)

    def _fire_due(self) -> None:
        now = _clock.now()
        for job_id, until in tuple(self._tired.items()):
            if until <= now:
                del self._tired[job_id]
                self._in_hand.discard(job_id)
        room = min(_AT_ONCE, _MOST_IN_HAND - len(self._in_hand))
        if room <= 0 or self._store.state is not StoreState.RUNNING:
            return
        due = self._jobs.due(_clock.time_ms(), room + len(self._in_hand))
        for job in [job for job in due if job.job_id not in self._in_hand][:room]:
            self._in_hand.add(job.job_id)
            self._fire(job)

    def _rest(self) -> float | None:
        """Return how many seconds there are to wait; None: for news."""
        if self._store.state is not StoreState.RUNNING or len(self._in_hand) >= _MOST_IN_HAND:
            return _LOOK_AGAIN
        first = self._jobs.next_time
        if self._in_hand and first is not None:
            free = (job for job in self._jobs.jobs(first) if job.job_id not in self._in_hand)
            first = next((job.next_time for job in free), None)
        if first is None and not self._tired:
            return None  # what is in hand wakes
        waits = [until - _clock.now() for until in self._tired.values()]
        if first is not None:
            waits.append((first - _clock.time_ms()) / 1000)
        return min(max(min(waits), 0.0), _LONGEST_SLEEP)

    def _fire(self, job: ScheduledJob) -> None:
        message: ActiveMQMessage | None = None
        try:
            message = self._jobs.message(job.job_id)
            if message is None:  # it was removed meanwhile
                self._in_hand.discard(job.job_id)
                return
            if job.cron_entry and job.repeat:
                done = self._begin_another(job, message)
            else:
                done = self._send(self._deliveries.of(job, message))
        except Exception as error:
            self._failed(job, message, error)
            return
        if done is None:
            self._settle(job)
        else:
            done.then(lambda end: self._answered(job, message, end))

    def _answered(self, job: ScheduledJob, message: ActiveMQMessage, end: Completion) -> None:
        if not self._is_open:
            return
        if end.error is None:
            self._settle(job)
        else:
            self._failed(job, message, end.error)

    def _begin_another(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion | None:
        """Start a job: a cron entry with repetitions delivers nothing itself (S4)."""
        order = Order(job.delay, job.period, job.repeat, "")
        return self._jobs.add(order.job(self._ids.generate(), _clock.time_ms()), message)

    def _settle(self, job: ScheduledJob) -> None:
        """Note that a job was delivered, and when it is due again."""
        self._in_hand.discard(job.job_id)
        if job.cron_entry:
            self._jobs.reschedule(job.job_id, next_tick(job.cron_entry, _clock.time_ms()))
        elif job.repeat:
            self._jobs.reschedule(job.job_id, self._after(job))
        else:
            self._jobs.remove(job.job_id)
        self.wake()

    def _after(self, job: ScheduledJob) -> int:
        """Return the next time of the job's rhythm; what was missed is not made up for (S6)."""
        now = _clock.time_ms()
        period = max(job.period, 0)
        late = now - job.next_time - period
        if late < 0 or not period:
            return job.next_time + period
        return now + period - late % period

    def _failed(self, job: ScheduledJob, message: ActiveMQMessage | None, error: Exception) -> None:
        can_wait = message is None or isinstance(error, ResourceAllocationException)
        if can_wait or self._store.state is not StoreState.RUNNING:
            logger.error("Job %s is delivered later: %s", job.job_id, error)
            self._tire(job)
            return
        logger.error("Job %s goes to the dead letters: %s", job.job_id, error)
        assert message is not None
        try:
            done = self._send(self._deliveries.dead_letter(job, message, error))
        except Exception as worse:
            logger.error("Job %s: its dead letter was not sent: %s", job.job_id, worse)
            self._tire(job)
            return
        if done is None:
            self._settle(job)
        else:
            done.then(lambda end: self._settle(job) if end.error is None else self._tire(job))

    def _tire(self, job: ScheduledJob) -> None:
        self._tired[job.job_id] = _clock.now() + _RETRY
        self.wake()
