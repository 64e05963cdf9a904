"""Opens the index of an open journal: brings it up to date, or builds it anew. (persistence K20
to K23)

The index is good if the record up to which it covers the journal is still there and nothing is
missing behind it; else it is built from the whole journal, which always gives the same. What
the index needs and the journal has not any more is lost: the start fails, unless told not to.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread

from broker.store.journal.journal import Journal
from broker.store.kahadb.index import IndexCorrupt, StoreIndex
from broker.store.kahadb.message_database import DIRTY_LIMIT, MessageDatabase
from broker.store.kahadb.recovery.replay import Replay
from broker.store.kahadb.settings import KahaDBSettings
from broker.store.kahadb.transactions.operations import OpenTransaction
from pyjms.errors import JMSException, RemoteProtocolError, ResourceAllocationException
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import JournalRecord, Skipped
from pyjms.wire.openwire.commands import TransactionId

__all__ = ["Progress", "Recovered", "discard_index", "record_digest", "recover_store"]

logger = logging.getLogger(__name__)

_CHUNK: Final = 2000
_CORRUPTED: Final = "corrupted"

Progress = Callable[[int, Location], None]
"""Called now and then with the records read so far and where the last one is."""


class Recovered(NamedTuple):
    """What a start found."""

    last: Location | None
    """The last record of the journal."""
    transactions: dict[TransactionId, OpenTransaction]
    rebuilt: bool


def record_digest(payload: bytes) -> int:
    """Return what tells a covered record from another one in its place."""
    return zlib.crc32(payload)


def discard_index(index: StoreIndex, path: Path, *, archive: bool) -> None:
    """Delete an index that cannot be used, or put it into `corrupted` beside it. Blocks."""
    index.close()
    if archive and path.exists():
        kept = path.parent / _CORRUPTED
        kept.mkdir(exist_ok=True)
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
    """Open the index in `path` and bring it up to the journal's end; with `forced`, from nothing.

    Raises:
        ResourceAllocationException: the journal cannot be read, or misses something. (K23)
        OSError: the index can be neither opened nor made.
    """
    journal, index, archive = db.journal, db.index, settings.archive_corrupted_index
    await anyio.to_thread.run_sync(lambda: _open(index, path, forced=forced, archive=archive))
    covered = _covered(journal, index)
    if covered is None and index.covered() is not None:
        logger.warning("The index in %s is not this journal's: it is built anew", path)
        await anyio.to_thread.run_sync(lambda: _open(index, path, forced=True, archive=False))
    skipped: list[Skipped] = [*journal.corrupt]
    found = await _replay(db, covered, progress, skipped)
    _check_messages(journal, index, skipped, ignore=settings.ignore_missing_journalfiles)
    db.last = found.last
    return found


async def _replay(
    db: MessageDatabase,
    covered: Location | None,
    progress: Progress | None,
    skipped: list[Skipped],
) -> Recovered:
    journal, index = db.journal, db.index
    replay = Replay(db.updater, db.format, covered)
    start = covered
    if covered is not None and index.open_transactions is not None:
        start = min(covered, index.open_transactions)
    records = _damage_named(journal.records_from(start, skipped))
    last = covered
    count = 0
    while chunk := await anyio.to_thread.run_sync(_take, records):
        for record in chunk:
            try:
                replay.apply(record.location, record.payload)
            except RemoteProtocolError as error:
                raise ResourceAllocationException(
                    f"The record at {record.location} cannot be understood: {error}",
                    hint="the journal is damaged, or of a newer version",
                ) from error
        last = chunk[-1].location
        count += len(chunk)
        index.open_transactions = replay.oldest_open_record()
        if index.dirty >= DIRTY_LIMIT:
            await _write(index, last, record_digest(chunk[-1].payload))
        if progress is not None:
            progress(count, last)
    return Recovered(last, replay.transactions, covered is None)


def _covered(journal: Journal, index: StoreIndex) -> Location | None:
    """Return up to where the index can be relied on; None: it must be built anew.

    Reads one record. Raises nothing: what cannot be read is not there.
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
        payload = journal.read(location)
    except JMSException:
        return None
    return location if record_digest(payload) == digest else None


def _check_messages(
    journal: Journal, index: StoreIndex, skipped: Iterable[Skipped], *, ignore: bool
) -> None:
    """Make sure that every message of the index is in the journal. (K23)

    Raises:
        ResourceAllocationException: some are not, and `ignore` does not say to drop them.
    """
    holes = _holes(skipped)
    segments = set(journal.segments())
    missing = index.segments.message_counts().keys() - segments
    if not missing and not holes:
        return
    if not ignore:
        names = [f"db-{file_id}.log" for file_id in sorted(missing | holes.keys())]
        raise ResourceAllocationException(
            f"Detected missing/corrupt journal files: {', '.join(names)}",
            hint="ignore_missing_journalfiles=True starts without what they held",
        )
    dropped = 0
    for destination in index.destinations():
        for entry in list(destination.entries()):
            inside = any(a <= entry.offset < b for a, b in holes.get(entry.file_id, ()))
            if entry.file_id in missing or inside:
                destination.remove(entry.position)
                dropped += 1
    logger.error("Missing or corrupt journal files: %d messages are lost", dropped)


def _holes(skipped: Iterable[Skipped]) -> dict[int, list[tuple[int, int]]]:
    holes: dict[int, list[tuple[int, int]]] = {}
    for each in skipped:
        holes.setdefault(each.file_id, []).append((each.start, each.end))
    return holes


def _take(records: Iterator[JournalRecord]) -> list[JournalRecord]:
    return list(islice(records, _CHUNK))


def _damage_named(records: Iterator[JournalRecord]) -> Iterator[JournalRecord]:
    try:
        yield from records
    except (OSError, KahaDBFormatError) as error:
        raise ResourceAllocationException(f"The journal cannot be read: {error}") from error


async def _write(index: StoreIndex, last: Location, digest: int) -> None:
    frozen = index.begin_checkpoint(last, digest)
    await anyio.to_thread.run_sync(index.write_checkpoint, frozen)
    index.complete_checkpoint(frozen)


def _open(index: StoreIndex, path: Path, *, forced: bool, archive: bool) -> None:
    """Open the index; one that is damaged, or not wanted any more, begins empty. Blocks.

    Raises:
        OSError: it can be neither opened nor made.
    """
    if not forced:
        try:
            index.open()
        except IndexCorrupt as error:
            logger.warning("The index in %s is built anew: %s", path, error)
        else:
            return
    discard_index(index, path, archive=archive and not forced)
    index.open()
