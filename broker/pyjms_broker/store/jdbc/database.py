"""The database: connections, tables, one transaction per batch, and error translation.

Each batch advances a number in the state table from the value that this broker left there. A batch
whose commit got no response is therefore not executed twice, and no other broker's work is
overwritten.
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
from pyjms_broker.store.jdbc.operations import (
    BULK,
    AcknowledgeMessage,
    AddMessage,
    NoteMessage,
    Outcome,
    RemoveMessage,
    SubscriberKey,
    Unit,
)
from pyjms_broker.store.jdbc.schema import Statements, statements_with
from pyjms_broker.store.jdbc.settings import JDBCSettings

logger = get_logger(__name__)

LAST_BROKER_SEQUENCE_ID: Final = "last_broker_sequence_id"
_WRITER: Final = "writer"
_FILE_NAME: Final = "activemq.db"
_SECRET: Final = re.compile("pass|pwd|secret|token|key|credential", re.IGNORECASE)

_UNAVAILABLE: Final = (
    sql_errors.OperationalError,
    sql_errors.InterfaceError,
    sql_errors.InternalError,
    sql_errors.TimeoutError,
)
_MAX_PARAMETERS: Final = 5000

T = TypeVar("T")


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
        self.file = None if settings.data_source is not None else directory / _FILE_NAME
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
            connection.execute(state.delete().where(state.c.name != _WRITER))

    def claim(self) -> None:
        """Make this broker the one that writes; later batches of any other broker fail."""
        with self.engine.begin() as connection:
            s = self.statements
            self._token = secrets.randbits(61)
            if not connection.execute(s.set_state, {"state": _WRITER, "new": self._token}).rowcount:
                connection.execute(s.insert_state, {"name": _WRITER, "value": self._token})

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
        return _translate_errors(lambda: self._transact(units))

    def _transact(self, units: Sequence[Unit]) -> Outcome:
        with self.engine.begin() as connection:
            if self._fence(connection):
                batch = Batch(connection, self.statements, self.settings.max_rows)
                self._unconfirmed = batch.execute(units)
        self._token += 1
        outcome, self._unconfirmed = self._unconfirmed, None
        assert outcome is not None
        return outcome

    def _fence(self, connection: Connection) -> bool:
        """Advance the number; False: the last attempt did already, so its work is committed."""
        new = self._token + 1
        swap = {"state": _WRITER, "old": self._token, "new": new}
        if connection.execute(self.statements.swap_state, swap).rowcount == 1:
            return True
        found = connection.execute(self.statements.get_state, {"state": _WRITER}).scalar()
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
            return _translate_errors(query)
        except DatabaseUnavailableException:
            self._drop_reader()
            return _translate_errors(query)

    def close(self) -> None:
        """Close all connections; idempotent."""
        self._drop_reader()
        self.engine.dispose()

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.invalidate()
            reader.close()


class Batch:
    """Units that are executed in one transaction.

    Adjacent additions, removals and acknowledgements form one bulk, written as additions, then
    acknowledgements, then removals; that is valid because IDs are never reused. A message that is
    added and removed in one bulk never reaches its table, nor does a topic's message that is added
    and acknowledged by all subscriptions in one bulk. Counters are collected, too, and written by
    `write_counts`.
    """

    def __init__(self, connection: Connection, statements: Statements, max_rows: int) -> None:
        self.connection = connection
        self.statements = statements
        self.max_rows = max_rows
        self.outcome = Outcome()
        self.added: dict[int, AddMessage] = {}
        self.removed: dict[int, RemoveMessage] = {}
        self.acknowledged: dict[int, dict[SubscriberKey, AcknowledgeMessage]] = {}
        self._counts: dict[str, list[int]] = {}
        self._last: dict[str, int] = {}
        self._producers: dict[str, int] = {}

    def execute(self, units: Iterable[Unit]) -> Outcome:
        """Execute all operations of all units, in order, in the connection's transaction.

        Raises:
            SQLAlchemyError: the database rejected them; the transaction has to be rolled back.
        """
        for unit in units:
            for operation in unit.operations:
                if not isinstance(operation, BULK):
                    self._write_bulk()
                operation.execute(self)
        self._write_bulk()
        self.write_counts()
        return self.outcome

    def _write_bulk(self) -> None:
        """Write the collected additions, acknowledgements and removals, and begin a new bulk."""
        if not (self.added or self.removed or self.acknowledged):
            return
        self._drop_consumed()
        self.add(list(self.added.values()))
        by_key: dict[SubscriberKey, list[AcknowledgeMessage]] = defaultdict(list)
        for acknowledgements in self.acknowledged.values():
            for key, each in acknowledgements.items():
                by_key[key].append(each)
        for key, parts in by_key.items():
            for chunk in self.chunks(parts):
                self.acknowledge(key, chunk)
        by_container: dict[str, list[RemoveMessage]] = defaultdict(list)
        for removal in self.removed.values():
            by_container[removal.container].append(removal)
        for container, removals in by_container.items():
            for removed in self.chunks(removals):
                self._remove(container, removed)
        self.added, self.removed, self.acknowledged = {}, {}, {}

    def _drop_consumed(self) -> None:
        """Drop the messages that are consumed in this bulk, except for their sequence numbers."""
        consumed = [self.added.pop(i) for i in list(self.removed) if i in self.added]
        for message in consumed:
            del self.removed[message.id]
        for message_id, acknowledgements in list(self.acknowledged.items()):
            added = self.added.get(message_id)
            if added is not None and len(acknowledgements) >= added.subscribers > 0:
                del self.acknowledged[message_id]
                consumed.append(self.added.pop(message_id))
                self.outcome.freed.append((added.container, added.size))
        for message in consumed:
            self.count(message.container, 0, 0, message.id)
            self.note(message)

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

    def _remove(self, container: str, removals: Sequence[RemoveMessage]) -> None:
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
        parameters = key.parameters
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
                {**key.columns, "id": row.id, "priority": row.priority, "xid": None}
                for row in valid
                if (level is None or row.priority == level) and row.id > new
            ]
        self.run_many(s.insert_acked, beyond)
        self._free(key.container, prioritized, {row.id: sizes[row.id] for row in valid})

    def _move_mark(self, key: SubscriberKey, level: int | None, mark: int, ids: list[int]) -> int:
        """Advance a mark and return it: all messages up to it are acknowledged."""
        s, prioritized = self.statements, level is not None
        parameters: dict[str, Any] = key.parameters
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


def _create_statements(
    tables: Sequence[Table], *, indexes_if_missing: bool
) -> Iterator[CreateTable | CreateIndex]:
    for table in tables:
        yield CreateTable(table, if_not_exists=True)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield CreateIndex(index, if_not_exists=indexes_if_missing)


def _translate_errors(work: Callable[[], T]) -> T:
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
