"""Counters of the broker, and attributes that it shares with destinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyjms_broker.api.destination import NO_MINIMUM, DestinationStatistics
from pyjms_broker.management.host import ManagedBroker
from pyjms_broker.management.model import BOOLEAN, INT, LONG, Attribute

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


def cursor_attributes(
    is_full: Callable[[T], bool], size: Callable[[T], int], limit: Callable[[T], int]
) -> tuple[Attribute[Any], ...]:
    """Return the attributes about the memory of waiting messages; limit 0: unlimited."""
    return (
        Attribute(
            "CursorFull",
            BOOLEAN,
            "Whether memory is above the cursor's high-water mark, so that waiting messages stay "
            "in the store.",
            is_full,
        ),
        Attribute(
            "CursorMemoryUsage",
            LONG,
            "Total size of the waiting messages in memory, in bytes.",
            size,
        ),
        Attribute(
            "CursorPercentUsage",
            INT,
            "Percentage of the memory limit in use by waiting messages.",
            lambda t: size(t) * 100 // limit(t) if limit(t) else 0,
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
