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
"""Expired messages that are processed before other tasks of the event loop run."""
PAGING_RETRY_DELAY: Final = 5.0
"""Seconds until messages are paged in again after the store failed to read them."""


class PendingCursor(Protocol):
    """Pending messages in order, each of them once. No method blocks.

    A cursor over stores may represent more messages than memory holds: `len` counts all, the
    other methods concern those in memory. Source: ActiveMQ PendingMessageCursor and PendingList.
    """

    @property
    def must_read(self) -> bool:
        """Whether `pop` would page in messages."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[MessageReference]:
        """Iterate over the messages in memory in order, without removing them."""

    def __contains__(self, reference: object) -> bool: ...

    def append(self, reference: MessageReference) -> None:
        """Add the message behind those of its priority."""

    def append_front(self, reference: MessageReference) -> None:
        """Add the message before those of its priority."""

    def requeue(self, references: list[MessageReference]) -> None:
        """Return messages that `pop` removed, in the order of their broker sequence numbers.

        They come behind messages returned earlier with lower numbers, and before all others.
        """

    def pop(self) -> MessageReference:
        """Remove and return the first message.

        Raises:
            KeyError: the cursor is empty.
            JMSException: a store cannot be read.
        """

    def remove(self, reference: MessageReference) -> bool:
        """Remove this message; return whether it was there."""

    def clear(self) -> None:
        """Remove all messages."""


def log_paging_failure(owner: object, error: Exception, retry: BackgroundTask | None) -> None:
    """Log the error of a store, unless the next attempt is due already."""
    if retry is None or retry.done:
        logger.error(
            "%s: paging in messages failed, next attempt in %g s",
            owner,
            PAGING_RETRY_DELAY,
            exc_info=error,
        )
