"""What a destination asks of the list in which its messages wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.api.message import MessageReference

__all__ = ["PendingCursor"]


class PendingCursor(Protocol):
    """Messages in their order; each is in it once. Nothing here waits.

    A cursor over stores may know more messages than memory holds: `len` counts all, the rest
    is about those in memory. Source: ActiveMQ PendingMessageCursor and PendingList.
    """

    @property
    def must_read(self) -> bool:
        """Whether `take` would read messages into memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[MessageReference]:
        """Go through the messages in memory in order, taking none."""

    def __contains__(self, reference: object) -> bool: ...

    def append(self, reference: MessageReference) -> None:
        """Add the message behind those of its kind."""

    def append_front(self, reference: MessageReference) -> None:
        """Add the message before those of its kind."""

    def put_back(self, references: list[MessageReference]) -> None:
        """Add messages that were taken before, in the order of their broker sequence numbers.

        They are behind those put back earlier that have lower numbers, before all others.
        """

    def take(self) -> MessageReference:
        """Take the first message.

        Raises:
            KeyError: there is none.
            JMSException: a store does not give it back.
        """

    def remove(self, reference: MessageReference) -> bool:
        """Take this message; return whether it was there."""

    def clear(self) -> None:
        """Forget all."""
