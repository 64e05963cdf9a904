"""The messages of one destination, in a memtable, a frozen memtable and the database.

Theory of operation
-------------------

A destination's messages are looked up in three layers, the newest first, as in a log-structured
merge tree:

    memtable           changes since the last checkpoint began; the loop writes only here
    frozen memtable    changes that the running checkpoint is writing; immutable; None between
                       checkpoints
    database           everything that earlier checkpoints wrote

An upper layer overrides a lower one. A memtable has `adds` (new messages), `updates` (new
entries of messages in a layer below) and `removed` (removed messages of a layer below);
a message that is added and removed within one memtable leaves no trace, which is the case for
nearly all messages of a queue whose consumers keep up.

    freeze()                 memtable -> frozen memtable, and a new memtable begins
    (the worker thread writes the frozen memtable into the database)
    memtable_written()       frozen memtable -> cache of written entries
    drop_written_memtable()  at the end of the next checkpoint: the cache is dropped

Invariants:

- While the worker writes, the database may or may not have the frozen memtable's changes yet,
  because a read returns the last committed state. The merged view must be the same in both cases:
  rows are filtered by `removed` and `adds` and replaced by `updates` of both memtables, and lookups
  try the memtables first.
- `stored` counts the rows of the database without the frozen memtable's; 0 means that nothing has
  to be read.
- `_floors` has for each level a lower bound of the arrival numbers that still exist. Without it,
  reading the front of a queue would scan rows that were removed, in the memtable and in the
  database, over and over.

Database reads are expensive, so entries that were read are cached in `IndexContext`: a message that
a page returned is usually removed soon after. For sequential removals, as after a restart, 128
adjacent entries are read ahead.
"""

from __future__ import annotations

import sys
from typing import Final

from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index.context import IndexContext
from pyjms_broker.store.kahadb.index.entry import IndexEntry, Producer
from pyjms_broker.store.kahadb.index.memtable import Memtable

__all__ = ["MessageTable"]

_MAX_PRODUCERS: Final = 1_000
_READ_AHEAD: Final = 128
"""The number of messages read from the database at once if lookups are sequential."""


class MessageTable:
    """The messages of one destination in all layers."""

    __slots__ = (
        "_context",
        "_floors",
        "_frozen",
        "_last_lookup",
        "_written",
        "contents",
        "memtable",
        "producers",
        "stored",
    )

    def __init__(self, context: IndexContext, contents: int, stored: int = 0) -> None:
        self.contents = contents
        """The key of this table's rows in the database. A cleared destination gets a new key."""
        self.stored = stored
        """Rows in the database, without those of the frozen memtable."""
        self.memtable = Memtable()
        self._context = context
        self._frozen: Memtable | None = None
        self._written: Memtable | None = None  # the memtable written last, as a cache
        self.producers: dict[str, Producer] = {}
        """The producers of the most recent messages by name; `producer` finds all."""
        self._last_lookup = 0  # the arrival number of the last lookup in the database
        self._floors: dict[int, int] = {}  # by level: no message has a smaller arrival number

    def freeze(self) -> Memtable:
        """Begin a new memtable and return the frozen one for the checkpoint."""
        memtable, self.memtable = self.memtable, Memtable()
        self._frozen = memtable
        return memtable

    def memtable_written(self, memtable: Memtable) -> None:
        """Record that the frozen memtable has been written; keep it as a cache."""
        self._frozen = None
        self._written = memtable
        self.stored += len(memtable.adds) - len(memtable.removed)
        if len(self.producers) > _MAX_PRODUCERS:
            needed = self.memtable.producers.values()
            self.producers = {producer.name: producer for producer in needed}

    def drop_written_memtable(self) -> None:
        """Drop the memtable that was kept as a cache after it was written."""
        self._written = None

    def producer(self, name: str, *, create: bool = True) -> Producer:
        """Return a producer; a new one is kept only if `create` is set."""
        producer = self.producers.get(name)
        if producer is not None:
            return producer
        if self.stored:
            producer = self._context.database.producer(self.contents, name)
        if producer is None:
            if not create:
                return Producer(0, name)
            producer = Producer(self._context.next_number(), name)
        self.producers[name] = producer
        return producer

    def get(self, position: Position) -> IndexEntry | None:
        """Return the message at this position, or None."""
        return self.memtable.adds.get(position[1]) or self._get_below(position)

    def find(self, producer: Producer, message_id: str, sequence: int) -> IndexEntry | None:
        """Return the message with this id, or None."""
        entry = self.memtable.ids.get(message_id)
        if entry is not None:
            return entry
        if self._frozen is not None:
            entry = self._frozen.ids.get(message_id)
            if entry is not None:
                return self._get_below(entry.position)
        if not self.stored:
            return None
        position = self._context.database.find(self.contents, producer.number, sequence)
        return None if position is None else self._get_below(position)

    def remove(self, position: Position) -> IndexEntry | None:
        """Remove the message at this position and return its entry; None if there is none."""
        memtable = self.memtable
        arrival = position[1]
        entry = memtable.adds.pop(arrival, None)
        if entry is not None:
            del memtable.ids[entry[1]]
            return entry
        entry = self._get_below(position)
        if entry is not None:
            memtable.updates.pop(arrival, None)
            memtable.removed[arrival] = entry
            self._context.evict(self.contents, arrival)
        return entry

    def replace(self, entry: IndexEntry) -> None:
        """Replace a message's entry."""
        self.memtable.replace(entry)
        self._context.evict(self.contents, entry.position.arrival)

    def _get_below(self, position: Position) -> IndexEntry | None:
        """Return a message from the layers below the memtable, or None."""
        arrival = position[1]
        memtable, frozen = self.memtable, self._frozen
        if arrival in memtable.removed:
            return None
        entry = memtable.updates.get(arrival)
        if entry is not None:
            return entry
        if frozen is not None:
            entry = frozen.adds.get(arrival) or frozen.updates.get(arrival)
            if entry is not None:
                return entry
            if arrival in frozen.removed:
                return None
        written = self._written
        if written is not None:
            entry = written.adds.get(arrival) or written.updates.get(arrival)
            if entry is not None:
                return entry
        if not self.stored:
            return None
        return self._context.cached(self.contents, arrival) or self._read(position)

    def _read(self, position: Position) -> IndexEntry | None:
        """Read a message from the database, with those that follow if lookups are sequential."""
        level, arrival = position
        in_order = 0 < arrival - self._last_lookup <= _READ_AHEAD
        self._last_lookup = arrival
        context = self._context
        if not in_order:
            return context.database.get(self.contents, position)
        page = context.database.page(self.contents, level, arrival, _READ_AHEAD)
        if not page or page[0][0] != position:
            return None
        context.cache(self.contents, self._overridden(page))
        return page[0]

    def live(
        self, level: int, start: int, limit: int, last_arrival: int
    ) -> tuple[list[IndexEntry], int | None]:
        """Return at most `limit` messages of a level, and where to continue (None: at the end)."""
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
        memtable, frozen = self.memtable, self._frozen
        found: list[IndexEntry] = []
        last = sys.maxsize
        if self.stored:
            found = self._context.database.page(self.contents, level, start, limit)
            if len(found) == limit:
                last = found[-1].position.arrival
            found = self._overridden(found)
            self._context.cache(self.contents, found)
        stored = len(found)
        if frozen is not None:
            found += frozen.between(level, start, limit, last, memtable.removed, memtable.updates)
        found += memtable.between(level, start, limit, last)
        if stored and len(found) > stored:
            found.sort()
        if len(found) >= limit:
            del found[limit:]
            return found, found[-1].position.arrival + 1
        return found, None if last == sys.maxsize else last + 1

    def _overridden(self, entries: list[IndexEntry]) -> list[IndexEntry]:
        """Apply the memtables' changes to rows of the database, leaving out messages they add."""
        for layer in (self._frozen, self.memtable):
            if layer:
                removed, adds, updates = layer.removed, layer.adds, layer.updates
                entries = [
                    updates.get(entry[0][1], entry) if updates else entry
                    for entry in entries
                    if entry[0][1] not in removed and entry[0][1] not in adds
                ]
        return entries
