"""The index's sqlite3 database: its tables, opening it, and reading from it.

Reads use one connection on the loop, writes another one in a worker thread; the write-ahead log
lets them run concurrently. Primary keys are chosen so that adjacent messages of a queue are
adjacent on disk, and new rows come at the end.

Index entries of messages, and the index's representation of message ids.

A message id is stored in two parts: a number for the producer (the id up to its last colon) and
the sequence number at its end. Producer numbers and sequence numbers increase, so the database's
B-tree of ids is only appended to, at one place per producer. A sequence number above the highest
one of its producer shows, without a lookup, that a message is new.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position
from pyjms_broker.store.files import create_private_file

NO_SEQUENCE: Final = -1
"""The sequence number of an id that does not end in `:<number>`: all of it is the producer."""
_MAX_DIGITS: Final = 18
LARGEST_SEQUENCE: Final = 10**_MAX_DIGITS - 1
"""For sequence numbers from 0 to this one, `split_id` returns the parts that formed the id."""


class IndexEntry(NamedTuple):
    """The index data of a message. Immutable: a changed message gets a new entry."""

    position: Position
    message_id: str
    file_id: int
    """The segment of its add record, or of a later update record."""
    offset: int
    size: int
    """The message's size in memory, in bytes."""
    producer: int
    """The first part of the id: the index's number for the producer in this destination."""
    sequence: int
    """The second part: the number at the end of the id; -1 if it does not end in one."""

    @property
    def location(self) -> Location:
        """The location of the message in the journal."""
        return Location(self.file_id, self.offset)


class MessageMetadata(NamedTuple):
    """The data of a message that the index and duplicate detection use."""

    message_id: str
    level: int
    """0, or 9 minus the priority in a prioritized destination."""
    size: int
    """The message's size in memory, in bytes."""
    duplicate_id: str | None
    producer: str | None
    producer_sequence: int
    broker_sequence: int
    split: tuple[str, int]
    """The two parts of the id in the index (`split_id`)."""


class Producer:
    """A producer of messages of one destination."""

    __slots__ = ("highest", "name", "number")

    def __init__(self, number: int, name: str, highest: int = NO_SEQUENCE - 1) -> None:
        self.number = number
        self.name = name
        self.highest = highest
        """An upper bound of the sequence numbers in the index."""


def split_id(message_id: str) -> tuple[str, int]:
    """Split an id into its producer and sequence number; the inverse of `join_id`."""
    name, colon, tail = message_id.rpartition(":")
    if (
        colon
        and tail.isdecimal()
        and tail.isascii()
        and len(tail) <= _MAX_DIGITS
        and (tail[0] != "0" or tail == "0")
    ):
        return name, int(tail)
    return message_id, NO_SEQUENCE


def join_id(name: str, sequence: int) -> str:
    """Return the message id of a producer's name and a sequence number."""
    return name if sequence == NO_SEQUENCE else f"{name}:{sequence}"


_APPLICATION_ID: Final = 0x504A4D53  # "PJMS"
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE state(
    id INTEGER PRIMARY KEY CHECK(id = 1), covered_file INTEGER, covered_offset INTEGER,
    digest INTEGER, open_file INTEGER, open_offset INTEGER,
    last_broker_sequence_id INTEGER, last_number INTEGER);
CREATE TABLE destinations(
    number INTEGER PRIMARY KEY, contents INTEGER, type INTEGER, name TEXT, prioritized INTEGER,
    epoch INTEGER, last_arrival INTEGER, count INTEGER, size INTEGER,
    reclaim_level INTEGER, reclaim_arrival INTEGER);
CREATE TABLE messages(
    contents INTEGER, level INTEGER, arrival INTEGER, file_id INTEGER, offset INTEGER,
    size INTEGER, producer INTEGER, sequence INTEGER,
    PRIMARY KEY(contents, level, arrival)) WITHOUT ROWID;
CREATE TABLE ids(
    contents INTEGER, producer INTEGER, sequence INTEGER, level INTEGER, arrival INTEGER,
    PRIMARY KEY(contents, producer, sequence)) WITHOUT ROWID;
CREATE TABLE producers(
    contents INTEGER, number INTEGER, name TEXT, highest INTEGER,
    PRIMARY KEY(contents, number)) WITHOUT ROWID;
CREATE UNIQUE INDEX producer_names ON producers(contents, name);
CREATE TABLE files(
    contents INTEGER, file_id INTEGER, messages INTEGER,
    PRIMARY KEY(contents, file_id)) WITHOUT ROWID;
CREATE TABLE doomed(contents INTEGER PRIMARY KEY);
CREATE TABLE subscriptions(
    number INTEGER PRIMARY KEY, destination INTEGER, key TEXT, info BLOB, file_id INTEGER,
    offset INTEGER, floor INTEGER);
CREATE TABLE acked(
    subscription INTEGER, block INTEGER, bits BLOB,
    PRIMARY KEY(subscription, block)) WITHOUT ROWID;
CREATE TABLE duplicates(
    destination INTEGER, number INTEGER, id TEXT, file_id INTEGER,
    PRIMARY KEY(destination, number)) WITHOUT ROWID;
CREATE TABLE refers(
    file_id INTEGER, target INTEGER, PRIMARY KEY(file_id, target)) WITHOUT ROWID;
CREATE TABLE sequences(age INTEGER PRIMARY KEY, producer TEXT, sequence INTEGER);
"""
_READER_CACHE: Final = -8_000  # negative: in KiB
_WRITER_CACHE: Final = -16_000
_WAL_PAGES: Final = 4_000

_ENTRY: Final = """
SELECT m.level, m.arrival, p.name, m.file_id, m.offset, m.size, m.producer, m.sequence
FROM messages m JOIN producers p ON p.contents = m.contents AND p.number = m.producer
"""
_PAGE: Final = (
    f"{_ENTRY} WHERE m.contents = ? AND m.level = ? AND m.arrival >= ? ORDER BY m.arrival LIMIT ?"
)
_GET: Final = f"{_ENTRY} WHERE m.contents = ? AND m.level = ? AND m.arrival = ?"
_FIND: Final = "SELECT level, arrival FROM ids WHERE contents = ? AND producer = ? AND sequence = ?"
_PRODUCER: Final = "SELECT number, name, highest FROM producers WHERE contents = ? AND name = ?"

_ERRNO: Final = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.ENOENT,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_AUTH: errno.EACCES,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_LOCKED: errno.EBUSY,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
}


class IndexCorrupt(JMSException):
    """The index cannot be read: it has to be rebuilt from the journal."""


def _entry(
    level: int,
    arrival: int,
    name: str,
    file_id: int,
    offset: int,
    size: int,
    producer: int,
    sequence: int,
) -> IndexEntry:
    message_id = join_id(name, sequence)
    position = Position(level, arrival)
    return IndexEntry(position, message_id, file_id, offset, size, producer, sequence)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate sqlite3's errors: system errors to OSError, all others to IndexCorrupt."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(path, error) from error


def _translate(path: Path, error: sqlite3.Error) -> Exception:
    number = _ERRNO.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    if number is not None:
        return OSError(number, f"{error} (in the index)", str(path))
    return IndexCorrupt(
        f"Cannot read the index {path}: {error}.",
        hint="Delete it: it is rebuilt from the journal.",
    )


class Database:
    """Two connections: `reader` belongs to the loop, `writer` to the worker thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader: sqlite3.Connection
        self.writer: sqlite3.Connection
        self.is_open = False
        self.damage: IndexCorrupt | None = None
        """Damage found since it was opened."""

    def open(self) -> None:
        """Open or create it. Blocks.

        Raises:
            IndexCorrupt: it belongs to another program, has another version, or is damaged.
            OSError: the system refused access.
        """
        self.damage = None
        with translate_errors(self.path):
            create_private_file(self.path)
            self.writer = self._connect(_WRITER_CACHE)
            try:
                self._prepare()
                self.reader = self._connect(_READER_CACHE)
            except BaseException:
                self.writer.close()
                raise
        self.is_open = True

    def close(self) -> None:
        """Close both connections. Idempotent."""
        if self.is_open:
            self.is_open = False
            self.reader.close()
            self.writer.close()

    def delete(self) -> None:
        """Close it and delete its files."""
        self.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, read on the loop."""
        try:
            return self.reader.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self.note_damage(_translate(self.path, error)) from error

    def note_damage(self, error: Exception) -> Exception:
        """Record an error that indicates damage, and return it."""
        if isinstance(error, IndexCorrupt):
            self.damage = self.damage or error
        return error

    def page(self, contents: int, level: int, start: int, limit: int) -> list[IndexEntry]:
        """Return the messages of a level, beginning at an arrival number."""
        return [_entry(*row) for row in self.rows(_PAGE, (contents, level, start, limit))]

    def get(self, contents: int, position: Position) -> IndexEntry | None:
        """Return one message."""
        rows = self.rows(_GET, (contents, *position))
        return _entry(*rows[0]) if rows else None

    def find(self, contents: int, producer: int, sequence: int) -> Position | None:
        """Return the position of the message with this id, or None."""
        rows = self.rows(_FIND, (contents, producer, sequence))
        return Position(*rows[0]) if rows else None

    def producer(self, contents: int, name: str) -> Producer | None:
        """Return a producer by its name."""
        rows = self.rows(_PRODUCER, (contents, name))
        return Producer(*rows[0]) if rows else None

    def _connect(self, cache: int) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA cache_size = {cache}")
        return connection

    def _prepare(self) -> None:
        writer = self.writer
        application, version, tables = writer.execute(
            "SELECT (SELECT application_id FROM pragma_application_id),"
            " (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)"
        ).fetchone()
        if tables and (application, version) != (_APPLICATION_ID, _SCHEMA_VERSION):
            raise IndexCorrupt(
                f"The index {self.path} belongs to another program or version.",
                hint="Delete it: it is rebuilt from the journal.",
            )
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        writer.execute(f"PRAGMA journal_size_limit = {_WAL_PAGES * 4096}")
        if not tables:
            writer.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {_APPLICATION_ID};"
                f"PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;"
            )


# What `problems` checks, for `pyjms broker journal verify`.

_COUNTS = """
SELECT d.name, d.count, d.size,
    (SELECT count(*) FROM messages m WHERE m.contents = d.contents),
    (SELECT coalesce(sum(size), 0) FROM messages m WHERE m.contents = d.contents),
    (SELECT count(*) FROM ids i WHERE i.contents = d.contents),
    (SELECT coalesce(sum(messages), 0) FROM files f WHERE f.contents = d.contents)
FROM destinations d ORDER BY d.name
"""
_LOST_IDS = """
SELECT count(*) FROM messages m WHERE NOT EXISTS (
    SELECT 1 FROM ids i WHERE i.contents = m.contents AND i.producer = m.producer
        AND i.sequence = m.sequence AND i.level = m.level AND i.arrival = m.arrival)
    OR NOT EXISTS (
    SELECT 1 FROM producers p WHERE p.contents = m.contents AND p.number = m.producer
        AND p.highest >= m.sequence)
"""


def problems(database: Database) -> list[str]:
    """Return a sentence for each inconsistency of the database."""
    found = [f"sqlite3: {row[0]}." for row in database.rows("PRAGMA quick_check(10)")]
    if found != ["sqlite3: ok."]:
        return found
    found = []
    for row in database.rows(_COUNTS):
        found += _destination_problems(*row)
    if lost := _first(database, _LOST_IDS):
        found.append(f"{lost} messages cannot be found by their ids.")
    return found


def _destination_problems(
    name: str, count: int, size: int, messages: int, bytes_: int, ids: int, in_files: int
) -> list[str]:
    checks = [
        ("messages", count, messages),
        ("bytes", size, bytes_),
        ("message ids", count, ids),
        ("messages in segments", count, in_files),
    ]
    return [
        f"{name}: {counted} {what} instead of {recorded}."
        for what, recorded, counted in checks
        if recorded != counted
    ]


def _first(database: Database, query: str) -> Any:
    return database.rows(query)[0][0]
