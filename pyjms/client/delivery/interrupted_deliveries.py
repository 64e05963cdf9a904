"""Messages that a transaction has received from a broker that was lost before the commit.

Its acknowledgements are lost with the broker. The next broker may dispatch the messages again, to
this consumer or to another one, or not at all, because the lost broker's transaction was committed.
The transaction can be committed only if all of them come again, here. (activemq-edges F5)
"""

from __future__ import annotations

from collections.abc import Iterable

from pyjms.client.delivery.ack_ledger import message_id
from pyjms.wire.openwire.commands import MessageDispatch, MessageId

__all__ = ["InterruptedDeliveries"]


class InterruptedDeliveries:
    """Those of one consumer in its open transaction."""

    def __init__(self) -> None:
        self._stale: set[MessageId | None] = set()
        self.happened: bool = False
        """Whether the transaction was interrupted at all."""

    @property
    def stale_count(self) -> int:
        """How many messages have not come again."""
        return len(self._stale)

    def interrupt(self, delivered: Iterable[MessageDispatch]) -> None:
        """Expect what was delivered to come again."""
        self._stale.update(map(message_id, delivered))
        self.happened = bool(self._stale)

    def came_again(self, delivered: MessageId | None) -> bool:
        """Note that a message has come again; return whether it was expected."""
        expected = delivered in self._stale
        self._stale.discard(delivered)
        return expected

    def acknowledgeable(self, delivered: Iterable[MessageDispatch]) -> list[MessageDispatch]:
        """Return what the present broker has dispatched."""
        return [dispatch for dispatch in delivered if message_id(dispatch) not in self._stale]

    def split(
        self, delivered: Iterable[MessageDispatch]
    ) -> tuple[list[MessageDispatch], list[MessageDispatch]]:
        """Return what has not come again, which is expected no more, and the rest."""
        stale, self._stale = self._stale, set()
        split: tuple[list[MessageDispatch], list[MessageDispatch]] = ([], [])
        for dispatch in delivered:
            split[message_id(dispatch) not in stale].append(dispatch)
        return split

    def clear(self) -> None:
        """Begin with the next transaction."""
        self._stale.clear()
        self.happened = False
