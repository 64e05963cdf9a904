"""Opening of a job store's index, which is rebuilt if it does not match the journal.

All functions block: call them in a thread, while nothing else uses the journal.
"""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path
from typing import Final

from pyjms._logger import get_logger
from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.wire.kahadb.journal import Location, segment_number
from pyjms.wire.kahadb.reader import JournalRecord, Skipped
from pyjms_broker.store.damage import is_damage, quarantine_record
from pyjms_broker.store.jobs.index import Coverage, JobIndex
from pyjms_broker.store.jobs.scheduler import apply
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.private_files import make_private_directory

__all__ = ["INDEX", "delete_job_files", "recover"]

logger = get_logger(__name__)

INDEX: Final = "pyjms-index.db"
_INDEX_FILES: Final = (INDEX, f"{INDEX}-wal", f"{INDEX}-shm")
_ACTIVEMQ_INDEX: Final = ("scheduleDB.data", "scheduleDB.redo", "scheduleDB.free")
_ARCHIVE: Final = "activemq-index"

Last = tuple[Location, bytes]


def delete_job_files(directory: Path) -> None:
    """Remove the journal and the indexes, and thereby all jobs.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in directory.iterdir():
        if segment_number(path.name) is not None or path.name in (*_INDEX_FILES, *_ACTIVEMQ_INDEX):
            path.unlink()


def recover(
    directory: Path, journal: Journal, ignore_missing: bool
) -> tuple[JobIndex, Last | None]:
    """Return the index, brought up to date with the journal, and the journal's last record.

    Raises:
        ResourceAllocationException: records are missing or damaged.
        OSError: a file cannot be read or written.
        sqlite3.Error: the index cannot be created.
    """
    if _archive_activemq_index(directory):
        _remove_index(directory)
    index, covered = _open(directory, journal)
    try:
        return index, _replay(index, journal, covered, ignore_missing)
    except BaseException:
        index.close()
        raise


def _archive_activemq_index(directory: Path) -> bool:
    """Move ActiveMQ's index out of ActiveMQ's sight; return whether there was one."""
    found = [directory / name for name in _ACTIVEMQ_INDEX if (directory / name).exists()]
    if found:
        # Our index first: ActiveMQ's is the only evidence, after a crash, that ActiveMQ wrote.
        _remove_index(directory)
        archive = directory / _ARCHIVE
        make_private_directory(archive)
        for path in found:
            path.replace(archive / path.name)
        logger.info("ActiveMQ has written to %s: rebuilding the job index", directory)
    return bool(found)


def _remove_index(directory: Path) -> None:
    for name in _INDEX_FILES:
        (directory / name).unlink(missing_ok=True)


def _open(directory: Path, journal: Journal) -> tuple[JobIndex, Coverage | None]:
    """Return the index and its coverage of the journal; (empty, None) if it is not usable."""
    path = directory / INDEX
    try:
        index = JobIndex(path)
    except sqlite3.DatabaseError as e:
        logger.warning("%s cannot be used and is rebuilt: %s", path, e)
        _remove_index(directory)
        return JobIndex(path), None
    covered = index.covered()
    if covered is not None and not _matches(covered, journal):
        logger.warning("%s does not match the journal and is rebuilt", path)
        covered = None
    if covered is None:
        index.clear()
    return index, covered


def _matches(covered: Coverage, journal: Journal) -> bool:
    """Return whether the index covers an initial part of this journal."""
    if covered.end > journal.end:
        return False
    try:
        return zlib.crc32(journal.read_unchecked(covered.last)) == covered.digest
    except JMSException:
        return False


def _replay(
    index: JobIndex, journal: Journal, covered: Coverage | None, ignore_missing: bool
) -> Last | None:
    """Apply the records that the index does not cover yet; return the last record."""
    skipped: list[Skipped] = []
    replayed = 0
    last: JournalRecord | None = None
    for record in journal.records_from(None if covered is None else covered.end, skipped):
        try:
            apply(index, record.command(), record.location, record.size)
        except Exception as error:
            if not is_damage(error) and not isinstance(error, sqlite3.IntegrityError):
                raise
            quarantine_record(journal.directory, record.location, record.payload, error)
        last = record
        replayed += 1
    _check(index, journal, skipped, ignore_missing)
    if replayed:
        logger.info("Recovery replayed %d records of the job journal", replayed)
    if last is not None:
        return last.location, last.payload
    return None if covered is None else (covered.last, journal.read_unchecked(covered.last))


def _check(index: JobIndex, journal: Journal, skipped: list[Skipped], ignore_missing: bool) -> None:
    """Check that no segment with a job's message is missing or damaged.

    (activemq-persistence K23)
    """
    damaged = {*journal.corrupt, *skipped}
    missing = index.count_outside_segments(journal.segments())
    if not damaged and not missing:
        return
    found = f"{len(damaged)} damaged areas in the journal, {missing} jobs in missing segments"
    if not ignore_missing:
        raise ResourceAllocationException(
            f"Detected missing/corrupt journal files in {journal.directory}: {found}",
            hint="restore the files, or set ignore_missing_journalfiles to start without them",
        )
    logger.error("%s: %s; starting without them", journal.directory, found)
    index.retain_segments(journal.segments())
