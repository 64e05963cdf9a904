"""Rates of counters, measured while a page is open.

A series gets a point when it is observed, with at least half a second between points. Nothing runs
in the background: an unused console costs nothing. The rate of a point is the average since the
previous point.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from pyjms import _clock

__all__ = ["HISTORY", "Point", "Rates", "Series"]

HISTORY: Final = 180.0
"""The time range of a chart in seconds."""
_APART: Final = 0.5
_MOST_SERIES: Final = 500


class Point(NamedTuple):
    """The rates at one time in messages per second."""

    time: float
    enqueued: float
    dequeued: float


class Series:
    """The rates of one pair of counters."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque()
        self._last: tuple[float, int, int] | None = None

    def observe(self, now: float, enqueued: int, dequeued: int) -> None:
        """Record the counters; after a reset (a counter has decreased), no point is added."""
        last = self._last
        if last is not None:
            time, before_enqueued, before_dequeued = last
            if now - time < _APART:
                return
            if enqueued >= before_enqueued and dequeued >= before_dequeued:
                seconds = now - time
                self.points.append(
                    Point(
                        now,
                        (enqueued - before_enqueued) / seconds,
                        (dequeued - before_dequeued) / seconds,
                    )
                )
        self._last = (now, enqueued, dequeued)
        while self.points and now - self.points[0].time > HISTORY:
            self.points.popleft()

    @property
    def latest(self) -> Point | None:
        """The last point; None before the second observation."""
        return self.points[-1] if self.points else None


class Rates:
    """The series of one console; the least recently observed ones are dropped.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = _clock.now) -> None:
        self._clock = clock
        self._series: OrderedDict[str, Series] = OrderedDict()

    def observe(self, key: str, enqueued: int, dequeued: int) -> Series:
        """Record the counters of `key` and return its series."""
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series()
            while len(self._series) > _MOST_SERIES:
                self._series.popitem(last=False)
        self._series.move_to_end(key)
        series.observe(self._clock(), enqueued, dequeued)
        return series

    def __len__(self) -> int:
        return len(self._series)
