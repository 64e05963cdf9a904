"""Changes on their way into the database. Nothing in here changes any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.store.kahadb.index.duplicate_ids import DuplicateRows
from broker.store.kahadb.index.memtable import Memtable
from pyjms.wire.kahadb.journal import Location

if TYPE_CHECKING:
    from broker.store.kahadb.index.destination import DestinationIndex
    from broker.store.kahadb.index.message_table import Layers

__all__ = ["Frozen", "FrozenDestination", "FrozenSubscription"]

Row = tuple[int | str | bytes | None, ...]


class FrozenSubscription(NamedTuple):
    """A durable subscription's changes."""

    row: Row
    """As the table has it; the number comes first."""
    first_block: int
    """Blocks before it are not needed any more."""
    blocks: list[tuple[int, bytes]]


class FrozenDestination(NamedTuple):
    """A destination's changes."""

    part: DestinationIndex
    row: Row
    layers: Layers
    memory: Memtable
    files: dict[int, int]
    """Of the segments whose count changed."""
    duplicates: DuplicateRows | None
    subscriptions: list[FrozenSubscription]
    unsubscribed: list[int]


class Frozen(NamedTuple):
    """All changes up to `covered`."""

    covered: Location
    digest: int
    state: Row
    destinations: list[FrozenDestination]
    removed: list[int]
    """Destinations to be deleted, by number."""
    doomed: list[int]
    refers: dict[int, tuple[int, ...]]
    sequences: list[tuple[str, int]] | None
