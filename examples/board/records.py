"""Departures in chronological order, as messages, with broken messages among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from itertools import takewhile

from pydantic import BaseModel

from examples.flights.records import read_flights

__all__ = ["Departure", "departures", "with_broken"]

BROKEN = (
    '{"origin": "JFK", "sched_dep": "2013-01-0',  # torn
    '{"origin": null, "sched_dep": "2013-01-01T12:00:00Z", "carrier": "UA", "flight": 1}',
    '{"origin": "LGA", "sched_dep": "noon", "carrier": "B6", "flight": 2, "dest": "BOS"}',
    "flight AA 3 left",
)


class Departure(BaseModel):
    """One flight, as it is sent and as the pipelines read it."""

    sched_dep: datetime
    origin: str
    dest: str
    carrier: str
    flight: int
    tailnum: str | None = None
    dep_delay: int | None = None
    """Minutes; None: cancelled."""


def departures(first: date, last: date) -> list[Departure]:
    """Return the flights of days of January, inclusive, in the order of their scheduled times."""
    january = takewhile(lambda row: row["month"] == "1", read_flights())  # the file begins with it
    rows = (row for row in january if first.day <= int(row["day"]) <= last.day)
    return sorted((to_departure(row) for row in rows), key=lambda flight: flight.sched_dep)


def to_departure(row: dict[str, str]) -> Departure:
    hour = datetime.fromisoformat(row["time_hour"])
    return Departure(
        sched_dep=hour + timedelta(minutes=int(row["minute"])),
        origin=row["origin"],
        dest=row["dest"],
        carrier=row["carrier"],
        flight=int(row["flight"]),
        tailnum=None if row["tailnum"] == "NA" else row["tailnum"],
        dep_delay=None if row["dep_time"] == "NA" else int(row["dep_delay"]),
    )


def with_broken(flights: Iterable[Departure], every: int) -> Iterator[str]:
    """Yield the flights as JSON, with a broken message after each `every` of them."""
    for number, flight in enumerate(flights, start=1):
        yield flight.model_dump_json()
        if number % every == 0:
            yield BROKEN[number // every % len(BROKEN)]
