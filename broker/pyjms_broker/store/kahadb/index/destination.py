"""The index of one destination: messages, counts and numbering."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from pyjms.wire.kahadb.structures import DestinationType, KahaDestination
from pyjms_broker.api.message import Position, Positions
from pyjms_broker.store.kahadb.index.checkpoint import DestinationChanges, Row, SubscriptionChanges
from pyjms_broker.store.kahadb.index.context import IndexContext
from pyjms_broker.store.kahadb.index.duplicate_ids import DuplicateIds
from pyjms_broker.store.kahadb.index.entry import IndexEntry, split_id
from pyjms_broker.store.kahadb.index.message_table import MessageTable
from pyjms_broker.store.kahadb.index.sequence_set import SequenceSet

__all__ = ["DestinationIndex"]

_LEVELS: Final = range(10)
_ONE_LEVEL: Final = range(1)
_CHUNK: Final = 1_000
_TOPICS: Final = (DestinationType.TOPIC, DestinationType.TEMP_TOPIC)
_tuple: Final = tuple.__new__  # takes half the time of Position(...) and IndexEntry(...)


class DestinationIndex:
    """The index of a queue; see `TopicIndex` for topics. Returned by `StoreIndex`."""

    def __init__(
        self,
        context: IndexContext,
        destination: KahaDestination,
        prioritized: bool,
        duplicates_limit: int,
        number: int,
        contents: int,
    ) -> None:
        self.destination = destination
        self.key = destination.key
        self.is_topic = destination.type in _TOPICS
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
        self.duplicates = DuplicateIds(duplicates_limit, self._changed)
        self._context = context
        self._table = MessageTable(context, contents)
        self._written_files: dict[int, int] = {}
        self._hidden: set[int] = set()

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
        self._changed()

    def prioritize(self, prioritized: bool) -> None:
        """Switch priority levels on or off; off only while there are no messages."""
        if prioritized != self.prioritized and (prioritized or not self.count):
            self.prioritized = prioritized
            self._changed()

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

        A caller that has the result of `split_id` passes it as `split`.

        Raises:
            ValueError: `arrival` is not higher than the last one.
        """
        if arrival is None:
            arrival = self.last_arrival + 1
        elif arrival <= self.last_arrival:
            raise ValueError(f"Arrival {arrival} comes after {self.last_arrival} in {self.key}.")
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
        context = self._context
        context.changes += 1
        context.dirty[self] = None
        return entry

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
        self._uncount_segment(entry.file_id)
        self._changed()
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
        self._changed()
        return entry

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
        self._context.obsolete_contents.append(self._table.contents)
        self._table = MessageTable(self._context, self._context.next_number())
        self.count = self.size = 0
        self.files = {}
        self._written_files = {}
        self._hidden.clear()
        self._changed()

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

    def _row(self, reclaim: Position | None = None) -> Row:
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
            *(reclaim or (None, None)),
        )

    def _collect_subscriptions(self) -> tuple[list[SubscriptionChanges], list[int]]:
        return [], []

    def _changed(self) -> None:
        context = self._context
        context.changes += 1
        context.dirty[self] = None

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
