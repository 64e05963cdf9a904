"""The core of an open store: the journal, its index, and what needs both.

A record is appended to the journal, and the caller applies it to the index before the next one is
appended. The header of a new segment, which is created inside an append, therefore contains the
numbers at exactly that point of the journal. ActiveMQ: MessageDatabase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyjms.runtime import clock as _clock
from pyjms.wire.kahadb.commands import KahaDestination
from pyjms.wire.kahadb.frames import from_kaha_destination
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.message import StoredMessage
from pyjms_broker.store.damage import Quarantine, is_damage
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry, StoreIndex
from pyjms_broker.store.kahadb.records import (
    ARRIVALS,
    AUDIT,
    DUPLICATES,
    RecordFormat,
    trace_record,
)


class MessageDatabase:
    """An open journal and its index. Use it on the loop."""

    def __init__(self, journal: Journal, index: StoreIndex, record_format: RecordFormat) -> None:
        self.journal = journal
        self.index = index
        self.format = record_format
        self.quarantine = Quarantine()
        self.before_checkpoint: Callable[[], None] | None = None
        """Called before a checkpoint collects changes, to store the oldest open transaction."""

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
            self.journal.append(trace_record(ARRIVALS, text), lazy=True)

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
            file_id = self.journal.append(record, lazy=True).file_id
            window = destination.duplicates
            window.relocate([each for each in ids if each in window], file_id)
            for each in ids:
                window.add(each, file_id)

    def read_entries(
        self, index: DestinationIndex, entries: Sequence[IndexEntry]
    ) -> list[StoredMessage]:
        """Return messages of a destination, reading adjacent ones together. May block.

        Unreadable messages are quarantined: hidden, logged, and left out of the result.
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
        """Return one message; if it is unreadable, log that and return None. May block."""
        try:
            return self.format.stored_message(self.journal.read(location))
        except Exception as error:
            if not is_damage(error):
                raise
            name = from_kaha_destination(destination).qualified_name
            self.quarantine.add(name, message_id, location, error)
            return None
