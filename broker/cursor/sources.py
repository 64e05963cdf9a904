"""Where messages wait that a cursor does not hold: a spool, or memory after all.

A source knows how many they are, and reads the next ones back in their order. Stores have a
room of their own, `store_source`. (ActiveMQ M8; FilePendingMessageCursor)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from broker.cursor.memory import FifoPendingList, PrioritizedPendingList

if TYPE_CHECKING:
    from broker.api.message import MessageReference
    from broker.store.temp import Spool, SpooledMessage, TempStore

__all__ = ["HIGHEST_PRIORITY", "MemorySource", "MessageSource", "SpoolSource", "level_of"]

HIGHEST_PRIORITY: Final = 9
_SEARCH_PAGE: Final = 16


def level_of(priority: int) -> int:
    """Return a priority as one of 0 to 9."""
    return min(max(priority, 0), HIGHEST_PRIORITY)


class MessageSource(Protocol):
    """Messages of one kind, outside the cursor."""

    holds_in_memory: bool
    """Whether what it takes stays in memory."""

    def __len__(self) -> int: ...

    def begin(self) -> None:
        """Take note that from now on `add` is asked: everything so far is in the cursor."""

    def add(self, reference: MessageReference) -> bool:
        """Take the message over, behind the others; False: the cursor must hold it."""

    def read(self, limit: int) -> list[MessageReference]:
        """Give at most `limit` messages back, in order.

        Raises:
            JMSException: they cannot be read.
        """

    def count_above(self, priority: int) -> int:
        """Return how many messages, as far as is known, are more urgent than `priority`."""

    def remove(self, reference: MessageReference) -> bool:
        """Forget a message; return whether it was here."""

    def clear(self) -> None:
        """Forget all."""


class SpoolSource:
    """Messages in the temp store; with priorities in a spool for each of them."""

    holds_in_memory = False

    def __init__(
        self,
        temp_store: TempStore,
        name: str,
        paged_in: Callable[[SpooledMessage], MessageReference],
        prioritized: bool,
    ) -> None:
        self._prioritized = prioritized
        self._spools = [
            temp_store.spool(name) for _ in range(HIGHEST_PRIORITY + 1 if prioritized else 1)
        ]
        self._paged_in = paged_in

    def __len__(self) -> int:
        return sum(map(len, self._spools))

    def begin(self) -> None:
        """Nothing to do."""

    def add(self, reference: MessageReference) -> bool:
        self._spools[level_of(reference.priority) if self._prioritized else 0].append(reference)
        return True

    def read(self, limit: int) -> list[MessageReference]:
        return [self._paged_in(spooled) for spooled in self.take(limit)]

    def take(self, limit: int) -> list[SpooledMessage]:
        """Take at most `limit` messages, all of one priority where that matters.

        Raises:
            JMSException: they cannot be read.
        """
        for spool in reversed(self._spools):
            if len(spool):
                return spool.pop(limit)
        return []

    def count_above(self, priority: int) -> int:
        return sum(map(len, self._spools[priority + 1 :])) if self._prioritized else 0

    def browse(self, page_size: int) -> Iterator[tuple[Spool, SpooledMessage]]:
        """Go through the messages in order, reading by pages; each with the spool that has it."""
        for spool in reversed(self._spools):
            token: int | None = None
            while page := spool.browse(token, page_size):
                for spooled in page:
                    yield spool, spooled
                token = page[-1].token

    def remove(self, reference: MessageReference) -> bool:
        for spool, spooled in self.browse(_SEARCH_PAGE):
            if spooled.message.message_id == reference.message_id:
                return spool.remove(spooled)
        return False

    def clear(self) -> None:
        for spool in self._spools:
            spool.clear()


class MemorySource:
    """Messages that no store takes: they wait in memory, apart from the cursor."""

    holds_in_memory = True

    def __init__(self, prioritized: bool) -> None:
        self._pending = PrioritizedPendingList() if prioritized else FifoPendingList()

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self) -> None:
        """Nothing to do."""

    def add(self, reference: MessageReference) -> bool:
        self._pending.append(reference)
        return True

    def read(self, limit: int) -> list[MessageReference]:
        return [self._pending.take() for _ in range(min(limit, len(self._pending)))]

    def count_above(self, priority: int) -> int:
        pending = self._pending
        return pending.count_above(priority) if isinstance(pending, PrioritizedPendingList) else 0

    def remove(self, reference: MessageReference) -> bool:
        return self._pending.remove(reference)

    def clear(self) -> None:
        self._pending.clear()
