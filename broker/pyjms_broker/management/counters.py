"""The counters of destinations, common to all tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationCounters:
    """The numbers of a destination's messages and clients; `pending` includes those in flight."""

    pending: int
    in_flight: int
    consumers: int
    producers: int
    enqueued: int
    dequeued: int
