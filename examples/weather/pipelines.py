"""One pipeline with two sources: flights joined with the weather at their airport and hour."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from examples.board.records import Departure
from examples.weather.records import Observation
from pyjms.spark import jms_pipeline

FLIGHTS = "weather.flights"
WEATHER = "weather.hourly"
STORM = "flights.storm"
LATE = 30
WIND, VISIBILITY = 20, 2


@jms_pipeline(
    {"flights": FLIGHTS, "weather": WEATHER},
    schema={"flights": Departure, "weather": Observation},
    sink=STORM,
    max_messages_per_trigger=500,
)
def storm(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Select flights that left half an hour late or more in strong wind or low visibility.

    Either side waits three hours for the other: after that its rows leave the state, and
    whatever comes for that time is late and dropped.
    """
    left = (
        flights.withColumn("hour", F.date_trunc("hour", "sched_dep"))
        .withWatermark("hour", "3 hours")
        .where(F.col("dep_delay") >= LATE)
        .drop("jms")
    )
    right = (
        weather.where((F.col("wind_speed") >= WIND) | (F.col("visib") <= VISIBILITY))
        .withWatermark("hour", "3 hours")
        .drop("jms")
    )
    return left.join(right, ["origin", "hour"]).select(
        "hour", "origin", "carrier", "flight", "dest", "dep_delay", "wind_speed", "visib"
    )
