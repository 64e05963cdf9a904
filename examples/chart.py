"""A line chart as SVG, which every browser draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["line_chart"]

WIDTH, HEIGHT = 960, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 48, 44
COLOURS = ("#1f6feb", "#d1480f", "#2da44e", "#8250df", "#9a6700")
STEPS = (1, 2, 5, 10, 15, 20, 30, 50, 60, 100, 150, 200, 300, 500, 1000)
GRID_LINES = 8
Points = Sequence[tuple[float, float]]


def line_chart(
    title: str, lines: Mapping[str, Points], ticks: Mapping[float, str], unit: str
) -> str:
    """Return an SVG with a line for each name through its points and `ticks` below the axis."""
    xs = [x for points in lines.values() for x, _ in points] or [0.0]
    ys = [y for points in lines.values() for _, y in points] + [0.0]
    step = next((s for s in STEPS if (max(ys) - min(ys)) / s <= GRID_LINES), STEPS[-1])
    low, high = step * (min(ys) // step), step * (max(ys) // step + 1)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(x: float) -> float:
        return LEFT + width * (x - min(xs)) / ((max(xs) - min(xs)) or 1)

    def down(y: float) -> float:
        return TOP + height * (high - y) / (high - low)

    parts = [text(LEFT, 22, title, 'font-size="16"')]
    for y in [low + step * n for n in range(round((high - low) / step) + 1)]:
        colour = "#57606a" if y == 0 else "#d8dee4"
        parts += [
            line(LEFT, down(y), WIDTH - RIGHT, down(y), colour),
            text(LEFT - 8, down(y) + 4, f"{y:g}", 'text-anchor="end"'),
        ]
    parts.append(text(LEFT - 8, TOP - 10, unit, 'text-anchor="end"'))
    for x, label in ticks.items():
        at = across(x)
        parts += [
            line(at, TOP, at, HEIGHT - BOTTOM, "#eaeef2"),
            text(at, HEIGHT - 22, label, 'text-anchor="middle"'),
        ]
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>',
            text(WIDTH - RIGHT - 60 * (len(lines) - number), 22, name, f'fill="{colour}"'),
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def text(x: float, y: float, words: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(words)}</text>'
