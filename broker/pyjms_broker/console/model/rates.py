"""Rates of counters, measured while somebody has a page open.

A series gets a point whenever it is observed, half a second apart at least. Nothing runs in the
background: a console that nobody uses costs nothing. The rate of a point is the average since the
point before it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from pyjms import _clock

__all__ = ["HISTORY", "Point", "Rates", "Series"]

HISTORY: Final = 180.0
"""Seconds that a chart shows."""
_APART: Final = 0.5
_MOST_SERIES: Final = 500


class Point(NamedTuple):
    """The rates at one time, in messages a second."""

    time: float
    enqueued: float
    dequeued: float


class Series:
    """The rates of one pair of counters."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque()
        self._last: tuple[float, int, int] | None = None

    def observe(self, now: float, enqueued: int, dequeued: int) -> None:
        """Note the counters; one that has decreased was reset, and adds no point."""
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
        """The last point, None before the second observation."""
        return self.points[-1] if self.points else None


class Rates:
    """The series of one console; those that were not observed for the longest time go first.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = _clock.now) -> None:
        self._clock = clock
        self._series: OrderedDict[str, Series] = OrderedDict()

    def observe(self, key: str, enqueued: int, dequeued: int) -> Series:
        """Note the counters of `key`; return its series."""
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
