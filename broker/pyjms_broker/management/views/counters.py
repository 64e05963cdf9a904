"""Counters of the broker, and attributes that it shares with destinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyjms_broker.api.destination import NO_MINIMUM, DestinationStatistics
from pyjms_broker.management.conversion import LONG
from pyjms_broker.management.host import ManagedBroker
from pyjms_broker.management.model import Attribute

__all__ = ["minimum", "reset_statistics", "size_attributes", "totals"]

T = TypeVar("T")


def minimum(value: int) -> int:
    """Return a minimum of statistics as in ActiveMQ: 0 before the first value."""
    return 0 if value == NO_MINIMUM else value


def size_attributes(statistics: Callable[[T], DestinationStatistics]) -> tuple[Attribute[Any], ...]:
    """Return the attributes about the sizes of messages."""
    return (
        Attribute(
            "AverageMessageSize",
            LONG,
            "Average message size, in bytes.",
            lambda t: int(statistics(t).average_size),
        ),
        Attribute(
            "MaxMessageSize",
            LONG,
            "Largest message size, in bytes.",
            lambda t: statistics(t).max_size,
        ),
        Attribute(
            "MinMessageSize",
            LONG,
            "Smallest message size, in bytes.",
            lambda t: minimum(statistics(t).min_size),
        ),
    )


def totals(host: ManagedBroker) -> DestinationStatistics:
    """Return the sums over all destinations, including removed ones."""
    total = DestinationStatistics()
    region = host.region_broker
    total.add_counters(region.removed_statistics)
    for destination in region.destinations().values():
        total.add(destination.statistics)
    return total


def reset_statistics(host: ManagedBroker) -> None:
    """Reset the counters of all destinations."""
    region = host.region_broker
    region.removed_statistics.reset()
    for destination in region.destinations().values():
        destination.statistics.reset()
