"""The open transactions of a KahaDB store, up to their commit or rollback.

Theory of operation
-------------------

A transaction's operations are kept in memory (`OpenTransaction`) and appended to the journal,
with the transaction's id in each record, at the latest by its prepare or commit:

    open       4 MiB of messages          -> open, its operations so far are in the journal
    open       prepare                    -> prepared: all operations and the prepare, synced
    open       commit                     -> committed: all operations and the commit, synced
    open       rollback                   -> removed; a rollback record only if it has records
    prepared   commit, rollback           -> its record, synced
    prepared   restart                    -> prepared and `recovered`
    open       restart                    -> rolled back

A commit thus costs one sync regardless of the number of messages, and a transaction that is rolled
back early leaves nothing in the journal.

Nothing is applied to the index before the commit record is appended. Then all operations are
applied in the order of the calls, and the messages get their arrival numbers. Messages that a
prepared transaction has acknowledged are hidden in the index until it ends.

Duplicates are also detected at the end, by comparison with the messages stored at that time.
Duplicate additions that are not in the journal yet are simply omitted. Those that are in the
journal are listed in a trace record before the commit, so that a replay drops them as well. The
trace record also has the number of messages in each segment, for a replay after some of these
segments were deleted.

`OpenTransaction.first` determines where a recovery must begin to read: a checkpoint stores the
oldest one in the index. (activemq-persistence K13, K15, K22, S6)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.commands import (
    KahaCommitCommand,
    KahaDestination,
    KahaPrepareCommand,
    KahaRollbackCommand,
)
from pyjms.wire.kahadb.frames import decode_subscription_info, from_kaha_destination
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, TransactionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import MessageReference, Position, StoredMessage, SubscriptionKey
from pyjms_broker.store.api import RecoveredTransaction
from pyjms_broker.store.kahadb.index import (
    DestinationIndex,
    MessageMetadata,
    StoreIndex,
    TopicIndex,
)
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import (
    TRANSACTION,
    RecordFormat,
    add_record,
    destination_field,
    remove_record,
    trace_record,
    transaction_field,
    transaction_record,
)


class Operation:
    """One addition (with metadata), acknowledgement (with a key) or removal.

    `location` is None until it is journalled.
    """

    __slots__ = (
        "destination",
        "destination_removed",
        "dropped",
        "key",
        "location",
        "message_id",
        "metadata",
        "prioritized",
        "reference",
    )

    def __init__(
        self,
        destination: KahaDestination,
        message_id: str,
        *,
        metadata: MessageMetadata | None = None,
        key: str | None = None,
        prioritized: bool = False,
        reference: MessageReference | None = None,
        location: Location | None = None,
    ) -> None:
        self.destination = destination
        self.message_id = message_id
        self.metadata = metadata
        self.key = key
        self.prioritized = prioritized
        self.reference = reference
        self.location = location
        self.destination_removed = False
        """Whether its destination was removed, so that the commit drops it."""
        self.dropped = False
        """Whether it has no effect: it is a duplicate, or its destination was removed."""

    def encode(
        self,
        record_format: RecordFormat,
        part: bytes,
        transaction: bytes,
        xid: XATransactionId | None,
    ) -> bytes:
        """Return its record's payload; with `xid`, including the MessageAck that ActiveMQ needs.

        `part` and `transaction` are the encoded destination and transaction fields.
        """
        reference = self.reference
        assert reference is not None, "only operations without a record are encoded"
        if self.metadata is not None:
            message = reference.cached or reference.message
            frame = record_format.frame_parts(message)
            reference.raw_is_numbered = True
            return add_record(
                part, self.message_id, frame, message.priority, self.prioritized, transaction
            )
        ack = None
        if xid is not None:
            where = reference.destination.destination
            ack = record_format.prepared_ack(where, reference.message, xid)
        return remove_record(part, self.message_id, self.key, transaction, ack)


class OpenTransaction:
    """A transaction that has not ended."""

    __slots__ = ("counts", "files", "first", "journalled", "last", "operations", "prepared", "size")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.journalled = 0
        """The number of leading operations that have a record."""
        self.size = 0
        """The size of messages without a record, in bytes."""
        self.files: set[int] = set()
        """The segments that contain its records."""
        self.first: Location | None = None
        self.last: Location | None = None
        self.prepared = False
        self.counts: dict[str, list[list[int]]] = {}
        """Message counts by destination and segment, from a trace record, for a replay."""

    def note_record(self, location: Location) -> None:
        """Add the location of one of its records."""
        self.files.add(location.file_id)
        if self.first is None:
            self.first = location
        self.last = location

    def segments(self) -> range:
        """Return the segments from its first to its last record. (activemq-persistence K17)"""
        if self.first is None or self.last is None:
            return range(0)
        return range(self.first.file_id, self.last.file_id + 1)

    def has_journalled(self, key: str) -> bool:
        """Return whether one of its records concerns a destination."""
        return any(each.destination.key == key for each in self.operations[: self.journalled])

    def discard_destination(self, key: str, location: Location) -> None:
        """Drop the operations on a destination that the record at `location` removed.

        That record is kept as long as the records that it invalidates.
        """
        written, waiting = self.operations[: self.journalled], self.operations[self.journalled :]
        if self.has_journalled(key):
            self.note_record(location)
            for operation in written:
                operation.destination_removed |= operation.destination.key == key
        waiting = [each for each in waiting if each.destination.key != key]
        self.operations = written + waiting
        self.size = sum([each.metadata.size for each in waiting if each.metadata is not None])


def open_segments(transactions: Iterable[OpenTransaction]) -> set[int]:
    """Return the segments from the first to the last record of each open transaction.

    (activemq-persistence K17)
    """
    return {file_id for each in transactions for file_id in each.segments()}


def apply_operations(
    index: StoreIndex, transaction: OpenTransaction, end: Location, *, hidden: bool
) -> None:
    """Apply a transaction's operations; its commit record is at `end`."""
    index.apply_end(end, transaction.files)
    numbers = _Numbers(index, transaction.counts)
    destinations: dict[tuple[int, bool], DestinationIndex] = {}
    for operation in transaction.operations:
        if not operation.dropped:
            where = (id(operation.destination), operation.prioritized)
            destination = destinations.get(where)
            if destination is None:
                if operation.metadata is not None:
                    destination = index.destination(operation.destination, operation.prioritized)
                else:
                    destination = index.lookup(operation.destination)
                if destination is None:
                    continue
                destinations[where] = destination
            location, metadata = operation.location, operation.metadata
            assert location is not None, "an operation has a record before it is applied"
            reference = operation.reference
            if metadata is not None:
                arrival = numbers.next(destination, location[0]) if transaction.counts else None
                entry = destination.apply_add(metadata, location, hidden=hidden, arrival=arrival)
                if reference is not None:  # without an entry, nobody needs the message
                    reference.position = (
                        Position(metadata.level, 0) if entry is None else entry.position
                    )
            elif operation.key is None:
                position = None if reference is None else reference.position
                destination.apply_removal(operation.message_id, location, position)
            else:
                assert isinstance(destination, TopicIndex), "only topics have subscriptions"
                known = destination.find(operation.message_id)
                if known is not None:
                    destination.apply_acknowledgement(operation.key, known, location)
    numbers.finish()


class _Numbers:
    """The arrival numbers of a transaction, some of whose segments may have been deleted."""

    def __init__(self, index: StoreIndex, counts: dict[str, list[list[int]]]) -> None:
        self._starts: dict[tuple[str, int], int] = {}
        self._ends: list[tuple[DestinationIndex, int]] = []
        by_key = {d.key: d for d in index.destinations()} if counts else {}
        for key, files in counts.items():
            destination = by_key.get(key)
            if destination is None:
                continue
            number = destination.last_arrival + 1
            for file_id, count in files:
                self._starts[key, file_id] = number
                number += count
            self._ends.append((destination, number - 1))

    def next(self, destination: DestinationIndex, file_id: int) -> int | None:
        """Return the number of the next message from this segment; None: the next one in order."""
        if not self._starts:
            return None
        key = (destination.key, file_id)
        number = self._starts.get(key)
        if number is not None:
            self._starts[key] = number + 1
        return number

    def finish(self) -> None:
        """Continue numbering behind the whole transaction."""
        for destination, last in self._ends:
            if last > destination.last_arrival:
                destination.begin(destination.epoch, last)


_SPILL: Final = 4 << 20
"""The size of a transaction's messages, in bytes, above which they are journaled early."""


class _DestinationIds:
    """The ids that a transaction adds to one destination, for the detection of duplicates."""

    __slots__ = ("duplicate_ids", "ids", "index", "is_unneeded")

    def __init__(self, index: DestinationIndex | None) -> None:
        self.index = index
        self.ids: set[str] = set()
        self.duplicate_ids: set[str | None] = set()
        self.is_unneeded = index is not None and not index.keeps_messages


class KahaDBTransactionStore:
    """The transaction store of an adapter. Use it on the loop."""

    def __init__(self, db: MessageDatabase) -> None:
        self._db = db
        db.before_checkpoint = self._publish_oldest_record
        self._open: dict[TransactionId, OpenTransaction] = {}
        self._latest: tuple[TransactionId | None, OpenTransaction] = (None, OpenTransaction())
        """The one that got the last operation, which usually gets the next one as well."""
        self._recovered: dict[TransactionId, OpenTransaction] = {}
        self._positions: dict[tuple[Destination, str], Position] = {}
        """Positions of the messages of committed, recovered transactions, until requested."""
        self.enlist: Callable[[TransactionId, KahaDBTransactionStore], TransactionId] | None = None
        """Called with the transaction of each operation if this is one of several stores.

        Returns the id that the transaction has here.
        """

    # -- TransactionStore

    def prepare(self, xid: TransactionId) -> Completion:
        """Append all operations and the prepare record, synced."""
        transaction = self._open.get(xid)
        if transaction is None:
            return COMPLETED
        self._db.journal.write_late()
        self._drop_duplicates(transaction)
        self._journal(xid, transaction)
        waiter = Completion()
        prepare = transaction_record(KahaPrepareCommand, xid)
        transaction.note_record(self._db.journal.append(prepare, waiter, sync=True))
        transaction.prepared = True
        self._hide(transaction)
        return waiter

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        """Append the remaining operations and the commit record, synced; set the positions."""
        transaction = self._pop(xid)
        is_recovered = self._recovered.pop(xid, None) is not None
        if transaction is None:
            return COMPLETED
        db = self._db
        db.journal.write_late()
        self._drop_duplicates(transaction)
        self._journal(xid, transaction)
        if not transaction.files:
            return db.journal.barrier()  # all were duplicates: wait until the originals are durable
        self._make_destinations(transaction)
        self._append_transaction_trace(xid, transaction)
        waiter = Completion()
        end = db.journal.append(transaction_record(KahaCommitCommand, xid), waiter, sync=True)
        if transaction.prepared:
            self._unhide(transaction)
        apply_operations(db.index, transaction, end, hidden=True)
        if transaction.files != {end.file_id}:
            # The segments of its additions, with the numbers, may be deleted before this one.
            db.append_arrivals(_added_to(db, transaction))
        if is_recovered:
            self._note_positions(transaction)
        return waiter

    def rollback(self, xid: TransactionId) -> Completion:
        """Drop the transaction; append a record only if the journal has operations of it."""
        transaction = self._pop(xid)
        self._recovered.pop(xid, None)
        if transaction is None or not transaction.files:
            return COMPLETED
        db = self._db
        waiter = Completion() if transaction.prepared else COMPLETED
        end = db.journal.append(
            transaction_record(KahaRollbackCommand, xid),
            waiter,
            sync=transaction.prepared,
            lazy=not transaction.prepared,
        )
        db.index.apply_end(end, transaction.files)
        if transaction.prepared:
            self._unhide(transaction)
        return waiter

    def recovered_transactions(self) -> list[RecoveredTransaction]:
        """Return the prepared transactions found at the start. Blocks on reads."""
        return [
            self._describe(xid, transaction)
            for xid, transaction in self._recovered.items()
            if isinstance(xid, XATransactionId)
        ]

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        return self._positions.pop((destination, str(message_id)), None)

    def _note_positions(self, transaction: OpenTransaction) -> None:
        """Store the positions of its messages; dropped messages have none."""
        for operation in transaction.operations:
            metadata, where = operation.metadata, operation.destination
            if metadata is None or operation.dropped:
                continue
            index = self._db.index.lookup(where)
            entry = None if index is None else index.find(metadata.message_id)
            position = Position(metadata.level, 0) if entry is None else entry.position
            self._positions[from_kaha_destination(where), metadata.message_id] = position

    # -- for the store

    def add(self, xid: TransactionId, operation: Operation) -> None:
        """Add an operation to the transaction `xid`."""
        if self.enlist is not None:
            xid = self.enlist(xid, self)
        latest, transaction = self._latest
        if xid is not latest:
            transaction = self._open.get(xid) or self._open.setdefault(xid, OpenTransaction())
            self._latest = (xid, transaction)
        transaction.operations.append(operation)
        if operation.metadata is not None:
            transaction.size += operation.metadata.size
            if transaction.size > _SPILL:
                self._journal(xid, transaction)

    def _pop(self, xid: TransactionId) -> OpenTransaction | None:
        """Forget a transaction that ends, and return it."""
        self._latest = (None, OpenTransaction())
        return self._open.pop(xid, None)

    def discard_destination(self, destination: KahaDestination, location: Location) -> None:
        """Drop the operations on a destination that the record at `location` removed."""
        for transaction in self._open.values():
            transaction.discard_destination(destination.key, location)

    def has_journalled(self, destination: KahaDestination) -> bool:
        """Return whether the journal has operations of an open transaction on a destination."""
        return any(each.has_journalled(destination.key) for each in self._open.values())

    def recover(self, found: dict[TransactionId, OpenTransaction]) -> None:
        """Take over recovered transactions: keep prepared ones, roll back the others.

        (activemq-persistence K22)
        """
        for xid, transaction in found.items():
            self._open[xid] = transaction
            if transaction.prepared:
                self._recovered[xid] = transaction
                self._hide(transaction)
        for xid in [xid for xid in found if xid not in self._recovered]:
            self.rollback(xid)

    def open_segments(self) -> set[int]:
        """Return the segments that the open transactions need."""
        return open_segments(self._open.values())

    def _hide(self, transaction: OpenTransaction) -> None:
        """Hide the messages that a prepared transaction has acknowledged."""
        for index, position, key in self._acknowledgements(transaction):
            if key is None:
                index.hide(position)
            elif isinstance(index, TopicIndex):
                index.hide_from(key, position)

    def _unhide(self, transaction: OpenTransaction) -> None:
        for index, position, key in self._acknowledgements(transaction):
            if key is None:
                index.mark_visible(position)
            elif isinstance(index, TopicIndex):
                index.mark_visible_to(key, position)

    def _acknowledgements(
        self, transaction: OpenTransaction
    ) -> Iterable[tuple[DestinationIndex, Position, str | None]]:
        for operation in transaction.operations:
            if operation.metadata is None and not operation.destination_removed:
                index = self._db.index.lookup(operation.destination)
                entry = None if index is None else index.find(operation.message_id)
                if index is not None and entry is not None:
                    yield index, entry.position, operation.key

    def _journal(self, xid: TransactionId, transaction: OpenTransaction) -> None:
        operations = transaction.operations
        if transaction.journalled == len(operations):
            return
        db = self._db
        inside = transaction_field(xid)
        branch = xid if isinstance(xid, XATransactionId) else None
        parts: dict[int, bytes] = {}
        append, record_format = db.journal.append, db.format
        for operation in operations[transaction.journalled :]:
            where = operation.destination
            part = parts.get(id(where))
            if part is None:
                part = parts[id(where)] = destination_field(where)
            payload = operation.encode(record_format, part, inside, branch)
            operation.location = location = append(payload, lazy=True)
            if location[0] in transaction.files:
                transaction.last = location
            else:
                transaction.note_record(location)
        transaction.journalled = len(operations)
        transaction.size = 0

    def _drop_duplicates(self, transaction: OpenTransaction) -> None:
        """Drop duplicates and additions that no subscription needs."""
        by_object: dict[int, _DestinationIds] = {}
        by_key: dict[str, _DestinationIds] = {}
        kept: list[Operation] = []
        for number, operation in enumerate(transaction.operations):
            if operation.metadata is not None:
                where = operation.destination
                ids = by_object.get(id(where))
                if ids is None:
                    ids = by_key.get(where.key) or _DestinationIds(self._db.index.lookup(where))
                    by_object[id(where)] = by_key[where.key] = ids
                operation.dropped = operation.destination_removed or self._is_duplicate(
                    operation.metadata, ids
                )
                if number >= transaction.journalled:
                    if operation.dropped:
                        continue
                    if ids.is_unneeded:  # by any durable subscription (activemq-persistence K11)
                        if operation.reference is not None:
                            operation.reference.position = Position(operation.metadata.level, 0)
                        continue
            else:
                operation.dropped = operation.destination_removed
            kept.append(operation)
        transaction.operations = kept

    def _is_duplicate(self, metadata: MessageMetadata, ids: _DestinationIds) -> bool:
        message_id, duplicate_id = metadata.message_id, metadata.duplicate_id
        if message_id in ids.ids or duplicate_id in ids.duplicate_ids:
            return True
        if ids.index is not None and ids.index.is_duplicate(metadata):
            return True
        ids.ids.add(message_id)
        if duplicate_id is not None:
            ids.duplicate_ids.add(duplicate_id)
        return False

    def _make_destinations(self, transaction: OpenTransaction) -> None:
        made = set()
        for operation in transaction.operations:
            if operation.metadata is not None and not operation.dropped:
                where = (id(operation.destination), operation.prioritized)
                if where not in made:
                    made.add(where)
                    self._db.destination(operation.destination, operation.prioritized)

    def _append_transaction_trace(self, xid: TransactionId, transaction: OpenTransaction) -> None:
        """Append the data that other records lack: dropped additions, and counts by segment."""
        operations = transaction.operations
        dropped = [[*each.location] for each in operations if each.dropped and each.location]
        if not dropped and len(transaction.files) == 1:
            return
        counts: dict[str, dict[int, int]] = {}
        for operation in operations:
            location = operation.location
            if operation.metadata is not None and not operation.dropped and location is not None:
                files = counts.setdefault(operation.destination.key, {})
                files[location.file_id] = files.get(location.file_id, 0) + 1
        if not dropped and all(len(files) < 2 for files in counts.values()):
            return
        rows = {key: [[f, n] for f, n in files.items()] for key, files in counts.items()}
        trace = trace_record(TRANSACTION, [str(xid), dropped, rows])
        location = self._db.journal.append(trace, lazy=True)
        self._db.index.apply_end(location, transaction.files)
        transaction.note_record(location)

    def _publish_oldest_record(self) -> None:
        """Store the location from which a recovery must read in the index."""
        first = [t.first for t in self._open.values() if t.first is not None]
        self._db.index.open_transactions = min(first, default=None)

    def _describe(self, xid: XATransactionId, transaction: OpenTransaction) -> RecoveredTransaction:
        db = self._db
        added: list[tuple[Destination, ActiveMQMessage]] = []
        removed: list[tuple[Destination, SubscriptionKey | None, StoredMessage]] = []
        for operation in transaction.operations:
            if operation.metadata is not None and not operation.destination_removed:
                assert operation.location is not None, "a recovered operation has a record"
                message = db.read_or_quarantine(
                    operation.destination, operation.message_id, operation.location
                )
                if message is not None:
                    added.append((from_kaha_destination(operation.destination), message))
        for index, position, key in self._acknowledgements(transaction):
            entry = index.get(position)
            for stored in [] if entry is None else db.read_entries(index, [entry]):
                subscriber = None if key is None else self._subscription(index, key)
                removed.append((from_kaha_destination(index.destination), subscriber, stored))
        return RecoveredTransaction(xid, added, removed)

    def _subscription(self, index: DestinationIndex, key: str) -> SubscriptionKey:
        known = index.subscriptions.get(key) if isinstance(index, TopicIndex) else None
        if known is not None:
            info = decode_subscription_info(known.info, self._db.format.version)
            return SubscriptionKey(info.client_id or "", info.subscription_name or "")
        client_id, _, name = key.rpartition(":")
        return SubscriptionKey(client_id, name)


def _added_to(db: MessageDatabase, transaction: OpenTransaction) -> list[DestinationIndex]:
    found = {
        operation.destination: db.index.lookup(operation.destination)
        for operation in transaction.operations
        if operation.metadata is not None
    }
    return [index for index in found.values() if index is not None]
