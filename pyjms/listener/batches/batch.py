"""The batch that is passed to a listener, and its rejected messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from pyjms.errors import PoisonMessageException
from pyjms.jms.message import Message

__all__ = ["Batch"]

T = TypeVar("T")


class Batch(Sequence[T]):
    """The messages that a batch listener handles in one transaction: a sequence of payloads.

    A handler gets it as a parameter of type `Batch[Order]`, instead of or in addition to
    `list[Order]`. A message listener (a container's `message_listener`) gets it with the messages
    themselves as items. Use it only in the task or thread that handles the batch, until the handler
    has returned; nothing here blocks.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        refuses_unreadable: bool = True,
        rejected: Mapping[int, BaseException] | None = None,
    ) -> None:
        """Make a batch whose items are the messages.

        Args:
            messages: what was received, oldest first.
            refuses_unreadable: whether a message that cannot be converted to an argument is
                rejected alone; otherwise it fails the batch.
            rejected: the reasons of the messages that are rejected from the start, by position;
                these messages are not among the items.
        """
        self.received: tuple[Message, ...] = tuple(messages)
        """All messages of the transaction, also those that could not be read."""
        self.refuses_unreadable = refuses_unreadable
        self._rejections = dict(rejected or {})
        self._positions = self._remaining()
        self._items: Sequence[Any] = self.messages

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the items, in the same order."""
        return tuple(self.received[position] for position in self._positions)

    @property
    def rejections(self) -> Mapping[int, BaseException]:
        """The reasons of the rejected messages, by their positions in `received`."""
        return self._rejections

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def reject(self, item: T | Message, reason: str | BaseException = "") -> None:
        """Make the message of `item` a dead letter, in the transaction that commits the others.

        Args:
            item: one of the items, or its message. Of several equal items, the first that is not
                rejected is meant.
            reason: a text, or the exception that is the reason; the dead letter has it in its
                properties.

        Raises:
            ValueError: it is not an item of this batch, or it is rejected already.
        """
        self.reject_at(self._index_of(item), reason)

    def reject_at(self, index: int, reason: str | BaseException = "") -> None:
        """Make the message of the item at `index` a dead letter, as `reject` does.

        Raises:
            IndexError: there is no such item.
            ValueError: it is rejected already.
        """
        position = self._positions[index]
        if position in self._rejections:
            raise ValueError(f"Item {index} of the batch is rejected already")
        if not isinstance(reason, BaseException):
            reason = PoisonMessageException(reason or "rejected by the listener")
        self._rejections[position] = reason

    def fill(self, items: Sequence[T], unreadable: Mapping[int, BaseException]) -> None:
        """Replace the items by the payloads of all readable messages; reject the unreadable ones.

        Called by the code that converts the messages.
        """
        self._rejections.update(unreadable)
        self._positions = self._remaining()
        self._items = items

    def _remaining(self) -> list[int]:
        """Return the positions of the messages that are not rejected."""
        return [n for n in range(len(self.received)) if n not in self._rejections]

    def _index_of(self, item: object) -> int:
        positions = self._positions
        open_ones = [n for n, at in enumerate(positions) if at not in self._rejections]
        for number in open_ones:
            if self._items[number] is item or self.received[positions[number]] is item:
                return number
        for number in open_ones:
            if self._items[number] == item:
                return number
        raise ValueError(
            "The item to reject is not one of this batch, or it is rejected already: pass the item "
            "itself, its message, or call reject_at with its index"
        )

    def __repr__(self) -> str:
        rejected = f", {len(self._rejections)} rejected" if self._rejections else ""
        return f"<Batch of {len(self.received)} messages{rejected}>"
