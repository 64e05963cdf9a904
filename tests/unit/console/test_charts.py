"""Charts of what was recorded: points, scales, gaps, numbers."""

from __future__ import annotations

from math import nan

import pytest

from pyjms_broker.console.chart import HEIGHT, WIDTH, Chart, bytes_text, charts_of, rate_text
from pyjms_broker.management.history import Recorded

SLOTS = 720
START = 1_700_000_100_000 // 15_000 * 15_000


def chart_with(column: str, *last: float, start: int = START) -> Chart:
    """Return the chart of a column whose last numbers are known."""
    unknown = [nan] * (SLOTS - len(last))
    (chart,) = charts_of(Recorded(start, 5, {column: [*unknown, *last]}))
    return chart


def test_a_point_is_the_highest_number_of_fifteen_seconds() -> None:
    chart = chart_with("depth", 1, 50, 2, 100, 0, 0)
    right = chart.left + WIDTH
    assert chart.lines[0].path.split() == [f"M{right - 2}", f"50H{right - 1}L{right}", "0"]
    assert (chart.lines[0].latest, chart.lines[0].highest) == ("0", "100")


def test_points_keep_their_place_so_that_an_update_is_small() -> None:
    numbers = [float(number // 3 * 7919 % 1000) for number in range(SLOTS + 3)]
    before = chart_with("depth", *numbers[:SLOTS]).lines[0].path.split("\n")
    after = chart_with("depth", *numbers[3:], start=START + 15_000).lines[0].path.split("\n")
    assert len(after) >= WIDTH // 20
    assert len(set(after) - set(before)) <= 3


@pytest.mark.parametrize("moved", range(3))
def test_points_begin_at_round_times(moved: int) -> None:
    numbers = [7.0] * 30 + [90.0] + [7.0] * 29
    path = chart_with("depth", *numbers, start=START + moved * 5_000).lines[0].path
    assert path.count("L") == 2


def test_a_line_that_stays_is_one_step() -> None:
    chart = chart_with("depth", *[10.0] * SLOTS)
    assert chart.lines[0].path.replace("\n", "") == (
        f"M{chart.left} 0H{chart.left + 1}H{chart.left + WIDTH}"
    )


def test_times_that_are_not_known_are_gaps() -> None:
    chart = chart_with("depth", *[10.0] * 3, *[nan] * 3, *[10.0] * 3)
    assert chart.lines[0].path.count("M") == 2


@pytest.mark.parametrize(
    ("column", "number", "top", "middle"),
    [
        ("depth", 0, "1", "0.5"),
        ("depth", 3, "5", "2.5"),
        ("depth", 1001, "2,000", "1,000"),
        ("memory", 3_000_000, "4.0 MiB", "2.0 MiB"),
        ("memory", 0, "1.0 KiB", "512 bytes"),
        ("in", 0.3, "1.0", "0.5"),
    ],
)
def test_a_scale_ends_at_a_round_number(column: str, number: float, top: str, middle: str) -> None:
    chart = chart_with(column, number)
    assert (chart.top, chart.middle) == (top, middle)


def test_lines_of_a_chart_have_the_same_scale() -> None:
    unknown = [nan] * (SLOTS - 1)
    (chart,) = charts_of(Recorded(START, 5, {"in": [*unknown, 100], "out": [*unknown, 50]}))
    assert [each.path.partition("H")[0].partition(" ")[2] for each in chart.lines] == ["0", "50"]
    assert chart.label == "Messages a second: in 100, at most 100; out 50, at most 50"


def test_a_chart_without_numbers_says_so() -> None:
    chart = chart_with("depth")
    assert (chart.lines[0].path, chart.lines[0].latest) == ("", "unknown")


def test_a_chart_is_small() -> None:
    changing = [float(number * 7919 % 1000) for number in range(SLOTS)]
    assert len(chart_with("depth", *changing).lines[0].path) < 3000


def test_numbers_have_as_many_digits_as_they_need() -> None:
    assert [rate_text(each) for each in (0, 0.25, 9.96, 1234.5)] == ["0", "0.2", "10.0", "1,234"]
    assert [bytes_text(each) for each in (0, 1023, 1024, 5 << 40)] == [
        *("0 bytes", "1,023 bytes", "1.0 KiB", "5.0 TiB"),
    ]
    assert HEIGHT == 100
