"""What a destination knows before its tables do: messages on their way in and out.

A reader takes the tables' rows, leaves out what is `gone`, and adds what is here. Entries go
when the loop hears of their commit; that a row may be in both places for a while does no harm.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from broker.store.jdbc.operations import AddMessage

__all__ = ["Overlay"]


class Overlay:
    """The unwritten part of one destination."""

    def __init__(self) -> None:
        self.added: dict[int, AddMessage] = {}
        self.removed: set[int] = set()
        self.hidden: set[int] = set()
        """Acknowledged in a prepared transaction."""
        self.unshown: set[int] = set()
        """Added, but not `shown` yet; in the table or not."""
        self.frames: dict[int, bytes] = {}
        """Updates."""
        self._ids: dict[tuple[str, int], int] = {}
        self._order: list[int] = []

    def add(self, message: AddMessage) -> None:
        """Take a message whose id is higher than all before it."""
        self.added[message.id] = message
        self.unshown.add(message.id)
        self._ids[message.producer, message.sequence] = message.id
        self._order.append(message.id)

    def forget_added(self, message_id: int) -> None:
        """The message is in the table, or will never be."""
        message = self.added.pop(message_id, None)
        if message is not None:
            key = (message.producer, message.sequence)
            if self._ids.get(key) == message_id:
                del self._ids[key]
            if len(self._order) > 64 + 2 * len(self.added):
                self._order = list(self.added)

    def remove(self, message_id: int) -> None:
        """The message is gone, for all who read."""
        self.removed.add(message_id)
        self.unshown.discard(message_id)
        self.forget_added(message_id)

    def clear(self) -> None:
        """All messages are gone."""
        self.added.clear()
        self.unshown.clear()
        self.frames.clear()
        self._ids.clear()
        self._order.clear()

    def find(self, producer: str, sequence: int) -> AddMessage | None:
        """Return the message of an id."""
        message_id = self._ids.get((producer, sequence))
        return None if message_id is None else self.added.get(message_id)

    def is_visible(self, message_id: int) -> bool:
        """Whether readers may see the message, if it is there."""
        return not (
            message_id in self.removed or message_id in self.unshown or message_id in self.hidden
        )

    def after(self, message_id: int) -> Iterator[AddMessage]:
        """Yield the messages behind an id, in order."""
        order = self._order
        for index in range(bisect_right(order, message_id), len(order)):
            message = self.added.get(order[index])
            if message is not None:
                yield message
