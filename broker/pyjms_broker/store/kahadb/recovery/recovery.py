"""Opening of an open journal's index, which is brought up to date or rebuilt.

Theory of operation
-------------------

The journal is the source of truth; the index on disk is a checkpoint of it. The checkpoint includes
the location of the last record that it covers and that record's CRC-32. At the start:

1. The index is opened. It is discarded if it is damaged or has another version, or if a rebuild is
forced, either by a setting or because ActiveMQ has written to the journal since.
2. It is trusted if the covered record is still in the journal with the same digest, and no segment
behind it is missing. Otherwise the journal was replaced, truncated, or restored from a backup,
and the index is rebuilt from the first segment. If the journal ends before the covered record,
its end is lost (`find_lost_end`): missing segments make the start fail, as in step 4.
3. The records behind the covered one are replayed (`Replay`). The replay begins at the first record
of the oldest transaction that was open at the checkpoint, whose operations are needed at its
commit. Records are read in a worker thread, 2,000 at a time, and applied on the loop. A
checkpoint is written after every 20,000 changes, so memory is bounded, and an interrupted
recovery continues where it stopped.
4. Every message of the index must be in an existing, undamaged part of a segment. Otherwise the
start fails, or with `ignore_missing_journalfiles` drops those messages.
5. Open transactions are rolled back; prepared ones wait for their transaction manager.
Replaying is deterministic: the same journal always gives the same index, so a crash during recovery
only costs time. (activemq-persistence K20 to K23)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread

from pyjms._logger import get_logger
from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import JournalRecord, Skipped
from pyjms.wire.openwire.commands import TransactionId
from pyjms_broker.store.damage import is_damage, quarantine_record
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import DiskSyncStrategy
from pyjms_broker.store.kahadb.index import IndexCorrupt, StoreIndex
from pyjms_broker.store.kahadb.message_database import DIRTY_LIMIT, MessageDatabase
from pyjms_broker.store.kahadb.recovery.lost_end import find_lost_end
from pyjms_broker.store.kahadb.recovery.replay import Replay
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.kahadb.transactions.operations import OpenTransaction
from pyjms_broker.store.private_files import make_private_directory

__all__ = ["Progress", "Recovered", "discard_index", "record_digest", "recover_store"]

logger = get_logger(__name__)

_CHUNK: Final = 2000
_CORRUPTED: Final = "corrupted"

Progress = Callable[[int, Location], None]
"""Called during recovery with the number of records read and the location of the last one."""


class Recovered(NamedTuple):
    """The result of a recovery."""

    last: Location | None
    """The last record of the journal."""
    transactions: dict[TransactionId, OpenTransaction]
    rebuilt: bool


def record_digest(payload: bytes) -> int:
    """Return the digest that distinguishes the covered record from others at its location."""
    return zlib.crc32(payload)


def discard_index(index: StoreIndex, path: Path, *, archive: bool) -> None:
    """Delete an unusable index, or move it to the directory `corrupted` beside it. Blocks."""
    index.close()
    if archive and path.exists():
        kept = path.parent / _CORRUPTED
        make_private_directory(kept)
        path.replace(kept / path.name)
    index.delete()


async def recover_store(
    db: MessageDatabase,
    settings: KahaDBSettings,
    path: Path,
    *,
    forced: bool = False,
    progress: Progress | None = None,
) -> Recovered:
    """Open the index at `path` and bring it up to date; with `forced`, rebuild it.

    Raises:
        ResourceAllocationException: the journal cannot be read, or segments are missing
            (activemq-persistence K23).
        OSError: the index can be neither opened nor created.
    """
    journal, index, archive = db.journal, db.index, settings.archive_corrupted_index
    await anyio.to_thread.run_sync(lambda: _open(index, path, forced=forced, archive=archive))
    covered = _covered(journal, index)
    if covered is None:
        _check_end(journal, index, ignore=settings.ignore_missing_journalfiles)
    if covered is None and index.covered() is not None:
        logger.warning("The index %s does not match the journal: rebuilding it", path)
        await anyio.to_thread.run_sync(lambda: _open(index, path, forced=True, archive=False))
    skipped: list[Skipped] = [*journal.corrupt]
    found = await _replay(db, covered, progress, skipped)
    _check_messages(journal, index, skipped, ignore=settings.ignore_missing_journalfiles)
    db.last = found.last
    return found


async def _replay(
    db: MessageDatabase, covered: Location | None, progress: Progress | None, skipped: list[Skipped]
) -> Recovered:
    journal, index = db.journal, db.index
    replay = Replay(db.updater, db.format, covered)
    start = covered
    if covered is not None and index.open_transactions is not None:
        start = min(covered, index.open_transactions)
    records = _readable(journal.records_from(start, skipped))
    last = covered
    count = 0
    while chunk := await anyio.to_thread.run_sync(_next_chunk, records):
        for record in chunk:
            try:
                replay.apply(record.location, record.payload)
            except Exception as error:
                if not is_damage(error):
                    raise
                quarantine_record(journal.directory, record.location, record.payload, error)
        last = chunk[-1].location
        count += len(chunk)
        index.open_transactions = replay.oldest_open_record()
        if index.dirty >= DIRTY_LIMIT:
            await _write(index, last, record_digest(chunk[-1].payload))
        if progress is not None:
            progress(count, last)
    return Recovered(last, replay.transactions, covered is None)


def _check_end(journal: Journal, index: StoreIndex, *, ignore: bool) -> None:
    """Check that the journal does not end before the last record that the index covers.

    Raises:
        ResourceAllocationException: its last segments are missing, and `ignore` is not set.
    """
    never = journal.settings.disk_sync_strategy is DiskSyncStrategy.NEVER
    lost = find_lost_end(index, journal.written, journal.read_unchecked, is_empty_missing=not never)
    if lost is None:
        return
    if lost.segments and not ignore:
        raise _missing(lost.segments, lost.text)
    logger.error("%s: %s", journal.directory, lost.text)


def _missing(file_ids: Iterable[int], losses: str = "") -> ResourceAllocationException:
    names = ", ".join(f"db-{file_id}.log" for file_id in sorted(file_ids))
    return ResourceAllocationException(
        f"Detected missing/corrupt journal files: {names}" + (f": {losses}" if losses else ""),
        hint="restore them, or set ignore_missing_journalfiles to lose their messages",
    )


def _covered(journal: Journal, index: StoreIndex) -> Location | None:
    """Return the location up to which the index can be trusted; None if it must be rebuilt.

    It reads that record; an unreadable record counts as missing.
    """
    known = index.covered()
    if known is None:
        return None
    location, digest = known
    segments = journal.segments()
    wanted = range(location.file_id, segments[-1] + 1) if segments else ()
    if not wanted or not set(wanted) <= set(segments) or location >= journal.written:
        return None
    try:
        payload = journal.read_unchecked(location)
    except JMSException:
        return None
    return location if record_digest(payload) == digest else None


def _check_messages(
    journal: Journal, index: StoreIndex, skipped: Iterable[Skipped], *, ignore: bool
) -> None:
    """Check that every message of the index is in the journal (activemq-persistence K23).

    Raises:
        ResourceAllocationException: some are not, and `ignore` is not set.
    """
    holes = _holes(skipped)
    segments = set(journal.segments())
    missing = index.segments.message_counts().keys() - segments
    if not missing and not holes:
        return
    if not ignore:
        raise _missing(missing | holes.keys())
    dropped = 0
    for destination in index.destinations():
        for entry in list(destination.entries()):
            inside = any(a <= entry.offset < b for a, b in holes.get(entry.file_id, ()))
            if entry.file_id in missing or inside:
                destination.remove(entry.position)
                dropped += 1
    logger.error("Missing or corrupt journal files: %d messages were dropped", dropped)


def _holes(skipped: Iterable[Skipped]) -> dict[int, list[tuple[int, int]]]:
    holes: dict[int, list[tuple[int, int]]] = {}
    for each in skipped:
        holes.setdefault(each.file_id, []).append((each.start, each.end))
    return holes


def _next_chunk(records: Iterator[JournalRecord]) -> list[JournalRecord]:
    return list(islice(records, _CHUNK))


def _readable(records: Iterator[JournalRecord]) -> Iterator[JournalRecord]:
    try:
        yield from records
    except (OSError, KahaDBFormatError) as error:
        raise ResourceAllocationException(f"Cannot read the journal: {error}") from error


async def _write(index: StoreIndex, last: Location, digest: int) -> None:
    frozen = index.begin_checkpoint(last, digest)
    await anyio.to_thread.run_sync(index.write_checkpoint, frozen)
    index.complete_checkpoint(frozen)


def _open(index: StoreIndex, path: Path, *, forced: bool, archive: bool) -> None:
    """Open the index; replace it by an empty one if it is damaged or `forced` is set. Blocks.

    Raises:
        OSError: it can be neither opened nor created.
    """
    if not forced:
        try:
            index.open()
        except IndexCorrupt as error:
            logger.warning("Rebuilding the index %s: %s", path, error)
        else:
            return
    discard_index(index, path, archive=archive and not forced)
    index.open()
