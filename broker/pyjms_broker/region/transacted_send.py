"""A message whose transaction is open: what happens to it at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.transaction import Synchronization, Transaction

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.region.services import RegionServices

__all__ = ["OpenSend", "TransactedSend"]


class OpenSend(Synchronization):
    """What becomes of a message whose destination is removed before the end.

    It goes to the one of that name that is made again, as what is sent without a transaction
    does; one to a temporary destination is gone. While it is prepared its destination stays.
    """

    __slots__ = ("_kept", "_region", "reference", "transaction")

    def __init__(
        self, region: RegionServices, transaction: Transaction, reference: MessageReference
    ) -> None:
        self._region = region
        self.transaction = transaction
        self.reference = reference
        self._kept: RegionDestination | None = None

    @property
    def is_void(self) -> bool:
        """Whether its destination is gone."""
        return self.reference.destination.disposed

    def before_commit(self) -> None:
        there = self.reference.destination
        if not there.disposed:
            self._kept = there
            there.decided_sends += 1
        elif not there.destination.is_temporary:
            self._send_again(there)

    def _send_again(self, removed: RegionDestination) -> None:
        there = self._region.region_destination(removed.destination)
        there.accept(
            ConnectionContext(), there.reference_to(self.reference.message), self.transaction
        )

    def committing(self, stored: Completion) -> None:
        self.reference.destination.committing(stored)

    def release(self) -> None:
        """Let its destination be removed: the end has come."""
        if self._kept is not None:
            self._kept.decided_sends -= 1
            self._kept = None


class TransactedSend(OpenSend):
    """Calls `committed` or `rolled_back` with the message."""

    __slots__ = ("_committed", "_rolled_back")

    def __init__(
        self,
        region: RegionServices,
        transaction: Transaction,
        reference: MessageReference,
        committed: Callable[[MessageReference], None],
        rolled_back: Callable[[MessageReference], None],
    ) -> None:
        super().__init__(region, transaction, reference)
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
