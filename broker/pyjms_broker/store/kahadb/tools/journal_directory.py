"""Finding, locking, reading and rebuilding the journal directory that a command line names.

A snapshot is a private index of a journal, whose directory is only read. It begins as a copy of the
store's index if that is usable, otherwise as an empty index, and is brought up to the end of the
journal by the same replay as at a start. It is therefore also correct for ActiveMQ's stores, and
for the store of a running broker at the time when the segments are read. All functions block, and
raise OSError if a file cannot be read.
(activemq-persistence K20 to K22)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pyjms.errors import ConfigurationException, RemoteProtocolError
from pyjms.wire.kahadb.commands import KahaTraceCommand
from pyjms.wire.kahadb.frames import STORE_OPENWIRE_VERSION
from pyjms.wire.kahadb.journal import MAX_FILE_LENGTH, Location, segment_name, segment_number
from pyjms.wire.kahadb.segments import JournalFiles, JournalRecord, SegmentReader
from pyjms_broker.store.files import SharedFileLock
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from pyjms_broker.store.kahadb import recovery
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.index import IndexCorrupt, StoreIndex, TopicIndex
from pyjms_broker.store.kahadb.index.destination import DIRTY_LIMIT
from pyjms_broker.store.kahadb.records import RecordFormat
from pyjms_broker.store.kahadb.recovery import INDEX_FILES, OUR_INDEX, Replay, record_digest
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.kahadb.transactions import open_segments

_USUAL_NAME: Final = "kahadb"
_JOB_CODES: Final = range(11, 16)
_STEP: Final = 1 << 18
# Other directories in a data directory whose journals are not message stores.
_OTHERS: Final = frozenset({"scheduler", "tmp_storage", "txstore", "data-archive"})


class Segment(NamedTuple):
    """The contents of a segment when it was read; `data` is None if it had been deleted."""

    file_id: int
    data: bytes | None

    def reader(self, start: int = 0) -> SegmentReader:
        """Return a reader of the segment's bytes."""
        return SegmentReader(self.data or b"", self.file_id, start=start)


class ReadProgress:
    """Reports at intervals the number of bytes read since the last report."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._reported = 0

    def report_up_to(self, offset: int) -> None:
        """Report that the current segment was read up to `offset`."""
        if offset - self._reported >= _STEP:
            self._report(offset - self._reported)
            self._reported = offset

    def report_all_of(self, segment: Segment) -> None:
        """Report that the current segment was read completely."""
        self._report(len(segment.data or b"") - self._reported)
        self._reported = 0


def job_folders_beside(journal: Path) -> list[Path]:
    """Return the directories of job schedulers in the same data directory that have a journal."""
    data_directory = journal.parent
    return sorted(
        folder
        for pattern in ("scheduler", "*/scheduler")
        for folder in data_directory.glob(pattern)
        if any(folder.glob("db-*.log"))
    )


def find_journal(path: Path) -> Path:
    """Return the journal directory: `path` itself, or the only one below it.

    In a data directory, that is `kahadb` or `<broker>/KahaDB`.

    Raises:
        ConfigurationException: the directory does not exist, or has no journal or several.
    """
    if not path.is_dir():
        raise ConfigurationException(f"The directory {path} does not exist")
    found = journals_in(path)
    usual = [folder for folder in found if folder.name.lower() == _USUAL_NAME]
    if len(found) != 1 and len(usual) == 1:
        found = usual
    if not found:
        raise ConfigurationException(
            f"There is no journal in {path}: it has no segments such as db-1.log",
            hint="name the KahaDB directory, or the data directory above it",
        )
    if len(found) > 1:
        names = ", ".join(str(folder) for folder in found)
        raise ConfigurationException(f"{path} has several journals", hint=f"name one of {names}")
    return found[0]


def journals_in(path: Path) -> list[Path]:
    """Return `path` if it has segments, else the folders with segments up to two levels below."""
    try:
        if _is_journal(path):
            return [path]
        return [
            folder
            for pattern in ("*", "*/*")
            for folder in sorted(path.glob(pattern))
            if folder.is_dir() and folder.name.lower() not in _OTHERS and _is_journal(folder)
        ]
    except OSError as error:
        raise ConfigurationException(f"{path} cannot be read: {error}") from error


def _is_journal(path: Path) -> bool:
    return any(segment_number(entry.name) is not None for entry in path.iterdir())


def holds_jobs(folder: Path) -> bool:
    """Return whether the journal is a job scheduler's, judging by its first non-trace record."""
    for record in JournalFiles(folder).records():
        code = record.payload[0]
        if code != KahaTraceCommand.CODE:
            return code in _JOB_CODES
    return False


def refuse_jobs(folder: Path) -> None:
    """Check that the journal holds messages and not the jobs of a scheduler.

    Raises:
        ConfigurationException: it holds jobs.
        OSError: it cannot be read.
    """
    if holds_jobs(folder):
        raise ConfigurationException(
            f"The journal in {folder} is a job scheduler's, not a message store's"
        )


def lock_journal(folder: Path, hint: str = "stop it") -> SharedFileLock:
    """Acquire the store's lock, which excludes brokers until it is released.

    Raises:
        ConfigurationException: a running broker has it.
        ResourceAllocationException: the lock file cannot be created.
    """
    lock = SharedFileLock(folder / "lock")
    if not lock.try_acquire():
        raise ConfigurationException(f"{folder} is locked by a running broker", hint=hint)
    return lock


def has_activemq_index(folder: Path, index_directory: Path | None = None) -> bool:
    """Return whether ActiveMQ was the last user of the store, so that our index is outdated."""
    folders = {folder, index_directory or folder}
    return any((each / name).exists() for each in folders for name in INDEX_FILES)


def file_sizes(folder: Path) -> dict[int, int]:
    """Return the lengths of the segments by their numbers, ascending; empty ones do not count.

    (activemq-persistence K27)
    """
    sizes: dict[int, int] = {}
    for file_id in JournalFiles(folder).segments():
        try:
            sizes[file_id] = (folder / segment_name(file_id)).stat().st_size
        except FileNotFoundError:  # a running broker has deleted it meanwhile
            continue
    return sizes


def read_segments(folder: Path, start: Location | None = None) -> Iterator[Segment]:
    """Yield the segments from `start` on, oldest first; one is in memory at a time."""
    for file_id in JournalFiles(folder).segments():
        if start is not None and file_id < start.file_id:
            continue
        try:
            data = (folder / segment_name(file_id)).read_bytes()
        except FileNotFoundError:
            yield Segment(file_id, None)
            continue
        yield Segment(file_id, data)


def journal_end(folder: Path) -> Location:
    """Return the end of the last valid batch in the journal's last segment."""
    segments = JournalFiles(folder).segments()
    if not segments:
        return Location(1, 0)
    reader = SegmentReader((folder / segment_name(segments[-1])).read_bytes(), segments[-1])
    for _ in reader.batches():
        pass
    return Location(segments[-1], reader.end)


_ATTEMPTS: Final = 3
_SUFFIXES: Final = ("", "-wal")


class Snapshot:
    """An index to which the journal's records are applied."""

    def __init__(self, index: StoreIndex, covered: Location | None) -> None:
        """Continue an open index behind `covered`; None: from the beginning of the journal."""
        self.index = index
        self.format = RecordFormat(STORE_OPENWIRE_VERSION)
        self.replay = Replay(index, self.format, covered)
        self.last = covered
        """The location of the last applied record."""
        self.start: Location | None = covered
        """The location of the first record to apply; None: the beginning of the journal."""
        if covered is not None and index.open_transactions is not None:
            self.start = min(covered, index.open_transactions)

    def apply(self, record: JournalRecord) -> None:
        """Apply the next record; those before `start` are ignored."""
        if self.start is not None and record.location < self.start:
            return
        self.replay.apply(record.location, record.payload)
        self.last = record.location
        if self.index.dirty >= DIRTY_LIMIT:
            self.index.write(record.location, record_digest(record.payload))

    def finish(self) -> None:
        """Reclaim the backlogs of removed subscriptions, which the journal does not record."""
        for destination in self.index.destinations():
            while isinstance(destination, TopicIndex) and destination.is_reclaiming:
                destination.reclaim()

    def open_files(self) -> set[int]:
        """Return the segments from the first to the last of each open transaction.

        (activemq-persistence K17)
        """
        return open_segments(self.replay.transactions.values())

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
    """Return the location up to which an index is valid; None if it is not this journal's."""
    files = JournalFiles(folder)
    return recovery.trusted_location(
        index, files.segments(), lambda location: files.read_unchecked(location).payload
    )


class Rebuilt(NamedTuple):
    """The contents of the new index."""

    destinations: int
    messages: int
    prepared_transactions: int


def offline_settings(folder: Path, index_directory: Path | None = None) -> KahaDBSettings:
    """Return settings for a tool that holds the lock: no maintenance, no preallocation."""
    longest = max(file_sizes(folder).values(), default=0) if folder.is_dir() else 0
    journal = JournalSettings(
        # In a store with small segments the last one must not grow to the default length.
        max_file_length=min(max(longest, 1024), MAX_FILE_LENGTH) if longest else MAX_FILE_LENGTH,
        preallocation_scope=PreallocationScope.NONE,
        ignore_no_space_errors=False,  # a tool that waits for disk space would appear to hang
    )
    return KahaDBSettings(
        journal=journal,
        index_directory=index_directory,
        checkpoint_interval=0,
        cleanup_interval=0,
        cleanup_on_stop=False,
        use_lock=False,
    )


async def rebuild_index(
    folder: Path,
    *,
    index_directory: Path | None = None,
    on_progress: Callable[[int, Location], None] | None = None,
) -> Rebuilt:
    """Rebuild the index. The caller holds the lock."""
    settings = replace(offline_settings(folder, index_directory), force_recover_index=True)
    adapter = KahaDBPersistenceAdapter(folder, settings, on_progress=on_progress)
    await adapter.start()
    try:
        destinations = adapter.destinations()
        counts = [
            adapter.topic_message_store(d).message_count
            if d.is_topic
            else adapter.queue_message_store(d).message_count
            for d in destinations
        ]
        prepared = len(adapter.transaction_store().recovered_transactions())
    finally:
        await adapter.stop()
    return Rebuilt(len(destinations), sum(counts), prepared)
