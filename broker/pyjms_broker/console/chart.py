"""Charts of the rates of counters, as SVG attributes without styles and scripts.

Rates are measured while a page is open. A series gets a point when it is observed, with at least
half a second between points. Nothing runs in the background: an unused console costs nothing. The
rate of a point is the average since the previous point.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyjms.runtime import clock as _clock

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


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of two lines.

    Args:
        width: the width in SVG units, like `height`.
        enqueued: the attribute `points` of the polyline.
        dequeued: the attribute `points` of the other polyline.
        peak: the rate at the upper edge in messages per second.
        label: the latest rates in words.
    """

    width: int
    height: int
    enqueued: str
    dequeued: str
    peak: float
    label: str


def rate_text(rate: float) -> str:
    """Return a rate with an appropriate number of digits."""
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def chart_of(series: Series, width: int, height: int) -> Chart:
    """Return the chart of a series; its right edge is the latest point."""
    points, latest = series.points, series.latest
    if latest is None:
        return Chart(width, height, "", "", 0.0, "The rates are being measured")
    peak = max(max(p.enqueued, p.dequeued) for p in points)
    label = (
        f"{rate_text(latest.enqueued)} messages a second enqueued, "
        f"{rate_text(latest.dequeued)} dequeued, peak {rate_text(peak)}"
    )

    def line(value: Callable[[Point], float]) -> str:
        return " ".join(
            f"{width - (latest.time - p.time) / HISTORY * width:.1f},"
            f"{height - 1 - (value(p) / peak if peak else 0) * (height - 2):.1f}"
            for p in points
        )

    return Chart(width, height, line(lambda p: p.enqueued), line(lambda p: p.dequeued), peak, label)
