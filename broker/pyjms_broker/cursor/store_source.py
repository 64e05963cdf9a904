"""Stored messages that are not in memory: only counted, and paged in from the store.

After a failure, reading resumes where the last successful read ended, so no message is skipped or
read twice. (activemq-broker M8; QueueStorePrefetch, TopicStorePrefetch)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms._logger import get_logger
from pyjms_broker.api.message import Position, Positions, StoredMessage
from pyjms_broker.cursor.sources import HIGHEST_PRIORITY, level_of

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["NextMessages", "PrioritizedStoreSource", "StoreSource"]

logger = get_logger(__name__)

NextMessages = Callable[[Position | None, int, Positions], list[StoredMessage]]
"""The method `next_messages` of a store, or of a durable subscription in it."""


class StoreSource:
    """Stored messages in order of arrival; those up to `paged_to` are or were in memory."""

    holds_in_memory = False

    def __init__(
        self,
        next_messages: NextMessages,
        page_in: Callable[[StoredMessage], MessageReference],
        recovered: int = 0,
        excluded: Positions = (),
    ) -> None:
        """Create a source that pages with `next_messages`.

        `page_in` creates the reference of a stored message. `recovered` is the number of messages
        already in the store, none of them in memory. Positions in `excluded`, which changes over
        time, are not read: these messages exist only in the store and will be removed from it.
        """
        self.paged_to: Position | None = None
        self._visible_to: Position | None = None
        self._next_messages = next_messages
        self._page_in = page_in
        self._count = recovered
        self._excluded = excluded

    def __len__(self) -> int:
        return self._count

    def mark_visible(self, position: Position) -> None:
        """Record that the message at this position is, or was, in memory."""
        if self._visible_to is None or position > self._visible_to:
            self._visible_to = position

    def begin(self) -> None:
        self.paged_to = self._visible_to

    def is_paged_out(self, position: Position) -> bool:
        """Whether the message at this position was never in memory."""
        behind = self.paged_to is None or position > self.paged_to
        return behind and position not in self._excluded

    def add(self, reference: MessageReference) -> bool:
        position = reference.position
        if position is None or not self.is_paged_out(position):
            return False  # later messages are visible or already paged in
        self._count += 1
        return True

    def read(self, limit: int) -> list[MessageReference]:
        if not self._count:
            return []
        page = self.first_paged_out(limit)
        if not page:
            logger.warning("%d messages are not in the store, or were quarantined", self._count)
            self._count = 0
            return []
        references: list[MessageReference] = []
        try:
            for stored in page:
                reference = self._page_in(stored)
                references.append(reference)
        except Exception:
            if not references:
                raise
            del page[len(references) :]  # the next read begins with the failing one
        self._count = max(0, self._count - len(page))
        self._passed(page)
        return references

    def first_paged_out(self, limit: int) -> list[StoredMessage]:
        """Return the first `limit` messages that are not in memory, without removing them."""
        return self._next_messages(self.first_after, limit, self._excluded) if self._count else []

    @property
    def first_after(self) -> Position | None:
        """The position after which all messages are outside memory."""
        return self.paged_to

    def count_above(self, priority: int) -> int:
        """Return 0: this source ignores priorities."""
        return 0

    def remove(self, reference: MessageReference) -> bool:
        position = reference.position
        if not self._count or position is None or not self.is_paged_out(position):
            return False
        self._count -= 1
        return True

    def clear(self) -> None:
        self._count = 0

    def _passed(self, page: list[StoredMessage]) -> None:
        self.paged_to = page[-1].position
        self.mark_visible(self.paged_to)


class PrioritizedStoreSource(StoreSource):
    """Stored messages by priority; pages are read from the start, skipping those in memory."""

    def __init__(
        self,
        next_messages: NextMessages,
        page_in: Callable[[StoredMessage], MessageReference],
        excluded: Positions,
        recovered: int = 0,
    ) -> None:
        """Create a source that skips the positions in `excluded`, including all in memory."""
        super().__init__(next_messages, page_in, recovered, excluded)
        self._by_priority = [0] * (HIGHEST_PRIORITY + 1)  # counts the added messages

    @property
    def first_after(self) -> Position | None:
        return None

    def begin(self) -> None:
        """Do nothing: `excluded` contains the positions of messages in memory."""

    def is_paged_out(self, position: Position) -> bool:
        return position not in self._excluded

    def add(self, reference: MessageReference) -> bool:
        if reference.position is None:
            return False
        self._count += 1
        self._by_priority[level_of(reference.priority)] += 1
        return True

    def count_above(self, priority: int) -> int:
        return min(self._count, sum(self._by_priority[priority + 1 :]))

    def _passed(self, page: list[StoredMessage]) -> None:
        counts = self._by_priority
        for stored in page:
            level = level_of(stored.message.priority)
            counts[level] = max(0, counts[level] - 1)
        for level in range(level_of(page[-1].message.priority) + 1, len(counts)):
            counts[level] = 0  # all above the last message's priority have been read
