"""Charts of rates as SVG attributes, without styles and scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyjms_broker.console.model.rates import HISTORY, Point, Series

__all__ = ["Chart", "chart_of"]


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
