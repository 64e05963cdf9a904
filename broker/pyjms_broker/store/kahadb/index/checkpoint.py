"""The changes that one index checkpoint writes to the database, and how they are written.

`StoreIndex.begin_checkpoint` collects them on the loop, as immutable values. `write_changes` turns
them into rows in a worker thread, in one transaction. Many rows are written with one statement,
because each statement releases and reacquires the GIL once. Adjacent removals are deleted as
ranges.
"""

from __future__ import annotations

import sqlite3
import sys
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, Final, NamedTuple

from pyjms.wire.kahadb.journal import Location
from pyjms_broker.store.kahadb.index.database import IndexEntry, Producer


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


_RECENT: Final = 20_000


_ROWS: Final = 128
"""Rows per statement."""
_OBSOLETE_ROWS: Final = 50_000
"""Obsolete rows deleted from each table per checkpoint."""
_DELETE_OBSOLETE: Final = (
    (
        "SELECT level, arrival FROM messages WHERE contents = ? ORDER BY 1, 2 LIMIT 1 OFFSET ?",
        "DELETE FROM messages WHERE contents = ? AND (level, arrival) < (?, ?)",
    ),
    (
        "SELECT producer, sequence FROM ids WHERE contents = ? ORDER BY 1, 2 LIMIT 1 OFFSET ?",
        "DELETE FROM ids WHERE contents = ? AND (producer, sequence) < (?, ?)",
    ),
    (
        "SELECT number, 0 FROM producers WHERE contents = ? ORDER BY 1 LIMIT 1 OFFSET ?",
        "DELETE FROM producers WHERE contents = ? AND (number, 0) < (?, ?)",
    ),
    (
        "SELECT file_id, 0 FROM files WHERE contents = ? ORDER BY 1 LIMIT 1 OFFSET ?",
        "DELETE FROM files WHERE contents = ? AND (file_id, 0) < (?, ?)",
    ),
)
_BEHIND_ALL: Final = (sys.maxsize, sys.maxsize)
_REMOVED: Final = (
    """DELETE FROM acked WHERE subscription IN
    (SELECT number FROM subscriptions WHERE destination = ?)""",
    "DELETE FROM subscriptions WHERE destination = ?",
    "DELETE FROM duplicates WHERE destination = ?",
    "DELETE FROM destinations WHERE number = ?",
)
_REMOVED_MESSAGES: Final = "DELETE FROM messages WHERE contents = ? AND level = ? AND arrival"
_REMOVED_IDS: Final = "DELETE FROM ids WHERE contents = ? AND producer = ? AND sequence"
_CHECKED: Final = 1_000
"""Producers checked per checkpoint, in addition to twice the number of new ones."""
_PRODUCERS: Final = """
SELECT contents, number FROM producers WHERE (contents, number) > (?, ?)
ORDER BY contents, number LIMIT 1 OFFSET ?
"""
_UNUSED: Final = """
DELETE FROM producers WHERE (contents, number) > (?, ?) AND (contents, number) <= (?, ?)
    AND NOT EXISTS (SELECT 1 FROM ids WHERE ids.contents = producers.contents
        AND ids.producer = producers.number)
"""

Rows = Iterable[Sequence[Any]]


def write_changes(connection: sqlite3.Connection, checkpoint: IndexCheckpoint) -> None:
    """Write all changes within the transaction that the caller has begun."""
    for destination in checkpoint.destinations:
        _write_messages(connection, destination.contents, destination.memtable)
        _write_destination(connection, destination)
    for number in checkpoint.removed_destinations:
        for statement in _REMOVED:
            connection.execute(statement, (number,))
    _write_rest(connection, checkpoint)
    _delete_obsolete(connection)


def _write_messages(connection: sqlite3.Connection, contents: int, memtable: Memtable) -> None:
    removed = memtable.removed.values()
    by_level = [((contents, e.position.level), e.position.arrival) for e in removed]
    _delete(connection, _REMOVED_MESSAGES, by_level)
    by_producer = [((contents, e.producer), e.sequence) for e in removed]
    _delete(connection, _REMOVED_IDS, by_producer)
    added = list(memtable.adds.values())
    upserts = chain(added, memtable.updates.values())
    _insert(connection, "messages", map(partial(_message_row, contents), upserts), 8)
    ids = sorted((contents, e.producer, e.sequence, *e.position) for e in added)
    _insert(connection, "ids", ids, 5)
    used = sorted({e.producer for e in added})
    producers = [memtable.producers[number] for number in used]
    rows = [(contents, p.number, p.name, p.highest) for p in producers]
    _insert(connection, "producers", rows, 4)


def _message_row(contents: int, entry: IndexEntry) -> tuple[int, ...]:
    (level, arrival), _, file_id, offset, size, producer, sequence = entry
    return (contents, level, arrival, file_id, offset, size, producer, sequence)


def _write_destination(connection: sqlite3.Connection, one: DestinationChanges) -> None:
    number, contents = one.number, one.contents
    _insert(connection, "destinations", [one.row], 11)
    unreferenced = [(contents, file_id) for file_id, count in one.files.items() if not count]
    connection.executemany("DELETE FROM files WHERE contents = ? AND file_id = ?", unreferenced)
    files = [(contents, file_id, count) for file_id, count in one.files.items() if count]
    _insert(connection, "files", files, 3)
    if one.duplicates is not None:
        rows = one.duplicates.rows
        _insert(connection, "duplicates", [(number, *row) for row in rows], 4)
        statement = "DELETE FROM duplicates WHERE destination = ? AND number < ?"
        connection.execute(statement, (number, one.duplicates.first))
    for number_removed in one.unsubscribed:
        connection.execute("DELETE FROM acked WHERE subscription = ?", (number_removed,))
        connection.execute("DELETE FROM subscriptions WHERE number = ?", (number_removed,))
    for row, first_block, blocks in one.subscriptions:
        _insert(connection, "subscriptions", [row], 7)
        statement = "DELETE FROM acked WHERE subscription = ? AND block < ?"
        connection.execute(statement, (row[0], first_block))
        _insert(connection, "acked", [(row[0], *block) for block in blocks], 3)


def _write_rest(connection: sqlite3.Connection, checkpoint: IndexCheckpoint) -> None:
    _insert(connection, "state", [checkpoint.state], 8)
    _insert(connection, "doomed", [(contents,) for contents in checkpoint.obsolete_contents], 1)
    for file_id, targets in checkpoint.references.items():
        connection.execute("DELETE FROM refers WHERE file_id = ?", (file_id,))
        _insert(connection, "refers", [(file_id, target) for target in targets], 2)
    if checkpoint.sequences is not None:
        connection.execute("DELETE FROM sequences")
        rows = [(age, *pair) for age, pair in enumerate(checkpoint.sequences)]
        _insert(connection, "sequences", rows, 3)


def _delete_obsolete(connection: sqlite3.Connection) -> None:
    """Delete some obsolete rows; a later checkpoint continues."""
    found = connection.execute("SELECT min(contents) FROM doomed").fetchone()[0]
    if found is None:
        return
    left = False
    for bound, delete in _DELETE_OBSOLETE:
        end = connection.execute(bound, (found, _OBSOLETE_ROWS)).fetchone()
        connection.execute(delete, (found, *(end or _BEHIND_ALL)))
        left = left or end is not None
    if not left:
        connection.execute("DELETE FROM doomed WHERE contents = ?", (found,))


def delete_unused_producers(
    connection: sqlite3.Connection, after: tuple[int, int], checkpoint: IndexCheckpoint
) -> tuple[int, int]:
    """Delete some producers without messages, behind `after`, and return the last one checked.

    (0, 0) means that all were checked. A producer that is used again is written again with its
    message, so deleting it is always safe.
    """
    new = sum(len(one.memtable.producers) for one in checkpoint.destinations)
    last = connection.execute(_PRODUCERS, (*after, _CHECKED + 2 * new)).fetchone()
    if last is None:
        last = (sys.maxsize, 0)
    connection.execute(_UNUSED, (*after, *last))
    return (0, 0) if last[0] == sys.maxsize else (last[0], last[1])


def _insert(connection: sqlite3.Connection, table: str, rows: Rows, columns: int) -> None:
    rows = list(rows)
    start = 0
    if len(rows) >= _ROWS:
        statement = _insertion(table, columns, _ROWS)
        while start + _ROWS <= len(rows):
            values = list(chain.from_iterable(rows[start : start + _ROWS]))
            connection.execute(statement, values)
            start += _ROWS
    connection.executemany(_insertion(table, columns, 1), rows[start:])


@cache
def _insertion(table: str, columns: int, count: int) -> str:
    return " ".join(("INSERT OR REPLACE INTO", table, "VALUES", _values(columns, count)))


def _values(columns: int, count: int) -> str:
    one = f"({','.join('?' * columns)})"
    return ",".join([one] * count)


def _delete(
    connection: sqlite3.Connection, where: str, keys: Iterable[tuple[tuple[int, int], int]]
) -> None:
    """Delete rows by contents, level or producer, and number; one statement per run."""
    numbers: dict[tuple[int, int], list[int]] = {}
    for key, value in keys:
        numbers.setdefault(key, []).append(value)
    for key, values in sorted(numbers.items()):
        single: list[int] = []
        for first, last in _runs(sorted(values)):
            if first == last:
                single.append(first)
            else:
                connection.execute(f"{where} BETWEEN ? AND ?", (*key, first, last))
        for start in range(0, len(single), _ROWS):
            some = single[start : start + _ROWS]
            some += some[:1] * (_ROWS - len(some) if len(some) > 1 else 0)
            connection.execute(f"{where} IN {_values(len(some), 1)}", (*key, *some))


def _runs(numbers: list[int]) -> Iterable[tuple[int, int]]:
    """Return the first and last numbers of runs of consecutive numbers."""
    if not numbers:
        return
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
