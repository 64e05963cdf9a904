"""Writes a checkpoint's changes as rows, in a worker thread and one transaction.

Many rows are written with one statement, because each statement releases and reacquires the GIL
once. Adjacent removals are deleted as ranges.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

from pyjms_broker.store.kahadb.index.checkpoint import DestinationChanges, IndexCheckpoint
from pyjms_broker.store.kahadb.index.entry import IndexEntry
from pyjms_broker.store.kahadb.index.memtable import Memtable

__all__ = ["delete_unused_producers", "write_changes"]

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
_INSERT: Final = {
    "state": "INSERT OR REPLACE INTO state VALUES",
    "destinations": "INSERT OR REPLACE INTO destinations VALUES",
    "messages": "INSERT OR REPLACE INTO messages VALUES",
    "ids": "INSERT OR REPLACE INTO ids VALUES",
    "producers": "INSERT OR REPLACE INTO producers VALUES",
    "files": "INSERT OR REPLACE INTO files VALUES",
    "doomed": "INSERT OR REPLACE INTO doomed VALUES",
    "subscriptions": "INSERT OR REPLACE INTO subscriptions VALUES",
    "acked": "INSERT OR REPLACE INTO acked VALUES",
    "duplicates": "INSERT OR REPLACE INTO duplicates VALUES",
    "refers": "INSERT OR REPLACE INTO refers VALUES",
    "sequences": "INSERT OR REPLACE INTO sequences VALUES",
}
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
    by_level = (((contents, e.position.level), e.position.arrival) for e in removed)
    _delete(connection, _REMOVED_MESSAGES, by_level)
    by_producer = (((contents, e.producer), e.sequence) for e in removed)
    _delete(connection, _REMOVED_IDS, by_producer)
    added = list(memtable.adds.values())
    upserts = chain(added, memtable.updates.values())
    _insert(connection, "messages", (_message_row(contents, e) for e in upserts), 8)
    ids = sorted((contents, e.producer, e.sequence, *e.position) for e in added)
    _insert(connection, "ids", ids, 5)
    used = {e.producer for e in added}
    producers = (memtable.producers[number] for number in sorted(used))
    _insert(
        connection, "producers", ((contents, p.number, p.name, p.highest) for p in producers), 4
    )


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
        _insert(connection, "duplicates", ((number, *row) for row in rows), 4)
        statement = "DELETE FROM duplicates WHERE destination = ? AND number < ?"
        connection.execute(statement, (number, one.duplicates.first))
    for number_removed in one.unsubscribed:
        connection.execute("DELETE FROM acked WHERE subscription = ?", (number_removed,))
        connection.execute("DELETE FROM subscriptions WHERE number = ?", (number_removed,))
    for row, first_block, blocks in one.subscriptions:
        _insert(connection, "subscriptions", [row], 7)
        statement = "DELETE FROM acked WHERE subscription = ? AND block < ?"
        connection.execute(statement, (row[0], first_block))
        _insert(connection, "acked", ((row[0], *block) for block in blocks), 3)


def _write_rest(connection: sqlite3.Connection, checkpoint: IndexCheckpoint) -> None:
    _insert(connection, "state", [checkpoint.state], 8)
    _insert(connection, "doomed", ((contents,) for contents in checkpoint.obsolete_contents), 1)
    for file_id, targets in checkpoint.references.items():
        connection.execute("DELETE FROM refers WHERE file_id = ?", (file_id,))
        _insert(connection, "refers", ((file_id, target) for target in targets), 2)
    if checkpoint.sequences is not None:
        connection.execute("DELETE FROM sequences")
        rows = ((age, *pair) for age, pair in enumerate(checkpoint.sequences))
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
    return f"{_INSERT[table]} {_values(columns, count)}"


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
