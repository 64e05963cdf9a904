"""The operations of a transaction, which are applied at its commit.

See `KahaDBTransactionStore` for when they are appended and applied. (activemq-persistence K15)
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaDestination
from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index import DestinationIndex, TopicIndex
from pyjms_broker.store.kahadb.index_updater import IndexUpdater
from pyjms_broker.store.kahadb.records import (
    MessageMetadata,
    RecordFormat,
    add_record,
    remove_record,
)

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["OpenTransaction", "Operation", "OperationKind", "apply_operations"]


class OperationKind(Enum):
    """The kinds of operations."""

    ADD = "add"
    REMOVE = "remove"
    ACKNOWLEDGE = "acknowledge"


_ADD: Final = OperationKind.ADD


@dataclass(slots=True, eq=False, repr=False)
class Operation:
    """One addition, removal or acknowledgement; `location` is None until it is journalled."""

    kind: OperationKind
    destination: KahaDestination
    message_id: str
    _: KW_ONLY
    metadata: MessageMetadata | None = None
    key: str | None = None
    prioritized: bool = False
    reference: MessageReference | None = None
    location: Location | None = None
    destination_removed: bool = field(default=False, init=False)
    """Whether its destination was removed, so that the commit drops it."""
    dropped: bool = field(default=False, init=False)
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
        if self.kind is _ADD:
            message = reference.message
            frame = record_format.message_frame(message)
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


def apply_operations(
    updater: IndexUpdater, transaction: OpenTransaction, end: Location, *, hidden: bool
) -> None:
    """Apply a transaction's operations; its commit record is at `end`."""
    updater.end_transaction(end, transaction.files)
    numbers = _Numbers(updater, transaction.counts)
    destinations: dict[tuple[int, bool], DestinationIndex] = {}
    for operation in transaction.operations:
        if not operation.dropped:
            where = (id(operation.destination), operation.prioritized)
            destination = destinations.get(where)
            if destination is None:
                destination = _destination(updater, operation)
                if destination is None:
                    continue
                destinations[where] = destination
            _apply(updater, operation, destination, numbers, hidden)
    numbers.finish()


def _destination(updater: IndexUpdater, operation: Operation) -> DestinationIndex | None:
    """Return the index of an operation's destination; only additions create one."""
    if operation.kind is _ADD:
        return updater.index.destination(operation.destination, operation.prioritized)
    return updater.index.lookup(operation.destination)


def _apply(
    updater: IndexUpdater,
    operation: Operation,
    destination: DestinationIndex,
    numbers: _Numbers,
    hidden: bool,
) -> None:
    location = operation.location
    assert location is not None, "an operation has a record before it is applied"
    if operation.kind is _ADD:
        metadata = operation.metadata
        assert metadata is not None, "an addition has metadata"
        arrival = numbers.next(destination, location[0])
        entry = updater.add(destination, metadata, location, hidden=hidden, arrival=arrival)
        if operation.reference is not None:
            unneeded = Position(metadata.level, 0)
            operation.reference.position = unneeded if entry is None else entry.position
    elif operation.key is None:
        reference = operation.reference
        position = None if reference is None else reference.position
        updater.remove(destination, operation.message_id, location, position)
    else:
        assert isinstance(destination, TopicIndex), "only topics have subscriptions"
        known = destination.find(operation.message_id)
        if known is not None:
            updater.acknowledge(destination, operation.key, known, location)


class _Numbers:
    """The arrival numbers of a transaction, some of whose segments may have been deleted."""

    def __init__(self, updater: IndexUpdater, counts: dict[str, list[list[int]]]) -> None:
        self._starts: dict[tuple[str, int], int] = {}
        self._ends: list[tuple[DestinationIndex, int]] = []
        by_key = {d.key: d for d in updater.index.destinations()} if counts else {}
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
