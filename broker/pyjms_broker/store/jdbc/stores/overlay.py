"""The overlay of a destination: changes that its tables do not show yet.

The store serves readers on the loop while a thread writes to the database. A reader therefore takes
the tables' rows, skips those that the overlay lists as removed or invisible, and adds the overlay's
messages. An entry is deleted when the loop learns that its unit is committed. Until then a row may
be in both places, which is harmless because ids are unique.

    added      messages whose insertion is not committed, by id
    removed    ids whose deletion is not committed
    hidden     ids that a prepared transaction has acknowledged; visible again on rollback
    unshown    ids that are stored but not yet visible to readers (`mark_visible`), or quarantined
    frames     updated messages whose update is not committed

Operations that the overlay cannot represent (a purge, a removed subscription, a rollback) are
listed in `UNSETTLING`; readers write them out first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from pyjms_broker.store.jdbc.execution.operations import AddMessage

__all__ = ["Overlay"]


class Overlay:
    """The uncommitted changes of one destination."""

    def __init__(self) -> None:
        self.added: dict[int, AddMessage] = {}
        self.removed: set[int] = set()
        self.hidden: set[int] = set()
        """Acknowledged in a prepared transaction."""
        self.unshown: set[int] = set()
        """Added but not visible yet, whether or not in the table; or damaged and quarantined."""
        self.frames: dict[int, bytes] = {}
        """Updated messages."""
        self._ids: dict[tuple[str, int], int] = {}
        self._order: list[int] = []

    def add(self, message: AddMessage) -> None:
        """Add a message whose id is higher than all earlier ones."""
        self.added[message.id] = message
        self.unshown.add(message.id)
        self._ids[message.producer, message.sequence] = message.id
        self._order.append(message.id)

    def forget_added(self, message_id: int) -> None:
        """Drop a message that is now in the table, or never will be."""
        message = self.added.pop(message_id, None)
        if message is not None:
            key = (message.producer, message.sequence)
            if self._ids.get(key) == message_id:
                del self._ids[key]
            if len(self._order) > 64 + 2 * len(self.added):
                self._order = list(self.added)

    def remove(self, message_id: int) -> None:
        """Hide a message from all readers."""
        self.removed.add(message_id)
        self.unshown.discard(message_id)
        self.forget_added(message_id)

    def clear(self) -> None:
        """Drop all messages."""
        self.added.clear()
        self.unshown.clear()
        self.frames.clear()
        self._ids.clear()
        self._order.clear()

    def find(self, producer: str, sequence: int) -> AddMessage | None:
        """Return the message with an id; None if the overlay does not have it."""
        message_id = self._ids.get((producer, sequence))
        return None if message_id is None else self.added.get(message_id)

    def is_visible(self, message_id: int) -> bool:
        """Return whether readers may see the message, if it is stored."""
        return not (
            message_id in self.removed or message_id in self.unshown or message_id in self.hidden
        )

    def after(self, message_id: int) -> Iterator[AddMessage]:
        """Yield the messages after an id, in order."""
        order = self._order
        for index in range(bisect_right(order, message_id), len(order)):
            message = self.added.get(order[index])
            if message is not None:
                yield message
