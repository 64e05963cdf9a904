"""The counters that every table of destinations has."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DestinationCounters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationCounters:
    """How many messages and clients a destination has; `pending` contains those in flight."""

    pending: int
    in_flight: int
    consumers: int
    producers: int
    enqueued: int
    dequeued: int
