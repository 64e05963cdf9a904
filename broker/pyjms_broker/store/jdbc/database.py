"""The database: connections, tables, one transaction per batch, and error translation.

Each batch advances a number in the state table from the value that this broker left there. A batch
whose commit got no response is therefore not executed twice, and no other broker's work is
overwritten.

Execution of units on a connection, with bulk statements for the frequent operations.

Adjacent additions, removals and acknowledgements form one bulk. A message that is added and
removed in one bulk never reaches its table, nor does a topic's message that is added and
acknowledged by all subscriptions in one bulk.
"""

from __future__ import annotations

import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy import exc as sql_errors
from sqlalchemy.engine import URL
from sqlalchemy.schema import CreateIndex, CreateTable

from pyjms.errors import ConfigurationException, JMSException, ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms_broker.store.jdbc import operations
from pyjms_broker.store.jdbc.operations import (
    AcknowledgeMessage,
    AddMessage,
    NoteMessage,
    Operation,
    Outcome,
    RemoveMessage,
    SubscriberKey,
    Unit,
)
from pyjms_broker.store.jdbc.schema import (
    SUBSCRIPTION_PRIORITY,
    Statements,
    destination_number,
    statements_with,
)
from pyjms_broker.store.jdbc.settings import JDBCSettings

__all__ = [
    "JOURNAL_MARK",
    "LAST_BROKER_SEQUENCE_ID",
    "LAST_DESTINATION",
    "BatchExecution",
    "Database",
    "DatabaseTakenException",
    "DatabaseUnavailableException",
    "execute",
    "file_size",
]

# --- Execution of a batch on a connection: statements, counters and the outcome.

JOURNAL_MARK: Final = "journal_mark"
LAST_DESTINATION: Final = "last_destination"
LAST_BROKER_SEQUENCE_ID: Final = "last_broker_sequence_id"

_MAX_PARAMETERS: Final = 5000

T = TypeVar("T")


class BatchExecution:
    """A batch in progress. Counters are collected, and written by `write_counts`."""

    def __init__(self, connection: Connection, statements: Statements, max_rows: int) -> None:
        self.connection = connection
        self.statements = statements
        self.max_rows = max_rows
        self.outcome = Outcome()
        self._counts: dict[str, list[int]] = {}
        self._last: dict[str, int] = {}
        self._producers: dict[str, int] = {}

    def run(self, statement: Any, **parameters: object) -> Any:
        """Execute a statement."""
        return self.connection.execute(statement, parameters)

    def run_many(self, statement: Any, rows: list[dict[str, object]]) -> None:
        """Execute a statement once for each row; `rows` may be empty."""
        if rows:
            self.connection.execute(statement, rows)

    def chunks(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield `items` in chunks that fit the parameters of one statement."""
        size = min(self.max_rows, _MAX_PARAMETERS)
        for start in range(0, len(items), size):
            yield items[start : start + size]

    def count(self, container: str, messages: int, size: int, last_id: int | None = None) -> None:
        """Add to the counters of a destination."""
        counts = self._counts.setdefault(container, [0, 0, 0])
        counts[0] += messages
        counts[1] += size
        counts[2] = max(counts[2], last_id or 0)

    def note(self, message: AddMessage | NoteMessage) -> None:
        """Record the sequence numbers of an added message, and its duplicate id."""
        if message.duplicate_id is not None:
            self.run(
                self.statements.insert_duplicate,
                container=message.container,
                id=message.id,
                duplicate_id=message.duplicate_id,
            )
        self.raise_state(LAST_BROKER_SEQUENCE_ID, message.broker_sequence)
        known = self._producers.get(message.producer, -1)
        self._producers[message.producer] = max(known, message.sequence)

    def raise_state(self, name: str, value: int) -> None:
        """Raise a number of the state table to at least `value`."""
        self._last[name] = max(self._last.get(name, 0), value)

    def write_counts(self) -> None:
        """Write the collected counters to the tables."""
        s = self.statements
        rows: list[dict[str, object]] = [
            {"where_container": name, "count": count, "bytes": size, "new_last": last or None}
            for name, (count, size, last) in self._counts.items()
        ]
        self.run_many(s.count_destination, rows)
        self._counts.clear()
        for name, value in self._last.items():
            self.run(s.raise_state, state=name, new=value)
        self._last.clear()
        now = _clock.time_ms()
        for producer, sequence in self._producers.items():
            values = {"of_producer": producer, "new_sequence": sequence, "now": now}
            if not self.run(s.raise_producer, **values).rowcount:
                self.run(s.insert_producer, msgid_prod=producer, msgid_seq=sequence, last_used=now)
        self._producers.clear()

    def add(self, messages: Sequence[AddMessage], xids: Sequence[str] = ()) -> None:
        """Insert messages; with `xids`, as messages of a prepared transaction."""
        rows = [_row(message) for message in messages]
        for row, xid in zip(rows, xids, strict=False):
            row["xid"] = xid
        self.run_many(self.statements.insert_message, rows)
        if not xids:
            for message in messages:
                self.count_added(message)

    def count_added(self, message: AddMessage) -> None:
        """Count a message that was added."""
        self.count(message.container, 1, message.size, message.id)
        self.note(message)

    def remove(self, container: str, removals: Sequence[RemoveMessage]) -> None:
        """Delete messages of a queue."""
        ids = [removal.id for removal in removals]
        done = self.run(self.statements.delete_messages, ids=ids, at=container).rowcount
        size = sum(removal.size for removal in removals)
        if done != len(ids):
            removed_size = (
                size * done // len(ids)
            )  # an estimate: it is unknown which messages did not exist
            self.outcome.not_removed.append((container, len(ids) - done, size - removed_size))
            size = removed_size
        self.count(container, -done, -size)

    def acknowledge(self, key: SubscriberKey, parts: Sequence[AcknowledgeMessage]) -> None:
        """Store acknowledgements of a subscription, and advance its marks.

        A mark (LAST_ACKED_ID) advances to the ID before the next message that is pending for the
        subscription; acknowledgements beyond it are listed singly. (activemq-persistence J3, J5)
        """
        s, prioritized = self.statements, parts[0].prioritized
        sizes = {part.id: part.size for part in parts}
        parameters = subscription_parameters(key)
        valid = self.run(s.pending_of[prioritized], ids=list(sizes), **parameters).all()
        if len(valid) != len(sizes):
            self.outcome.not_acknowledged.append((key, len(sizes) - len(valid)))
        if not valid:
            return
        marks = dict(tuple(row) for row in self.run(s.marks, **parameters))
        levels = sorted({row.priority for row in valid}) if prioritized else [None]
        beyond: list[dict[str, object]] = []
        for level in levels:
            ids = [row.id for row in valid if level is None or row.priority == level]
            mark = marks[level] if level is not None else min(marks.values())
            new = self._move_mark(key, level, mark, ids)
            beyond += [
                {**subscription_columns(key), "id": row.id, "priority": row.priority, "xid": None}
                for row in valid
                if (level is None or row.priority == level) and row.id > new
            ]
        self.run_many(s.insert_acked, beyond)
        self._free(key.container, prioritized, {row.id: sizes[row.id] for row in valid})

    def _move_mark(self, key: SubscriberKey, level: int | None, mark: int, ids: list[int]) -> int:
        """Advance a mark and return it: all messages up to it are acknowledged."""
        s, prioritized = self.statements, level is not None
        parameters: dict[str, Any] = subscription_parameters(key)
        if prioritized:
            parameters["level"] = level
        following = self.run(
            s.next_pending[prioritized], after=mark, ids=ids, **parameters
        ).scalar()
        if following is None:
            ahead = self.run(s.last_acked[prioritized], **parameters).scalar()
            new = max(*ids, ahead or 0)
        else:
            new = following - 1
        if new <= mark:
            return mark
        self.run(s.move_mark[prioritized], mark=new, **parameters)
        self.run(s.forget_acked[prioritized], after=new, **parameters)
        return int(new)

    def _free(self, container: str, prioritized: bool, sizes: dict[int, int]) -> None:
        live = self.run(self.statements.live_of[prioritized], ids=list(sizes)).scalars().all()
        for message_id in sizes.keys() - set(live):
            self.outcome.freed.append((container, sizes[message_id]))
            self.count(container, -1, -sizes[message_id])


def subscription_parameters(key: SubscriberKey) -> dict[str, Any]:
    """Return the parameters of conditions that select the subscription."""
    return dict(zip(("at", "client", "subscription"), key, strict=True))


def subscription_columns(key: SubscriberKey) -> dict[str, Any]:
    """Return the columns that identify the subscription, for a new row."""
    return dict(zip(("container", "client_id", "sub_name"), key, strict=True))


def _row(message: AddMessage) -> dict[str, object]:
    return {
        "id": message.id,
        "container": message.container,
        "msgid_prod": message.producer,
        "msgid_seq": message.sequence,
        "expiration": message.expiration,
        "msg": message.frame,
        "priority": message.priority,
        "xid": None,
    }


# --- The rare operations, one function each; `RARE_OPERATIONS` maps an operation's class to it.

_PRIORITIES: Final = range(10)


def _update(x: BatchExecution, op: operations.UpdateMessage) -> None:
    x.run(x.statements.update_message, row_id=op.id, msg=op.frame, expiration=op.expiration)


def _remove_topic_message(x: BatchExecution, op: operations.RemoveTopicMessage) -> None:
    s = x.statements
    keys = x.run(s.keys_of_container, at=op.container).all()
    for key in {
        operations.SubscriberKey(op.container, row.client_id, row.sub_name) for row in keys
    }:
        if (
            x.run(s.pending_of[op.prioritized], ids=[op.id], **subscription_parameters(key)).first()
            is not None
        ):
            x.outcome.not_acknowledged.append((key, -1))
    live = x.run(s.live_of[op.prioritized], ids=[op.id]).scalar() is not None
    x.run(s.delete_messages, ids=[op.id], at=op.container)
    x.run(s.delete_acked_message, row_id=op.id, at=op.container)
    if live:
        x.count(op.container, -1, -op.size)
    else:
        x.outcome.not_removed.append((op.container, 1, op.size))


def _remove_all(x: BatchExecution, op: operations.RemoveAll) -> None:
    x.write_counts()
    x.run(x.statements.delete_all, at=op.container, after=op.up_to)
    x.run(x.statements.delete_acked_up_to, at=op.container, after=op.up_to)
    x.run(x.statements.set_destination, where_container=op.container, count=0, bytes=0)


def _add_container(x: BatchExecution, op: operations.AddContainer) -> None:
    s = x.statements
    if x.run(s.destination_row, at=op.container).first() is None:
        x.run(
            s.insert_destination,
            container=op.container,
            epoch=op.epoch,
            last_id=op.base,
            msg_count=0,
            msg_size=0,
        )
    x.raise_state(LAST_DESTINATION, destination_number(op.base))


def _remove_container(x: BatchExecution, op: operations.RemoveContainer) -> None:
    x.write_counts()
    x.run(x.statements.delete_container, at=op.container)
    for statement in x.statements.forget_container:
        x.run(statement, at=op.container)


def _add_subscription(x: BatchExecution, op: operations.AddSubscription) -> None:
    s, mine = x.statements, subscription_columns(op.key)
    for statement in s.delete_subscription:
        x.run(statement, **subscription_parameters(op.key))
    if op.retroactive:
        # messages acknowledged by all subscriptions must not count, though their rows may exist
        x.run(s.delete_dead[op.prioritized], at=op.container)
    x.run_many(
        s.insert_acks,
        [
            {
                **mine,
                "sub_dest": op.destination,
                "selector": op.selector,
                "last_acked_id": op.start,
                "priority": priority,
                "xid": None,
            }
            for priority in (_PRIORITIES if op.prioritized else (SUBSCRIPTION_PRIORITY,))
        ],
    )
    if op.no_local:
        x.run(s.insert_no_local, **mine)
    count = x.run(s.rows_behind, at=op.container, after=op.start).scalar()
    x.outcome.subscribed.append((op.key, count))


def _remove_subscription(x: BatchExecution, op: operations.RemoveSubscription) -> None:
    s = x.statements
    x.write_counts()
    for statement in s.delete_subscription:
        x.run(statement, **subscription_parameters(op.key))
    x.run(s.delete_dead[op.prioritized], at=op.container)
    row = x.run(s.destination_row, at=op.container).first()
    if row is None:
        return
    left = x.run(s.row_count, at=op.container).scalar()
    dropped = row.msg_count - left
    size = row.msg_size * left // row.msg_count if row.msg_count else 0
    x.run(s.set_destination, where_container=op.container, count=left, bytes=size)
    x.outcome.dropped.append((op.container, dropped))


def _set_prioritized(x: BatchExecution, op: operations.SetPrioritized) -> None:
    priorities: dict[operations.SubscriberKey, list[int]] = {}
    for row in x.run(x.statements.keys_of_container, at=op.container):
        key = operations.SubscriberKey(op.container, row.client_id, row.sub_name)
        priorities.setdefault(key, []).append(row.priority)
    for key, found in priorities.items():
        if op.prioritized and len(found) == 1:
            _split(x, key)
        elif not op.prioritized and len(found) > 1:
            _join(x, key)


def _values(row: Any) -> dict[str, Any]:
    names = ("sub_dest", "selector", "last_acked_id", "priority")
    return {name: getattr(row, name) for name in names}


def _split(x: BatchExecution, key: operations.SubscriberKey) -> None:
    """Replace a subscription's row by one per priority, all with the same mark."""
    row = _values(x.run(x.statements.acks_rows, **subscription_parameters(key)).one())
    x.run_many(
        x.statements.insert_acks,
        [
            {**subscription_columns(key), **row, "priority": priority, "xid": None}
            for priority in _PRIORITIES
            if priority != row["priority"]
        ],
    )


def _join(x: BatchExecution, key: operations.SubscriberKey) -> None:
    """Replace the rows per priority by one with the lowest mark; list acks beyond it singly."""
    s, mine = x.statements, subscription_columns(key)
    rows = [_values(row) for row in x.run(s.acks_rows, **subscription_parameters(key))]
    lowest = min(row["last_acked_id"] for row in rows)
    for row in rows:
        past = x.run(
            s.past_single_mark,
            at=key.container,
            after=lowest,
            mark=row["last_acked_id"],
            level=row["priority"],
        )
        x.run_many(
            s.insert_acked,
            [{**mine, "id": p.id, "priority": p.priority, "xid": None} for p in past],
        )
    x.run(s.delete_subscription[0], **subscription_parameters(key))
    single = {"last_acked_id": lowest, "priority": SUBSCRIPTION_PRIORITY, "xid": None}
    x.run(s.insert_acks, **{**mine, **rows[0], **single})


def _prepare_add(x: BatchExecution, op: operations.PrepareAdd) -> None:
    x.add([op.message], [op.xid])


def _prepare_remove(x: BatchExecution, op: operations.PrepareRemove) -> None:
    x.run(x.statements.set_xid, row_id=op.id, new_xid=op.xid)


def _prepare_acknowledgement(x: BatchExecution, op: operations.PrepareAcknowledgement) -> None:
    ack = op.acknowledgement
    x.run(
        x.statements.insert_acked,
        **subscription_columns(ack.key),
        id=ack.id,
        priority=ack.priority,
        xid=op.xid,
    )


def _commit_add(x: BatchExecution, op: operations.CommitAdd) -> None:
    x.run(x.statements.commit_add, row_id=op.prepared_id, new_id=op.message.id)
    x.count_added(op.message)


def _commit_acknowledgement(x: BatchExecution, op: operations.CommitAcknowledgement) -> None:
    ack = op.acknowledgement
    x.run(x.statements.forget_prepared, row_id=ack.id, **subscription_parameters(ack.key))
    x.acknowledge(ack.key, [ack])


def _rollback_add(x: BatchExecution, op: operations.RollbackAdd) -> None:
    x.run(x.statements.rollback_add, row_id=op.id)


def _rollback_remove(x: BatchExecution, op: operations.RollbackRemove) -> None:
    x.run(x.statements.set_xid, row_id=op.id, new_xid=None)


def _rollback_acknowledgement(x: BatchExecution, op: operations.RollbackAcknowledgement) -> None:
    ack = op.acknowledgement
    x.run(x.statements.forget_prepared, row_id=ack.id, **subscription_parameters(ack.key))


def _clean_up(x: BatchExecution, op: operations.CleanUp) -> None:
    """Delete rows by comparing marks, reading only those that are deleted, in order."""
    s = x.statements
    marks = x.run(s.lowest_marks, at=op.container).all()
    found: list[int] = []
    if not op.prioritized and marks:
        after = min(mark for _, mark in marks)
        page = x.run(s.past[False], at=op.container, after=after, limit=op.limit)
        found += page.scalars()
    elif op.prioritized:
        for level, after in marks:
            page = x.run(s.past[True], at=op.container, after=after, level=level, limit=op.limit)
            found += page.scalars()
    for chunk in x.chunks(found):
        x.run(s.delete_messages, ids=list(chunk), at=op.container)
    x.outcome.cleaned.append((op.container, len(found)))


def _trim_duplicates(x: BatchExecution, op: operations.TrimDuplicates) -> None:
    x.run(x.statements.trim_duplicates, at=op.container, after=op.up_to)


def _trim_producers(x: BatchExecution, op: operations.TrimProducers) -> None:
    s = x.statements
    last = x.run(s.producer_use, skip=op.keep).scalar()
    if last is not None:
        x.run(s.forget_producers, until=last)


def _note_message(x: BatchExecution, op: operations.NoteMessage) -> None:
    x.count(op.container, 0, 0, op.id)
    x.note(op)
    if op.freed is not None:
        x.outcome.freed.append((op.container, op.freed))


def _journal_mark(x: BatchExecution, op: operations.JournalMark) -> None:
    x.raise_state(JOURNAL_MARK, op.place)


RARE_OPERATIONS: Final[dict[type, Callable[[BatchExecution, Any], None]]] = {
    operations.UpdateMessage: _update,
    operations.RemoveTopicMessage: _remove_topic_message,
    operations.RemoveAll: _remove_all,
    operations.AddContainer: _add_container,
    operations.RemoveContainer: _remove_container,
    operations.AddSubscription: _add_subscription,
    operations.RemoveSubscription: _remove_subscription,
    operations.SetPrioritized: _set_prioritized,
    operations.PrepareAdd: _prepare_add,
    operations.PrepareRemove: _prepare_remove,
    operations.PrepareAcknowledgement: _prepare_acknowledgement,
    operations.CommitAdd: _commit_add,
    operations.CommitAcknowledgement: _commit_acknowledgement,
    operations.RollbackAdd: _rollback_add,
    operations.RollbackRemove: _rollback_remove,
    operations.RollbackAcknowledgement: _rollback_acknowledgement,
    operations.CleanUp: _clean_up,
    operations.TrimDuplicates: _trim_duplicates,
    operations.TrimProducers: _trim_producers,
    operations.NoteMessage: _note_message,
    operations.JournalMark: _journal_mark,
}


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


logger = get_logger(__name__)

WRITER: Final = "writer"
FILE_NAME: Final = "activemq.db"
_SECRET: Final = re.compile("pass|pwd|secret|token|key|credential", re.IGNORECASE)

_UNAVAILABLE: Final = (
    sql_errors.OperationalError,
    sql_errors.InterfaceError,
    sql_errors.InternalError,
    sql_errors.TimeoutError,
)


class DatabaseUnavailableException(ResourceAllocationException):
    """The database does not respond, or its disk is full; the batch is retried."""

    retryable = True


class DatabaseTakenException(JMSException):
    """Another broker has written to the tables, so this one must stop."""


class Database:
    """A database. Its methods block; `transact` runs in the writer's thread, `read` in any."""

    def __init__(self, directory: Path, settings: JDBCSettings) -> None:
        """Prepare the engine, without connecting.

        Raises:
            ConfigurationException: the URL is unusable, or its driver is not installed.
        """
        self.settings = settings
        self.statements = statements_with(settings.statements)
        self.tables = self.statements.tables
        self.file = None if settings.data_source is not None else directory / FILE_NAME
        self.engine = _make_engine(self.file, settings)
        self._reader: Connection | None = None
        self._token = 0
        self._unconfirmed: Outcome | None = None

    @property
    def name(self) -> str:
        """The database's URL without its passwords, those of its query included."""
        url = self.engine.url
        hidden = {key: "***" for key in url.query if _SECRET.search(key)}
        return url.update_query_dict(hidden).render_as_string(hide_password=True)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def create_tables(self) -> None:
        """Create missing tables, ignoring errors about existing ones. (activemq-persistence J1)"""
        tables = self.tables.metadata.sorted_tables
        if self.is_sqlite:
            with self.engine.begin() as connection:  # in one transaction: one sync
                for statement in _create_statements(tables, indexes_if_missing=True):
                    connection.execute(statement)
            return
        has_if_not_exists = self.engine.dialect.name != "mysql"
        with self.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            for statement in _create_statements(tables, indexes_if_missing=has_if_not_exists):
                try:
                    connection.execute(statement)
                except sql_errors.DBAPIError as error:
                    if error.connection_invalidated:
                        raise
                    logger.debug("Not created: %s", error)

    def empty(self) -> None:
        """Delete all rows, except the lock and the number of the writing broker."""
        state = self.tables.state
        with self.engine.begin() as connection:
            for table in self.tables.metadata.sorted_tables:
                if table is not self.tables.lock and table is not state:
                    connection.execute(table.delete())
            connection.execute(state.delete().where(state.c.name != WRITER))

    def claim(self) -> None:
        """Make this broker the one that writes; later batches of any other broker fail."""
        with self.engine.begin() as connection:
            s = self.statements
            self._token = secrets.randbits(61)
            if not connection.execute(s.set_state, {"state": WRITER, "new": self._token}).rowcount:
                connection.execute(s.insert_state, {"name": WRITER, "value": self._token})

    def set_state(self, name: str, value: int) -> None:
        """Set a number of the state table, outside of a batch."""
        with self.engine.begin() as connection:
            connection.execute(self.statements.set_state, {"state": name, "new": value})

    def transact(self, units: Sequence[Unit]) -> Outcome:
        """Execute all units in one database transaction.

        Raises:
            DatabaseUnavailableException: it may succeed later; all was done, or nothing.
            DatabaseTakenException: another broker has taken over the tables.
            SQLAlchemyError: the database rejects the batch; retrying is useless.
        """
        return _translated(lambda: self._transact(units))

    def _transact(self, units: Sequence[Unit]) -> Outcome:
        with self.engine.begin() as connection:
            if self._fence(connection):
                self._unconfirmed = execute(
                    connection, self.statements, units, self.settings.max_rows
                )
        self._token += 1
        outcome, self._unconfirmed = self._unconfirmed, None
        assert outcome is not None
        return outcome

    def _fence(self, connection: Connection) -> bool:
        """Advance the number; False: the last attempt did already, so its work is committed."""
        new = self._token + 1
        swap = {"state": WRITER, "old": self._token, "new": new}
        if connection.execute(self.statements.swap_state, swap).rowcount == 1:
            return True
        found = connection.execute(self.statements.get_state, {"state": WRITER}).scalar()
        if found == new and self._unconfirmed is not None:
            return False
        raise DatabaseTakenException(
            f"Another broker has taken over the database {self.name}",
            hint="give each broker its own database, or set use_lock: true for all of them",
        )

    def read(self, statement: Any, **parameters: object) -> Sequence[Any]:
        """Return all rows of a query on the last committed state.

        Raises:
            DatabaseUnavailableException: the database does not respond.
        """

        def query() -> Sequence[Any]:
            if self._reader is None:
                self._reader = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            return self._reader.execute(statement, parameters).all()

        try:
            return _translated(query)
        except DatabaseUnavailableException:
            self._drop_reader()
            return _translated(query)

    def close(self) -> None:
        """Close all connections; idempotent."""
        self._drop_reader()
        self.engine.dispose()

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.invalidate()
            reader.close()


def _create_statements(
    tables: Sequence[Table], *, indexes_if_missing: bool
) -> Iterator[CreateTable | CreateIndex]:
    for table in tables:
        yield CreateTable(table, if_not_exists=True)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield CreateIndex(index, if_not_exists=indexes_if_missing)


def _translated(work: Callable[[], T]) -> T:
    try:
        return work()
    except _UNAVAILABLE as error:
        raise DatabaseUnavailableException(
            f"The database is unavailable: {_reason(error)}"
        ) from error
    except sql_errors.DBAPIError as error:
        if error.connection_invalidated:
            raise DatabaseUnavailableException(
                f"The connection to the database is lost: {_reason(error)}"
            ) from error
        raise


def _reason(error: sql_errors.SQLAlchemyError) -> str:
    """Return the driver's message; SQLAlchemy's would include the statement and its parameters."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def _make_engine(file: Path | None, settings: JDBCSettings) -> Engine:
    options: dict[str, Any] = {"hide_parameters": True, "pool_size": 3}
    if settings.transaction_isolation is not None:
        options["isolation_level"] = settings.transaction_isolation
    try:
        source = settings.data_source
        url = make_url(source) if source else URL.create("sqlite", database=str(file))
        engine = create_engine(url, connect_args=_connect_args(url, settings), **options)
    except (sql_errors.ArgumentError, ImportError) as error:
        raise ConfigurationException(
            f"The data source cannot be used: {error}",
            hint="set a URL such as postgresql+psycopg://user:password@host/db, and install its "
            f"driver, for example: {install_command('postgresql')}",
        ) from error
    if engine.dialect.name == "sqlite":
        if not url.database or url.database == ":memory:":
            raise ConfigurationException(
                "An in-memory SQLite database cannot be a store",
                hint="name a file, or use the memory store",
            )
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _connect_args(url: URL, settings: JDBCSettings) -> dict[str, Any]:
    """Return the timeouts as arguments of the driver."""
    arguments: dict[str, Any] = {}
    query, network = settings.query_timeout, settings.network_timeout
    backend, driver = url.get_backend_name(), url.get_driver_name()
    if backend == "postgresql" and driver == "psycopg":
        if query is not None:
            arguments["options"] = f"-c statement_timeout={int(query * 1000)}"
        if network is not None:
            arguments["connect_timeout"] = max(2, int(network))
            arguments["tcp_user_timeout"] = int(network * 1000)
    elif backend in {"mysql", "mariadb"}:
        if query is not None:
            arguments["init_command"] = f"SET SESSION max_execution_time={int(query * 1000)}"
        if network is not None:
            arguments["connect_timeout"] = max(1, int(network))
    elif backend == "sqlite":
        arguments["timeout"] = 5.0 if network is None else network
    return arguments


def _prepare_sqlite(connection: Any, _: object) -> None:
    """Let reads proceed during a write (they get the last commit), and sync each commit."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def file_size(file: Path) -> int:
    """Return the size of one of SQLite's files; 0 if it is missing, as the WAL file may be."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
