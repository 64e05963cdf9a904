"""Flights and weather, joined on Spark; prints the size of the state and the late rows.

Ends by itself, with exit code 0 if every number adds up.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from pyspark.sql import SparkSession

from examples.board.records import Departure, departures
from examples.messages import connected, send_texts, take_texts
from examples.processes import running_broker, short_session
from examples.weather.pipelines import FLIGHTS, LATE, STORM, VISIBILITY, WEATHER, WIND, storm
from examples.weather.records import Observation, observations
from pyjms import Queue
from pyjms.spark import pipeline_marks
from pyjms.spark.checkpoint import PipelineLocation
from pyjms.spark.query import start_query

FIRST, LAST = date(2013, 1, 30), date(2013, 1, 31)
COME_LATE = 20
Found = tuple[str, str, int]


def main() -> int:
    flights, weather = departures(FIRST, LAST), observations(FIRST, LAST)
    delayed = [f for f in flights if f.dep_delay is not None and f.dep_delay >= LATE]
    held = delayed[:COME_LATE]  # sent a day late
    sent = [flight for flight in flights if flight not in held]
    spark = short_session("weather")
    with tempfile.TemporaryDirectory(prefix="weather-") as name:
        folder = Path(name)
        with running_broker(folder / "data") as url, connected(url) as connection:
            print(f"Sending {len(sent)} flights and {len(weather)} hours of weather", flush=True)
            send_texts(connection, Queue(WEATHER), [w.model_dump_json() for w in weather])
            send_texts(connection, Queue(FLIGHTS), [f.model_dump_json() for f in sent])
            dropped = run(spark, url, folder)
            print(f"Sending {len(held)} flights of the first day, too late", flush=True)
            send_texts(connection, Queue(FLIGHTS), [f.model_dump_json() for f in held])
            dropped_then = run(spark, url, folder)
            spark.stop()
            found = [to_found(text) for text in take_texts(connection, STORM)]
    wanted = expected(sent, weather)
    print(f"{len(found)} flights left late in bad weather; {dropped_then} came too late")
    checks = {
        "exactly the flights that a join in Python finds": sorted(found) == wanted,
        "nothing was dropped that came in time": dropped == 0,
        "what came too late was dropped": dropped_then == len(held),
    }
    for check, holds in checks.items():
        print(f"  {'ok ' if holds else 'NOT'} {check}")
    return 0 if all(checks.values()) else 1


def run(spark: SparkSession, url: str, folder: Path) -> int:
    """Run the pipeline until nothing is left to read; return the number of late rows."""
    (pipeline,) = pipeline_marks(storm)
    query = start_query(
        spark, pipeline, PipelineLocation(url=url, folder=folder / "storm"), once=True
    )
    query.awaitTermination()
    dropped = 0
    for progress in query.recentProgress:
        for operator in progress.stateOperators:
            dropped += operator.numRowsDroppedByWatermark
            print(
                f"  batch {progress.batchId}: {operator.numRowsTotal} rows and "
                f"{operator.memoryUsedBytes // 1024} KiB in the state, "
                f"{operator.numRowsDroppedByWatermark} too late",
                flush=True,
            )
    return dropped


def to_found(text: str) -> Found:
    row = json.loads(text)
    return row["carrier"], row["origin"], row["flight"]


def expected(flights: Sequence[Departure], weather: Sequence[Observation]) -> list[Found]:
    """Join in Python: the expected flights."""
    bad = {
        (w.origin, w.hour)
        for w in weather
        if (w.wind_speed is not None and w.wind_speed >= WIND)
        or (w.visib is not None and w.visib <= VISIBILITY)
    }
    return sorted(
        (f.carrier, f.origin, f.flight)
        for f in flights
        if f.dep_delay is not None
        and f.dep_delay >= LATE
        and (f.origin, f.sched_dep.replace(minute=0)) in bad
    )


if __name__ == "__main__":
    sys.exit(main())
