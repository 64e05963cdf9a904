"""The three layers of a destination's messages: the memtable, a frozen one, the database.

What an upper layer says of a message hides what a lower one says. While the frozen one is
written the database may have its changes or not, so nothing may count on either.
"""

from __future__ import annotations

import sys
from typing import Final

from broker.store.api import Position
from broker.store.kahadb.index.context import Shared
from broker.store.kahadb.index.entry import IndexEntry
from broker.store.kahadb.index.memtable import Memtable
from broker.store.kahadb.index.message_ids import Producer

__all__ = ["Layers"]

_MAX_PRODUCERS: Final = 1_000
_READ_AHEAD: Final = 128
"""Messages read at once from the database where one after the other is asked for."""


class Layers:
    """The messages of one destination, wherever they are."""

    __slots__ = (
        "_floors",
        "_frozen",
        "_looked_up",
        "_shared",
        "_thawed",
        "contents",
        "memory",
        "producers",
        "stored",
    )

    def __init__(self, shared: Shared, contents: int, stored: int = 0) -> None:
        self.contents = contents
        """What the rows in the database have for a name."""
        self.stored = stored
        """Rows in the database, without what is frozen."""
        self.memory = Memtable()
        self._shared = shared
        self._frozen: Memtable | None = None
        self._thawed: Memtable | None = None  # what the last write wrote: asked for again soon
        self.producers: dict[str, Producer] = {}
        """Those of the latest messages by name; `producer` knows all."""
        self._looked_up = 0  # the arrival number that the database was asked for last
        self._floors: dict[int, int] = {}  # by level: no message has a smaller arrival number

    def freeze(self) -> Memtable:
        """Begin a new memtable and return the one that is to be written."""
        memory, self.memory = self.memory, Memtable()
        self._frozen = memory
        return memory

    def thaw(self, frozen: Memtable) -> None:
        """Take it that the database has what was frozen."""
        self._frozen = None
        self._thawed = frozen
        self.stored += len(frozen.adds) - len(frozen.removed)
        if len(self.producers) > _MAX_PRODUCERS:
            needed = self.memory.producers.values()
            self.producers = {producer.name: producer for producer in needed}

    def forget_thawed(self) -> None:
        """Let go of what was kept because it was new."""
        self._thawed = None

    def producer(self, name: str, *, make: bool = True) -> Producer:
        """Return a producer; a new one is kept only if `make`."""
        producer = self.producers.get(name)
        if producer is not None:
            return producer
        if self.stored:
            producer = self._shared.database.producer(self.contents, name)
        if producer is None:
            if not make:
                return Producer(0, name)
            producer = Producer(self._shared.next_number(), name)
        self.producers[name] = producer
        return producer

    def get(self, position: Position) -> IndexEntry | None:
        """Return the message at this position."""
        return self.memory.adds.get(position[1]) or self.below(position)

    def find(self, producer: Producer, message_id: str, sequence: int) -> IndexEntry | None:
        """Return the message with this id."""
        entry = self.memory.ids.get(message_id)
        if entry is not None:
            return entry
        if self._frozen is not None:
            entry = self._frozen.ids.get(message_id)
            if entry is not None:
                return self.below(entry.position)
        if not self.stored:
            return None
        position = self._shared.database.find(self.contents, producer.number, sequence)
        return None if position is None else self.below(position)

    def remove(self, position: Position) -> IndexEntry | None:
        """Remove the message at this position and return it."""
        memory = self.memory
        arrival = position[1]
        entry = memory.adds.pop(arrival, None)
        if entry is not None:
            del memory.ids[entry[1]]
            return entry
        entry = self.below(position)
        if entry is not None:
            memory.updates.pop(arrival, None)
            memory.removed[arrival] = entry
            self._shared.forget(self.contents, arrival)
        return entry

    def replace(self, entry: IndexEntry) -> None:
        """Take a new entry for a message."""
        self.memory.replace(entry)
        self._shared.forget(self.contents, entry.position.arrival)

    def below(self, position: Position) -> IndexEntry | None:
        """Return a message that is not new in the memtable."""
        arrival = position[1]
        memory, frozen = self.memory, self._frozen
        if arrival in memory.removed:
            return None
        entry = memory.updates.get(arrival)
        if entry is not None:
            return entry
        if frozen is not None:
            entry = frozen.adds.get(arrival) or frozen.updates.get(arrival)
            if entry is not None:
                return entry
            if arrival in frozen.removed:
                return None
        thawed = self._thawed
        if thawed is not None:
            entry = thawed.adds.get(arrival) or thawed.updates.get(arrival)
            if entry is not None:
                return entry
        if not self.stored:
            return None
        return self._shared.recall(self.contents, arrival) or self._look_up(position)

    def _look_up(self, position: Position) -> IndexEntry | None:
        """Return a message that the database has; with its neighbours, where they go in order."""
        level, arrival = position
        near = 0 < arrival - self._looked_up <= _READ_AHEAD
        self._looked_up = arrival
        shared = self._shared
        if not near:
            return shared.database.get(self.contents, position)
        page = shared.database.page(self.contents, level, arrival, _READ_AHEAD)
        if not page or page[0][0] != position:
            return None
        shared.remember(self.contents, self._without_changes(page))
        return page[0]

    def live(
        self, level: int, start: int, limit: int, last_arrival: int
    ) -> tuple[list[IndexEntry], int | None]:
        """Return at most `limit` messages of a level, and where to go on; None at its end."""
        floor = self._floors.get(level, 1)
        if start > floor:
            return self._merge(level, start, limit)
        entries, following = self._merge(level, floor, limit)
        if entries:
            self._floors[level] = entries[0].position.arrival
        else:
            self._floors[level] = following or last_arrival + 1
        return entries, following

    def _merge(self, level: int, start: int, limit: int) -> tuple[list[IndexEntry], int | None]:
        memory, frozen = self.memory, self._frozen
        found: list[IndexEntry] = []
        last = sys.maxsize
        if self.stored:
            found = self._shared.database.page(self.contents, level, start, limit)
            if len(found) == limit:
                last = found[-1].position.arrival
            found = self._without_changes(found)
            self._shared.remember(self.contents, found)
        stored = len(found)
        if frozen is not None:
            found += frozen.between(level, start, limit, last, memory.removed, memory.updates)
        found += memory.between(level, start, limit, last)
        if stored and len(found) > stored:
            found.sort()
        if len(found) >= limit:
            del found[limit:]
            return found, found[-1].position.arrival + 1
        return found, None if last == sys.maxsize else last + 1

    def _without_changes(self, entries: list[IndexEntry]) -> list[IndexEntry]:
        """Return what the database said as the layers above it have it, without what is in them."""
        for layer in (self._frozen, self.memory):
            if layer:
                removed, adds, updates = layer.removed, layer.adds, layer.updates
                entries = [
                    updates.get(entry[0][1], entry) if updates else entry
                    for entry in entries
                    if entry[0][1] not in removed and entry[0][1] not in adds
                ]
        return entries
