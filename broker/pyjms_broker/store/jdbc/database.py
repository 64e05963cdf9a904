"""The database and its lock: connections, tables, one transaction per batch, and error translation.

Each batch advances a number in the state table from the value that this broker left there. A batch
whose commit got no response is therefore not executed twice, and no other broker's work is
overwritten.

A locker lets one broker at a time write to a database. (activemq-persistence H1, H4, J7)

    event                    waiting (slave)     holding (master)
    try_acquire succeeds     -> holding
    keep_alive succeeds                          -> holding, for another period
    keep_alive fails                             the broker stops: another one may be writing
    the database is gone     -> waiting          the broker stops, and starts again as a slave
    release                                      -> released

A broker that was paused past the end of its lease cannot do harm: the next batch finds that another
broker has moved the number in the state table.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import sqlalchemy as sql
from sqlalchemy.engine import URL
from sqlalchemy.schema import CreateIndex, CreateTable

from pyjms.errors import ConfigurationException, JMSException, ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms_broker.store.files import SharedFileLock
from pyjms_broker.store.jdbc.operations import Batch, Outcome, Unit
from pyjms_broker.store.jdbc.schema import LOCK_ROW, statements_with
from pyjms_broker.store.jdbc.settings import JDBCSettings, Locker

logger = get_logger(__name__)

_WRITER: Final = "writer"
_FILE_NAME: Final = "activemq.db"
_SECRET: Final = re.compile("pass|pwd|secret|token|key|credential", re.IGNORECASE)

_UNAVAILABLE: Final = (
    sql.exc.OperationalError,
    sql.exc.InterfaceError,
    sql.exc.InternalError,
    sql.exc.TimeoutError,
)

T = TypeVar("T")


class DatabaseUnavailableException(ResourceAllocationException):
    """The database does not respond, or its disk is full; the batch is retried."""

    retryable = True


class LockLostException(JMSException):
    """Another broker may write to the tables, so this one must stop."""


class DatabaseTakenException(LockLostException):
    """Another broker has written to the tables."""


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
        self._reader: sql.Connection | None = None
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
                except sql.exc.DBAPIError as error:
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
        return translate_errors(lambda: self._transact(units))

    def _transact(self, units: Sequence[Unit]) -> Outcome:
        with self.engine.begin() as connection:
            if self._fence(connection):
                batch = Batch(connection, self.statements, self.settings.max_rows)
                self._unconfirmed = batch.execute(units)
        self._token += 1
        outcome, self._unconfirmed = self._unconfirmed, None
        assert outcome is not None
        return outcome

    def _fence(self, connection: sql.Connection) -> bool:
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
        """Return all rows of a query on the last committed state."""

        def query() -> Sequence[Any]:
            if self._reader is None:
                self._reader = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            return self._reader.execute(statement, parameters).all()

        try:
            return translate_errors(query)
        except DatabaseUnavailableException:
            self._drop_reader()
            return translate_errors(query)

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
    tables: Sequence[sql.Table], *, indexes_if_missing: bool
) -> Iterator[CreateTable | CreateIndex]:
    for table in tables:
        yield CreateTable(table, if_not_exists=True)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield CreateIndex(index, if_not_exists=indexes_if_missing)


def translate_errors(work: Callable[[], T]) -> T:
    """Return the result of `work`; errors that may pass are DatabaseUnavailableException."""
    try:
        return work()
    except _UNAVAILABLE as error:
        raise DatabaseUnavailableException(
            f"The database is unavailable: {reason_of(error)}"
        ) from error
    except sql.exc.DBAPIError as error:
        if error.connection_invalidated:
            raise DatabaseUnavailableException(
                f"The connection to the database is lost: {reason_of(error)}"
            ) from error
        raise


def reason_of(error: Exception) -> str:
    """Return the driver's message; SQLAlchemy's would include the statement and its parameters."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _make_engine(file: Path | None, settings: JDBCSettings) -> sql.Engine:
    options: dict[str, Any] = {"hide_parameters": True, "pool_size": 3}
    if settings.transaction_isolation is not None:
        options["isolation_level"] = settings.transaction_isolation
    try:
        source = settings.data_source
        url = sql.make_url(source) if source else URL.create("sqlite", database=str(file))
        engine = sql.create_engine(url, connect_args=_connect_args(url, settings), **options)
    except (sql.exc.ArgumentError, ImportError) as error:
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
        sql.event.listen(engine, "connect", _prepare_sqlite)
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


# --- Lockers


class DatabaseLock(Protocol):
    """A locker; all calls block, and raise the errors of a database that does not respond."""

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free."""

    def keep_alive(self) -> bool:
        """Renew the lock; False: another broker holds it."""

    def release(self) -> None:
        """Release the lock; idempotent."""


def make_locker(database: Database, broker_name: str) -> DatabaseLock:
    """Return the locker for the settings and the kind of database."""
    settings = database.settings
    if settings.locker is Locker.LEASE:
        return LeaseDatabaseLocker(database, settings.lease_holder_id or broker_name)
    if database.is_sqlite:
        file = Path(str(database.engine.url.database))
        return SharedFileLock(file.with_name(f"{file.name}.lock"))
    return DatabaseLocker(database, broker_name)


class DatabaseLocker:
    """A row lock (SELECT ... FOR UPDATE), held by a transaction that stays open.

    The database releases it when the connection ends. SQLite has none: a file is locked instead.
    """

    def __init__(self, database: Database, broker_name: str) -> None:
        self._database = database
        self._broker_name = broker_name
        self._connection: sql.Connection | None = None
        lock = database.tables.lock
        self._row = lock.c.id == LOCK_ROW
        self._select = sql.select(lock.c.id).where(self._row).with_for_update(nowait=True)
        self._update: Any = sql.update(lock).where(self._row)

    def try_acquire(self) -> bool:
        _make_row(self._database)
        connection = self._database.engine.connect()
        try:
            connection.execute(self._select)
        except sql.exc.OperationalError as error:
            connection.invalidate()
            connection.close()
            if error.connection_invalidated:
                raise
            return False
        self._connection = connection
        return self.keep_alive()

    def keep_alive(self) -> bool:
        if self._connection is None:
            return False
        values = {"time": _clock.time_ms(), "broker_name": self._broker_name}
        return bool(self._connection.execute(self._update.values(values)).rowcount == 1)

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.rollback()
            except sql.exc.SQLAlchemyError as error:
                logger.debug("The lock ended with its connection: %s", error)
                connection.invalidate()
            connection.close()


class LeaseDatabaseLocker:
    """A lease: the row says who holds the lock, and until when.

    It survives a lost connection, but needs synchronized clocks, or the database's clock.
    """

    def __init__(self, database: Database, holder_id: str) -> None:
        self._database = database
        self._holder_id = holder_id
        self._held = False
        settings = database.settings
        self._length = int(settings.lock_acquire_sleep_interval * 1000)
        self._allowed = int(settings.max_allowable_diff_from_db_time * 1000)
        if settings.lock_keep_alive_period > settings.lock_acquire_sleep_interval:
            logger.warning(
                "lock_keep_alive_period %s s is longer than the lease,"
                " lock_acquire_sleep_interval %s s: the lease expires between renewals",
                settings.lock_keep_alive_period,
                settings.lock_acquire_sleep_interval,
            )
        lock = database.tables.lock
        self._lock: Any = lock.c
        self._update: Any = sql.update(lock).where(lock.c.id == LOCK_ROW)

    def try_acquire(self) -> bool:
        _make_row(self._database)
        now = self._now()
        free = sql.or_(self._lock.time.is_(None), self._lock.time < now)
        self._held = self._write(free, self._holder_id, now + self._length)
        return self._held

    def keep_alive(self) -> bool:
        ours = self._lock.broker_name == self._holder_id
        return self._write(ours, self._holder_id, self._now() + self._length)

    def release(self) -> None:
        if self._held:
            self._held = False
            try:
                self._write(self._lock.broker_name == self._holder_id, None, None)
            except sql.exc.SQLAlchemyError as error:
                logger.warning(
                    "The lease on the database could not be released and will expire: %s", error
                )

    def _write(self, condition: Any, holder: str | None, until: int | None) -> bool:
        statement = self._update.where(condition).values(broker_name=holder, time=until)
        with self._database.engine.begin() as connection:
            return bool(connection.execute(statement).rowcount == 1)

    def _now(self) -> int:
        """Return the time in ms, by the database's clock if ours differs too much from it."""
        ours = _clock.time_ms()
        if self._allowed <= 0:
            return ours
        with self._database.engine.connect() as connection:
            clock = (
                sql.func.utc_timestamp() if connection.dialect.name == "mysql" else sql.func.now()
            )
            found = connection.execute(sql.select(clock)).scalar_one()
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        theirs = int(found.timestamp() * 1000)
        if abs(theirs - ours) <= self._allowed:
            return ours
        logger.info(
            "The clock of this machine differs from the database's by %d ms; using the database's",
            ours - theirs,
        )
        return theirs


def _make_row(database: Database) -> None:
    lock = database.tables.lock
    try:
        with database.engine.begin() as connection:
            if (
                connection.execute(sql.select(lock.c.id).where(lock.c.id == LOCK_ROW)).first()
                is None
            ):
                connection.execute(sql.insert(lock).values(id=LOCK_ROW))
    except sql.exc.IntegrityError:
        logger.debug("Another broker inserted the lock row at the same time")
