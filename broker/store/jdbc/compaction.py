"""Leaves out of a row of units what comes and goes within it. (J9)

So messages that are consumed before a checkpoint never reach the database; only their
numbers do.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.store.jdbc.operations import (
    AcknowledgeMessage,
    AddMessage,
    NoteMessage,
    Operation,
    RemoveMessage,
    SubscriberKey,
)

__all__ = ["compact"]


def compact(units: Sequence[Sequence[Operation]]) -> list[list[Operation]]:
    """Return each unit's operations that are still needed when all units are done in order."""
    consumed = _consumed(units)
    return [[_kept(op, consumed) for op in unit if not _is_over(op, consumed)] for unit in units]


def _consumed(units: Sequence[Sequence[Operation]]) -> set[int]:
    added: dict[int, AddMessage] = {}
    acknowledged: dict[int, set[SubscriberKey]] = {}
    consumed: set[int] = set()
    for unit in units:
        for op in unit:
            if isinstance(op, AddMessage):
                added[op.id] = op
            elif isinstance(op, RemoveMessage):
                if op.id in added:
                    consumed.add(op.id)
            elif isinstance(op, AcknowledgeMessage) and op.id in added:
                keys = acknowledged.setdefault(op.id, set())
                keys.add(op.key)
                if len(keys) >= added[op.id].subscribers > 0:
                    consumed.add(op.id)
    return consumed


def _is_over(op: Operation, consumed: set[int]) -> bool:
    return isinstance(op, RemoveMessage | AcknowledgeMessage) and op.id in consumed


def _kept(op: Operation, consumed: set[int]) -> Operation:
    if isinstance(op, AddMessage) and op.id in consumed:
        return NoteMessage(
            container=op.container,
            id=op.id,
            producer=op.producer,
            sequence=op.sequence,
            broker_sequence=op.broker_sequence,
            duplicate_id=op.duplicate_id,
            freed=op.size if op.subscribers else None,
        )
    return op
