"""Late additions: messages that are journaled when the next write begins, unless consumed before.

Theory of operation
-------------------

While one write is in progress, queues dispatch the messages that arrive, and fast consumers may
acknowledge a message before its own write begins. Such a message is neither added nor removed: the
journal has no record of it, and its sender gets a response because it was consumed.
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

from typing import Final, NamedTuple

from pyjms_broker.api.completion import Completion
from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index import DestinationIndex
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import MessageMetadata
from pyjms_broker.store.kahadb.trace_records import ARRIVALS, trace_record

__all__ = ["LateAdds", "QueueLateAdds"]

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
        if self.queues:
            for queue in self._take():
                queue.write()

    def discard(self) -> list[Completion]:
        """Drop all of them, because the journal has failed; return their waiters."""
        return [waiter for queue in self._take() for waiter in queue.discard()]

    def _take(self) -> dict[QueueLateAdds, None]:
        queues, self.queues = self.queues, {}
        self.count = self.size = 0
        return queues

    def cancelled(self, waiter: Completion) -> None:
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

    __slots__ = ("_announce", "_index", "_last", "_late", "_visible", "adds")

    def __init__(self, late: LateAdds) -> None:
        self.adds: dict[str, _LateAdd] = {}
        """By message id."""
        self._late = late
        self._announce = late.db.journal.announce
        self._visible: set[int] = set()
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
        """Add a message and return its position.

        Raises:
            IllegalStateException: the journal is not open.
            ResourceAllocationException: the journal has failed.
        """
        self._announce()
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

    def mark_visible(self, arrival: int) -> None:
        """Record that the message with this number is visible."""
        self._visible.add(arrival)

    def cancel(self, message_id: str) -> bool:
        """Drop a message that was consumed; return whether it was a late addition."""
        add = self.adds.pop(message_id, None)
        if add is None:
            return False
        late = self._late
        late.count -= 1
        late.size -= len(add.payload)
        if not self.adds:
            del late.queues[self]
            self._visible.clear()
        late.db.updater.note_sender(add.metadata)
        late.cancelled(add.waiter)
        return True

    def write(self) -> None:
        """Append all of them; called by `LateAdds`."""
        adds, self.adds = self.adds, {}
        visible, self._visible = self._visible, set()
        db, index = self._late.db, self._index
        assert index is not None, "it had additions"
        appended: list[Completion] = []
        for (_, arrival), metadata, payload, waiter, sync in adds.values():
            try:
                if arrival != index.last_arrival + 1:
                    self._skip_to(arrival, index)
                location = db.append(payload, sync=sync)
            except Exception as error:
                waiter.complete(error)
            else:
                db.updater.add(index, metadata, location, hidden=arrival not in visible)
                appended.append(waiter)
        db.journal.add_waiters(appended)

    def _skip_to(self, arrival: int, index: DestinationIndex) -> None:
        """Append a record that makes a replay skip the numbers of consumed messages."""
        record = trace_record(ARRIVALS, {index.key: [index.epoch, arrival]})
        self._late.db.append(record, lazy=True)
        index.begin(index.epoch, arrival - 1)

    def discard(self) -> list[Completion]:
        """Drop all of them and return their waiters; called by `LateAdds`."""
        adds, self.adds = self.adds, {}
        self._visible.clear()
        return [add.waiter for add in adds.values()]
