"""What the parts of an open store share: journal, updater, format, and the way into the journal.

Every record goes through `append`, and what it says is applied to the updater before the next
one is appended: the head of a new segment then tells the numbers of that very place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.api.completion import Completion
from broker.store.journal.journal import Journal
from broker.store.kahadb.index import DestinationIndex, StoreIndex
from broker.store.kahadb.index_updater import IndexUpdater
from broker.store.kahadb.records import RecordFormat
from broker.store.kahadb.trace_records import ARRIVALS, AUDIT, DUPLICATES, trace_record
from pyjms import _clock
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaDestination
from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["DIRTY_LIMIT", "MessageDatabase"]

DIRTY_LIMIT = 20_000
"""Changes of the index that wait in memory for a checkpoint before one is asked for."""
_LOOK_EVERY = 64  # records, between two looks at that


class MessageDatabase:
    """An open journal and its index. Belongs to the loop."""

    def __init__(self, journal: Journal, index: StoreIndex, record_format: RecordFormat) -> None:
        self.journal = journal
        self.index = index
        self.updater = IndexUpdater(index)
        self.format = record_format
        self.last: Location | None = None
        """The last record that the index knows of."""
        self._until_look = _LOOK_EVERY
        self.on_dirty: Callable[[], None] | None = None
        """Called when a checkpoint is due because of the memory that changes take."""
        self.before_checkpoint: Callable[[], None] | None = None
        """Called before the index is frozen: what it must know of open transactions."""

    def append(
        self,
        payload: bytes,
        waiter: Completion | None = None,
        *,
        sync: bool = False,
        lazy: bool = False,
        soon: bool = False,
    ) -> Location:
        """Append a record; the caller applies it at once. See `Journal.append`."""
        self._until_look -= 1
        if not self._until_look:
            self._until_look = _LOOK_EVERY
            if self.index.dirty >= DIRTY_LIMIT and self.on_dirty is not None:
                self.on_dirty()
        location = self.journal.append(payload, waiter, sync=sync, lazy=lazy, soon=soon)
        self.last = location
        return location

    def segment_header(self) -> Sequence[bytes]:
        """Return what the next segment begins with: all that older ones may take with them."""
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
        """Write down where the numbers of some destinations are."""
        if destinations:
            text = {d.key: [d.epoch, d.last_arrival + 1] for d in destinations}
            self.append(trace_record(ARRIVALS, text), lazy=True)

    def destination(self, destination: KahaDestination, prioritized: bool) -> DestinationIndex:
        """Return a destination's part of the index; a new one has its epoch written down."""
        known = self.index.lookup(destination)
        if known is None:
            known = self.index.destination(destination, prioritized)
            known.begin(_clock.time_ms(), 0)
            self.append_arrivals([known])
        return known

    def duplicates(self, destination: DestinationIndex, ids: Sequence[str]) -> None:
        """Write down duplicate ids whose messages' segments are about to go."""
        if ids:
            record = trace_record(DUPLICATES, {destination.key: list(ids)})
            file_id = self.append(record, lazy=True).file_id
            window = destination.duplicates
            window.relocate([each for each in ids if each in window], file_id)
            for each in ids:
                window.add(each, file_id)

    def read(self, location: Location) -> ActiveMQMessage:
        """Return the message of the add or update at `location`. Reads from the disk."""
        return self.format.stored_message(self.journal.read(location))

    def read_all(self, locations: Sequence[Location]) -> list[ActiveMQMessage]:
        """Return the messages of these records, neighbours read together."""
        decode = self.format.stored_message
        return [decode(payload) for payload in self.journal.read_run(locations)]
