"""A line chart as SVG, which every browser draws, in light and in dark mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

__all__ = ["line_chart"]

WIDTH, HEIGHT = 960, 440
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 76, 44
STEPS = (1, 2, 5, 10, 15, 20, 30, 50, 60, 100, 150, 200, 300, 500, 1000)
GRID_LINES = 8
CHARACTER = 7.5  # the width of one at the font size of labels, roughly
SWATCH, SPACE = 22, 18
STYLE = """
  svg { color-scheme: light dark; background: #ffffff; color: #1f2328; font: 12px sans-serif }
  text { fill: currentColor }
  .title { font-size: 16px }
  .grid { stroke: #d8dee4 }
  .zero { stroke: #57606a }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round }
  .c0 { stroke: #1f6feb } .c1 { stroke: #d1480f } .c2 { stroke: #1a7f37 }
  .c3 { stroke: #8250df } .c4 { stroke: #9a6700 }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; color: #e6edf3 }
    .grid { stroke: #30363d }
    .zero { stroke: #8b949e }
    .c0 { stroke: #79c0ff } .c1 { stroke: #ffa657 } .c2 { stroke: #7ee787 }
    .c3 { stroke: #d2a8ff } .c4 { stroke: #e3b341 }
  }
"""
COLOURS = 5
Points = Sequence[tuple[float, float]]


def line_chart(
    title: str,
    lines: Mapping[str, Points],
    ticks: Mapping[float, str],
    unit: str,
    *,
    gap: float = float("inf"),
) -> str:
    """Return an SVG with a legend, a line for each name, and `ticks` below the axis.

    Args:
        title: what the chart shows.
        lines: the points of each line, in the order of x.
        ticks: labels of the horizontal axis, by x.
        unit: of the vertical axis.
        gap: a line is interrupted between two points further apart than this.
    """
    xs = [x for points in lines.values() for x, _ in points] or [0.0]
    ys = [y for points in lines.values() for _, y in points] + [0.0]
    step = next((s for s in STEPS if (max(ys) - min(ys)) / s <= GRID_LINES), STEPS[-1])
    low, high = step * (min(ys) // step), step * (max(ys) // step + 1)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(x: float) -> float:
        return LEFT + width * (x - min(xs)) / ((max(xs) - min(xs)) or 1)

    def down(y: float) -> float:
        return TOP + height * (high - y) / (high - low)

    parts = [text(LEFT, 26, title, 'class="title"'), *legend(list(lines))]
    for y in [low + step * n for n in range(round((high - low) / step) + 1)]:
        kind = "zero" if y == 0 else "grid"
        parts += [
            line(LEFT, down(y), WIDTH - RIGHT, down(y), kind),
            text(LEFT - 8, down(y) + 4, f"{y:g}", 'text-anchor="end"'),
        ]
    parts.append(text(8, TOP - 14, unit, ""))
    for x, label in ticks.items():
        parts.append(line(across(x), TOP, across(x), HEIGHT - BOTTOM, "grid"))
        parts.append(text(inside(across(x), label), HEIGHT - 22, label, 'text-anchor="middle"'))
    for number, points in enumerate(lines.values()):
        for run in unbroken(points, gap):
            path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in run)
            parts.append(f'<polyline class="line c{number % COLOURS}" points="{path}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def legend(names: Sequence[str]) -> Iterator[str]:
    """Give a piece of line and the name of each line, side by side below the title."""
    x = float(LEFT)
    for number, name in enumerate(names):
        yield line(x, 46, x + SWATCH, 46, f"line c{number % COLOURS}")
        yield text(x + SWATCH + 6, 50, name, "")
        x += SWATCH + 6 + CHARACTER * len(name) + SPACE


def inside(x: float, label: str) -> float:
    """Return where the middle of a label is, so that nothing of it is cut off."""
    half = CHARACTER * len(label) / 2
    return min(max(x, half), WIDTH - half)


def unbroken(points: Points, gap: float) -> Iterator[Points]:
    """Divide a line where two points are further apart than `gap`."""
    begin = 0
    for end, ((before, _), (after, _)) in enumerate(pairwise(points), start=1):
        if after - before > gap:
            yield points[begin:end]
            begin = end
    if points:
        yield points[begin:]


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(words)}</text>'
