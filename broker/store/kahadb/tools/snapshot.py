"""An index of a folder's journal, in a place of its own: the folder is only read.

It begins with a copy of the folder's index where there is a good one, else with nothing, and
is brought up to the journal's end by the same replay that a start does. So it is right for a
running broker's folder, too, as of when its segments were read, and for ActiveMQ's. All of it
blocks. (persistence K20 to K22)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.store.kahadb.index import IndexCorrupt, StoreIndex, TopicIndex
from broker.store.kahadb.index_updater import IndexUpdater
from broker.store.kahadb.message_database import DIRTY_LIMIT
from broker.store.kahadb.records import RecordFormat
from broker.store.kahadb.recovery.activemq_files import OUR_INDEX
from broker.store.kahadb.recovery.recovery import record_digest
from broker.store.kahadb.recovery.replay import Replay
from broker.store.kahadb.tools.journal_directory import (
    ReadProgress,
    has_activemq_index,
    read_segments,
)
from pyjms.errors import RemoteProtocolError
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.files import JournalFiles
from pyjms.wire.kahadb.frames import STORE_OPENWIRE_VERSION
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import JournalRecord

__all__ = ["Snapshot", "copy_index", "open_snapshot", "trusted_location"]

_ATTEMPTS: Final = 3
_SUFFIXES: Final = ("", "-wal")


class Snapshot:
    """An index that takes the journal's records."""

    def __init__(self, index: StoreIndex, covered: Location | None) -> None:
        """Go on behind `covered` of an open index; None: the index is new."""
        self.index = index
        self.format = RecordFormat(STORE_OPENWIRE_VERSION)
        self.replay = Replay(IndexUpdater(index), self.format, covered)
        self.last = covered
        """The last record that it has."""
        self.start: Location | None = covered
        """From where it wants the records; None: from the first one on."""
        if covered is not None and index.open_transactions is not None:
            self.start = min(covered, index.open_transactions)

    def apply(self, record: JournalRecord) -> None:
        """Take the next record; those before `start` are left out.

        Raises:
            RemoteProtocolError: it is damaged, though its batch is not.
        """
        if self.start is not None and record.location < self.start:
            return
        self.replay.apply(record.location, record.payload)
        self.last = record.location
        if self.index.dirty >= DIRTY_LIMIT:
            frozen = self.index.begin_checkpoint(record.location, record_digest(record.payload))
            self.index.write_checkpoint(frozen)
            self.index.complete_checkpoint(frozen)

    def finish(self) -> None:
        """Let go of what an ended subscription leaves; when a store does is not in the journal."""
        for destination in self.index.destinations():
            while isinstance(destination, TopicIndex) and destination.is_reclaiming:
                destination.reclaim()

    def open_files(self) -> set[int]:
        """Return the segments from the first to the last of each open transaction. (K17)"""
        files: set[int] = set()
        for transaction in self.replay.transactions.values():
            if transaction.first is not None and transaction.last is not None:
                files.update(range(transaction.first.file_id, transaction.last.file_id + 1))
        return files

    def close(self) -> None:
        """Close the index. Idempotent."""
        self.index.close()


def open_snapshot(
    folder: Path,
    room: Path,
    *,
    index_directory: Path | None = None,
    on_bytes: Callable[[int], None] = lambda _size: None,
) -> Snapshot:
    """Make a snapshot of a journal, with its files in `room`; `close` it.

    Damage that a start would stop at is passed over: what is whole is there. `on_bytes` hears
    how many more bytes were read.

    Raises:
        OSError: the journal cannot be read, or `room` not written to.
    """
    index = None
    covered = None
    if not has_activemq_index(folder, index_directory):
        with suppress(IndexCorrupt):  # then it begins with nothing
            index = copy_index((index_directory or folder) / OUR_INDEX, room)
    if index is not None:
        covered = trusted_location(folder, index)
        if covered is None:
            index.delete()
            index = None
    if index is None:
        index = StoreIndex(room / OUR_INDEX)
        index.delete()
        index.open()
    snapshot = Snapshot(index, covered)
    done = ReadProgress(on_bytes)
    try:
        for segment in read_segments(folder, snapshot.start):
            for record in segment.reader().records():
                done.up_to(record.location.offset)
                try:
                    snapshot.apply(record)
                except RemoteProtocolError:
                    continue  # `journal verify` tells of it
            done.all_of(segment)
        snapshot.finish()
    except BaseException:
        snapshot.close()
        raise
    return snapshot


def copy_index(path: Path, room: Path) -> StoreIndex | None:
    """Return an open copy of an index; None if there is none, or it changes all the time.

    Only its files are read: sqlite3 would write beside them even to read.

    Raises:
        IndexCorrupt: it is damaged, or of another version.
        OSError: it cannot be copied.
    """
    target = room / path.name
    for _ in range(_ATTEMPTS):
        before = _stamps(path)
        if before is None:
            return None
        for suffix in _SUFFIXES:
            source = path.with_name(path.name + suffix)
            copy = target.with_name(target.name + suffix)
            copy.unlink(missing_ok=True)
            try:
                shutil.copyfile(source, copy)
            except FileNotFoundError:
                continue
        if _stamps(path) == before:
            index = StoreIndex(target)
            index.open()
            return index
    return None


def _stamps(path: Path) -> list[tuple[int, int] | None] | None:
    stamps: list[tuple[int, int] | None] = []
    for suffix in _SUFFIXES:
        try:
            status = path.with_name(path.name + suffix).stat()
        except FileNotFoundError:
            stamps.append(None)
        else:
            stamps.append((status.st_size, status.st_mtime_ns))
    return None if stamps[0] is None else stamps


def trusted_location(folder: Path, index: StoreIndex) -> Location | None:
    """Return up to where an index can be relied on; None: it is not this journal's.

    Raises:
        OSError: the folder cannot be read.
    """
    known = index.covered()
    if known is None:
        return None
    location, digest = known
    files = JournalFiles(folder)
    segments = files.segments()
    wanted = range(location.file_id, segments[-1] + 1) if segments else ()
    if not wanted or not set(wanted) <= set(segments):
        return None
    try:
        payload = files.read(location).payload
    except (KahaDBFormatError, FileNotFoundError):
        return None
    return location if record_digest(payload) == digest else None
