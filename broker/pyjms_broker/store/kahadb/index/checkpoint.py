"""The changes that one index checkpoint writes to the database, as immutable values.

`StoreIndex.begin_checkpoint` collects them on the loop, `database.writer` turns them into rows
in a worker thread.
"""

from __future__ import annotations

from typing import NamedTuple

from pyjms.wire.kahadb.journal import Location
from pyjms_broker.store.kahadb.index.duplicate_ids import DuplicateRows
from pyjms_broker.store.kahadb.index.memtable import Memtable

__all__ = ["DestinationChanges", "IndexCheckpoint", "Row", "SubscriptionChanges"]

Row = tuple[int | str | bytes | None, ...]


class SubscriptionChanges(NamedTuple):
    """A durable subscription's changes."""

    row: Row
    """Its row in the table, beginning with its number."""
    first_block: int
    """Earlier blocks of acknowledgements are no longer needed."""
    blocks: list[tuple[int, bytes]]


class DestinationChanges(NamedTuple):
    """A destination's changes."""

    number: int
    """The key of its row in the database."""
    contents: int
    """The key of its messages' rows; see `MessageTable.contents`."""
    row: Row
    memtable: Memtable
    files: dict[int, int]
    """Message counts by segment, for the segments whose count changed."""
    duplicates: DuplicateRows | None
    subscriptions: list[SubscriptionChanges]
    unsubscribed: list[int]
    """The numbers of deleted subscriptions."""


class IndexCheckpoint(NamedTuple):
    """All changes up to `covered`."""

    covered: Location
    digest: int
    state: Row
    destinations: list[DestinationChanges]
    removed_destinations: list[int]
    """By number."""
    obsolete_contents: list[int]
    """Contents of cleared and of removed destinations, to be deleted in increments."""
    references: dict[int, tuple[int, ...]]
    """The references of those segments whose references changed."""
    sequences: list[tuple[str, int]] | None
    """Last sequence numbers by producer; None if they did not change."""
