"""The interface of a cursor: the pending messages of a destination."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from pyjms._logger import get_logger

if TYPE_CHECKING:
    from pyjms._wakeup import BackgroundTask
    from pyjms_broker.api.message import MessageReference

__all__ = ["MAX_EXPIRED_PER_TURN", "PAGING_RETRY_DELAY", "PendingCursor", "log_paging_failure"]

logger = get_logger(__name__)

MAX_EXPIRED_PER_TURN: Final = 500
"""Maximum number of expired messages processed in one turn of the event loop."""
PAGING_RETRY_DELAY: Final = 5.0
"""Seconds until paging is retried after the store failed to read messages."""


class PendingCursor(Protocol):
    """Pending messages in order, without duplicates. No method blocks.

    A cursor over stores may have more messages than are in memory: `len` counts all, the other
    methods apply to those in memory. Source: ActiveMQ PendingMessageCursor and PendingList.
    """

    @property
    def must_read(self) -> bool:
        """Whether `pop` would page in messages."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[MessageReference]:
        """Iterate over the messages in memory, in order, without removing them."""

    def __contains__(self, reference: object) -> bool: ...

    def append(self, reference: MessageReference) -> None:
        """Add the message after those of its priority."""

    def append_front(self, reference: MessageReference) -> None:
        """Add the message before those of its priority."""

    def requeue(self, references: list[MessageReference]) -> None:
        """Return messages that `pop` removed, in the order of their broker sequence numbers.

        They are placed after earlier returned messages with lower numbers, and before all others.
        """

    def pop(self) -> MessageReference:
        """Remove and return the first message.

        Raises:
            KeyError: the cursor is empty.
            JMSException: a store cannot be read.
        """

    def remove(self, reference: MessageReference) -> bool:
        """Remove a message; return whether it was in the cursor."""

    def clear(self) -> None:
        """Remove all messages."""


def log_paging_failure(owner: object, error: Exception, retry: BackgroundTask | None) -> None:
    """Log a store error, unless the next attempt is already scheduled."""
    if retry is None or retry.done:
        logger.error(
            "%s: paging in messages failed, next attempt in %g s",
            owner,
            PAGING_RETRY_DELAY,
            exc_info=error,
        )
