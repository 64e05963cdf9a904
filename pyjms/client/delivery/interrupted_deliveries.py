"""Messages that a transaction has received from a broker that was lost before the commit.

The transaction's acknowledgements are lost with the broker. The next broker may dispatch the
messages again, to this consumer or to another one, or not at all, because the lost broker had
committed the transaction. The transaction can be committed only if all of them are dispatched
again to this consumer. (activemq-edges F5)
"""

from __future__ import annotations

from collections.abc import Iterable

from pyjms.client.delivery.ack_ledger import message_id
from pyjms.wire.openwire.commands import MessageDispatch, MessageId

__all__ = ["InterruptedDeliveries"]


class InterruptedDeliveries:
    """The interrupted deliveries of one consumer in its open transaction."""

    def __init__(self) -> None:
        self._stale: set[MessageId | None] = set()
        self.happened: bool = False
        """Whether the transaction was interrupted."""

    @property
    def stale_count(self) -> int:
        """The number of messages that have not been dispatched again."""
        return len(self._stale)

    def interrupt(self, delivered: Iterable[MessageDispatch]) -> None:
        """Expect the delivered messages to be dispatched again."""
        self._stale.update(map(message_id, delivered))
        self.happened = bool(self._stale)

    def came_again(self, delivered: MessageId | None) -> bool:
        """Record that a message was dispatched again; return whether it was expected."""
        expected = delivered in self._stale
        self._stale.discard(delivered)
        return expected

    def acknowledgeable(self, delivered: Iterable[MessageDispatch]) -> list[MessageDispatch]:
        """Return the messages that the present broker has dispatched."""
        return [dispatch for dispatch in delivered if message_id(dispatch) not in self._stale]

    def split(
        self, delivered: Iterable[MessageDispatch]
    ) -> tuple[list[MessageDispatch], list[MessageDispatch]]:
        """Return the messages not dispatched again, and the rest; stop expecting the former."""
        stale, self._stale = self._stale, set()
        split: tuple[list[MessageDispatch], list[MessageDispatch]] = ([], [])
        for dispatch in delivered:
            split[message_id(dispatch) not in stale].append(dispatch)
        return split

    def clear(self) -> None:
        """Reset the state for the next transaction."""
        self._stale.clear()
        self.happened = False
