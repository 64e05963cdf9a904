"""State shared by all parts of an index: the database, the numbering, and pending changes."""

from __future__ import annotations

from typing import Final, Protocol

from pyjms_broker.store.kahadb.index.checkpoint import DestinationChanges
from pyjms_broker.store.kahadb.index.database.connections import Database
from pyjms_broker.store.kahadb.index.entry import IndexEntry
from pyjms_broker.store.kahadb.index.memtable import Memtable

__all__ = ["CheckpointPart", "CheckpointTable", "IndexContext"]

_RECENT: Final = 20_000


class CheckpointTable(Protocol):
    """The messages of a destination as a checkpoint uses them."""

    def memtable_written(self, memtable: Memtable) -> None:
        """Record that the frozen memtable has been written to the database."""

    def drop_written_memtable(self) -> None:
        """Drop the memtable that was kept as a cache after it was written."""


class CheckpointPart(Protocol):
    """A destination with changes that the next checkpoint has to write."""

    @property
    def table(self) -> CheckpointTable: ...

    def collect_changes(self) -> DestinationChanges:
        """Freeze the memtable and return all changes since the last call."""


class IndexContext:
    """The shared state of an index. Use it on the loop."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.changes = 0
        """Changes since the last checkpoint began."""
        self.dirty: dict[CheckpointPart, None] = {}
        """Destinations with changes."""
        self.obsolete_contents: list[int] = []
        """Contents to be deleted: of cleared and of removed destinations."""
        self.last_number = 0
        self._recent: dict[tuple[int, int], IndexEntry] = {}
        self._older: dict[tuple[int, int], IndexEntry] = {}

    def next_number(self) -> int:
        """Return a number that is unused in the database, as the key of a new row."""
        self.last_number += 1
        return self.last_number

    def cache(self, contents: int, entries: list[IndexEntry]) -> None:
        """Cache entries read from the database, which their removal will look up again."""
        recent = self._recent
        for entry in entries:
            recent[contents, entry[0][1]] = entry
        if len(recent) > _RECENT:
            self._recent, self._older = {}, recent

    def cached(self, contents: int, arrival: int) -> IndexEntry | None:
        """Return an entry that was read recently, or None."""
        key = (contents, arrival)
        return self._recent.get(key) or self._older.get(key)

    def evict(self, contents: int, arrival: int) -> None:
        """Drop an entry from the cache: the message was removed or relocated."""
        key = (contents, arrival)
        self._recent.pop(key, None)
        self._older.pop(key, None)
