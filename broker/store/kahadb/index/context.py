"""What all parts of an index share: the database, its numbers, and who has changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.store.kahadb.index.database.connections import Database
from broker.store.kahadb.index.entry import IndexEntry

if TYPE_CHECKING:
    from broker.store.kahadb.index.destination import DestinationIndex

__all__ = ["Shared"]

_RECENT: Final = 20_000


class Shared:
    """Belongs to the loop."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.changes = 0
        """Since the last freeze."""
        self.dirty: dict[DestinationIndex, None] = {}
        self.doomed: list[int] = []
        """Contents to be deleted: of cleared and of removed destinations."""
        self.last_number = 0
        self._recent: dict[tuple[int, int], IndexEntry] = {}
        self._older: dict[tuple[int, int], IndexEntry] = {}

    def next_number(self) -> int:
        """Return a number that nothing in the database has: destinations, producers and so on."""
        self.last_number += 1
        return self.last_number

    def remember(self, contents: int, entries: list[IndexEntry]) -> None:
        """Keep what was read: it will be asked for when it is removed."""
        recent = self._recent
        for entry in entries:
            recent[contents, entry[0][1]] = entry
        if len(recent) > _RECENT:
            self._recent, self._older = {}, recent

    def recall(self, contents: int, arrival: int) -> IndexEntry | None:
        """Return what was read lately."""
        key = (contents, arrival)
        return self._recent.get(key) or self._older.get(key)

    def forget(self, contents: int, arrival: int) -> None:
        """Forget what was read: the message is gone or elsewhere."""
        key = (contents, arrival)
        self._recent.pop(key, None)
        self._older.pop(key, None)
