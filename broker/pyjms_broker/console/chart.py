"""Charts of what was recorded, as attributes of SVG elements without styles and scripts.

A chart has 240 points whatever its range, each the highest number of its time, so that no peak is
lost. Its scale ends at a round number, which is the same for all its lines.

A point keeps its coordinates while the chart moves on, and a path has line breaks between the same
points each time, so that the update of an open page has only the last lines (`live`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, isnan, log10
from typing import Final, NamedTuple

from pyjms_broker.management.history import Recorded

WIDTH: Final = 240
HEIGHT: Final = 100
_BREAK: Final = 20
"""The number of points between two line breaks of a path."""
_TURN: Final = 10_000
"""The coordinate at which they begin at 0 again."""
TIMES: Final = {
    "hour": ("60 min ago", "45", "30", "15", "now"),
    "day": ("24 h ago", "18", "12", "6", "now"),
}


def rate_text(rate: float) -> str:
    """Return a rate with an appropriate number of digits."""
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def bytes_text(number: float) -> str:
    """Return a number of bytes with an appropriate unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def _count_text(number: float) -> str:
    return f"{number:,.1f}" if number % 1 else f"{number:,.0f}"


class _Kind(NamedTuple):
    """A kind of chart: its title, its lines by column, how numbers are written, and its scale."""

    title: str
    lines: dict[str, str]
    text: Callable[[float], str]
    top: Callable[[float], float]


def _round_up(number: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 ..., at least 1."""
    power = 10.0 ** max(0, ceil(log10(number)) - 1) if number > 0 else 1.0
    return next(power * each for each in (1, 2, 5, 10) if power * each >= number)


def _bytes_up(number: float) -> float:
    """Return the next power of 2, at least 1 KiB."""
    return float(1 << max(10, ceil(number - 1).bit_length()))


_KINDS: Final = (
    _Kind("Messages a second", {"in": "in", "out": "out"}, rate_text, _round_up),
    _Kind("Messages in queues", {"depth": "messages"}, _count_text, _round_up),
    _Kind("Memory", {"memory": "in use"}, bytes_text, _bytes_up),
    _Kind("Store", {"store": "in use"}, bytes_text, _bytes_up),
    _Kind(
        "Clients",
        {"consumers": "consumers", "connections": "connections"},
        _count_text,
        _round_up,
    ),
)


class Line(NamedTuple):
    """A line of a chart: its name, the attribute `d` of its path, the last and highest numbers."""

    name: str
    path: str
    latest: str
    highest: str


class Chart(NamedTuple):
    """A chart: its title, its lines, and the numbers at the top and in the middle of its scale.

    `left` is the coordinate of its left edge.
    """

    title: str
    left: int
    lines: tuple[Line, ...]
    top: str
    middle: str

    @property
    def label(self) -> str:
        """What it shows, in words."""
        shown = (f"{each.name} {each.latest}, at most {each.highest}" for each in self.lines)
        return f"{self.title}: {'; '.join(shown)}"


def charts_of(recorded: Recorded) -> list[Chart]:
    """Return the charts of what was recorded of the broker or of a destination."""
    return [
        _chart(kind, recorded)
        for kind in _KINDS
        if any(column in recorded.columns for column in kind.lines)
    ]


def _chart(kind: _Kind, recorded: Recorded) -> Chart:
    columns = [each for each in kind.lines if each in recorded.columns]
    size = len(recorded.columns[columns[0]]) // WIDTH
    number = recorded.start // (recorded.step * 1000)  # of the first slot since 1970
    skipped = -number % size
    begin = (number + skipped) // size % _TURN
    points = {column: list(_points(recorded.columns[column][skipped:], size)) for column in columns}
    left = begin + len(points[columns[0]]) - 1 - WIDTH
    peaks = {column: max(filter(None, points[column]), default=0.0) for column in columns}
    top = kind.top(max(peaks.values()))
    lines = []
    for column in columns:
        latest = recorded.columns[column][-1]
        now = "unknown" if isnan(latest) else kind.text(latest)
        path = _path(points[column], begin, top)
        lines.append(Line(kind.lines[column], path, now, kind.text(peaks[column])))
    return Chart(kind.title, left, tuple(lines), kind.text(top), kind.text(top / 2))


def _points(values: Sequence[float], size: int) -> Iterator[float | None]:
    """Iterate over the highest known number of each `size` values."""
    for start in range(0, len(values), size):
        yield max((each for each in values[start : start + size] if not isnan(each)), default=None)


def _path(points: Sequence[float | None], begin: int, top: float) -> str:
    """Return the path of a line, with gaps where it is unknown; `begin` is the first coordinate."""
    heights = [None if each is None else round(HEIGHT - each / top * HEIGHT) for each in points]
    lines: list[str] = []
    line = ""
    before: int | None = None
    for x, (height, following) in enumerate(zip(heights, [*heights[1:], None], strict=True), begin):
        if x % _BREAK == 0 and line:
            lines.append(line)
            line = ""
        if height is not None and before is None:
            line += f"M{x - 1} {height}H{x}"
        elif height is not None and height != before:
            line += f"L{x} {height}"
        elif height is not None and height != following:
            line += f"H{x}"
        before = height
    return "\n".join([*lines, line])
