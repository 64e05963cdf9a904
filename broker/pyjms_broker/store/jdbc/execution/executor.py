"""Execution of units on a connection, with bulk statements for the frequent operations.

Adjacent additions, removals and acknowledgements form one bulk. A message that is added and
removed in one bulk never reaches its table, nor does a topic's message that is added and
acknowledged by all subscriptions in one bulk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection

from pyjms_broker.store.jdbc.execution.batch import BatchExecution
from pyjms_broker.store.jdbc.execution.operations import (
    AcknowledgeMessage,
    AddMessage,
    Operation,
    Outcome,
    RemoveMessage,
    SubscriberKey,
    Unit,
)
from pyjms_broker.store.jdbc.execution.rare_operations import RARE_OPERATIONS
from pyjms_broker.store.jdbc.schema.statements import Statements

__all__ = ["execute"]


def execute(
    connection: Connection, statements: Statements, units: Iterable[Unit], max_rows: int
) -> Outcome:
    """Execute all operations of all units, in order, in the connection's transaction.

    Raises:
        SQLAlchemyError: the database rejected them; the transaction has to be rolled back.
    """
    execution = BatchExecution(connection, statements, max_rows)
    bulk = _Bulk()
    for unit in units:
        for operation in unit.operations:
            if bulk.accept(operation):
                continue
            bulk.flush(execution)
            RARE_OPERATIONS[type(operation)](execution, operation)
    bulk.flush(execution)
    execution.write_counts()
    return execution.outcome


class _Bulk:
    """Additions, then acknowledgements, then removals; valid because IDs are never reused."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.added: dict[int, AddMessage] = {}
        self.removed: dict[int, RemoveMessage] = {}
        self.acknowledged: dict[int, dict[SubscriberKey, AcknowledgeMessage]] = {}

    def accept(self, operation: Operation) -> bool:
        """Add an operation to the bulk; return False for operations of other kinds."""
        if isinstance(operation, AddMessage):
            self.added[operation.id] = operation
        elif isinstance(operation, RemoveMessage):
            self.removed[operation.id] = operation
        elif isinstance(operation, AcknowledgeMessage):
            self.acknowledged.setdefault(operation.id, {})[operation.key] = operation
        else:
            return False
        return True

    def flush(self, execution: BatchExecution) -> None:
        """Write the bulk to the database and start an empty one."""
        if self.added or self.removed or self.acknowledged:
            self._drop_consumed(execution)
            execution.add(list(self.added.values()))
            self._acknowledge(execution)
            self._remove(execution)
            self._clear()

    def _drop_consumed(self, execution: BatchExecution) -> None:
        for message_id in [i for i in self.removed if i in self.added]:
            del self.removed[message_id]
            self._note_consumed(execution, self.added.pop(message_id))
        for message_id, acknowledgements in list(self.acknowledged.items()):
            message = self.added.get(message_id)
            if message is not None and len(acknowledgements) >= message.subscribers > 0:
                del self.acknowledged[message_id]
                self._note_consumed(execution, self.added.pop(message_id))
                execution.outcome.freed.append((message.container, message.size))

    @staticmethod
    def _note_consumed(execution: BatchExecution, message: AddMessage) -> None:
        """Record the sequence numbers of a message that is not written."""
        execution.count(message.container, 0, 0, message.id)
        execution.note(message)

    def _acknowledge(self, execution: BatchExecution) -> None:
        by_key: dict[SubscriberKey, list[AcknowledgeMessage]] = defaultdict(list)
        for acknowledgements in self.acknowledged.values():
            for key, each in acknowledgements.items():
                by_key[key].append(each)
        for key, parts in by_key.items():
            for chunk in execution.chunks(parts):
                execution.acknowledge(key, chunk)

    def _remove(self, execution: BatchExecution) -> None:
        by_container: dict[str, list[RemoveMessage]] = defaultdict(list)
        for removal in self.removed.values():
            by_container[removal.container].append(removal)
        for container, removals in by_container.items():
            for chunk in execution.chunks(removals):
                execution.remove(container, chunk)
