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
checkpoint is written after every 10,000 changes, so memory is bounded, and an interrupted
recovery continues where it stopped.
4. Every message of the index must be in an existing, undamaged part of a segment. Otherwise the
start fails, or with `ignore_missing_journalfiles` drops those messages.
5. Open transactions are rolled back; prepared ones wait for their transaction manager.
Replaying is deterministic: the same journal always gives the same index, so a crash during recovery
only costs time. (activemq-persistence K20 to K23)

Replay. The journal was written by this store or by ActiveMQ. Records are applied in journal order
by the same methods of the index that the running store uses; see `StoreIndex` for the reason why
both give the same index.

Covered records. A replay that continues an index begins at the oldest transaction that was open at
its checkpoint, before the covered location. Up to that location only the records of transactions
are used (they fill `transactions`); all others are already in the index.

Transactions. Operations are collected in `transactions` by transaction id and applied at the commit
record; a rollback drops them. A trace record before a commit says which of its additions were
duplicates, and how many messages it has in each segment, in case some of the segments have been
deleted. The caller resolves the transactions that are still open at the end.

Arrival numbers. Trace records at the beginning of each segment contain all destinations' next
numbers, so the numbering continues across deleted segments. ActiveMQ writes no such records: where
a segment is missing and the next one does not begin with numbers, each destination starts a new
epoch, which tells readers that store numbers (Spark) that theirs are no longer valid.
(activemq-persistence K21, K22)

Removed destinations. The record of a removal is deleted with its segment, while an older segment
that is kept for another destination's message still lists the destination in its header. At each
header, a new index therefore drops the empty destinations that are not listed in it.

Lost ends. The index is written only when the journal is durable up to the record that it covers. A
journal that ends earlier has therefore lost its last segments, or the end of its last segment, and
the index still lists the lost messages. An index that belongs to another journal is recognized by
the fact that none of its messages is found at its location.

A directory that ActiveMQ has used stays usable for it. ActiveMQ trusts its index if there is one.
Its index is therefore archived before our first write; without it, ActiveMQ replays the journal.
The presence of ActiveMQ's index also shows that ActiveMQ has written to the journal since our last
start. (decisions D7; activemq-persistence K1, K27)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio.to_thread

from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb import commands
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommand,
    KahaDestination,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.frames import from_kaha_destination, from_transaction_info
from pyjms.wire.kahadb.journal import Location, segment_name, segment_number
from pyjms.wire.kahadb.segments import JournalRecord, Skipped
from pyjms.wire.openwire.commands import TransactionId
from pyjms_broker.store.damage import is_damage, quarantine_record
from pyjms_broker.store.files import make_private_directory
from pyjms_broker.store.journal.disk import Disk
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import DiskSyncStrategy
from pyjms_broker.store.kahadb.index import (
    DestinationIndex,
    IndexCorrupt,
    IndexEntry,
    MessageMetadata,
    StoreIndex,
    TopicIndex,
)
from pyjms_broker.store.kahadb.index.destination import DIRTY_LIMIT
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import (
    ARRIVALS,
    AUDIT,
    DUPLICATES,
    TRANSACTION,
    RecordFormat,
    check_trace,
    is_pyjms_update,
    kaha_destination,
    message_metadata,
    parse_trace,
)
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.kahadb.transactions import OpenTransaction, Operation, apply_operations

logger = get_logger(__name__)

_NOWHERE: Final = Location(0, -1)


class Replay:
    """One pass over a journal. `transactions` are those open at the current record."""

    def __init__(
        self, index: StoreIndex, record_format: RecordFormat, covered: Location | None = None
    ) -> None:
        """Continue behind `covered`; None for a new index: replay the whole journal."""
        self.transactions: dict[TransactionId, OpenTransaction] = {}
        self.applied = 0
        self._index = index
        self._format = record_format
        self._new = covered is None
        self._covered = covered or _NOWHERE
        self._file_id = 0
        self._records = 0
        """The number of the current record in its segment."""
        self._has_header = False
        self._unnumbered = False
        self._renumbered: set[str] = set()
        self._is_pyjms_update = False
        self._latest: tuple[KahaTransactionInfo, TransactionId] | None = None
        self._handlers: dict[type[KahaCommand], Callable[[Any, Location], None]] = {
            commands.KahaTraceCommand: self._trace,
            commands.KahaAddMessageCommand: self._add,
            commands.KahaRemoveMessageCommand: self._remove,
            commands.KahaPrepareCommand: self._prepare,
            commands.KahaCommitCommand: self._commit,
            commands.KahaRollbackCommand: self._rollback,
            commands.KahaRemoveDestinationCommand: self._remove_destination,
            commands.KahaSubscriptionCommand: self._subscription,
            commands.KahaUpdateMessageCommand: self._update,
        }
        self._trace_handlers: dict[str, Callable[[Any, Location], None]] = {
            ARRIVALS: self._arrivals,
            AUDIT: self._audit,
            DUPLICATES: self._duplicates,
        }

    def apply(self, location: Location, payload: bytes) -> None:
        """Apply the next record.

        Raises:
            RemoteProtocolError, ValueError, LookupError: the record is damaged, although its
                batch is not.
        """
        command = decode_command(payload)
        if location.file_id != self._file_id:
            if self._new:
                self._enter_segment(location.file_id, command)
            self._file_id = location.file_id
            self._records, self._has_header = 0, False
        self._records += 1
        handler = self._handlers.get(type(command))
        if handler is not None:
            self._is_pyjms_update = is_pyjms_update(payload)
            handler(command, location)
            self.applied += 1

    def oldest_open_record(self) -> Location | None:
        """Return the first record of the oldest open transaction; None if none is open."""
        return min((t.first for t in self.transactions.values() if t.first), default=None)

    # -- segments and destinations

    def _enter_segment(self, file_id: int, first: KahaCommand) -> None:
        if file_id == self._file_id + 1:
            return
        trace = parse_trace(first.message) if isinstance(first, commands.KahaTraceCommand) else None
        if trace is not None and trace.kind in {ARRIVALS, AUDIT}:
            return
        self._unnumbered = True
        for destination in self._index.destinations():
            destination.begin(file_id << 32, destination.last_arrival)
            self._renumbered.add(destination.key)

    def _destination(
        self, destination: KahaDestination, location: Location, prioritized: bool = False
    ) -> DestinationIndex:
        known = self._index.lookup(destination)
        if known is None:
            known = self._index.destination(destination, prioritized)
            known.begin(location.file_id << 32 | location.offset, 0)
            if self._unnumbered:
                self._renumbered.add(known.key)
        return known

    # -- messages

    def _read_addition(
        self, command: commands.KahaAddMessageCommand, location: Location
    ) -> tuple[DestinationIndex, MessageMetadata]:
        """Return the destination of a message that a record adds, and its metadata."""
        prioritized = bool(command.priority_supported)
        destination = self._destination(command.destination, location, prioritized)
        message = self._format.decode(command.message)
        return destination, message_metadata(message, command.message_id, prioritized=prioritized)

    def _add(self, command: commands.KahaAddMessageCommand, location: Location) -> None:
        if command.transaction_info is not None:
            self._add_operation(command, location, command.transaction_info)
        elif location > self._covered:
            destination, metadata = self._read_addition(command, location)
            destination.apply_add(metadata, location, hidden=False)

    def _update(self, command: commands.KahaUpdateMessageCommand, location: Location) -> None:
        if location <= self._covered:
            return
        destination, metadata = self._read_addition(command.message, location)
        if destination.apply_update(metadata, location) is not None:
            return
        if not self._is_pyjms_update:  # ActiveMQ deletes the segment of the add record
            destination.apply_add(metadata, location, hidden=False)

    def _remove(self, command: commands.KahaRemoveMessageCommand, location: Location) -> None:
        key = command.subscription_key
        if command.transaction_info is not None:
            self._add_operation(command, location, command.transaction_info)
        elif location > self._covered:
            destination = self._index.lookup(command.destination)
            if destination is None:
                return
            if key is None:
                destination.apply_removal(command.message_id, location)
            elif isinstance(destination, TopicIndex):
                entry = destination.find(command.message_id)
                if entry is not None:
                    destination.apply_acknowledgement(key, entry, location)

    def _subscription(self, command: commands.KahaSubscriptionCommand, location: Location) -> None:
        if location <= self._covered:
            return
        topic = self._destination(command.destination, location)
        if not isinstance(topic, TopicIndex):
            logger.warning("Skipping a durable subscription of %s, which is not a topic", topic.key)
            return
        key, info = command.subscription_key, command.subscription_info
        if info is None:
            topic.apply_unsubscription(key, location)
        else:
            topic.apply_subscription(key, info, bool(command.retroactive), location)

    def _remove_destination(
        self, command: commands.KahaRemoveDestinationCommand, location: Location
    ) -> None:
        for transaction in self.transactions.values():  # they may still be open at the end
            transaction.discard_destination(command.destination.key, location)
        if location > self._covered:
            self._index.apply_destination_removal(command.destination, location)

    # -- transactions

    def _add_operation(
        self,
        command: commands.KahaAddMessageCommand | commands.KahaRemoveMessageCommand,
        location: Location,
        info: KahaTransactionInfo,
    ) -> None:
        metadata = None
        prioritized = False
        if isinstance(command, commands.KahaAddMessageCommand):
            prioritized = bool(command.priority_supported)
            message = self._format.decode(command.message)
            metadata = message_metadata(message, command.message_id, prioritized=prioritized)
        operation = Operation(
            command.destination,
            command.message_id,
            metadata=metadata,
            key=command.subscription_key
            if isinstance(command, commands.KahaRemoveMessageCommand)
            else None,
            prioritized=prioritized,
            location=location,
        )
        transaction = self._transaction(info, location)
        transaction.operations.append(operation)
        transaction.journalled += 1

    def _transaction(self, info: KahaTransactionInfo, location: Location) -> OpenTransaction:
        latest = self._latest
        if latest is None or latest[0] is not info:  # the codec reuses the object for equal bytes
            self._latest = latest = (info, from_transaction_info(info))
        xid = latest[1]
        transaction = self.transactions.get(xid)
        if transaction is None:
            transaction = self.transactions[xid] = OpenTransaction()
        transaction.note_record(location)
        return transaction

    def _prepare(self, command: commands.KahaPrepareCommand, location: Location) -> None:
        self._transaction(command.transaction_info, location).prepared = True

    def _commit(self, command: commands.KahaCommitCommand, location: Location) -> None:
        transaction = self.transactions.pop(from_transaction_info(command.transaction_info), None)
        if transaction is None or location <= self._covered:
            return
        for operation in transaction.operations:
            if operation.metadata is not None and not operation.dropped:
                self._destination(operation.destination, location, operation.prioritized)
        apply_operations(self._index, transaction, location, hidden=False)

    def _rollback(self, command: commands.KahaRollbackCommand, location: Location) -> None:
        transaction = self.transactions.pop(from_transaction_info(command.transaction_info), None)
        if transaction is not None and location > self._covered:
            self._index.apply_end(location, transaction.files)

    # -- traces

    def _trace(self, command: commands.KahaTraceCommand, location: Location) -> None:
        trace = parse_trace(command.message)
        if trace is None:
            return
        check_trace(trace)
        if trace.kind == TRANSACTION:
            self._transaction_trace(trace.value, location)
        elif location > self._covered:
            self._trace_handlers[trace.kind](trace.value, location)

    def _transaction_trace(self, value: Any, location: Location) -> None:
        name, dropped, counts = value
        transaction = next((t for xid, t in self.transactions.items() if str(xid) == name), None)
        if transaction is None:
            return
        locations = {(file_id, offset) for file_id, offset in dropped}
        for operation in transaction.operations:
            operation.dropped = operation.location in locations
        transaction.counts = counts
        if location > self._covered:
            self._index.apply_end(location, transaction.files)
        transaction.note_record(location)

    def _arrivals(self, value: Any, location: Location) -> None:
        if self._has_header and self._records == 2:
            self._forget_removed(value)
        for key, (epoch, following) in value.items():
            destination = self._destination(kaha_destination(key), location)
            last = following - 1
            if key in self._renumbered and destination.count:
                # The index already has messages numbered in the new epoch: keep the epoch.
                destination.begin(destination.epoch, max(last, destination.last_arrival))
                continue
            self._renumbered.discard(key)
            if destination.epoch == epoch:
                last = max(last, destination.last_arrival)
            destination.begin(epoch, last)

    def _forget_removed(self, listed: dict[str, Any]) -> None:
        """Remove the empty destinations that a segment's header does not list."""
        for destination in self._index.destinations():
            subscribed = isinstance(destination, TopicIndex) and destination.subscriptions
            if destination.key not in listed and not destination.count and not subscribed:
                self._index.remove_destination(destination.destination)
                self._renumbered.discard(destination.key)

    def _audit(self, value: Any, location: Location) -> None:
        index = self._index
        # a replay that continues an index may begin in the middle of a segment
        self._has_header = self._new and self._records == 1
        index.last_broker_sequence_id = max(index.last_broker_sequence_id, value["last"])
        for producer, sequence in value["producers"].items():
            index.producers.record(producer, sequence)
        self._format.version = value["openwire"]

    def _duplicates(self, value: Any, location: Location) -> None:
        for key, ids in value.items():
            window = self._destination(kaha_destination(key), location).duplicates
            known = [each for each in ids if each in window]
            window.relocate(known, location.file_id)
            for each in ids:
                window.add(each, location.file_id)


_SAMPLES: Final = 20
_NAMED: Final = 20


class LostEnd(NamedTuple):
    """Data that the index covers but the journal does not contain."""

    segments: tuple[int, ...]
    """The missing or empty segments; empty if the last one was truncated."""
    text: str
    """The end of the journal, and the lost messages that the index knows, in words."""


def find_lost_end(
    index: StoreIndex,
    end: Location,
    read: Callable[[Location], bytes],
    *,
    is_empty_missing: bool = True,
) -> LostEnd | None:
    """Return the lost data; None if there is none, or the index is another journal's. Blocks.

    Args:
        index: the index, as it was opened.
        end: where the journal ends.
        read: returns the payload of a record before the end.
        is_empty_missing: whether a last segment without a batch counts as missing; False if
            the journal is never synced.
    """
    known = index.coverage()
    if known is None or known[0] < end or not _matches_journal(index, end, read):
        return None
    covered = known[0]
    has_end = bool(end.offset) or not is_empty_missing
    missing = tuple(range(end.file_id + has_end, covered.file_id + 1))
    losses = [text for d in index.destinations() if (text := _losses(d, end))]
    named = losses[:_NAMED]
    if len(losses) > _NAMED:
        named.append(f"messages of {len(losses) - _NAMED} more destinations")
    return LostEnd(
        missing,
        f"the journal ends at {_text(end)}, but its index covers it up to {_text(covered)}. "
        f"Lost: {'; '.join(named) or 'no message that the index knows'}. "
        "Messages whose acknowledgements were there are delivered again",
    )


def _matches_journal(index: StoreIndex, end: Location, read: Callable[[Location], bytes]) -> bool:
    """Return whether the index's locations have its messages; True if it has no messages."""
    found = True
    for entry in islice(_entries_before(index, end), _SAMPLES):
        try:
            command = decode_command(read(entry.location))
        except JMSException:
            found = False  # damage, or another journal: the next message will tell
            continue
        if isinstance(command, KahaUpdateMessageCommand):
            command = command.message
        found = (
            isinstance(command, KahaAddMessageCommand) and command.message_id == entry.message_id
        )
        if found:
            return True
    return found


def _entries_before(index: StoreIndex, end: Location) -> Iterator[IndexEntry]:
    for destination in index.destinations():
        for entry in destination.entries():
            if entry.location < end:
                yield entry


def _losses(destination: DestinationIndex, end: Location) -> str:
    """Describe the lost messages of a destination; empty if there are none."""
    lost = [entry.position for entry in destination.entries() if entry.location >= end]
    if not lost:
        return ""
    name = from_kaha_destination(destination.destination).qualified_name
    text = f"{len(lost)} messages of {name}"
    if isinstance(destination, TopicIndex):
        pending = {
            key: sum(destination.is_pending(key, position) for position in lost)
            for key in destination.subscriptions
        }
        named = ", ".join(f"{count} of {key}" for key, count in pending.items() if count)
        text += f" (pending for durable subscriptions: {named or 'none'})"
    return text


def _text(location: Location) -> str:
    return f"{segment_name(location.file_id)}:{location.offset}"


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
    covered = trusted_location(index, journal.segments(), journal.read_unchecked)
    if covered is not None and covered >= journal.written:
        covered = None
    if covered is None:
        _check_end(journal, index, ignore=settings.ignore_missing_journalfiles)
    if covered is None and index.coverage() is not None:
        logger.warning("The index %s does not match the journal: rebuilding it", path)
        await anyio.to_thread.run_sync(lambda: _open(index, path, forced=True, archive=False))
    skipped: list[Skipped] = [*journal.corrupt]
    found = await _replay(db, covered, progress, skipped)
    _check_messages(journal, index, skipped, ignore=settings.ignore_missing_journalfiles)
    db.journal.last = found.last
    return found


async def _replay(
    db: MessageDatabase, covered: Location | None, progress: Progress | None, skipped: list[Skipped]
) -> Recovered:
    journal, index = db.journal, db.index
    replay = Replay(db.index, db.format, covered)
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
    """Check that the journal does not end before the last record that the index covers."""
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


def trusted_location(
    index: StoreIndex, segments: Sequence[int], read: Callable[[Location], bytes]
) -> Location | None:
    """Return the location up to which the index can be trusted; None if it must be rebuilt.

    `read` returns the payload of that record; an unreadable record counts as missing.
    """
    known = index.coverage()
    if known is None:
        return None
    location, digest = known
    wanted = range(location.file_id, segments[-1] + 1) if segments else ()
    if not wanted or not set(wanted) <= set(segments):
        return None
    try:
        payload = read(location)
    except (JMSException, FileNotFoundError):
        return None
    return location if record_digest(payload) == digest else None


def _check_messages(
    journal: Journal, index: StoreIndex, skipped: Iterable[Skipped], *, ignore: bool
) -> None:
    """Check that every message of the index is in the journal (activemq-persistence K23)."""
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
    """Open the index; replace it by an empty one if it is damaged or `forced` is set. Blocks."""
    if not forced:
        try:
            index.open()
        except IndexCorrupt as error:
            logger.warning("Rebuilding the index %s: %s", path, error)
        else:
            return
    discard_index(index, path, archive=archive and not forced)
    index.open()


INDEX_FILES: Final = ("db.data", "db.redo", "db.free")
OUR_INDEX: Final = "pyjms-index.db"
_ARCHIVE: Final = "activemq-index"


def archive_activemq_index(
    directory: Path, disk: Disk, index_directory: Path | None = None
) -> bool:
    """Move ActiveMQ's index to the directory `activemq-index`; return whether there was one.

    A previously archived index is replaced. Blocks.
    """
    found = False
    for folder in {directory, index_directory or directory}:
        names = disk.names(folder) if folder.is_dir() else {}
        for name in INDEX_FILES:
            if name in names:
                disk.make_directory(folder / _ARCHIVE)
                disk.rename(folder / name, folder / _ARCHIVE / name)
                found = True
        if found:
            disk.sync_directory(folder)
    if found:
        logger.info("ActiveMQ has used %s: moved its index to %s", directory, _ARCHIVE)
    return found


def delete_files(directory: Path, index_directory: Path, disk: Disk) -> None:
    """Delete the journal and all indexes, ours and ActiveMQ's. Blocks."""
    for folder in {directory, index_directory}:
        names = disk.names(folder)
        for name in names:
            ours = segment_number(name) is not None or name.startswith(OUR_INDEX)
            if ours or name in INDEX_FILES:
                disk.remove(folder / name)
        disk.sync_directory(folder)
