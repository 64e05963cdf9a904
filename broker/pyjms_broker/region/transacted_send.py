"""Messages sent in a transaction, and their treatment when the transaction ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.transaction import Synchronization, Transaction

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.api.message import MessageReference

__all__ = ["PendingSend", "TransactedSend"]


class PendingSend(Synchronization):
    """A send of an open transaction, whose destination may be removed before the end.

    In that case the message is sent to the re-created destination of the same name, like a message
    sent without a transaction; a message to a temporary destination is discarded. From
    `before_commit` until the end, `prepared_sends` prevents the removal of the destination.
    """

    __slots__ = ("_kept", "reference", "transaction")

    def __init__(self, transaction: Transaction, reference: MessageReference) -> None:
        self.transaction = transaction
        self.reference = reference
        self._kept: RegionDestination | None = None

    @property
    def is_void(self) -> bool:
        """Whether its destination was removed."""
        return self.reference.destination.disposed

    def before_commit(self) -> None:
        destination = self.reference.destination
        if not destination.disposed:
            self._kept = destination
            destination.prepared_sends += 1
        elif not destination.destination.is_temporary:
            self._send_again(destination)

    def _send_again(self, removed: RegionDestination) -> None:
        destination = removed.recreated()
        exchange = ProducerExchange(ConnectionContext(), transaction=self.transaction)
        destination.accept(exchange, destination.reference_to(self.reference.message))

    def committing(self, stored: Completion) -> None:
        self.reference.destination.committing(stored)

    def release(self) -> None:
        """Allow the removal of the destination again, as the transaction has ended."""
        if self._kept is not None:
            self._kept.prepared_sends -= 1
            self._kept = None


class TransactedSend(PendingSend):
    """A send that calls `committed` or `rolled_back` with its message at the end."""

    __slots__ = ("_committed", "_rolled_back")

    def __init__(
        self,
        transaction: Transaction,
        reference: MessageReference,
        committed: Callable[[MessageReference], None],
        rolled_back: Callable[[MessageReference], None],
    ) -> None:
        super().__init__(transaction, reference)
        self._committed = committed
        self._rolled_back = rolled_back

    def after_commit(self) -> None:
        self.release()
        if self.is_void:
            self._rolled_back(self.reference)
        else:
            self._committed(self.reference)

    def after_rollback(self) -> None:
        self.release()
        self._rolled_back(self.reference)
