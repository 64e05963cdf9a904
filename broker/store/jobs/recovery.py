"""Opens a job store's index: goes on with it where it fits the journal, else makes it again.

All of it blocks; for a thread, while nobody else uses the journal.
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from pathlib import Path
from typing import Final

from broker.store.jobs.index import Coverage, JobIndex
from broker.store.jobs.scheduler import apply
from broker.store.journal.journal import Journal
from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.wire.kahadb.journal import Location, segment_number
from pyjms.wire.kahadb.reader import JournalRecord, Skipped

__all__ = ["INDEX", "delete_job_files", "recover"]

logger = logging.getLogger(__name__)

INDEX: Final = "pyjms-index.db"
_INDEX_FILES: Final = (INDEX, f"{INDEX}-wal", f"{INDEX}-shm")
_ACTIVEMQ_INDEX: Final = ("scheduleDB.data", "scheduleDB.redo", "scheduleDB.free")
_ASIDE: Final = "activemq-index"

Last = tuple[Location, bytes]


def delete_job_files(directory: Path) -> None:
    """Remove all jobs.

    Raises:
        OSError: something cannot be removed.
    """
    for path in directory.iterdir():
        if segment_number(path.name) is not None or path.name in (*_INDEX_FILES, *_ACTIVEMQ_INDEX):
            path.unlink()


def recover(
    directory: Path, journal: Journal, ignore_missing: bool
) -> tuple[JobIndex, Last | None]:
    """Return the index, in line with the journal, and the journal's last record.

    Raises:
        ResourceAllocationException: records are missing or damaged.
        OSError: the disk does not give or take something.
        sqlite3.Error: the index cannot be made.
    """
    if _move_aside(directory):
        _remove_index(directory)
    index, covered = _open(directory, journal)
    try:
        return index, _replay(index, journal, covered, ignore_missing)
    except BaseException:
        index.close()
        raise


def _move_aside(directory: Path) -> bool:
    """Put ActiveMQ's index out of its sight; return whether there was one."""
    found = [directory / name for name in _ACTIVEMQ_INDEX if (directory / name).exists()]
    if found:
        # first ours: after a crash here nothing would say that ActiveMQ wrote
        _remove_index(directory)
        aside = directory / _ASIDE
        aside.mkdir(exist_ok=True)
        for path in found:
            path.replace(aside / path.name)
        logger.info("ActiveMQ wrote %s: making the index of its jobs anew", directory)
    return bool(found)


def _remove_index(directory: Path) -> None:
    for name in _INDEX_FILES:
        (directory / name).unlink(missing_ok=True)


def _open(directory: Path, journal: Journal) -> tuple[JobIndex, Coverage | None]:
    """Return the index, and how far it reaches if that can be believed; else it is empty."""
    path = directory / INDEX
    try:
        index = JobIndex(path)
    except sqlite3.DatabaseError as e:
        logger.warning("%s cannot be used and is made anew: %s", path, e)
        _remove_index(directory)
        return JobIndex(path), None
    covered = index.covered()
    if covered is not None and not _fits(covered, journal):
        logger.warning("%s does not fit the journal and is made anew", path)
        covered = None
    if covered is None:
        index.clear()
    return index, covered


def _fits(covered: Coverage, journal: Journal) -> bool:
    """Whether the index covers a beginning of this very journal."""
    if covered.end > journal.end:
        return False
    try:
        return zlib.crc32(journal.read(covered.last)) == covered.digest
    except JMSException:
        return False


def _replay(
    index: JobIndex, journal: Journal, covered: Coverage | None, ignore_missing: bool
) -> Last | None:
    """Bring the index from where it is to the journal's end."""
    skipped: list[Skipped] = []
    replayed = 0
    last: JournalRecord | None = None
    for record in journal.records_from(None if covered is None else covered.end, skipped):
        command = record.command()
        apply(index, command, record.location, record.size)
        last = record
        replayed += 1
    _check(index, journal, skipped, ignore_missing)
    if replayed:
        logger.info("Recovery replayed %d records of the job journal", replayed)
    if last is not None:
        return last.location, last.payload
    return None if covered is None else (covered.last, journal.read(covered.last))


def _check(index: JobIndex, journal: Journal, skipped: list[Skipped], ignore_missing: bool) -> None:
    """See to it that all jobs' messages are there. (K23)"""
    damaged = {*journal.corrupt, *skipped}
    missing = index.count_outside_segments(journal.segments())
    if not damaged and not missing:
        return
    found = f"{len(damaged)} damaged places in the journal, {missing} jobs in missing files"
    if not ignore_missing:
        raise ResourceAllocationException(
            f"Detected missing/corrupt journal files in {journal.directory}: {found}",
            hint="put the files back, or set ignore_missing_journalfiles to go on without them",
        )
    logger.error("%s: %s; going on without them", journal.directory, found)
    index.retain_segments(journal.segments())
