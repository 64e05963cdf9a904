"""The index of a queue or topic: its counts and numbering, and its messages in three layers.

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

Database reads are expensive, so entries that were read are cached in `StoreIndex`: a message that
a page returned is usually removed soon after. For sequential removals, as after a restart, 128
adjacent entries are read ahead.

Topics. A topic's message is kept until all subscriptions have acknowledged it. Each subscription
has a set of arrival numbers that it does not need (any more): acknowledged ones, and those from
before it began. A message that is removed in another way is added to all sets. Each set thus
eventually becomes one range from 1 on, which `SequenceSet` stores as a single number, and the
number of a subscription's pending messages is `last_arrival` minus the size of its set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from pyjms.wire.kahadb.commands import DestinationType, KahaDestination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position, Positions
from pyjms_broker.store.kahadb.index.checkpoint import (
    DestinationChanges,
    DuplicateIds,
    Memtable,
    Row,
    SubscriptionChanges,
)
from pyjms_broker.store.kahadb.index.database import IndexEntry, MessageMetadata, Producer, split_id
from pyjms_broker.store.kahadb.index.sequence_set import SequenceSet

if TYPE_CHECKING:
    from pyjms_broker.store.kahadb.index.store_index import StoreIndex

_MAX_PRODUCERS: Final = 1_000
_READ_AHEAD: Final = 128
"""The number of messages read from the database at once if lookups are sequential."""


class MessageTable:
    """The messages of one destination in all layers."""

    __slots__ = (
        "_floors",
        "_frozen",
        "_index",
        "_last_lookup",
        "_written",
        "contents",
        "memtable",
        "producers",
        "stored",
    )

    def __init__(self, index: StoreIndex, contents: int, stored: int = 0) -> None:
        self.contents = contents
        """The key of this table's rows in the database. A cleared destination gets a new key."""
        self.stored = stored
        """Rows in the database, without those of the frozen memtable."""
        self.memtable = Memtable()
        self._index = index
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
            producer = self._index.database.producer(self.contents, name)
        if producer is None:
            if not create:
                return Producer(0, name)
            producer = Producer(self._index.next_number(), name)
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
        position = self._index.database.find(self.contents, producer.number, sequence)
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
            self._index.evict(self.contents, arrival)
        return entry

    def replace(self, entry: IndexEntry) -> None:
        """Replace a message's entry."""
        self.memtable.replace(entry)
        self._index.evict(self.contents, entry.position.arrival)

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
        return self._index.find_cached(self.contents, arrival) or self._read(position)

    def _read(self, position: Position) -> IndexEntry | None:
        """Read a message from the database, with those that follow if lookups are sequential."""
        level, arrival = position
        in_order = 0 < arrival - self._last_lookup <= _READ_AHEAD
        self._last_lookup = arrival
        index = self._index
        if not in_order:
            return index.database.get(self.contents, position)
        page = index.database.page(self.contents, level, arrival, _READ_AHEAD)
        if not page or page[0][0] != position:
            return None
        index.cache(self.contents, self._overridden(page))
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
            found = self._index.database.page(self.contents, level, start, limit)
            if len(found) == limit:
                last = found[-1].position.arrival
            found = self._overridden(found)
            self._index.cache(self.contents, found)
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


DIRTY_LIMIT: Final = 10_000
"""The number of index changes in memory above which a checkpoint is due."""
DIRTY_PARTS_LIMIT: Final = 2_000
"""The number of changed destinations above which one is due: its beginning holds the loop."""
_LEVELS: Final = range(10)
_ONE_LEVEL: Final = range(1)
_CHUNK: Final = 1_000
TOPIC_TYPES: Final = (DestinationType.TOPIC, DestinationType.TEMP_TOPIC)
_tuple: Final = tuple.__new__  # takes half the time of Position(...) and IndexEntry(...)


class DestinationIndex:
    """The index of a queue; see `TopicIndex` for topics. Returned by `StoreIndex`."""

    def __init__(
        self,
        index: StoreIndex,
        destination: KahaDestination,
        prioritized: bool,
        number: int,
        contents: int,
    ) -> None:
        self.destination = destination
        self.key = destination.key
        self.is_topic = destination.type in TOPIC_TYPES
        self.prioritized = prioritized
        """Whether messages may have several levels; stays True until there are no messages."""
        self.number = number
        self.epoch = 0
        self.last_arrival = 0
        """The highest arrival number ever assigned; 0 if there was none."""
        self.count = 0
        self.size = 0
        self.files: dict[int, int] = {}
        """Message counts by segment. Not to be modified by other classes."""
        self.duplicates = DuplicateIds(index.duplicates_limit, self._note_change)
        self.keeps_messages = True
        """Whether anybody needs a message that is added now; False: a topic has no subscription."""
        self._index = index
        self._table = MessageTable(index, contents)
        self._written_files: dict[int, int] = {}
        self._hidden: set[int] = set()
        self._reclaim: Position | None = None

    def load(self, row: tuple[int, int, int, int], files: dict[int, int]) -> None:
        """Load the database's values: epoch, last arrival, count, size; counts by segment."""
        self.epoch, self.last_arrival, self.count, self.size = row
        self._table.stored = self.count
        self.files = files
        self._written_files = dict(files)

    def begin(self, epoch: int, last_arrival: int) -> None:
        """Continue numbering behind `last_arrival` in this epoch. Numbers never decrease."""
        self.epoch = epoch
        self.last_arrival = max(self.last_arrival, last_arrival)
        self._note_change()

    def prioritize(self, prioritized: bool) -> None:
        """Switch priority levels on or off; off only while there are no messages."""
        if prioritized != self.prioritized and (prioritized or not self.count):
            self.prioritized = prioritized
            self._note_change()

    def add(
        self,
        message_id: str,
        level: int,
        file_id: int,
        offset: int,
        size: int,
        hidden: bool = True,
        arrival: int | None = None,
        split: tuple[str, int] | None = None,
    ) -> IndexEntry | None:
        """Add a message behind all others; None if its id exists.

        A topic without subscriptions only numbers it and returns None, so call this only for
        messages that are in the journal (activemq-broker T6). A caller that has the result of
        `split_id` passes it as `split`.

        Raises:
            ValueError: `arrival` is not higher than the last one.
        """
        last = self.last_arrival
        if not self.keeps_messages:
            self.begin(self.epoch, arrival or last + 1)
            return None
        if arrival is None:
            arrival = last + 1
        elif arrival <= last:
            raise ValueError(f"Arrival {arrival} comes after {last} in {self.key}.")
        name, sequence = split or split_id(message_id)
        table = self._table
        producer = table.producers.get(name) or table.producer(name)
        if sequence > producer.highest:
            producer.highest = sequence
        elif table.find(producer, message_id, sequence) is not None:
            return None
        if level and not self.prioritized:
            self.prioritize(True)
        position = _tuple(Position, (level, arrival))
        entry = _tuple(
            IndexEntry, (position, message_id, file_id, offset, size, producer.number, sequence)
        )
        table.memtable.add(entry, producer)
        self.last_arrival = arrival
        self.count += 1
        self.size += size
        self.files[file_id] = self.files.get(file_id, 0) + 1
        if hidden:
            self._hidden.add(arrival)
        index = self._index
        index.dirty += 1
        if index.dirty == DIRTY_LIMIT:
            index.on_dirty()
        if self not in index.dirty_parts:
            index.note_dirty_part(self)
        if arrival > last + 1:
            self._skip(last + 1, arrival - 1)
        return entry

    def _skip(self, first: int, last: int) -> None:
        """Leave the numbers from `first` to `last` unused."""

    def find(self, message_id: str, split: tuple[str, int] | None = None) -> IndexEntry | None:
        """Return the message with this id, hidden or not; None if there is none."""
        name, sequence = split or split_id(message_id)
        producer = self._table.producers.get(name) or self._table.producer(name, create=False)
        if sequence > producer.highest:
            return None
        return self._table.find(producer, message_id, sequence)

    def get(self, position: Position) -> IndexEntry | None:
        """Return the message at this position, hidden or not; None if there is none."""
        return self._table.get(position)

    def remove(self, position: Position) -> IndexEntry | None:
        """Remove a message and return its entry; None if there was none."""
        entry = self._table.remove(position)
        if entry is None:
            return None
        self.count -= 1
        self.size -= entry.size
        self._hidden.discard(position[1])
        file_id = entry[2]
        if self.files[file_id] > 1:
            self.files[file_id] -= 1
        else:
            del self.files[file_id]
        self._note_change()
        return entry

    def relocate(
        self, position: Position, file_id: int, offset: int, size: int
    ) -> IndexEntry | None:
        """Set a message's location and size and return its new entry; None if it is unknown."""
        old = self._table.get(position)
        if old is None:
            return None
        entry = old._replace(file_id=file_id, offset=offset, size=size)
        self._table.replace(entry)
        self.size += size - old.size
        self._uncount_segment(old.file_id)
        self.files[file_id] = self.files.get(file_id, 0) + 1
        self._note_change()
        return entry

    # -- records of the journal (see `StoreIndex`)

    def is_duplicate(self, metadata: MessageMetadata) -> bool:
        """Return whether the message id or duplicate id is known (activemq-persistence S6)."""
        duplicate_id = metadata.duplicate_id
        if duplicate_id is not None and duplicate_id in self.duplicates:
            return True
        name, sequence = split = metadata.split
        producer = self._table.producers.get(name)
        if producer is not None and sequence > producer.highest:  # the usual case
            return False
        return self.find(metadata.message_id, split) is not None

    def apply_add(
        self,
        metadata: MessageMetadata,
        location: Location,
        *,
        hidden: bool,
        arrival: int | None = None,
    ) -> IndexEntry | None:
        """Apply an addition; None if no subscription needs the message: it only takes a number."""
        message_id, level, size, duplicate_id, producer, sequence, broker_sequence, split = metadata
        file_id, offset = location
        entry = self.add(message_id, level, file_id, offset, size, hidden, arrival, split)
        index = self._index
        if entry is None and self.keeps_messages:
            # The remove record between the two was deleted with its segment.
            old = self.find(message_id)
            if old is not None:
                index.segments.add_reference(file_id, old.file_id)
                self.remove(old.position)
            entry = self.add(message_id, level, file_id, offset, size, hidden, arrival, split)
        if duplicate_id is not None:
            self.duplicates.add(duplicate_id, file_id)
        index.last_broker_sequence_id = max(index.last_broker_sequence_id, broker_sequence)
        if producer is not None:
            index.producers.record(producer, sequence)
        return entry

    def apply_update(self, metadata: MessageMetadata, location: Location) -> IndexEntry | None:
        """Apply an update of a message; None if there is no such message."""
        entry = self.find(metadata.message_id)
        if entry is None:
            return None
        # The old record determines the message's arrival number; the record that removes the
        # message will refer to the new one.
        segments = self._index.segments
        segments.add_reference(location.file_id, entry.file_id)
        segments.add_reference(entry.file_id, location.file_id)
        return self.relocate(entry.position, *location, metadata.size)

    def apply_removal(
        self, message_id: str, location: Location, position: Position | None = None
    ) -> IndexEntry | None:
        """Apply a removal and return the message's entry; None if there is no such message.

        Passing the message's `position`, if known, saves a lookup.
        """
        if position is None:
            known = self.find(message_id)
            if known is None:
                return None
            position = known.position
        entry = self.remove(position)
        if entry is not None and entry[2] != location[0]:
            self._index.segments.add_reference(location[0], entry[2])
        return entry

    # -- visibility and reading

    def mark_visible(self, position: Position) -> None:
        """Include a hidden message in the results of `page` from now on."""
        self._hidden.discard(position[1])

    def hide(self, position: Position) -> None:
        """Exclude a message from the results of `page` until `mark_visible`, or a restart."""
        self._hidden.add(position[1])

    def is_hidden(self, position: Position) -> bool:
        """Return whether `page` excludes the message."""
        return position[1] in self._hidden

    def page(self, after: Position | None, limit: int, skip: Positions = ()) -> list[IndexEntry]:
        """Return up to `limit` visible messages behind a position, in order, without `skip`."""
        return self._walk(after, limit, self._hidden, skip)

    def entries(self) -> Iterator[IndexEntry]:
        """Iterate over all messages in order, hidden or not; they may be removed meanwhile."""
        after: Position | None = None
        while found := self._walk(after, _CHUNK):
            yield from found
            after = found[-1].position

    def clear(self) -> None:
        """Remove all messages in constant time. Numbering continues; subscriptions remain."""
        self._index.obsolete_contents.append(self._table.contents)
        self._table = MessageTable(self._index, self._index.next_number())
        self.count = self.size = 0
        self.files = {}
        self._written_files = {}
        self._hidden.clear()
        self._note_change()

    @property
    def table(self) -> MessageTable:
        """The messages. For StoreIndex."""
        return self._table

    def collect_changes(self) -> DestinationChanges:
        """Freeze the memtable and return all changes since the last call. For StoreIndex."""
        changed = {
            file_id: self.files.get(file_id, 0)
            for file_id in self.files.keys() | self._written_files.keys()
            if self.files.get(file_id) != self._written_files.get(file_id)
        }
        self._written_files = dict(self.files)
        return DestinationChanges(
            self.number,
            self._table.contents,
            self._row(),
            self._table.freeze(),
            changed,
            self.duplicates.pop_changes(),
            *self._collect_subscriptions(),
        )

    def _row(self) -> Row:
        return (
            self.number,
            self._table.contents,
            self.destination.type,
            self.destination.name,
            self.prioritized,
            self.epoch,
            self.last_arrival,
            self.count,
            self.size,
            *(self._reclaim or (None, None)),
        )

    def _collect_subscriptions(self) -> tuple[list[SubscriptionChanges], list[int]]:
        return [], []

    def _note_change(self) -> None:
        index = self._index
        index.dirty += 1
        if index.dirty == DIRTY_LIMIT:
            index.on_dirty()
        if self not in index.dirty_parts:
            index.note_dirty_part(self)

    def _uncount_segment(self, file_id: int) -> None:
        count = self.files[file_id] - 1
        if count:
            self.files[file_id] = count
        else:
            del self.files[file_id]

    def _walk(
        self,
        after: Position | None,
        limit: int,
        hidden: AbstractSet[int] = frozenset(),
        skip: Positions = (),
        acked: SequenceSet | None = None,
    ) -> list[IndexEntry]:
        found: list[IndexEntry] = []
        first, arrival = after or (0, 0)
        for level in _LEVELS if self.prioritized else _ONE_LEVEL:
            if level < first or not self.count:
                continue
            start: int | None = arrival + 1 if level == first else 1
            chunk = min(max(limit, 16), _CHUNK)
            while start is not None and len(found) < limit:
                if acked is not None:
                    start = acked.first_missing(start)
                    if start > self.last_arrival:
                        break
                entries, start = self._table.live(level, start, chunk, self.last_arrival)
                before = len(found)
                found += [
                    entry
                    for entry in entries
                    if entry[0][1] not in hidden
                    and (acked is None or entry[0][1] not in acked)
                    and (not skip or entry[0] not in skip)
                ]
                chunk = _next_chunk(chunk, len(entries), len(found) - before, acked is not None)
        return found[:limit]


def _next_chunk(chunk: int, read: int, wanted: int, can_skip: bool) -> int:
    """Return how many messages to read next: fewer if unwanted ones can be skipped, else more."""
    if 2 * wanted >= read:
        return chunk
    return max(chunk // 2, 8) if can_skip else min(chunk * 2, 4 * _CHUNK)


SubscriptionRow = tuple[int, str, bytes, int, int]
"""Number, key, info, segment, offset."""
_FIRST = Position(0, 0)


class SubscriptionIndex:
    """A durable subscription: its description and its acknowledgements."""

    __slots__ = ("_topic", "acked", "file_id", "hidden", "info", "key", "number", "offset")

    def __init__(self, topic: TopicIndex, row: SubscriptionRow, acked: SequenceSet) -> None:
        self._topic = topic
        self.number, self.key, self.info, self.file_id, self.offset = row
        self.acked = acked
        """Arrival numbers it does not need: acknowledged, removed, or from before it began."""
        self.hidden: set[int] = set()

    @property
    def pending_count(self) -> int:
        """The number of messages that it has not acknowledged."""
        return self._topic.last_arrival - len(self.acked)


class TopicIndex(DestinationIndex):
    """The messages of a topic; each is kept until all subscriptions have acknowledged it."""

    def __init__(
        self,
        index: StoreIndex,
        destination: KahaDestination,
        prioritized: bool,
        number: int,
        contents: int,
    ) -> None:
        super().__init__(index, destination, prioritized, number, contents)
        self.subscriptions: dict[str, SubscriptionIndex] = {}
        """By `clientId:name`. Modified only by `subscribe` and `unsubscribe`."""
        self.keeps_messages = False
        self._changed_subscriptions: dict[int, SubscriptionIndex] = {}
        self._unsubscribed: list[int] = []

    def load_subscriptions(
        self,
        subscriptions: Iterable[tuple[SubscriptionRow, SequenceSet]],
        reclaim: Position | None,
    ) -> None:
        """Load the database's rows. For StoreIndex."""
        self._reclaim = reclaim
        for row, acked in subscriptions:
            self.subscriptions[row[1]] = SubscriptionIndex(self, row, acked)
        self.keeps_messages = bool(self.subscriptions)

    def begin(self, epoch: int, last_arrival: int) -> None:
        self._skip(self.last_arrival + 1, last_arrival)
        super().begin(epoch, last_arrival)

    def remove(self, position: Position) -> IndexEntry | None:
        entry = super().remove(position)
        if entry is not None:
            arrival = position[1]
            for subscription in self.subscriptions.values():
                subscription.hidden.discard(arrival)
                if subscription.acked.add(arrival):
                    self._changed_subscriptions[subscription.number] = subscription
        return entry

    def clear(self) -> None:
        super().clear()
        self._reclaim = None
        for subscription in self.subscriptions.values():
            subscription.hidden.clear()
        self._skip(1, self.last_arrival)

    def subscribe(
        self,
        key: str,
        info: bytes,
        location: tuple[int, int],
        retroactive: bool = False,
        start: int | None = None,
    ) -> SubscriptionIndex:
        """Add a subscription to messages behind arrival `start`, or update an existing one's info.

        `location` is that of its record: the segment's number and the offset.
        `start` None means from now on; with `retroactive`, existing messages are included. An
        existing subscription keeps its acknowledgements.
        """
        found = self.subscriptions.get(key)
        if found is not None:
            found.info = info
            found.file_id, found.offset = location
        else:
            if start is None:
                start = 0 if retroactive else self.last_arrival
            row = (self._index.next_number(), key, info, *location)
            found = SubscriptionIndex(self, row, self._already_acked(start))
            self.subscriptions[key] = found
            self.keeps_messages = True
        self._note_subscription(found)
        return found

    def unsubscribe(self, key: str) -> bool:
        """Remove a subscription; False if there is none.

        If it was the last one, the topic is cleared at once. Otherwise the messages that only it
        needed are removed in increments: call `reclaim` until `is_reclaiming` is False (also
        after `open`).
        """
        removed = self.subscriptions.pop(key, None)
        if removed is None:
            return False
        self.keeps_messages = bool(self.subscriptions)
        self._unsubscribed.append(removed.number)
        self._changed_subscriptions.pop(removed.number, None)
        if not self.subscriptions:
            self.clear()
        elif removed.pending_count:
            self._reclaim = _FIRST
        self._note_change()
        return True

    @property
    def is_reclaiming(self) -> bool:
        """Whether there may be messages that no subscription needs any more."""
        return self._reclaim is not None

    def reclaim(self, limit: int = 1000) -> list[IndexEntry]:
        """Check the next `limit` messages; remove and return those that no subscription needs."""
        if self._reclaim is None:
            return []
        entries = self._walk(self._reclaim, limit)
        self._reclaim = entries[-1].position if len(entries) == limit else None
        free = [entry for entry in entries if self._is_acked_by_all(entry.position.arrival)]
        for entry in free:
            self.remove(entry.position)
        self._note_change()
        return free

    def acknowledge(self, key: str, position: Position) -> bool:
        """Record an acknowledgement; True if it was the last one, so that the message can go.

        False also if there is no such message or subscription.
        """
        subscription = self.subscriptions.get(key)
        arrival = position[1]
        if subscription is None or arrival in subscription.acked or self.get(position) is None:
            return False
        subscription.hidden.discard(arrival)
        subscription.acked.add(arrival)
        self._note_subscription(subscription)
        return len(self.subscriptions) == 1 or self._is_acked_by_all(arrival)

    def is_pending(self, key: str, position: Position) -> bool:
        """Return whether a subscription has not acknowledged the message."""
        subscription = self.subscriptions.get(key)
        arrival = position[1]
        return (
            subscription is not None
            and arrival <= self.last_arrival
            and arrival not in subscription.acked
        )

    # -- records of the journal (see `StoreIndex`)

    def apply_acknowledgement(
        self, key: str, entry: IndexEntry, location: Location
    ) -> IndexEntry | None:
        """Apply an acknowledgement; return the entry if it was the last one, else None."""
        self._index.segments.add_reference(location.file_id, entry.file_id)
        self.mark_visible_to(key, entry.position)
        return self.remove(entry.position) if self.acknowledge(key, entry.position) else None

    def apply_subscription(
        self, key: str, info: bytes, retroactive: bool, location: Location
    ) -> None:
        """Apply a new subscription, or the new info of an existing one."""
        known = self.subscriptions.get(key)
        if known is not None:
            self._index.segments.add_reference(location.file_id, known.file_id)
        if retroactive:
            self._retain_other_subscriptions()
        self.subscribe(key, info, location, retroactive)

    def _retain_other_subscriptions(self) -> None:
        """Ensure that a replay gives a retroactive subscription the same messages as now.

        A replay keeps a message only if a subscription existed when it was added. The records of
        the subscriptions for which messages are kept must therefore stay as long as the messages.
        """
        while self.is_reclaiming:
            self.reclaim()
        for other in self.subscriptions.values():
            if other.pending_count:
                for file_id in self.files:
                    self._index.segments.add_reference(other.file_id, file_id)

    def apply_unsubscription(self, key: str, location: Location) -> None:
        """End a durable subscription; a large backlog is reclaimed later (`is_reclaiming`)."""
        known = self.subscriptions.get(key)
        if known is not None:
            self._index.segments.add_reference(location.file_id, known.file_id)
            self.unsubscribe(key)
            if self.is_reclaiming:
                self.reclaim()

    # -- visibility and reading

    def hide_from(self, key: str, position: Position) -> None:
        """Hide a message from a subscription, because a prepared transaction acknowledged it."""
        if key in self.subscriptions:
            self.subscriptions[key].hidden.add(position[1])

    def mark_visible_to(self, key: str, position: Position) -> None:
        """Undo `hide_from`."""
        if key in self.subscriptions:
            self.subscriptions[key].hidden.discard(position[1])

    def page_for_subscription(
        self, key: str, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[IndexEntry]:
        """Return a page of the messages that the subscription has not acknowledged."""
        subscription = self.subscriptions.get(key)
        if subscription is None or not subscription.pending_count:
            return []
        hidden = self._hidden | subscription.hidden if subscription.hidden else self._hidden
        return self._walk(after, limit, hidden, skip, subscription.acked)

    def _already_acked(self, start: int) -> SequenceSet:
        """Return the numbers that a new subscription never gets: up to `start`, and removed ones.

        Removed ones are those that all other subscriptions have acknowledged.
        """
        others = [other.acked for other in self.subscriptions.values()]
        if not others:
            return SequenceSet(self.last_arrival)
        acked = SequenceSet.common(others)
        acked.add_range(1, start)
        return acked

    def _skip(self, first: int, last: int) -> None:
        """Record the numbers from `first` to `last` as acknowledged by all subscriptions."""
        if first <= last:
            for subscription in self.subscriptions.values():
                subscription.acked.add_range(first, last)
                self._changed_subscriptions[subscription.number] = subscription

    def _is_acked_by_all(self, arrival: int) -> bool:
        return all(arrival in other.acked for other in self.subscriptions.values())

    def _note_subscription(self, subscription: SubscriptionIndex) -> None:
        self._changed_subscriptions[subscription.number] = subscription
        self._note_change()

    def _collect_subscriptions(self) -> tuple[list[SubscriptionChanges], list[int]]:
        changed, self._changed_subscriptions = self._changed_subscriptions, {}
        unsubscribed, self._unsubscribed = self._unsubscribed, []
        return [self._collect_subscription(one) for one in changed.values()], unsubscribed

    def _collect_subscription(self, one: SubscriptionIndex) -> SubscriptionChanges:
        acked = one.acked
        row = (one.number, self.number, one.key, one.info, one.file_id, one.offset, acked.floor)
        return SubscriptionChanges(row, acked.first_block, acked.pop_changes())
