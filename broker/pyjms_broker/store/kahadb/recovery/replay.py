"""Replay of a journal, written by this store or by ActiveMQ, into an index.

Theory of operation
-------------------

Records are applied in journal order through the same `IndexUpdater` that the running store uses;
see there for the reason why both give the same index.

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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyjms._logger import get_logger
from pyjms.wire.kahadb import commands
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.frames import from_transaction_info
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaCommand, KahaDestination, KahaTransactionInfo
from pyjms.wire.openwire.commands import TransactionId
from pyjms_broker.store.kahadb.index import DestinationIndex, TopicIndex
from pyjms_broker.store.kahadb.index_updater import IndexUpdater
from pyjms_broker.store.kahadb.records import (
    MessageMetadata,
    RecordFormat,
    is_pyjms_update,
    message_metadata,
)
from pyjms_broker.store.kahadb.trace_records import (
    ARRIVALS,
    AUDIT,
    DUPLICATES,
    TRANSACTION,
    parse_trace,
)
from pyjms_broker.store.kahadb.transactions.operations import (
    OpenTransaction,
    Operation,
    OperationKind,
    apply_operations,
)

__all__ = ["Replay"]

logger = get_logger(__name__)

_NOWHERE: Final = Location(0, -1)


class Replay:
    """One pass over a journal. `transactions` are those open at the current record."""

    def __init__(
        self, updater: IndexUpdater, record_format: RecordFormat, covered: Location | None = None
    ) -> None:
        """Continue behind `covered`; None for a new index: replay the whole journal."""
        self.transactions: dict[TransactionId, OpenTransaction] = {}
        self.applied = 0
        self._updater = updater
        self._index = updater.index
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
            RemoteProtocolError, ValueError, LookupError, TypeError: the record is damaged,
                although its batch is not.
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

    def _added(
        self, command: commands.KahaAddMessageCommand, location: Location
    ) -> tuple[DestinationIndex, MessageMetadata]:
        """Return the destination of a message that a record adds, and its metadata."""
        prioritized = bool(command.priority_supported)
        destination = self._destination(command.destination, location, prioritized)
        message = self._format.decode(command.message)
        return destination, message_metadata(message, command.message_id, prioritized=prioritized)

    def _add(self, command: commands.KahaAddMessageCommand, location: Location) -> None:
        if command.transaction_info is not None:
            self._operation(OperationKind.ADD, command, location, command.transaction_info)
        elif location > self._covered:
            destination, metadata = self._added(command, location)
            self._updater.add(destination, metadata, location, hidden=False)

    def _update(self, command: commands.KahaUpdateMessageCommand, location: Location) -> None:
        if location <= self._covered:
            return
        destination, metadata = self._added(command.message, location)
        if self._updater.update(destination, metadata, location) is not None:
            return
        if not self._is_pyjms_update:  # ActiveMQ deletes the segment of the add record
            self._updater.add(destination, metadata, location, hidden=False)

    def _remove(self, command: commands.KahaRemoveMessageCommand, location: Location) -> None:
        key = command.subscription_key
        if command.transaction_info is not None:
            kind = OperationKind.REMOVE if key is None else OperationKind.ACKNOWLEDGE
            self._operation(kind, command, location, command.transaction_info)
        elif location > self._covered:
            destination = self._index.lookup(command.destination)
            if destination is None:
                return
            if key is None:
                self._updater.remove(destination, command.message_id, location)
            elif isinstance(destination, TopicIndex):
                entry = destination.find(command.message_id)
                if entry is not None:
                    self._updater.acknowledge(destination, key, entry, location)

    def _subscription(self, command: commands.KahaSubscriptionCommand, location: Location) -> None:
        if location <= self._covered:
            return
        topic = self._destination(command.destination, location)
        if not isinstance(topic, TopicIndex):
            logger.warning("Skipping a durable subscription of %s, which is not a topic", topic.key)
            return
        key, info = command.subscription_key, command.subscription_info
        if info is None:
            self._updater.unsubscribe(topic, key, location)
        else:
            self._updater.subscribe(topic, key, info, bool(command.retroactive), location)

    def _remove_destination(
        self, command: commands.KahaRemoveDestinationCommand, location: Location
    ) -> None:
        for transaction in self.transactions.values():  # they may still be open at the end
            transaction.discard_destination(command.destination.key, location)
        if location > self._covered:
            self._updater.remove_destination(command.destination, location)

    # -- transactions

    def _operation(
        self,
        kind: OperationKind,
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
            kind,
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
        xid = from_transaction_info(info)
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
            if operation.kind is OperationKind.ADD and not operation.dropped:
                self._destination(operation.destination, location, operation.prioritized)
        apply_operations(self._updater, transaction, location, hidden=False)

    def _rollback(self, command: commands.KahaRollbackCommand, location: Location) -> None:
        transaction = self.transactions.pop(from_transaction_info(command.transaction_info), None)
        if transaction is not None and location > self._covered:
            self._updater.end_transaction(location, transaction.files)

    # -- traces

    def _trace(self, command: commands.KahaTraceCommand, location: Location) -> None:
        trace = parse_trace(command.message)
        if trace is None:
            return
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
            self._updater.end_transaction(location, transaction.files)
        transaction.note_record(location)

    def _arrivals(self, value: Any, location: Location) -> None:
        if self._has_header and self._records == 2:
            self._forget_removed(value)
        for key, (epoch, following) in value.items():
            kind, _, name = key.partition(":")
            destination = self._destination(KahaDestination(int(kind), name), location)
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
            kind, _, name = key.partition(":")
            window = self._destination(KahaDestination(int(kind), name), location).duplicates
            known = [each for each in ids if each in window]
            window.relocate(known, location.file_id)
            for each in ids:
                window.add(each, location.file_id)
