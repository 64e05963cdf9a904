"""Which of the jobs that are due go on now: a few at a time for each destination.

What is in hand holds a message in memory that nobody counts, while it waits for room. So a
destination has a queue, with few in hand; further jobs for it stand behind, as ids. They follow
one by one as deliveries end, or some time after one that failed. Jobs of other queues pass them.

A queue that is too long passes some over, and notes from when on they are due. All jobs before
`_mark` were looked at, or are about to be by the scan that goes on; so none is looked at twice
without a reason, however many wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterator
from typing import Final

from pyjms import _clock
from pyjms_broker.store.jobs.api import JobScheduler, ScheduledJob

__all__ = ["DeliveryQueues"]

_MOST_IN_HAND: Final = 10
_MOST_IN_ALL: Final = 1000
"""In hand, of all queues."""
_MOST_BEHIND: Final = 1000
_MOST_BEHIND_IN_ALL: Final = 10_000
_AT_A_LOOK: Final = 100
_PASSED_AT_A_LOOK: Final = 1000
_PAUSE: Final = 0.01
"""Seconds between two looks, where one did not get to the end."""
_RETRY: Final = 5.0
"""Seconds until what found no room, or could not be read, is tried again."""


class _DeliveryQueue:
    """The jobs of one destination."""

    __slots__ = ("behind", "in_hand", "missed", "rests_until")

    def __init__(self) -> None:
        self.in_hand = 0
        self.behind: deque[str] = deque()
        self.missed: int | None = None
        """When the first one was due that was passed over."""
        self.rests_until: float | None = None

    @property
    def is_free(self) -> bool:
        return self.rests_until is None and self.in_hand < _MOST_IN_HAND

    @property
    def is_idle(self) -> bool:
        return not (self.in_hand or self.behind) and self.missed is None


class DeliveryQueues:
    """Knows which jobs are in hand, or wait for others."""

    def __init__(self, jobs: JobScheduler, arriving: Container[str]) -> None:
        """Leave alone what is in `arriving`; whoever takes it out calls `check_from`."""
        self._jobs = jobs
        self._arriving = arriving
        self._queues: dict[Hashable, _DeliveryQueue] = {}
        self._known: set[str] = set()
        """What is in hand, or behind."""
        self._in_hand = 0
        self._behind = 0
        self._mark = 0
        self._scan: Iterator[ScheduledJob] | None = None

    @property
    def in_hand(self) -> int:
        """How many deliveries have not ended."""
        return self._in_hand

    def check_from(self, time: int = 0) -> None:
        """Look again at what is due from `time` on."""
        self._mark = min(self._mark, time)

    def start_over(self) -> None:
        """Look at all again: a look failed half-way."""
        self._scan, self._mark = None, 0

    def due(self) -> list[ScheduledJob]:
        """Return jobs that nobody has yet, at most a hundred; each wants `enter` next."""
        now = _clock.time_ms()
        found: list[ScheduledJob] = []
        if self._in_hand >= _MOST_IN_ALL:
            return found
        if self._scan is None:
            self._scan, self._mark = self._jobs.jobs(self._mark, now), max(self._mark, now + 1)
        for _ in range(_PASSED_AT_A_LOOK):
            job = next(self._scan, None)
            if job is None:
                self._scan = None
                return found
            if job.job_id in self._known or job.job_id in self._arriving:
                continue
            fresh = self._jobs.get(job.job_id)  # the scan reads pages: it may have fired since
            if fresh is not None and fresh.next_time <= now:
                found.append(fresh)
                if len(found) >= _AT_A_LOOK:
                    break
        return found

    def enter(self, job: ScheduledJob, key: Hashable) -> bool:
        """Start a job, or queue it behind others of its destination; return whether it started."""
        queue = self._queues.setdefault(key, _DeliveryQueue())
        goes = queue.is_free and not queue.behind and self._in_hand < _MOST_IN_ALL
        if goes:
            self._known.add(job.job_id)
            queue.in_hand += 1
            self._in_hand += 1
        elif not self._stand_behind(queue, job.job_id):
            missed = queue.missed
            queue.missed = job.next_time if missed is None else min(missed, job.next_time)
        return goes

    def done(self, job_id: str, key: Hashable) -> None:
        """Be done with a job that was in hand."""
        self._known.discard(job_id)
        self._leave(key)

    def delay(self, job_id: str, key: Hashable) -> None:
        """Try a job that was in hand again later, behind the others: its queue rests until then."""
        queue = self._queues[key]
        queue.rests_until = _clock.now() + _RETRY
        self._known.discard(job_id)
        if not self._stand_behind(queue, job_id):
            queue.missed = 0
        self._leave(key)

    def following(self) -> list[tuple[ScheduledJob, Hashable]]:
        """Take in hand, and return, those from behind for whom there is room now."""
        found = []
        for key, queue in tuple(self._queues.items()):
            if queue.rests_until is not None and queue.rests_until <= _clock.now():
                queue.rests_until = None
            while queue.behind and queue.is_free and self._in_hand < _MOST_IN_ALL:
                job = self._next(queue)
                if job is not None:
                    found.append((job, key))
            if queue.missed is not None and queue.is_free and len(queue.behind) < _MOST_BEHIND // 2:
                self.check_from(queue.missed)
                queue.missed = None
            if queue.is_idle and queue.rests_until is None:
                del self._queues[key]
        return found

    def rest(self) -> float | None:
        """Return how many seconds there are until more can be done; None: only news does."""
        if self._in_hand >= _MOST_IN_ALL:
            return None
        if self._scan is not None:
            return _PAUSE
        waits = [
            queue.rests_until - _clock.now()
            for queue in self._queues.values()
            if queue.rests_until is not None
        ]
        first = next(self._jobs.jobs(self._mark), None)
        if first is not None:
            waits.append((first.next_time - _clock.time_ms()) / 1000)
        return min(waits, default=None)

    def _stand_behind(self, queue: _DeliveryQueue, job_id: str) -> bool:
        if len(queue.behind) >= _MOST_BEHIND or self._behind >= _MOST_BEHIND_IN_ALL:
            return False
        self._known.add(job_id)
        queue.behind.append(job_id)
        self._behind += 1
        return True

    def _leave(self, key: Hashable) -> None:
        self._queues[key].in_hand -= 1
        self._in_hand -= 1

    def _next(self, queue: _DeliveryQueue) -> ScheduledJob | None:
        """Take the next one from behind; None: it was removed, or is due later, meanwhile."""
        job_id = queue.behind.popleft()
        self._behind -= 1
        job = self._jobs.get(job_id)
        if job is None or job.next_time > _clock.time_ms():
            self._known.discard(job_id)
            if job is not None:
                self.check_from(job.next_time)
            return None
        queue.in_hand += 1
        self._in_hand += 1
        return job
