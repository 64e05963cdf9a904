"""Rates of counters, and their charts."""

from __future__ import annotations

import pytest

from pyjms_broker.console.chart import HISTORY, Rates, chart_of


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rates(clock: Clock) -> Rates:
    return Rates(clock)


def test_a_rate_is_the_average_since_the_observation_before(rates: Rates, clock: Clock) -> None:
    assert rates.observe("q", 10, 5).latest is None
    clock.now += 4
    latest = rates.observe("q", 30, 6).latest
    assert latest is not None
    assert (latest.enqueued, latest.dequeued) == (5.0, 0.25)


def test_observations_in_quick_succession_count_as_one(rates: Rates, clock: Clock) -> None:
    rates.observe("q", 0, 0)
    clock.now += 0.1
    assert rates.observe("q", 100, 0).latest is None
    clock.now += 0.9
    latest = rates.observe("q", 100, 0).latest
    assert latest is not None
    assert latest.enqueued == pytest.approx(100)


def test_a_reset_gives_no_negative_rate(rates: Rates, clock: Clock) -> None:
    rates.observe("q", 100, 100)
    clock.now += 1
    assert rates.observe("q", 0, 0).latest is None
    clock.now += 1
    latest = rates.observe("q", 3, 2).latest
    assert latest is not None
    assert (latest.enqueued, latest.dequeued) == (3.0, 2.0)


def test_old_points_are_dropped(rates: Rates, clock: Clock) -> None:
    for number in range(1000):
        series = rates.observe("q", number, number)
        clock.now += 1
    assert len(series.points) == HISTORY + 1


def test_series_that_nobody_observes_are_dropped(rates: Rates) -> None:
    for number in range(2000):
        rates.observe(str(number), 0, 0)
    assert len(rates) == 500


def test_a_chart_is_as_high_as_its_peak(rates: Rates, clock: Clock) -> None:
    for enqueued in (0, 100, 150):
        series = rates.observe("q", enqueued, 0)
        clock.now += 1
    chart = chart_of(series, 180, 42)
    assert chart.enqueued == "179.0,1.0 180.0,21.0"
    assert chart.dequeued == "179.0,41.0 180.0,41.0"
    assert chart.peak == 100
    assert chart.label == "50 messages a second enqueued, 0 dequeued, peak 100"


def test_a_chart_without_points_says_so(rates: Rates) -> None:
    chart = chart_of(rates.observe("q", 0, 0), 180, 42)
    assert (chart.enqueued, chart.label) == ("", "The rates are being measured")
