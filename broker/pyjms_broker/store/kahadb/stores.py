"""The stores of queues and topics in a KahaDB journal. (activemq-persistence S2, S3, K13, K31)

Late additions are messages that are journaled when the next write begins, unless consumed before.
While one write is in progress, queues dispatch the messages that arrive, and fast consumers may
acknowledge a message before its own write begins. Such a message is neither added nor removed: the
journal has no record of it, and its sender gets a response because it was consumed. Messages for
whose storage no sender waits request no write by themselves for a few milliseconds.
(activemq-persistence K14)

A late addition has its position as soon as it arrives, but is not in the index yet:

    arrives        put      takes the next number; a job of the journal is requested
    the job starts write    appended and indexed, in the order of the numbers
    acknowledged   cancel   its waiter is completed; the number stays unused

Operations that need the complete journal or index call `write` first: reads, commits and prepares,
barriers, checkpoints. Unused numbers are skipped in the journal by an arrivals record, so that a
replay assigns the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaRemoveDestinationCommand, KahaSubscriptionCommand
from pyjms.wire.kahadb.frames import (
    decode_subscription_info,
    encode_subscription,
    subscription_key,
    subscription_owner,
    to_kaha_destination,
)
from pyjms.wire.openwire.commands import MessageId, SubscriptionInfo
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import MessageReference
from pyjms_broker.store.api import (
    OperationContext,
    Position,
    Positions,
    StoredMessage,
    StoredSubscription,
    SubscriptionKey,
)
from pyjms_broker.store.damage import is_damage
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry, MessageMetadata
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import (
    ARRIVALS,
    add_record,
    destination_field,
    message_id_text,
    reference_metadata,
    remove_record,
    trace_record,
)
from pyjms_broker.store.kahadb.transactions import KahaDBTransactionStore, Operation

logger = get_logger(__name__)

_MOST: Final = 1000
_MOST_BYTES: Final = 4 << 20
"""Above these limits, messages are passed to the journal, which detects congestion."""
_tuple: Final = tuple.__new__  # takes half the time of Position(...)


class LateAdds:
    """The late additions of all queues of a store. Use it on the loop."""

    def __init__(self, db: MessageDatabase) -> None:
        self.db = db
        self.count = 0
        self.size = 0
        self.queues: dict[QueueLateAdds, None] = {}
        """The queues that have late additions."""
        self._cancelled: list[Completion] = []

    def write(self) -> None:
        """Append all of them, with their waiters, which get the error if the journal fails."""
        queues, self.queues = self.queues, {}
        self.count = self.size = 0
        for queue in queues:
            queue.write()

    def discard(self) -> list[Completion]:
        """Drop all of them, because the journal has failed; return their waiters."""
        queues, self.queues = self.queues, {}
        self.count = self.size = 0
        return [waiter for queue in queues for waiter in queue.discard()]

    def complete_soon(self, waiter: Completion) -> None:
        """Complete the waiter of a consumed message, in the next iteration of the loop."""
        if not self._cancelled:
            self.db.journal.call_next(self._complete)
        self._cancelled.append(waiter)

    def _complete(self) -> None:
        cancelled, self._cancelled = self._cancelled, []
        for waiter in cancelled:
            waiter.complete()


class _LateAdd(NamedTuple):
    position: Position
    metadata: MessageMetadata
    payload: bytes
    waiter: Completion
    sync: bool


class QueueLateAdds:
    """The late additions of one queue, ordered by number."""

    __slots__ = ("_announce", "_index", "_last", "_late", "adds", "visible")

    def __init__(self, late: LateAdds) -> None:
        self.adds: dict[str, _LateAdd] = {}
        """By message id."""
        self._late = late
        self._announce = late.db.journal.announce
        self.visible: set[int] = set()
        """The numbers of those that are visible."""
        self._index: DestinationIndex | None = None
        self._last = 0

    def put(
        self,
        index: DestinationIndex,
        metadata: MessageMetadata,
        payload: bytes,
        waiter: Completion,
        sync: bool,
    ) -> Position:
        """Add a message and return its position."""
        self._announce(soon=not sync)
        late = self._late
        self._last = arrival = max(self._last, index.last_arrival) + 1
        if not self.adds:
            self._index = index
            late.queues[self] = None
        position = _tuple(Position, (metadata.level, arrival))
        self.adds[metadata.message_id] = _tuple(
            _LateAdd, (position, metadata, payload, waiter, sync)
        )
        late.count += 1
        late.size += len(payload)
        if late.count > _MOST or late.size > _MOST_BYTES:
            late.write()
        return position

    def cancel(self, message_id: str) -> None:
        """Drop a message that was consumed; without effect if it was dropped before."""
        add = self.adds.pop(message_id, None)
        if add is None:
            return
        late = self._late
        late.count -= 1
        late.size -= len(add.payload)
        if not self.adds:
            del late.queues[self]
            self.visible.clear()
        late.db.index.note_sender(add.metadata)
        late.complete_soon(add.waiter)

    def write(self) -> None:
        """Append all of them; called by `LateAdds`."""
        adds, self.adds = self.adds, {}
        visible, self.visible = self.visible, set()
        db, index = self._late.db, self._index
        assert index is not None, "it had additions"
        appended: list[Completion] = []
        for (_, arrival), metadata, payload, waiter, sync in adds.values():
            try:
                if arrival != index.last_arrival + 1:
                    self._skip_to(arrival, index)
                location = db.journal.append(payload, sync=sync)
            except Exception as error:
                waiter.complete(error)
            else:
                index.apply_add(metadata, location, hidden=arrival not in visible)
                appended.append(waiter)
        db.journal.add_waiters(appended)

    def _skip_to(self, arrival: int, index: DestinationIndex) -> None:
        """Append a record that makes a replay skip the numbers of consumed messages."""
        record = trace_record(ARRIVALS, {index.key: [index.epoch, arrival]})
        self._late.db.journal.append(record, lazy=True)
        index.begin(index.epoch, arrival - 1)

    def discard(self) -> list[Completion]:
        """Drop all of them and return their waiters; called by `LateAdds`."""
        adds, self.adds = self.adds, {}
        self.visible.clear()
        return [add.waiter for add in adds.values()]


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
                self._kaha,
                metadata.message_id,
                metadata=metadata,
                prioritized=self._prioritized,
                reference=reference,
            )
            self._transactions.add(context.xid, operation)
            return COMPLETED
        db, late = self._db, self._late
        message = reference.cached or reference.message
        is_late = late is not None and metadata.message_id in late.adds
        if is_late or self._index.is_duplicate(metadata):
            return db.journal.barrier() if message.response_required else COMPLETED
        frame = db.format.frame_parts(message)
        reference.raw_is_numbered = True
        payload = add_record(self._part, metadata[0], frame, message.priority, self._prioritized)
        waiter = Completion()
        if late is not None and metadata.duplicate_id is None:  # duplicate ids outlive the message
            reference.position = late.put(
                self._index, metadata, payload, waiter, message.response_required
            )
            return waiter
        self.write_late()
        location = db.journal.append(payload, waiter, sync=message.response_required)
        entry = self._index.apply_add(metadata, location, hidden=True)
        reference.position = Position(metadata.level, 0) if entry is None else entry.position
        return waiter

    def mark_visible(self, reference: MessageReference) -> None:
        position, late = reference.position, self._late
        if position is None:
            return
        if late is not None and position[1] > self._index.last_arrival:
            late.visible.add(position[1])
        else:
            self._index.mark_visible(position)

    def write_late(self) -> None:
        """Append the messages that wait for the next job, so that the index is complete."""
        if self._late is not None and self._late.adds:
            self._db.journal.write_late()

    def remove_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        if context.xid is not None:
            if not self.is_removed:
                text = message_id_text(reference.message_id)
                operation = Operation(self._kaha, text, reference=reference)
                self._transactions.add(context.xid, operation)
            return COMPLETED
        index, position, late = self._index, reference.position, self._late
        if position is None:
            self.write_late()
            known = index.find(str(reference.message_id))
            position = None if known is None else known.position
        elif late is not None and late.adds and position[1] > index.last_arrival:
            late.cancel(str(reference.message_id))
            return COMPLETED
        entry = None if position is None else index.remove(position)
        if entry is None:
            return COMPLETED
        db = self._db
        sync = context.response_required
        waiter = Completion() if sync else COMPLETED
        payload = remove_record(self._part, entry[1])
        file_id, _ = db.journal.append(payload, waiter, sync=sync, soon=not sync)
        if file_id != entry[2]:
            db.index.segments.add_reference(file_id, entry[2])
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
        location = db.journal.append(payload, waiter, sync=True)
        index.apply_update(metadata, location)
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
        location = db.journal.append(payload, waiter, sync=True)
        db.index.apply_destination_removal(self._kaha, location)
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
            location = db.journal.append(payload, waiter, sync=True)
            index.apply_removal(entry.message_id, location)
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

    def _complete_index(self) -> DestinationIndex:
        self.write_late()
        return self._index

    @property
    def message_count(self) -> int:
        return self._complete_index().count

    @property
    def message_size(self) -> int:
        """The size of all messages in bytes, as accounted in memory."""
        return self._complete_index().size

    @property
    def last_arrival(self) -> int:
        """The highest arrival number ever assigned; 0 if none."""
        return self._complete_index().last_arrival

    @property
    def epoch(self) -> int:
        """The creation time of the destination in ms; for ActiveMQ's, a journal location."""
        return self._index.epoch


class KahaDBTopicMessageStore(KahaDBMessageStore):
    """The store of a topic, which keeps nothing without durable subscriptions.

    (activemq-persistence K11)
    """

    def __init__(
        self,
        db: MessageDatabase,
        transactions: KahaDBTransactionStore,
        destination: Destination,
        prioritized: bool,
    ) -> None:
        super().__init__(db, transactions, destination, prioritized)
        self._topic = db.index.topic(self._kaha)

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        """See MessageStore. A message that no subscription needs gets position 0 and no number."""
        if context.xid is None and not self._topic.subscriptions and not self.is_removed:
            metadata = reference_metadata(reference, self._prioritized)
            reference.position = Position(metadata.level, 0)
            return COMPLETED
        return super().add_message(context, reference)

    def remove_all_messages(self, context: OperationContext) -> Completion:
        """See MessageStore. Messages are removed one by one, because the subscriptions remain."""
        return self._remove_each()

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> Completion:
        """See TopicMessageStore. An existing one is replaced.

        Raises:
            JMSException: another subscription has its key in the journal, `clientId:name`.
        """
        db = self._db
        name = subscription.key
        self._check_owner(name)
        info = encode_subscription(
            SubscriptionInfo(
                client_id=name.client_id,
                destination=self.destination,
                selector=subscription.selector,
                subscription_name=name.subscription_name,
                subscribed_destination=subscription.destination,
                no_local=subscription.no_local,
            ),
            subscription.owner,
            db.format.version,
        )
        key = subscription_key(*name)
        self.delete_subscription(name)
        command = KahaSubscriptionCommand(self._kaha, key, retroactive, info)
        waiter = Completion()
        location = db.journal.append(encode_command(command), waiter, sync=True)
        self._topic.apply_subscription(key, info, retroactive, location)
        return waiter

    def delete_subscription(self, key: SubscriptionKey) -> Completion:
        db, text = self._db, subscription_key(*key)
        if self.lookup_subscription(key) is None:
            return COMPLETED
        waiter = Completion()
        command = KahaSubscriptionCommand(self._kaha, text)
        location = db.journal.append(encode_command(command), waiter, sync=True)
        self._topic.apply_unsubscription(text, location)
        return waiter

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        known = self._topic.subscriptions.get(subscription_key(*key))
        found = None if known is None else self._decode_subscription(known.info)
        return found if found is not None and found.key == key else None

    def _check_owner(self, key: SubscriptionKey) -> None:
        """Reject the key of another subscription: `a`, `b:c` and `a:b`, `c` have the same key."""
        known = self._topic.subscriptions.get(subscription_key(*key))
        other = key if known is None else self._decode_subscription(known.info).key
        if other != key:
            raise JMSException(
                f"The durable subscription {key.subscription_name!r} of {key.client_id!r} cannot "
                f"be stored: it has the key of {other.subscription_name!r} of {other.client_id!r}",
                hint="use client ids and subscription names without colons",
            )

    def subscriptions(self) -> list[StoredSubscription]:
        found = []
        for key, known in self._topic.subscriptions.items():
            try:
                found.append(self._decode_subscription(known.info))
            except Exception as error:
                if not is_damage(error):
                    raise
                logger.error(
                    "%s: the durable subscription %s cannot be read and is quarantined: %s",
                    self.destination,
                    key,
                    error,
                )
        return found

    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        db, index = self._db, self._topic
        text, message_id = subscription_key(*key), str(reference.message_id)
        if context.xid is not None:
            if self.is_removed:
                return COMPLETED
            operation = Operation(self._kaha, message_id, key=text, reference=reference)
            self._transactions.add(context.xid, operation)
            return COMPLETED
        position = reference.position
        entry = index.find(message_id) if position is None else index.get(position)
        if entry is None or not index.is_pending(text, entry.position):
            return COMPLETED
        sync = context.response_required
        waiter = Completion() if sync else COMPLETED
        payload = remove_record(self._part, message_id, text, ack=b"")
        location = db.journal.append(payload, waiter, sync=sync, soon=not sync)
        index.apply_acknowledgement(text, entry, location)
        return waiter

    def next_subscription_messages(
        self, key: SubscriptionKey, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        text, index = subscription_key(*key), self._topic
        if text not in index.subscriptions:
            return []
        return self._read(lambda: index.page_for_subscription(text, after, limit, skip))

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        known = self._topic.subscriptions.get(subscription_key(*key))
        return 0 if known is None else known.pending_count

    def _decode_subscription(self, frame: bytes) -> StoredSubscription:
        info = decode_subscription_info(frame, self._db.format.version)
        return StoredSubscription(
            SubscriptionKey(info.client_id or "", info.subscription_name or ""),
            info.subscribed_destination or info.destination or self.destination,
            info.selector,
            info.no_local,
            subscription_owner(frame),
        )
