"""Sources of messages outside a cursor's head: a spool or a separate list.

A source counts its messages and reads the next ones back in order. The sources over stores are in
`pyjms_broker.cursor.store_source`. (activemq-broker M8; FilePendingMessageCursor)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from pyjms._logger import get_logger
from pyjms_broker.cursor.memory import FifoPendingList, PrioritizedPendingList

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.store.temp import Spool, SpooledMessage, TempStore

__all__ = ["HIGHEST_PRIORITY", "MemorySource", "MessageSource", "SpoolSource", "level_of"]

logger = get_logger(__name__)

HIGHEST_PRIORITY: Final = 9
_SEARCH_PAGE: Final = 16


def level_of(priority: int) -> int:
    """Limit a priority to 0 to 9."""
    return min(max(priority, 0), HIGHEST_PRIORITY)


class MessageSource(Protocol):
    """Messages of one kind (persistent or non-persistent) outside the cursor's head."""

    holds_in_memory: bool
    """Whether accepted messages stay in memory."""

    def __len__(self) -> int: ...

    def begin(self) -> None:
        """Prepare for `add`: all earlier messages are in the cursor."""

    def add(self, reference: MessageReference) -> bool:
        """Append the message and return True; return False if the cursor must hold it."""

    def read(self, limit: int) -> list[MessageReference]:
        """Remove and return at most `limit` messages, in order.

        Raises:
            JMSException: they cannot be read.
        """

    def count_above(self, priority: int) -> int:
        """Return the known number of messages with a priority above `priority`."""

    def remove(self, reference: MessageReference) -> bool:
        """Drop a message; return whether it was in this source."""

    def clear(self) -> None:
        """Drop all messages."""


class SpoolSource:
    """Messages in the temp store: one spool, or one per priority."""

    holds_in_memory = False

    def __init__(
        self,
        temp_store: TempStore,
        name: str,
        page_in: Callable[[SpooledMessage], MessageReference],
        prioritized: bool,
        on_lost: Callable[[int], None] = lambda _count: None,
    ) -> None:
        """Create a source; `on_lost` gets the number of messages that cannot be read back."""
        self._prioritized = prioritized
        self._spools = [
            temp_store.spool(name, on_lost)
            for _ in range(HIGHEST_PRIORITY + 1 if prioritized else 1)
        ]
        self._page_in = page_in
        self._on_lost = on_lost

    def __len__(self) -> int:
        return sum(map(len, self._spools))

    def begin(self) -> None:
        """Do nothing: a spool does not depend on positions."""

    def add(self, reference: MessageReference) -> bool:
        self._spools[level_of(reference.priority) if self._prioritized else 0].append(reference)
        return True

    def read(self, limit: int) -> list[MessageReference]:
        references: list[MessageReference] = []
        for spooled in self.pop(limit):
            try:
                references.append(self._page_in(spooled))
            except Exception:  # damage that decoding did not detect, such as a wrong destination
                logger.exception("Message %s of the temp store is lost", spooled.message.message_id)
                self._on_lost(1)
        return references

    def pop(self, limit: int) -> list[SpooledMessage]:
        """Remove and return at most `limit` messages, all of one priority if prioritized.

        Raises:
            JMSException: they cannot be read.
        """
        for spool in reversed(self._spools):
            if popped := spool.pop(limit):
                return popped
        return []

    def count_above(self, priority: int) -> int:
        return sum(map(len, self._spools[priority + 1 :])) if self._prioritized else 0

    def browse(self, page_size: int) -> Iterator[tuple[Spool, SpooledMessage]]:
        """Iterate over the messages in order, page by page, each with its spool."""
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
    """Messages that no store accepts, kept in memory outside the cursor's head."""

    holds_in_memory = True

    def __init__(self, prioritized: bool) -> None:
        self._pending = PrioritizedPendingList() if prioritized else FifoPendingList()

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self) -> None:
        """Do nothing: a list does not depend on positions."""

    def add(self, reference: MessageReference) -> bool:
        self._pending.append(reference)
        return True

    def read(self, limit: int) -> list[MessageReference]:
        return [self._pending.pop() for _ in range(min(limit, len(self._pending)))]

    def count_above(self, priority: int) -> int:
        pending = self._pending
        return pending.count_above(priority) if isinstance(pending, PrioritizedPendingList) else 0

    def remove(self, reference: MessageReference) -> bool:
        return self._pending.remove(reference)

    def clear(self) -> None:
        self._pending.clear()
