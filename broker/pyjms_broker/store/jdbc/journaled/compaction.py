"""Removal of messages that are added and removed within one hand-over to the database.

Messages that are consumed before a checkpoint thus never reach the database, except for their
sequence numbers. (activemq-persistence J9)
"""

from __future__ import annotations

from collections.abc import Sequence

from pyjms_broker.store.jdbc.execution.operations import (
    AcknowledgeMessage,
    AddMessage,
    NoteMessage,
    Operation,
    RemoveMessage,
    SubscriberKey,
)

__all__ = ["compact"]


def compact(units: Sequence[Sequence[Operation]]) -> list[list[Operation]]:
    """Return, for each unit, the operations that matter if all units are executed in order."""
    consumed = _consumed(units)
    return [
        [_compacted(op, consumed) for op in unit if not _is_dropped(op, consumed)] for unit in units
    ]


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


def _is_dropped(op: Operation, consumed: set[int]) -> bool:
    return isinstance(op, RemoveMessage | AcknowledgeMessage) and op.id in consumed


def _compacted(op: Operation, consumed: set[int]) -> Operation:
    if isinstance(op, AddMessage) and op.id in consumed:
        numbers = (op.producer, op.sequence, op.broker_sequence)
        freed = op.size if op.subscribers else None
        return NoteMessage(op.container, op.id, *numbers, op.duplicate_id, freed)
    return op
