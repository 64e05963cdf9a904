"""Lockers, which let one broker at a time write to a database. (activemq-persistence H1, H4, J7)

There are three implementations of one interface:

- `DatabaseLocker` holds a row lock (SELECT ... FOR UPDATE) in a transaction that stays open; the
  database releases it when the connection ends.
- `LeaseDatabaseLocker` writes its name and an expiry time into the row, and renews it. It survives
  a lost connection, but needs synchronized clocks, or the database's clock.
- `SharedFileLock` locks a file beside the database, for SQLite, which has no row locks.

    event                    waiting (slave)     holding (master)
    try_acquire succeeds     -> holding
    keep_alive succeeds                          -> holding, for another period
    keep_alive fails                             the broker stops: another one may be writing
    the database is gone     -> waiting          the broker stops, and starts again as a slave
    release                                      -> released

A broker that was paused past the end of its lease cannot do harm: the next batch finds that another
broker has moved the number in the state table (`database`). Methods block, run in a
thread, and raise the errors of a database that does not respond.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, func, insert, or_, select, update
from sqlalchemy import exc as sql_errors

from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms_broker.store.files import SharedFileLock
from pyjms_broker.store.jdbc.database import Database
from pyjms_broker.store.jdbc.schema import LOCK_ROW
from pyjms_broker.store.jdbc.settings import Locker

logger = get_logger(__name__)


class DatabaseLock(Protocol):
    """The interface of a locker. All calls block."""

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
    """A row lock (SELECT ... FOR UPDATE), held by a transaction that stays open."""

    def __init__(self, database: Database, broker_name: str) -> None:
        self._database = database
        self._broker_name = broker_name
        self._connection: Connection | None = None
        lock = database.tables.lock
        self._row = lock.c.id == LOCK_ROW
        self._select = select(lock.c.id).where(self._row).with_for_update(nowait=True)
        self._update: Any = update(lock).where(self._row)

    def try_acquire(self) -> bool:
        _make_row(self._database)
        connection = self._database.engine.connect()
        try:
            connection.execute(self._select)
        except sql_errors.OperationalError as error:
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
            except sql_errors.SQLAlchemyError as error:
                logger.debug("The lock ended with its connection: %s", error)
                connection.invalidate()
            connection.close()


class LeaseDatabaseLocker:
    """A lease: the row says who holds the lock, and until when."""

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
        self._update: Any = update(lock).where(lock.c.id == LOCK_ROW)

    def try_acquire(self) -> bool:
        _make_row(self._database)
        now = self._now()
        free = or_(self._lock.time.is_(None), self._lock.time < now)
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
            except sql_errors.SQLAlchemyError as error:
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
            clock = func.utc_timestamp() if connection.dialect.name == "mysql" else func.now()
            found = connection.execute(select(clock)).scalar_one()
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
            if connection.execute(select(lock.c.id).where(lock.c.id == LOCK_ROW)).first() is None:
                connection.execute(insert(lock).values(id=LOCK_ROW))
    except sql_errors.IntegrityError:
        logger.debug("Another broker inserted the lock row at the same time")
