"""Does units on a connection: many additions, removals and acknowledgements in few statements.

Neighbours of these three kinds form one bulk. A message that is added and removed in the
same bulk never reaches the table, nor does a topic's that all its subscriptions acknowledged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection

from broker.store.jdbc.execution import Execution
from broker.store.jdbc.operations import (
    AcknowledgeMessage,
    AddMessage,
    Operation,
    Outcome,
    RemoveMessage,
    SubscriberKey,
    Unit,
)
from broker.store.jdbc.rare import RARE
from broker.store.jdbc.statements import Statements

__all__ = ["execute"]


def execute(
    connection: Connection, statements: Statements, units: Iterable[Unit], max_rows: int
) -> Outcome:
    """Do all operations of all units, in order, inside the connection's transaction.

    Raises:
        SQLAlchemyError: the database refused; nothing may be committed.
    """
    execution = Execution(connection, statements, max_rows)
    bulk = _Bulk()
    for unit in units:
        for operation in unit.operations:
            if bulk.take(operation):
                continue
            bulk.flush(execution)
            RARE[type(operation)](execution, operation)
    bulk.flush(execution)
    execution.write_counts()
    return execution.outcome


class _Bulk:
    """Additions, then acknowledgements, then removals: ids are never used twice."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.added: dict[int, AddMessage] = {}
        self.removed: dict[int, RemoveMessage] = {}
        self.acknowledged: dict[int, dict[SubscriberKey, AcknowledgeMessage]] = {}

    def take(self, operation: Operation) -> bool:
        """Put the operation in, unless it is of another kind."""
        if isinstance(operation, AddMessage):
            self.added[operation.id] = operation
        elif isinstance(operation, RemoveMessage):
            self.removed[operation.id] = operation
        elif isinstance(operation, AcknowledgeMessage):
            self.acknowledged.setdefault(operation.id, {})[operation.key] = operation
        else:
            return False
        return True

    def flush(self, execution: Execution) -> None:
        """Bring it to the database and begin anew."""
        if self.added or self.removed or self.acknowledged:
            self._drop_consumed(execution)
            execution.add(list(self.added.values()))
            self._acknowledge(execution)
            self._remove(execution)
            self._clear()

    def _drop_consumed(self, execution: Execution) -> None:
        for message_id in [i for i in self.removed if i in self.added]:
            del self.removed[message_id]
            self._consumed(execution, self.added.pop(message_id))
        for message_id, acknowledgements in list(self.acknowledged.items()):
            message = self.added.get(message_id)
            if message is not None and len(acknowledgements) >= message.subscribers > 0:
                del self.acknowledged[message_id]
                self._consumed(execution, self.added.pop(message_id))
                execution.outcome.freed.append((message.container, message.size))

    @staticmethod
    def _consumed(execution: Execution, message: AddMessage) -> None:
        """Nothing of the message is left but its numbers."""
        execution.count(message.container, 0, 0, message.id)
        execution.note(message)

    def _acknowledge(self, execution: Execution) -> None:
        by_key: dict[SubscriberKey, list[AcknowledgeMessage]] = defaultdict(list)
        for acknowledgements in self.acknowledged.values():
            for key, each in acknowledgements.items():
                by_key[key].append(each)
        for key, parts in by_key.items():
            for chunk in execution.chunks(parts):
                execution.acknowledge(key, chunk)

    def _remove(self, execution: Execution) -> None:
        by_container: dict[str, list[RemoveMessage]] = defaultdict(list)
        for removal in self.removed.values():
            by_container[removal.container].append(removal)
        for container, removals in by_container.items():
            for chunk in execution.chunks(removals):
                execution.remove(container, chunk)
