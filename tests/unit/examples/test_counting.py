"""What the examples compare with: counted in plain Python, drawn as SVG."""

from __future__ import annotations

from datetime import date
from xml.etree import ElementTree as ET

import pytest

from examples.board.counting import Hour, difference, hours_of
from examples.board.records import Departure, departures, with_broken
from examples.chart import line_chart
from examples.flights.records import read_flights
from examples.weather.records import observations

DAY = date(2013, 1, 1)


@pytest.fixture(scope="module")
def flights() -> list[Departure]:
    return departures(DAY, DAY)


def test_flights_come_in_the_order_of_their_time(flights: list[Departure]) -> None:
    times = [flight.sched_dep for flight in flights]
    assert times == sorted(times)
    assert len(flights) == 842
    assert sum(flight.dep_delay is None for flight in flights) == 4


def test_broken_messages_are_not_departures(flights: list[Departure]) -> None:
    texts = list(with_broken(flights, 100))
    refused = 0
    for text in texts:
        try:
            Departure.model_validate_json(text)
        except ValueError:
            refused += 1
    assert refused == len(texts) - len(flights) == 8


def test_hours_hold_every_flight_once(flights: list[Departure]) -> None:
    hours = hours_of(flights)
    assert sum(hour.flights for hour in hours) == 842
    assert len({(hour.hour, hour.origin) for hour in hours}) == len(hours)
    assert difference(hours, hours) == (0, 0, 0)


def test_a_missing_hour_is_lost_and_a_second_one_doubled(flights: list[Departure]) -> None:
    hours = hours_of(flights)
    first = hours[0]
    assert difference(hours, hours[1:]) == (first.flights, 0, 0)
    assert difference(hours, [*hours, first]) == (0, first.flights, 0)
    other = first.model_copy(update={"delay": 1e9})
    assert difference(hours, [other, *hours[1:]]) == (0, 0, 1)
    unknown = Hour(hour=first.hour, origin="XXX", flights=2, cancelled=0)
    assert difference(hours, [*hours, unknown]) == (0, 2, 1)


def test_weather_of_a_day(flights: list[Departure]) -> None:
    found = observations(DAY, DAY)
    assert {seen.origin for seen in found} == {"EWR", "JFK", "LGA"}
    assert len({(seen.origin, seen.hour) for seen in found}) == len(found) == 67


@pytest.mark.fact("spark-pipeline 1.6")
def test_the_data_are_all_there() -> None:
    assert sum(1 for _ in read_flights()) == 336_776
    assert len(observations(date(2012, 12, 31), date(2014, 1, 1))) == 26_115


def test_a_chart_is_svg_with_a_line_a_name() -> None:
    lines = {"A & B": [(0.0, -3.0), (1.0, 7.5)], "C": [(0.0, 0.0), (2.0, 250.0)]}
    root = ET.fromstring(line_chart("late <flights>", lines, {0.0: "noon"}, "minutes"))
    namespace = "{http://www.w3.org/2000/svg}"
    drawn = root.findall(f"{namespace}polyline")
    texts = [found.text for found in root.iter(f"{namespace}text")]
    assert len(drawn) == 2
    assert "prefers-color-scheme: dark" in (root.findtext(f"{namespace}style") or "")
    assert {"A & B", "C", "late <flights>", "noon", "minutes"} <= set(texts)
    for line in drawn:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 960
            assert 0 <= y <= 440


def test_a_chart_draws_no_line_where_there_are_no_data() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (4.0, 3.0), (5.0, 1.0), (9.0, 2.0)]
    root = ET.fromstring(line_chart("late", {"EWR": points}, {}, "minutes", gap=1))
    drawn = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in drawn] == [2, 2, 1]


def test_labels_at_the_edge_are_not_clipped() -> None:
    points, label = [(0.0, 1.0), (1.0, 2.0)], "31 Jan 23:00, a long label"
    root = ET.fromstring(line_chart("t", {"a": points}, {0.0: label, 1.0: label}, "m"))
    at = [
        float(found.attrib["x"])
        for found in root.iter("{http://www.w3.org/2000/svg}text")
        if found.text == label
    ]
    assert 0 < at[0] - 6 * len(label) / 2 < at[1] + 6 * len(label) / 2 < 960


def test_a_chart_of_nothing_is_svg() -> None:
    assert ET.fromstring(line_chart("none", {}, {}, "minutes")).tag.endswith("svg")
