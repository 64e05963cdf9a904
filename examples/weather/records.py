"""Hourly weather at the three airports, as messages."""

from __future__ import annotations

import csv
from datetime import date, datetime

from pydantic import BaseModel

from examples.flights.records import data_folder

__all__ = ["Observation", "observations"]


class Observation(BaseModel):
    """One hour at one airport."""

    hour: datetime
    origin: str
    wind_speed: float | None = None
    """Miles per hour."""
    visib: float | None = None
    """Miles."""


def observations(first: date, last: date) -> list[Observation]:
    """Return the hours of some days, inclusive, in chronological order."""
    with (data_folder() / "weather.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if first <= date(int(row["year"]), int(row["month"]), int(row["day"])) <= last
        ]
    return sorted((to_observation(row) for row in rows), key=lambda seen: seen.hour)


def to_observation(row: dict[str, str]) -> Observation:
    return Observation(
        hour=datetime.fromisoformat(row["time_hour"]),
        origin=row["origin"],
        wind_speed=number(row["wind_speed"]),
        visib=number(row["visib"]),
    )


def number(text: str) -> float | None:
    return None if text == "NA" else float(text)
