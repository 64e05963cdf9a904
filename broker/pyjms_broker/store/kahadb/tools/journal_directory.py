"""Finding, locking and reading the journal directory that a command line names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pyjms.errors import ConfigurationException
from pyjms.wire.kahadb.commands import KahaTraceCommand
from pyjms.wire.kahadb.files import JournalFiles
from pyjms.wire.kahadb.journal import Location, segment_name, segment_number
from pyjms.wire.kahadb.reader import SegmentReader
from pyjms_broker.store.file_lock import SharedFileLock
from pyjms_broker.store.kahadb.recovery.activemq_files import INDEX_FILES

__all__ = [
    "ReadProgress",
    "Segment",
    "file_sizes",
    "find_journal",
    "has_activemq_index",
    "holds_jobs",
    "job_folders_beside",
    "journal_end",
    "journals_in",
    "lock_journal",
    "read_segments",
    "refuse_jobs",
]

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
    """Return `path` if it has segments, else the directories with segments up to two levels below.

    Raises:
        ConfigurationException: it cannot be read.
    """
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
    """Return whether the journal is a job scheduler's, judging by its first non-trace record.

    Raises:
        OSError: it cannot be read.
    """
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

    Raises:
        OSError: the directory cannot be read.
    """
    sizes: dict[int, int] = {}
    for file_id in JournalFiles(folder).segments():
        try:
            sizes[file_id] = (folder / segment_name(file_id)).stat().st_size
        except FileNotFoundError:  # a running broker has deleted it meanwhile
            continue
    return sizes


def read_segments(folder: Path, start: Location | None = None) -> Iterator[Segment]:
    """Yield the segments from `start` on, oldest first; one is in memory at a time.

    Raises:
        OSError: one cannot be read.
    """
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
    """Return the end of the last valid batch in the journal's last segment.

    Raises:
        OSError: it cannot be read.
    """
    segments = JournalFiles(folder).segments()
    if not segments:
        return Location(1, 0)
    reader = SegmentReader((folder / segment_name(segments[-1])).read_bytes(), segments[-1])
    for _ in reader.batches():
        pass
    return Location(segments[-1], reader.end)
