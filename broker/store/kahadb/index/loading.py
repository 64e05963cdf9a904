"""Rows become destinations, when an index is opened. Messages stay where they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from broker.api.message import Position
from broker.store.kahadb.index.database.connections import Database
from broker.store.kahadb.index.destination import DestinationIndex
from broker.store.kahadb.index.sequence_set import SequenceSet
from broker.store.kahadb.index.topic import TopicIndex
from pyjms.wire.kahadb.structures import KahaDestination

__all__ = ["load_destinations"]

_DESTINATIONS = """
SELECT number, contents, type, name, prioritized, epoch, last_arrival, count, size,
    reclaim_level, reclaim_arrival
FROM destinations ORDER BY number
"""
_SUBSCRIPTIONS = """
SELECT destination, floor, number, key, info, file_id, offset FROM subscriptions ORDER BY number
"""

MakePart = Callable[[KahaDestination, bool, int, int], DestinationIndex]


def load_destinations(database: Database, make_part: MakePart) -> None:
    """Make a part for each destination and give it all but its messages."""
    files: dict[int, dict[int, int]] = defaultdict(dict)
    for contents, file_id, messages in database.rows("SELECT * FROM files"):
        files[contents][file_id] = messages
    duplicates = _by_first(
        database, "SELECT destination, number, id, file_id FROM duplicates ORDER BY 1, 2"
    )
    subscriptions = _by_first(database, _SUBSCRIPTIONS)
    blocks = _by_first(database, "SELECT subscription, block, bits FROM acked")
    for number, contents, kind, name, prioritized, *row, level, arrival in database.rows(
        _DESTINATIONS
    ):
        part = make_part(KahaDestination(kind, name), bool(prioritized), number, contents)
        epoch, last_arrival, count, size = row
        part.load((epoch, last_arrival, count, size), files.get(contents, {}))
        part.duplicates.load(duplicates.get(number, ()))
        if isinstance(part, TopicIndex):
            reclaim = None if level is None else Position(level, arrival)
            part.load_subscriptions(
                (
                    (one, SequenceSet(floor, blocks.get(one[0], ())))
                    for floor, *one in subscriptions.get(number, ())
                ),
                reclaim,
            )


def _by_first(database: Database, query: str) -> dict[int, list[Any]]:
    """Return a query's rows without their first columns, by those."""
    result: dict[int, list[Any]] = defaultdict(list)
    for first, *rest in database.rows(query):
        result[first].append(rest)
    return result
