"""The duplicate ids (`_AMQ_DUPL_ID`) of a destination's most recent messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

__all__ = ["DuplicateIds", "DuplicateRows"]


class DuplicateRows(NamedTuple):
    """Changed rows of a destination's duplicate ids."""

    first: int
    """Rows with smaller numbers are to be deleted."""
    rows: list[tuple[int, str, int]]
    """New and changed rows: number, id, segment."""


class DuplicateIds:
    """The last `limit` duplicate ids, each with the segment that contains it."""

    def __init__(self, limit: int, changed: Callable[[], None]) -> None:
        self.limit = limit
        self._on_change = changed
        self._ids: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Number and segment by id, oldest first."""
        self._files: dict[int, int] = {}
        self._next = 1
        self._changed: set[str] = set()

    def load(self, rows: Iterable[tuple[int, str, int]]) -> None:
        """Load the database's rows: number, id and segment, ordered by number."""
        for number, duplicate_id, file_id in rows:
            self._ids[duplicate_id] = (number, file_id)
            self._count(file_id, 1)
            self._next = number + 1
        self._trim()

    def add(self, duplicate_id: str, file_id: int) -> bool:
        """Add an id, dropping the oldest ones beyond the limit; False if it is already known."""
        if duplicate_id in self._ids:
            return False
        self._ids[duplicate_id] = (self._next, file_id)
        self._next += 1
        self._count(file_id, 1)
        self._changed.add(duplicate_id)
        self._trim()
        self._on_change()
        return True

    def __contains__(self, duplicate_id: object) -> bool:
        return duplicate_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def counts_by_segment(self) -> dict[int, int]:
        """Return the number of ids in each segment."""
        return dict(self._files)

    def recorded_in(self, file_id: int) -> list[str]:
        """Return the ids that this segment contains, oldest first."""
        if file_id not in self._files:
            return []
        return [key for key, (_, proof) in self._ids.items() if proof == file_id]

    def relocate(self, ids: Iterable[str], file_id: int) -> None:
        """Record that these ids are now in another segment. Their order stays the same."""
        for duplicate_id in ids:
            found = self._ids.get(duplicate_id)
            if found is not None:
                self._ids[duplicate_id] = (found[0], file_id)
                self._count(found[1], -1)
                self._count(file_id, 1)
                self._changed.add(duplicate_id)
        self._on_change()

    def pop_changes(self) -> DuplicateRows | None:
        """Return the changes since the last call; None if there are none."""
        changed, self._changed = self._changed, set()
        if not changed:
            return None
        first = next(iter(self._ids.values()))[0] if self._ids else self._next
        rows = [(self._ids[key][0], key, self._ids[key][1]) for key in changed if key in self._ids]
        return DuplicateRows(first, sorted(rows))

    def _trim(self) -> None:
        while len(self._ids) > self.limit:
            _, (_, file_id) = self._ids.popitem(last=False)
            self._count(file_id, -1)

    def _count(self, file_id: int, change: int) -> None:
        count = self._files.get(file_id, 0) + change
        if count:
            self._files[file_id] = count
        else:
            del self._files[file_id]
