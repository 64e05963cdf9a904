"""The open transactions of the memory store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, TransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import Position, SubscriptionKey
from pyjms_broker.store.api import RecoveredTransaction

__all__ = ["MemoryEntry", "MemoryTransactionStore"]


class MemoryEntry:
    """A message in memory."""

    __slots__ = ("hidden_from", "is_visible", "message", "position", "size")

    def __init__(self, position: Position, message: ActiveMQMessage, size: int) -> None:
        self.position = position
        self.message = message
        self.size = size
        self.is_visible = False
        self.hidden_from: frozenset[SubscriptionKey | None] = frozenset()
        """Subscriptions that acknowledged it in a prepared transaction; None is the queue."""


_Removal: TypeAlias = tuple[MemoryEntry, SubscriptionKey | None]


class MemoryTransactionStore:
    """Holds the operations of open transactions as callables."""

    def __init__(self) -> None:
        self._work: dict[TransactionId, list[Callable[[], None]]] = {}
        self._removals: dict[TransactionId, list[_Removal]] = {}

    def add(
        self, xid: TransactionId, operation: Callable[[], None], removal: _Removal | None = None
    ) -> None:
        """Run `operation` at the commit of `xid`; `removal`: the message that it removes."""
        self._work.setdefault(xid, []).append(operation)
        if removal is not None:
            self._removals.setdefault(xid, []).append(removal)

    def prepare(self, xid: TransactionId) -> Completion:
        """Hide the acknowledged messages."""
        for entry, key in self._removals.get(xid, ()):
            entry.hidden_from |= {key}
        return COMPLETED

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        self._removals.pop(xid, None)
        for operation in self._work.pop(xid, ()):
            operation()
        return COMPLETED

    def rollback(self, xid: TransactionId) -> Completion:
        self._work.pop(xid, None)
        for entry, key in self._removals.pop(xid, ()):
            entry.hidden_from -= {key}
        return COMPLETED

    def recovered(self) -> list[RecoveredTransaction]:
        """Return an empty list: no transaction survives a restart."""
        return []

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        """Return None: there are no recovered transactions."""
        return None
