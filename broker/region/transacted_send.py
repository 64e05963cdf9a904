"""A message whose transaction is open: what happens to it at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.transaction.local import Synchronization

if TYPE_CHECKING:
    from broker.region.message import MessageReference

__all__ = ["TransactedSend"]


class TransactedSend(Synchronization):
    """Calls `committed` or `rolled_back` with the message."""

    __slots__ = ("_committed", "_reference", "_rolled_back")

    def __init__(
        self,
        reference: MessageReference,
        committed: Callable[[MessageReference], None],
        rolled_back: Callable[[MessageReference], None],
    ) -> None:
        self._reference = reference
        self._committed = committed
        self._rolled_back = rolled_back

    def after_commit(self) -> None:
        self._committed(self._reference)

    def after_rollback(self) -> None:
        self._rolled_back(self._reference)
