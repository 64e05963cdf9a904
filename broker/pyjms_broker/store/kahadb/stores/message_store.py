"""The store of a queue in a KahaDB journal. (activemq-persistence S2, K13)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaRemoveDestinationCommand
from pyjms.wire.kahadb.frames import to_kaha_destination
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import OperationContext, Position, Positions, StoredMessage
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import (
    add_record,
    destination_field,
    reference_metadata,
    remove_record,
)
from pyjms_broker.store.kahadb.stores.late_adds import LateAdds, QueueLateAdds
from pyjms_broker.store.kahadb.transactions.operations import Operation, OperationKind
from pyjms_broker.store.kahadb.transactions.transaction_store import KahaDBTransactionStore

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["KahaDBMessageStore"]


class KahaDBMessageStore:
    """The store of a queue; `KahaDBTopicMessageStore` extends it for topics."""

    def __init__(
        self,
        db: MessageDatabase,
        transactions: KahaDBTransactionStore,
        destination: Destination,
        prioritized: bool,
        late: LateAdds | None = None,
    ) -> None:
        """Open the store; with `late`, messages consumed before they are written stay unwritten."""
        self.destination = destination
        self._db = db
        self._transactions = transactions
        self._kaha = to_kaha_destination(destination)
        self._part = destination_field(self._kaha)
        self._prioritized = prioritized
        self._index: DestinationIndex = db.destination(self._kaha, prioritized)
        self._late = None if late is None else QueueLateAdds(late)
        self.is_removed = False
        """Whether the destination was removed, so that this store ignores all further calls."""

    # -- writing

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        """See MessageStore. A duplicate's completion is that of the first message."""
        reference.position = None
        if self.is_removed:
            return COMPLETED
        metadata = reference_metadata(reference, self._prioritized)
        if context.xid is not None:
            operation = Operation(
                OperationKind.ADD,
                self._kaha,
                metadata.message_id,
                metadata=metadata,
                prioritized=self._prioritized,
                reference=reference,
            )
            self._transactions.add(context.xid, operation)
            return COMPLETED
        db, late = self._db, self._late
        message = reference.message
        is_late = late is not None and metadata.message_id in late.adds
        if is_late or db.updater.is_duplicate(self._index, metadata):
            return db.journal.barrier() if message.response_required else COMPLETED
        frame = db.format.message_frame(message)
        reference.raw_is_numbered = True
        payload = add_record(self._part, metadata[0], frame, message.priority, self._prioritized)
        waiter = Completion()
        if late is not None and metadata.duplicate_id is None:  # duplicate ids outlive the message
            reference.position = late.put(
                self._index, metadata, payload, waiter, message.response_required
            )
            return waiter
        self.write_late()
        location = db.append(payload, waiter, sync=message.response_required)
        entry = db.updater.add(self._index, metadata, location, hidden=True)
        reference.position = Position(metadata.level, 0) if entry is None else entry.position
        return waiter

    def mark_visible(self, reference: MessageReference) -> None:
        """See MessageStore."""
        position, late = reference.position, self._late
        if position is None:
            return
        if late is not None and position[1] > self._index.last_arrival:
            late.mark_visible(position[1])
        else:
            self._index.mark_visible(position)

    def write_late(self) -> None:
        """Append the messages that wait for the next job, so that the index is complete."""
        if self._late is not None and self._late.adds:
            self._db.journal.write_late()

    def remove_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        """See MessageStore."""
        message_id = str(reference.message_id)
        if context.xid is not None:
            if self.is_removed:
                return COMPLETED
            operation = Operation(OperationKind.REMOVE, self._kaha, message_id, reference=reference)
            self._transactions.add(context.xid, operation)
            return COMPLETED
        index, position = self._index, reference.position
        if position is None:
            self.write_late()
            known = index.find(message_id)
            position = None if known is None else known.position
        elif self._late is not None and self._late.adds and self._late.cancel(message_id):
            return COMPLETED
        entry = None if position is None else index.remove(position)
        if entry is None:
            return COMPLETED
        db = self._db
        sync = context.response_required
        waiter = Completion() if sync else COMPLETED
        payload = remove_record(self._part, message_id)
        location = db.append(payload, waiter, sync=sync, soon=not sync)
        db.index.segments.add_reference(location.file_id, entry.file_id)
        return waiter

    def update_message(self, reference: MessageReference) -> Completion:
        """See MessageStore. Synced; the message keeps its position."""
        self.write_late()
        db, index = self._db, self._index
        message = reference.message
        metadata = reference_metadata(reference, self._prioritized)
        if index.find(metadata.message_id) is None:
            return COMPLETED
        payload = db.format.update(self._kaha, message, self._prioritized)
        waiter = Completion()
        location = db.append(payload, waiter, sync=True)
        db.updater.update(index, metadata, location)
        return waiter

    def remove_all_messages(self, context: OperationContext) -> Completion:
        """See MessageStore. The arrival numbers continue."""
        self.write_late()
        db, index = self._db, self._index
        if not index.count:
            return COMPLETED
        if self._transactions.has_journalled(self._kaha):
            return self._remove_each()  # so that the numbers also continue in a replay
        epoch, last = index.epoch, index.last_arrival
        window = index.duplicates
        duplicate_ids = [
            each for f in sorted(window.counts_by_segment()) for each in window.recorded_in(f)
        ]
        waiter = Completion()
        payload = encode_command(KahaRemoveDestinationCommand(self._kaha))
        location = db.append(payload, waiter, sync=True)
        db.updater.remove_destination(self._kaha, location)
        self._index = index = db.index.destination(self._kaha, self._prioritized)
        index.begin(epoch, last)
        db.append_arrivals([index])
        db.append_duplicate_ids(index, duplicate_ids)
        return waiter

    def _remove_each(self) -> Completion:
        db, index = self._db, self._index
        waiter = COMPLETED
        for entry in index.entries():
            waiter = Completion()
            payload = remove_record(self._part, entry.message_id)
            location = db.append(payload, waiter, sync=True)
            db.updater.remove(index, entry.message_id, location)
        return waiter

    # -- reading

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        """See MessageStore. Reads from the disk."""
        self.write_late()
        entry = self._index.find(str(message_id))
        found = [] if entry is None else self._db.read_entries(self._index, [entry])
        return found[0] if found else None

    def next_messages(
        self, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        """See MessageStore."""
        self.write_late()
        return self._read(lambda: self._index.page(after, limit, skip))

    def _read(self, page: Callable[[], Sequence[IndexEntry]]) -> list[StoredMessage]:
        """Return the messages of a page; reads again if some were quarantined, to fill the page."""
        while True:
            entries = page()
            messages = self._db.read_entries(self._index, entries)
            if len(messages) == len(entries):
                return messages

    # -- statistics

    def _settled(self) -> DestinationIndex:
        self.write_late()
        return self._index

    @property
    def message_count(self) -> int:
        return self._settled().count

    @property
    def message_size(self) -> int:
        """The size of all messages in bytes, as accounted in memory."""
        return self._settled().size

    @property
    def last_arrival(self) -> int:
        """The highest arrival number ever assigned; 0 if none."""
        return self._settled().last_arrival

    @property
    def epoch(self) -> int:
        """The creation time of the destination in ms; for ActiveMQ's, a journal location."""
        return self._index.epoch
