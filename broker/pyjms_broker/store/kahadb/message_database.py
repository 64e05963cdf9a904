"""The core of an open store: the journal, its index, and appending to both.

Every record is appended by `MessageDatabase.append`, and the caller applies it to the index
(`updater`) before the next one is appended. The header of a new segment, which is created inside an
append, therefore contains the numbers at exactly that point of the journal. ActiveMQ:
MessageDatabase.

`IndexUpdater` applies journal records to the index, when they are written and when replayed. The
index is a function of the journal: `KahaDBMessageStore` and the transaction store call its methods
with the location of a record they have just appended, `Replay` calls them with the
location of a record it has read, and both must leave the same index. Two rules make that true.

Arrival numbers. Every add record of a destination takes the next number, whether or not its message
is still in the journal when it is replayed. Messages that take no number (a duplicate, a message
for a topic without subscriptions) are not written, or a trace record says so. Each segment begins
with a trace record of all destinations' next numbers, so the numbering survives the deletion of
older segments.

Segment references. A segment A refers to a segment B if a replay without A would restore something
of B: a removed message, a deleted subscription, a destination, a rolled back transaction.
A cleanup deletes A only after B. References are added

    by                          in the segment of    to the segment of
    a removal, acknowledgement  its record           the message's add (or update) record
    an update                   its record, and      the message's previous record: neither may
                                                     vice versa           stay without the other
    an unsubscription, or a     its record           the subscription's record
    new subscription info
    a destination's removal     its record           all its messages and subscriptions
    the end of a transaction    its record           all the transaction's records

(activemq-persistence K11, K17, K21)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pyjms.runtime import clock as _clock
from pyjms.wire.kahadb.commands import DestinationType, KahaDestination
from pyjms.wire.kahadb.frames import from_kaha_destination
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import Position, StoredMessage
from pyjms_broker.store.damage import Quarantine, is_damage
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry, StoreIndex, TopicIndex
from pyjms_broker.store.kahadb.records import (
    ARRIVALS,
    AUDIT,
    DUPLICATES,
    MessageMetadata,
    RecordFormat,
    trace_record,
)

TOPIC_TYPES: Final = (DestinationType.TOPIC, DestinationType.TEMP_TOPIC)


class IndexUpdater:
    """Applies records to `index`, in journal order. Use it on the loop."""

    def __init__(self, index: StoreIndex) -> None:
        self.index = index

    # -- messages

    def add(
        self,
        destination: DestinationIndex,
        metadata: MessageMetadata,
        location: Location,
        *,
        hidden: bool,
        arrival: int | None = None,
    ) -> IndexEntry | None:
        """Apply an addition; None if no subscription needs the message: it only takes a number."""
        message_id, level, size, duplicate_id, producer, sequence, broker_sequence, split = metadata
        file_id, offset = location
        entry = destination.add(message_id, level, file_id, offset, size, hidden, arrival, split)
        if entry is None and not (
            isinstance(destination, TopicIndex) and not destination.subscriptions
        ):
            # The remove record between the two was deleted with its segment.
            self._replace(destination, message_id, file_id)
            entry = destination.add(
                message_id, level, file_id, offset, size, hidden, arrival, split
            )
        if duplicate_id is not None:
            destination.duplicates.add(duplicate_id, file_id)
        index = self.index
        index.last_broker_sequence_id = max(index.last_broker_sequence_id, broker_sequence)
        if producer is not None:
            index.producers.record(producer, sequence)
        return entry

    def note_sender(self, metadata: MessageMetadata) -> None:
        """Record the sequence numbers of a message that was consumed before it was appended."""
        index = self.index
        index.last_broker_sequence_id = max(index.last_broker_sequence_id, metadata.broker_sequence)
        if metadata.producer is not None:
            index.producers.record(metadata.producer, metadata.producer_sequence)

    def is_duplicate(self, destination: DestinationIndex, metadata: MessageMetadata) -> bool:
        """Return whether the message id or duplicate id is known (activemq-persistence S6)."""
        duplicate_id = metadata.duplicate_id
        if duplicate_id is not None and duplicate_id in destination.duplicates:
            return True
        return destination.find(metadata.message_id, metadata.split) is not None

    def update(
        self, destination: DestinationIndex, metadata: MessageMetadata, location: Location
    ) -> IndexEntry | None:
        """Apply an update of a message; None if there is no such message."""
        entry = destination.find(metadata.message_id)
        if entry is None:
            return None
        # The old record determines the message's arrival number; the record that removes the
        # message will refer to the new one.
        self._refer(location.file_id, entry.file_id)
        self._refer(entry.file_id, location.file_id)
        return destination.relocate(entry.position, *location, metadata.size)

    def remove(
        self,
        destination: DestinationIndex,
        message_id: str,
        location: Location,
        position: Position | None = None,
    ) -> IndexEntry | None:
        """Apply a removal and return the message's entry; None if there is no such message.

        Passing the message's `position`, if known, saves a lookup.
        """
        if position is None:
            known = destination.find(message_id)
            if known is None:
                return None
            position = known.position
        entry = destination.remove(position)
        if entry is not None:
            self._refer(location[0], entry.file_id)
        return entry

    def acknowledge(
        self, topic: TopicIndex, key: str, entry: IndexEntry, location: Location
    ) -> IndexEntry | None:
        """Apply an acknowledgement; return the entry if it was the last one, else None."""
        self._refer(location.file_id, entry.file_id)
        topic.mark_visible_to(key, entry.position)
        return topic.remove(entry.position) if topic.acknowledge(key, entry.position) else None

    # -- subscriptions and destinations

    def subscribe(
        self, topic: TopicIndex, key: str, info: bytes, retroactive: bool, location: Location
    ) -> None:
        """Apply a new subscription, or the new info of an existing one."""
        known = topic.subscriptions.get(key)
        if known is not None:
            self._refer(location.file_id, known.file_id)
        if retroactive:
            self._retain_other_subscriptions(topic)
        topic.subscribe(key, info, location, retroactive)

    def _retain_other_subscriptions(self, topic: TopicIndex) -> None:
        """Ensure that a replay gives a retroactive subscription the same messages as now.

        A replay keeps a message only if a subscription existed when it was added. The records of
        the subscriptions for which messages are kept must therefore stay as long as the messages.
        """
        while topic.is_reclaiming:
            topic.reclaim()
        for other in topic.subscriptions.values():
            if other.pending_count:
                for file_id in topic.files:
                    self._refer(other.file_id, file_id)

    def unsubscribe(self, topic: TopicIndex, key: str, location: Location) -> None:
        """End a durable subscription; a large backlog is reclaimed later (`is_reclaiming`)."""
        known = topic.subscriptions.get(key)
        if known is not None:
            self._refer(location.file_id, known.file_id)
            topic.unsubscribe(key)
            if topic.is_reclaiming:
                topic.reclaim()

    def remove_destination(self, destination: KahaDestination, location: Location) -> None:
        """Apply the removal of a destination with everything in it."""
        known = self.index.lookup(destination)
        if known is None:
            return
        for file_id in known.files:
            self._refer(location.file_id, file_id)
        if isinstance(known, TopicIndex):
            for subscription in known.subscriptions.values():
                self._refer(location.file_id, subscription.file_id)
        self.index.remove_destination(destination)

    # -- transactions

    def end_transaction(self, location: Location, files: Iterable[int]) -> None:
        """Apply the end, at `location`, of a transaction with records in these segments."""
        for file_id in files:
            self._refer(location.file_id, file_id)

    # -- helpers

    def _replace(self, destination: DestinationIndex, message_id: str, file_id: int) -> None:
        old = destination.find(message_id)
        if old is not None:
            self._refer(file_id, old.file_id)
            destination.remove(old.position)

    def _refer(self, file_id: int, target: int) -> None:
        if file_id != target:
            self.index.segments.add_reference(file_id, target)


DIRTY_LIMIT = 20_000
"""The number of index changes in memory above which a checkpoint is requested."""
_CHECK_EVERY = 64  # the number of records between two checks of DIRTY_LIMIT


class MessageDatabase:
    """An open journal and its index. Use it on the loop."""

    def __init__(self, journal: Journal, index: StoreIndex, record_format: RecordFormat) -> None:
        self.journal = journal
        self.index = index
        self.updater = IndexUpdater(index)
        self.format = record_format
        self.last: Location | None = None
        """The last record that was appended or replayed."""
        self.quarantine = Quarantine()
        self._until_check = _CHECK_EVERY
        self.on_dirty: Callable[[], None] | None = None
        """Called when a checkpoint is due because of the number of changes in memory."""
        self.before_checkpoint: Callable[[], None] | None = None
        """Called before a checkpoint collects changes, to store the oldest open transaction."""

    def append(
        self,
        payload: bytes,
        waiter: Completion = COMPLETED,
        *,
        sync: bool = False,
        lazy: bool = False,
        soon: bool = False,
    ) -> Location:
        """Append a record, which the caller must apply at once. See `Journal.append`."""
        self._until_check -= 1
        if not self._until_check:
            self._until_check = _CHECK_EVERY
            if self.index.dirty >= DIRTY_LIMIT and self.on_dirty is not None:
                self.on_dirty()
        location = self.journal.append(payload, waiter, sync=sync, lazy=lazy, soon=soon)
        self.last = location
        return location

    def segment_header(self) -> Sequence[bytes]:
        """Return the header of the next segment: data that deleting older segments would lose."""
        index = self.index
        arrivals = {d.key: [d.epoch, d.last_arrival + 1] for d in index.destinations()}
        return [self.audit_record(), trace_record(ARRIVALS, arrivals)]

    def audit_record(self) -> bytes:
        """Return the record of the last sequence numbers and the format's version."""
        index = self.index
        audit = {
            "last": index.last_broker_sequence_id,
            "producers": dict(index.producers.items()),
            "openwire": self.format.version,
        }
        return trace_record(AUDIT, audit)

    def append_arrivals(self, destinations: Sequence[DestinationIndex]) -> None:
        """Append a record of some destinations' next arrival numbers."""
        if destinations:
            text = {d.key: [d.epoch, d.last_arrival + 1] for d in destinations}
            self.append(trace_record(ARRIVALS, text), lazy=True)

    def destination(self, destination: KahaDestination, prioritized: bool) -> DestinationIndex:
        """Return a destination's index; the epoch of a new one is journalled."""
        known = self.index.lookup(destination)
        if known is None:
            known = self.index.destination(destination, prioritized)
            known.begin(_clock.time_ms(), 0)
            self.append_arrivals([known])
        return known

    def append_duplicate_ids(self, destination: DestinationIndex, ids: Sequence[str]) -> None:
        """Append duplicate ids whose segments are about to be deleted."""
        if ids:
            record = trace_record(DUPLICATES, {destination.key: list(ids)})
            file_id = self.append(record, lazy=True).file_id
            window = destination.duplicates
            window.relocate([each for each in ids if each in window], file_id)
            for each in ids:
                window.add(each, file_id)

    def read_entries(
        self, index: DestinationIndex, entries: Sequence[IndexEntry]
    ) -> list[StoredMessage]:
        """Return messages of a destination, reading adjacent ones together. May block.

        Unreadable messages are quarantined: hidden, logged, and left out of the result.

        Raises:
            JMSException: the journal cannot be read at present.
        """
        decode = self.format.stored_message
        try:
            payloads = self.journal.read_run([entry.location for entry in entries])
            return [
                StoredMessage(e.position, decode(p)) for e, p in zip(entries, payloads, strict=True)
            ]
        except Exception as error:
            if not is_damage(error):
                raise
        messages = []
        for entry in entries:
            message = self.read_or_quarantine(index.destination, entry.message_id, entry.location)
            if message is None:
                index.hide(entry.position)
            else:
                messages.append(StoredMessage(entry.position, message))
        return messages

    def read_or_quarantine(
        self, destination: KahaDestination, message_id: str, location: Location
    ) -> ActiveMQMessage | None:
        """Return one message; if it is unreadable, log that and return None. May block.

        Raises:
            JMSException: the journal cannot be read at present.
        """
        try:
            return self.format.stored_message(self.journal.read(location))
        except Exception as error:
            if not is_damage(error):
                raise
            name = from_kaha_destination(destination).qualified_name
            self.quarantine.add(name, message_id, location, error)
            return None
