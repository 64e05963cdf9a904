"""The messages of a queue, in memory or paged out to its store and the temp store.

`references` are the messages in memory, in flight or waiting. Paged-out messages are counted by the
cursor's sources and read page by page. For them, browsing and searching return new references,
which are not added to `references`. (activemq-broker M8, Q31, Q32)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    from pyjms_broker.region.base_destination import BaseDestination
    from pyjms_broker.store.temp import SpooledMessage, TempStore

__all__ = ["QueueContents"]


class QueueContents:
    """The messages of one queue."""

    def __init__(
        self, queue: BaseDestination, store: MessageStore | None, temp_store: TempStore | None
    ) -> None:
        """Start with the store's messages; without a store all messages stay in memory."""
        self.references: dict[MessageReference, None] = {}
        self.excluded: set[Position] | None = None
        """Positions that a prioritized source must not page in: those of `references` and of
        `dead_letter_ordering`. None without priorities, where the last position that was read
        is sufficient."""
        self._queue = queue
        self._store = store
        self._store_source: StoreSource | None = None
        self._unstored: SpoolSource | MemorySource | None = None
        prioritized = queue.policy.prioritized_messages
        if store is not None and prioritized:
            self.excluded = set()
        self.dead_letter_ordering = DeadLetterOrdering(self.excluded)
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
        if self.excluded is not None:
            self._store_source = PrioritizedStoreSource(
                store.next_messages, self._page_in, self.excluded, recovered
            )
        else:
            self._store_source = StoreSource(
                store.next_messages, self._page_in, recovered, self.dead_letter_ordering.positions
            )
        if temp_store is None:
            self._unstored = MemorySource(prioritized)
        else:
            self._unstored = SpoolSource(
                temp_store, str(queue), self._page_in_spooled, prioritized, self._on_lost
            )
        in_memory = queue.policy.pending_queue_policy == "vmQueueCursor"
        cursor = (PrioritizedSpillingCursor if prioritized else SpillingCursor)(
            str(queue),
            self._source_of,
            never_short if in_memory else queue.is_memory_short,
            self._on_spilled,
            queue.policy.max_page_size,
            UNLIMITED if in_memory else MOST_CACHED,
        )
        cursor.add_source(self._store_source)
        cursor.add_source(self._unstored)
        if in_memory:
            cursor.read_ahead(UNLIMITED)
        return cursor

    def _source_of(self, reference: MessageReference) -> MessageSource:
        source = self._unstored if reference.position is None else self._store_source
        assert source is not None, "only a spilling cursor needs a source"
        return source

    # into and out of memory
    def add(self, reference: MessageReference) -> None:
        """Add a message to those in memory; its size is already counted."""
        self.references[reference] = None
        ordering = self.dead_letter_ordering
        if ordering.positions or self.excluded is not None:
            ordering.entered_memory(reference.position)

    def mark_visible(self, reference: MessageReference) -> None:
        """Mark a message visible in the store: the queue counts it and has it in memory."""
        if self._store is not None and self._store_source is not None and reference.position:
            self._store.mark_visible(reference)
            self._store_source.mark_visible(reference.position)

    def remove(self, reference: MessageReference) -> None:
        """Remove a message from memory; the caller subtracts its size."""
        del self.references[reference]
        if self.excluded is not None:
            self.dead_letter_ordering.left_memory(reference.position)

    def _on_lost(self, count: int) -> None:
        self._queue.statistics.messages -= count

    def _on_spilled(self, reference: MessageReference) -> None:
        self.remove(reference)
        self._queue.memory.decrease(reference.size)

    def _page_in(self, stored: StoredMessage) -> MessageReference:
        return self._add_paged_in(self._queue.reference_to(stored.message, stored.position))

    def _page_in_spooled(self, spooled: SpooledMessage) -> MessageReference:
        reference = self._queue.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        return self._add_paged_in(reference)

    def _add_paged_in(self, reference: MessageReference) -> MessageReference:
        self._queue.memory.increase(reference.size)
        self.add(reference)
        return reference

    # browsing and searching
    def __iter__(self) -> Iterator[MessageReference]:
        """Iterate over all messages, first those in memory; new ones may be missed."""
        in_memory = tuple(self.references)
        yield from in_memory
        if self._store is not None and self._store_source is not None and len(self._store_source):
            yield from self._browse_store(self._store, in_memory)
        if isinstance(self._unstored, SpoolSource):
            for _, spooled in self._unstored.browse(self._page_size):
                yield self._queue.reference_to(spooled.message)

    def _browse_store(
        self, store: MessageStore, in_memory: tuple[MessageReference, ...]
    ) -> Iterator[MessageReference]:
        assert self._store_source is not None
        after = self._store_source.first_after
        skip = frozenset(self.dead_letter_ordering.positions)
        if self.excluded is not None:
            skip = skip.union(r.position for r in in_memory if r.position is not None)
        while page := store.next_messages(after, self._page_size, skip):
            for stored in page:
                yield self._queue.reference_to(stored.message, stored.position)
            after = page[-1].position

    @property
    def _page_size(self) -> int:
        return self._queue.policy.max_page_size

    def find(self, message_id: MessageId) -> MessageReference | None:
        """Return the message with this id; None if there is none."""
        for reference in self.references:
            if reference.message_id == message_id:
                return reference
        if self._store is not None and self._store_source is not None and len(self._store_source):
            stored = self._store.get_message(message_id)
            if stored is not None and self._store_source.is_paged_out(stored.position):
                return self._queue.reference_to(stored.message, stored.position)
        if isinstance(self._unstored, SpoolSource):
            for _, spooled in self._unstored.browse(self._page_size):
                if spooled.message.message_id == message_id:
                    return self._queue.reference_to(spooled.message)
        return None

    # paged-out messages
    def in_memory(self, reference: MessageReference) -> MessageReference | None:
        """Return the reference in memory to the same message; None if it is not in memory."""
        if reference in self.references:
            return reference
        position, message_id = reference.position, reference.message_id
        return next(
            (r for r in self.references if r.message_id == message_id and r.position == position),
            None,
        )

    def first_paged_out(self, limit: int) -> list[MessageReference]:
        """Return new references to the first `limit` paged-out messages without removing them."""
        found = self.first_stored(limit)
        if isinstance(self._unstored, SpoolSource):
            spooled = islice(self._unstored.browse(limit), limit - len(found))
            found += [self._queue.reference_to(each.message) for _, each in spooled]
        return found

    def first_stored(self, limit: int) -> list[MessageReference]:
        """Return new references to the first `limit` messages that only the store has."""
        page = [] if self._store_source is None else self._store_source.first_paged_out(limit)
        return [self._queue.reference_to(stored.message, stored.position) for stored in page]

    def pop_spooled(self, limit: int) -> list[MessageReference]:
        """Remove and return the first `limit` messages in the temp store."""
        if not isinstance(self._unstored, SpoolSource):
            return []
        removed = self._unstored.pop(limit)
        if isinstance(self.cursor, SpillingCursor):
            self.cursor.end_spilling_if_empty()
        return [self._queue.reference_to(spooled.message) for spooled in removed]

    def move_spooled(self, accept: Callable[[MessageReference], None], page_size: int) -> None:
        """Pass each message of the temp store to `accept`, then remove it from the temp store.

        An exception of `accept` is propagated: that message and those behind it stay.
        """
        if not isinstance(self._unstored, SpoolSource):
            return
        for spool, spooled in self._unstored.browse(page_size):
            reference = self._queue.reference_to(spooled.message)
            reference.redelivery_counter = spooled.redelivery_counter
            accept(reference)
            if spool.remove(spooled):
                self._queue.statistics.messages -= 1
        if isinstance(self.cursor, SpillingCursor):
            self.cursor.end_spilling_if_empty()

    def may_be_paged_out(self, reference: MessageReference) -> bool:
        """Return whether the message may be among the paged-out ones.

        The result is exact for a stored message; only `remove_paged_out` finds a spooled one.
        """
        source, position = self._store_source, reference.position
        if position is None or source is None:
            return source is not None
        return len(source) > 0 and source.is_paged_out(position)

    def remove_paged_out(self, reference: MessageReference) -> bool:
        """Remove a paged-out message, except from the store; return whether it was there."""
        return isinstance(self.cursor, SpillingCursor) and self.cursor.remove_paged_out(reference)

    @property
    def paged_out_count(self) -> int:
        """Return the number of paged-out messages."""
        return self.cursor.paged_out_count if isinstance(self.cursor, SpillingCursor) else 0
