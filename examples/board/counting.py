"""The expected results, computed in plain Python, and their comparison with the pipeline's."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel

from examples.board.records import Departure

__all__ = ["Difference", "Hour", "difference", "hours_of"]


class Hour(BaseModel):
    """One hour at one airport: a result of the pipeline `delays`."""

    hour: datetime
    origin: str
    flights: int
    cancelled: int
    delay: float | None = None
    """Average minutes; None: no flight left."""


class Difference(NamedTuple):
    """Flights missing from the results, flights counted twice, and wrong hours."""

    lost: int
    duplicated: int
    wrong: int


def hours_of(flights: Iterable[Departure]) -> list[Hour]:
    """Return the expected hours."""
    groups: dict[tuple[datetime, str], list[Departure]] = defaultdict(list)
    for flight in flights:
        groups[flight.sched_dep.replace(minute=0), flight.origin].append(flight)
    return [to_hour(*key, group) for key, group in sorted(groups.items())]


def to_hour(hour: datetime, origin: str, group: list[Departure]) -> Hour:
    delays = [flight.dep_delay for flight in group if flight.dep_delay is not None]
    return Hour(
        hour=hour,
        origin=origin,
        flights=len(group),
        cancelled=len(group) - len(delays),
        delay=sum(delays) / len(delays) if delays else None,
    )


def difference(expected: Iterable[Hour], found: Iterable[Hour]) -> Difference:
    """Compare results; an hour that was sent twice counts its flights twice."""
    wanted = {(hour.hour, hour.origin): hour for hour in expected}
    counts: Counter[tuple[datetime, str]] = Counter()
    wrong = 0
    for hour in found:
        counts[hour.hour, hour.origin] += hour.flights
        other = wanted.get((hour.hour, hour.origin))
        wrong += other is None or not same(hour, other)
    off = [counts[key] - hour.flights for key, hour in wanted.items()]
    unknown = sum(count for key, count in counts.items() if key not in wanted)
    return Difference(
        lost=-sum(n for n in off if n < 0),
        duplicated=sum(n for n in off if n > 0) + unknown,
        wrong=wrong,
    )


def same(one: Hour, other: Hour) -> bool:
    if (one.flights, one.cancelled) != (other.flights, other.cancelled):
        return False
    if one.delay is None or other.delay is None:
        return one.delay is other.delay
    return math.isclose(one.delay, other.delay, abs_tol=1e-6)
