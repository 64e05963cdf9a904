"""The examples' pipelines are functions of frames, so they are tested without a broker."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from examples.board.counting import Hour, difference, hours_of
from examples.board.names import BOARD
from examples.board.pipelines import archive, cancelled, delays
from examples.board.records import Departure, departures
from examples.weather.pipelines import storm
from pyjms.spark import pipeline_marks

pytestmark = pytest.mark.timeout(120)
DAY = date(2013, 1, 1)
COLUMNS = (
    "sched_dep timestamp, origin string, dest string, carrier string, flight int, "
    "tailnum string, dep_delay int, jms struct<seq: bigint>"
)


def frame(spark: SparkSession, flights: list[Departure]) -> Any:
    rows = [
        (*flight.model_dump().values(), Row(seq=number)) for number, flight in enumerate(flights)
    ]
    return spark.createDataFrame(rows, COLUMNS)


def test_the_board_says_what_python_counts(spark: SparkSession) -> None:
    flights = departures(DAY, DAY)
    found = [
        Hour(**{**row.asDict(), "hour": row.hour.astimezone(UTC)})
        for row in delays(frame(spark, flights)).collect()
    ]
    assert difference(hours_of(flights), found) == (0, 0, 0)
    assert pipeline_marks(delays)[0].sink == BOARD


def test_cancelled_flights_and_the_archive(spark: SparkSession) -> None:
    flights = departures(DAY, DAY)[-30:]
    gone = cancelled(frame(spark, flights)).collect()
    assert sorted(row.flight for row in gone) == sorted(
        flight.flight for flight in flights if flight.dep_delay is None
    )
    kept = archive(frame(spark, flights))
    assert kept.columns == ["seq", *Departure.model_fields]
    assert kept.count() == 30


def test_a_late_flight_finds_its_weather(spark: SparkSession) -> None:
    hour = datetime(2013, 1, 1, 10, tzinfo=UTC)
    flights = [
        Departure(sched_dep=hour.replace(minute=15), origin=origin, dest="IAH", carrier="UA",
                  flight=number, dep_delay=delay)
        for number, (origin, delay) in enumerate([("EWR", 45), ("EWR", 5), ("JFK", 60), ("EWR", None)])
    ]  # fmt: skip
    weather = spark.createDataFrame(
        [(hour, "EWR", 5.0, 0.5, Row(seq=0)), (hour, "JFK", 5.0, 10.0, Row(seq=1))],
        "hour timestamp, origin string, wind_speed double, visib double, jms struct<seq: bigint>",
    )
    (row,) = storm(frame(spark, flights), weather).collect()
    assert (row.flight, row.dep_delay, row.visib) == (0, 45, 0.5)
