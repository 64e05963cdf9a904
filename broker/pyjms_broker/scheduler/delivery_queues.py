"""Admission of due jobs: a bounded number of deliveries in flight for each destination.

A delivery in flight keeps its message in memory, not counted in the broker's memory usage, possibly
for as long as its destination is full. Only a few deliveries per destination are therefore in
flight; further due jobs wait in its queue as ids. A waiting job starts when a delivery ends; after
a failed delivery, the queue is paused for some seconds. A full destination thus delays only its own
jobs.

The queues are also bounded. When one is full, further jobs are skipped, and the queue stores the
due time of the first skipped one (`skipped_from`). Once half the queue is free, the scan is set
back to that time. The invariant is: every due job is known (in flight or waiting), covered by the
`skipped_from` of its queue, or not before `_scan_from`, or ahead of the scan in progress. A backlog
of any length is therefore scanned once, page by page, and not at every wake-up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Hashable, Iterator
from typing import Final

from pyjms import _clock
from pyjms_broker.store.jobs.api import JobScheduler, ScheduledJob

__all__ = ["DeliveryQueues"]

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
