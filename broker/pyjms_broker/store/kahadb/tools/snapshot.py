"""A private index of a journal; the journal's directory is only read.

It begins as a copy of the store's index if that is usable, otherwise as an empty index, and is
brought up to the end of the journal by the same replay as at a start. It is therefore also correct
for ActiveMQ's stores, and for the store of a running broker at the time when the segments are read.
All functions block. (activemq-persistence K20 to K22)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.files import JournalFiles
from pyjms.wire.kahadb.frames import STORE_OPENWIRE_VERSION
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import JournalRecord
from pyjms_broker.store.kahadb.index import IndexCorrupt, StoreIndex, TopicIndex
from pyjms_broker.store.kahadb.index_updater import IndexUpdater
from pyjms_broker.store.kahadb.message_database import DIRTY_LIMIT
from pyjms_broker.store.kahadb.records import RecordFormat
from pyjms_broker.store.kahadb.recovery.activemq_files import OUR_INDEX
from pyjms_broker.store.kahadb.recovery.recovery import record_digest
from pyjms_broker.store.kahadb.recovery.replay import Replay
from pyjms_broker.store.kahadb.tools.journal_directory import (
    ReadProgress,
    has_activemq_index,
    read_segments,
)

__all__ = ["Snapshot", "copy_index", "open_snapshot", "trusted_location"]

_ATTEMPTS: Final = 3
_SUFFIXES: Final = ("", "-wal")


class Snapshot:
    """An index to which the journal's records are applied."""

    def __init__(self, index: StoreIndex, covered: Location | None) -> None:
        """Continue an open index behind `covered`; None: from the beginning of the journal."""
        self.index = index
        self.format = RecordFormat(STORE_OPENWIRE_VERSION)
        self.replay = Replay(IndexUpdater(index), self.format, covered)
        self.last = covered
        """The location of the last applied record."""
        self.start: Location | None = covered
        """The location of the first record to apply; None: the beginning of the journal."""
        if covered is not None and index.open_transactions is not None:
            self.start = min(covered, index.open_transactions)

    def apply(self, record: JournalRecord) -> None:
        """Apply the next record; those before `start` are ignored.

        Raises:
            RemoteProtocolError: it is damaged, although its batch is not.
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
        """Reclaim the backlogs of removed subscriptions, which the journal does not record."""
        for destination in self.index.destinations():
            while isinstance(destination, TopicIndex) and destination.is_reclaiming:
                destination.reclaim()

    def open_files(self) -> set[int]:
        """Return the segments from the first to the last of each open transaction.

        (activemq-persistence K17)
        """
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
    scratch: Path,
    *,
    index_directory: Path | None = None,
    on_bytes: Callable[[int], None] = lambda _size: None,
) -> Snapshot:
    """Return a snapshot of a journal, with its files in `scratch`; the caller closes it.

    Damage that would make a start fail is skipped: the snapshot contains all valid records.
    `on_bytes` is called with the number of bytes read since the last call.

    Raises:
        OSError: the journal cannot be read, or `scratch` cannot be written.
    """
    index = None
    covered = None
    if not has_activemq_index(folder, index_directory):
        with suppress(IndexCorrupt):  # then begin with an empty index
            index = copy_index((index_directory or folder) / OUR_INDEX, scratch)
    if index is not None:
        covered = trusted_location(folder, index)
        if covered is None:
            index.delete()
            index = None
    if index is None:
        index = StoreIndex(scratch / OUR_INDEX)
        index.delete()
        index.open()
    snapshot = Snapshot(index, covered)
    progress = ReadProgress(on_bytes)
    try:
        for segment in read_segments(folder, snapshot.start):
            for record in segment.reader().records():
                progress.report_up_to(record.location.offset)
                try:
                    snapshot.apply(record)
                except RemoteProtocolError:
                    continue  # `journal verify` reports it
            progress.report_all_of(segment)
        snapshot.finish()
    except BaseException:
        snapshot.close()
        raise
    return snapshot


def copy_index(path: Path, scratch: Path) -> StoreIndex | None:
    """Return an open copy of an index; None if there is no index, or it keeps changing.

    Its files are copied, because SQLite would create files beside them even for reading.

    Raises:
        IndexCorrupt: it is damaged, or of another version.
        OSError: it cannot be copied.
    """
    target = scratch / path.name
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
    """Return the location up to which an index is valid; None if it is not this journal's.

    Raises:
        OSError: the directory cannot be read.
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
        payload = files.read_unchecked(location).payload
    except (KahaDBFormatError, FileNotFoundError):
        return None
    return location if record_digest(payload) == digest else None
