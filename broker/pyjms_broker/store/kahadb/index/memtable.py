"""A destination's changes since the last checkpoint began."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Container, Mapping

from pyjms_broker.store.kahadb.index.entry import IndexEntry, Producer

__all__ = ["Memtable"]


class Memtable:
    """New messages, and changes and removals of older ones, all by arrival number.

    Once frozen for a checkpoint it never changes.
    """

    __slots__ = ("adds", "ids", "levels", "producers", "removed", "updates")

    def __init__(self) -> None:
        self.adds: dict[int, IndexEntry] = {}
        self.ids: dict[str, IndexEntry] = {}
        """The same entries by message id."""
        self.levels: dict[int, list[int]] = {}
        """The arrival numbers of `adds` in order by level, including messages removed since."""
        self.updates: dict[int, IndexEntry] = {}
        """New entries for messages of a lower layer."""
        self.removed: dict[int, IndexEntry] = {}
        """Removed messages of a lower layer."""
        self.producers: dict[int, Producer] = {}
        """The producers of `adds`, including those of messages removed since."""

    def __bool__(self) -> bool:
        return bool(self.adds or self.updates or self.removed)

    def add(self, entry: IndexEntry, producer: Producer) -> None:
        """Add a new message, with a higher arrival number than all others."""
        self.producers[producer.number] = producer
        level, arrival = entry[0]
        self.adds[arrival] = entry
        self.ids[entry[1]] = entry
        arrivals = self.levels.get(level)
        if arrivals is None:
            self.levels[level] = [arrival]
        else:
            arrivals.append(arrival)

    def replace(self, entry: IndexEntry) -> None:
        """Replace the entry of a message in this layer or a lower one."""
        arrival = entry.position.arrival
        if arrival in self.adds:
            self.adds[arrival] = self.ids[entry.message_id] = entry
        else:
            self.updates[arrival] = entry

    def between(
        self,
        level: int,
        start: int,
        limit: int,
        last: int = sys.maxsize,
        without: Container[int] = (),
        instead: Mapping[int, IndexEntry] | None = None,
    ) -> list[IndexEntry]:
        """Return at most `limit` new messages with arrival numbers from `start` to `last`.

        Messages in `without` are left out, those in `instead` are replaced by their newer entries.
        """
        arrivals = self.levels.get(level)
        found: list[IndexEntry] = []
        if arrivals is None:
            return found
        for index in range(bisect_left(arrivals, start), len(arrivals)):
            arrival = arrivals[index]
            if arrival > last or len(found) == limit:
                break
            entry = self.adds.get(arrival)
            if entry is not None and arrival not in without:
                found.append(instead.get(arrival, entry) if instead else entry)
        return found
