"""What a queue holds: in memory, beyond that in its store and in the temp store.

`references` are the messages in memory, in flight or waiting. What is outside is counted by
the cursor's sources and read by pages; whoever looks at it gets references of his own.
(activemq-broker M8, Q31, Q32)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.message import MessageReference, Position, StoredMessage
from pyjms_broker.cursor.base import PendingCursor
from pyjms_broker.cursor.memory import pending_list
from pyjms_broker.cursor.sources import MemorySource, MessageSource, SpoolSource
from pyjms_broker.cursor.spilling import (
    MOST_CACHED,
    UNLIMITED,
    PrioritizedSpillingCursor,
    SpillingCursor,
    never_short,
)
from pyjms_broker.cursor.store_source import PrioritizedStoreSource, StoreSource
from pyjms_broker.region.dead_letter.ordering import DeadLetterOrdering
from pyjms_broker.store.api import MessageStore

if TYPE_CHECKING:
    from pyjms_broker.region.queue.queue import Queue
    from pyjms_broker.store.temp import SpooledMessage, TempStore

__all__ = ["QueueContents"]


class QueueContents:
    """The messages of one queue."""

    def __init__(
        self, queue: Queue, store: MessageStore | None, temp_store: TempStore | None
    ) -> None:
        """Take what the store has from before; without a store everything stays in memory."""
        self.references: dict[MessageReference, None] = {}
        self.held: set[Position] | None = None
        """Stored ones by position that are not to be read, where the priority makes the order:
        those of `references` and those of `dead_letter_ordering`."""
        self._queue = queue
        self._store = store
        self._from_store: StoreSource | None = None
        self._from_memory: SpoolSource | MemorySource | None = None
        prioritized = queue.policy.prioritized_messages
        if store is not None and prioritized:
            self.held = set()
        self.dead_letter_ordering = DeadLetterOrdering(self.held)
        self.leaving = self.dead_letter_ordering.positions
        """The stored ones that are in memory no more, but are not to be read."""
        self.cursor: PendingCursor
        if store is None:
            self.cursor = pending_list(prioritized)
        else:
            self.cursor = self._make_cursor(store, temp_store, prioritized)

    def _make_cursor(
        self, store: MessageStore, temp_store: TempStore | None, prioritized: bool
    ) -> PendingCursor:
        queue = self._queue
        recovered = store.message_count
        queue.statistics.messages += recovered
        if self.held is not None:
            self._from_store = PrioritizedStoreSource(
                store.next_messages,
                self._paged_in,
                self.held,
                recovered,
            )
        else:
            self._from_store = StoreSource(
                store.next_messages, self._paged_in, recovered, self.leaving
            )
        if temp_store is None:
            self._from_memory = MemorySource(prioritized)
        else:
            self._from_memory = SpoolSource(temp_store, str(queue), self._unspooled, prioritized)
        in_memory = queue.policy.pending_queue_policy == "vmQueueCursor"
        cursor = (PrioritizedSpillingCursor if prioritized else SpillingCursor)(
            str(queue),
            self._source_of,
            never_short if in_memory else queue.is_short,
            self._spilled,
            queue.policy.max_page_size,
            UNLIMITED if in_memory else MOST_CACHED,
        )
        cursor.add_source(self._from_store)
        cursor.add_source(self._from_memory)
        if in_memory:
            cursor.read_ahead(UNLIMITED)
        return cursor

    def _source_of(self, reference: MessageReference) -> MessageSource:
        source = self._from_memory if reference.position is None else self._from_store
        assert source is not None, "only a spilling cursor asks"
        return source

    # into memory, out of memory
    def hold(self, reference: MessageReference) -> None:
        """Have a message in memory; its size is counted already."""
        self.references[reference] = None
        position = reference.position
        if position is not None:
            self.leaving.discard(position)
            if self.held is not None:
                self.held.add(position)

    def mark_visible(self, reference: MessageReference) -> None:
        """Let the store know that the queue counts a message, and has it in memory."""
        if self._store is not None and self._from_store is not None and reference.position:
            self._store.mark_visible(reference)
            self._from_store.mark_visible(reference.position)

    def release(self, reference: MessageReference) -> None:
        """Have it in memory no more; its size is counted still."""
        del self.references[reference]
        position = reference.position
        if self.held is not None and position is not None and position not in self.leaving:
            self.held.discard(position)

    def _spilled(self, reference: MessageReference) -> None:
        self.release(reference)
        self._queue.memory.decrease(reference.size)

    def _paged_in(self, stored: StoredMessage) -> MessageReference:
        return self._came_back(self._queue.reference_to(stored.message, stored.position))

    def _unspooled(self, spooled: SpooledMessage) -> MessageReference:
        reference = self._queue.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        return self._came_back(reference)

    def _came_back(self, reference: MessageReference) -> MessageReference:
        self._queue.memory.increase(reference.size)
        self.hold(reference)
        return reference

    # looking
    def __iter__(self) -> Iterator[MessageReference]:
        """Go through all messages, those in memory first; what comes meanwhile may be missed."""
        in_memory = tuple(self.references)
        yield from in_memory
        if self._store is not None and self._from_store is not None and len(self._from_store):
            yield from self._stored(self._store, in_memory)
        if isinstance(self._from_memory, SpoolSource):
            for _, spooled in self._from_memory.browse(self._page_size):
                yield self._queue.reference_to(spooled.message)

    def _stored(
        self, store: MessageStore, in_memory: tuple[MessageReference, ...]
    ) -> Iterator[MessageReference]:
        assert self._from_store is not None
        after = self._from_store.first_after
        skip = frozenset(self.leaving)
        if self.held is not None:
            skip = skip.union(r.position for r in in_memory if r.position is not None)
        while page := store.next_messages(after, self._page_size, skip):
            for stored in page:
                yield self._queue.reference_to(stored.message, stored.position)
            after = page[-1].position

    @property
    def _page_size(self) -> int:
        return self._queue.policy.max_page_size

    def find(self, message_id: MessageId) -> MessageReference | None:
        """Return the message with that id, None if there is none."""
        for reference in self.references:
            if reference.message_id == message_id:
                return reference
        if self._store is not None and self._from_store is not None and len(self._from_store):
            stored = self._store.get_message(message_id)
            if stored is not None and self._from_store.is_outside(stored.position):
                return self._queue.reference_to(stored.message, stored.position)
        if isinstance(self._from_memory, SpoolSource):
            for _, spooled in self._from_memory.browse(self._page_size):
                if spooled.message.message_id == message_id:
                    return self._queue.reference_to(spooled.message)
        return None

    # what is outside, one by one
    def in_memory(self, reference: MessageReference) -> MessageReference | None:
        """Return what memory holds of a message, None if it is outside or gone."""
        if reference in self.references:
            return reference
        position, message_id = reference.position, reference.message_id
        return next(
            (r for r in self.references if r.message_id == message_id and r.position == position),
            None,
        )

    def first_outside(self, limit: int) -> list[MessageReference]:
        """Return the first `limit` messages that are outside; see `take_out`."""
        found = self.first_stored(limit)
        if isinstance(self._from_memory, SpoolSource):
            spooled = islice(self._from_memory.browse(limit), limit - len(found))
            found += [self._queue.reference_to(each.message) for _, each in spooled]
        return found

    def first_stored(self, limit: int) -> list[MessageReference]:
        """Return the first `limit` messages that only the store has."""
        page = [] if self._from_store is None else self._from_store.first_outside(limit)
        return [self._queue.reference_to(stored.message, stored.position) for stored in page]

    def take_spooled(self, limit: int) -> list[MessageReference]:
        """Take the first `limit` messages out of the temp store."""
        if not isinstance(self._from_memory, SpoolSource):
            return []
        taken = self._from_memory.take(limit)
        if isinstance(self.cursor, SpillingCursor):
            self.cursor.settle()
        return [self._queue.reference_to(spooled.message) for spooled in taken]

    def is_outside(self, reference: MessageReference) -> bool:
        """Whether a message may be outside: one of the store's is, for others `take_out` knows."""
        source, position = self._from_store, reference.position
        if position is None or source is None:
            return source is not None
        return len(source) > 0 and source.is_outside(position)

    def take_out(self, reference: MessageReference) -> bool:
        """Forget a message that is outside; return whether it was. The store has it still."""
        return isinstance(self.cursor, SpillingCursor) and self.cursor.take_out(reference)

    @property
    def outside_count(self) -> int:
        """How many messages are outside."""
        return self.cursor.outside_count if isinstance(self.cursor, SpillingCursor) else 0
