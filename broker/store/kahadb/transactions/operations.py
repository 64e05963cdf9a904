"""A transaction's work: what each of its records will do at the commit.

Operations are kept in memory and journalled when there are many of them, at the prepare or at
the commit, whichever comes first; a rollback of what was not journalled leaves no trace.
(persistence K15)
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from broker.api.message import Position
from broker.store.kahadb.index import DestinationIndex, TopicIndex
from broker.store.kahadb.index_updater import IndexUpdater
from broker.store.kahadb.records import (
    MessageMetadata,
    RecordFormat,
    add_record,
    remove_record,
)
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaDestination
from pyjms.wire.openwire.commands import XATransactionId

if TYPE_CHECKING:
    from broker.api.message import MessageReference

__all__ = ["OpenTransaction", "Operation", "OperationKind", "apply_operations"]


class OperationKind(Enum):
    """What an operation does."""

    ADD = "add"
    REMOVE = "remove"
    ACKNOWLEDGE = "acknowledge"


_ADD: Final = OperationKind.ADD


class Operation:
    """One addition, removal or acknowledgement; `location` is None until it is journalled."""

    __slots__ = (
        "destination",
        "destination_removed",
        "dropped",
        "key",
        "kind",
        "location",
        "message_id",
        "metadata",
        "prioritized",
        "reference",
    )

    def __init__(
        self,
        kind: OperationKind,
        destination: KahaDestination,
        message_id: str,
        *,
        metadata: MessageMetadata | None = None,
        key: str | None = None,
        prioritized: bool = False,
        reference: MessageReference | None = None,
        location: Location | None = None,
    ) -> None:
        self.kind = kind
        self.destination = destination
        self.message_id = message_id
        self.metadata = metadata
        self.key = key
        self.prioritized = prioritized
        self.reference = reference
        self.location = location
        self.destination_removed = False
        """Its destination was removed since: it is dropped at the commit."""
        self.dropped = False
        """It turned out to be a duplicate, or is gone, and does nothing."""

    def encode(
        self,
        record_format: RecordFormat,
        part: bytes,
        transaction: bytes,
        xid: XATransactionId | None,
    ) -> bytes:
        """Return its record's payload; `xid` where ActiveMQ wants an acknowledgement in it.

        `part` and `transaction` are its destination and transaction, as records have them.
        """
        reference = self.reference
        assert reference is not None, "only what was not journalled is encoded"
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

    __slots__ = (
        "counts",
        "files",
        "first",
        "journalled",
        "last",
        "operations",
        "prepared",
        "size",
    )

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.journalled = 0
        """How many of the operations, from the first on, have their record."""
        self.size = 0
        """Bytes of messages that are not journalled."""
        self.files: set[int] = set()
        """The segments with its records."""
        self.first: Location | None = None
        self.last: Location | None = None
        self.prepared = False
        self.counts: dict[str, list[list[int]]] = {}
        """How many messages of a destination are in which segment; for a replay."""

    def note_record(self, location: Location) -> None:
        """Note where a record of it is."""
        self.files.add(location.file_id)
        if self.first is None:
            self.first = location
        self.last = location

    def has_journalled(self, key: str) -> bool:
        """Whether the journal has something of it for a destination."""
        return any(each.destination.key == key for each in self.operations[: self.journalled])

    def discard_destination(self, key: str, location: Location) -> None:
        """Do nothing for a destination that was removed, by the record at `location`.

        That record is kept as long as those are that it makes void.
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
    """Do all that a transaction holds: its commit is at `end`."""
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
    """Return its destination; what is taken out of one that is not there does not make it."""
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
    assert location is not None, "what is applied was journalled"
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
    """Arrival numbers of a transaction some of whose segments may be gone."""

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
        """Return the number of the next message from this segment; None: the next of all."""
        if not self._starts:
            return None
        place = (destination.key, file_id)
        number = self._starts.get(place)
        if number is not None:
            self._starts[place] = number + 1
        return number

    def finish(self) -> None:
        """Have the numbers go on behind those of the whole transaction."""
        for destination, last in self._ends:
            if last > destination.last_arrival:
                destination.begin(destination.epoch, last)
