"""The inbox: records handled messages in the transaction of their effects.

Theory of operation
-------------------

The database is committed first, then the message. A crash in between leaves the message at the
broker, which delivers it again; its row in the inbox shows that its effects are committed, and it
is skipped. So each message takes effect in the database once: best-effort one-phase commit, with
the inbox in place of the second phase.

A row is inserted *before* the effects. Of two transactions with the same key, the second waits for
the first, or fails; they cannot both commit. If a database has no `ON CONFLICT`, the row is
inserted in a savepoint, so that a duplicate key does not abort the transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import ClassVar, Generic, TypeVar

from sqlalchemy import Connection, delete
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from pyjms.errors import ConfigurationException, Skip
from pyjms.jms.message import Message
from pyjms.listener.idempotency import Claim
from pyjms.outbox.tables import INBOX, OUTBOX_ID
from pyjms.runtime import clock as _clock

Database = Session | Connection

S = TypeVar("S")


def key_of(message: Message) -> str:
    """Return the key that identifies a message: its id in an outbox, else its message id."""
    own = message.properties.get(OUTBOX_ID)
    key = own if isinstance(own, str) else message.message_id
    if key is None:
        raise ConfigurationException("The message has no id", hint="pass one that was received")
    return key


def record(database: Database, message: Message | str, *, listener: str = "") -> bool:
    """Record in the transaction of `database` that a message is handled; False: it already was.

    Blocks. The row is part of the transaction, and rolled back with it.

    Args:
        database: a session or connection.
        message: a received message, or an application-defined key.
        listener: the name of the handler, if several handlers handle the same messages.
    """
    key = message if isinstance(message, str) else key_of(message)
    row = {"listener": listener, "message_key": key, "handled_at": _clock.time_ms() / 1000}
    connection = database if isinstance(database, Connection) else database.connection()
    name = connection.dialect.name
    if name == "sqlite":
        ours = sqlite.insert(INBOX).values(row).on_conflict_do_nothing()
        return connection.execute(ours).rowcount == 1
    if name == "postgresql":
        new = postgresql.insert(INBOX).values(row).on_conflict_do_nothing()
        returned = connection.execute(new.returning(INBOX.c.message_key))
        return returned.first() is not None
    if name in ("mysql", "mariadb"):
        ignoring = mysql.insert(INBOX).values(row).prefix_with("IGNORE")
        return connection.execute(ignoring).rowcount == 1
    try:
        with connection.begin_nested():
            connection.execute(INBOX.insert().values(row))
    except IntegrityError:
        return False
    return True


async def record_async(
    database: AsyncSession, message: Message | str, *, listener: str = ""
) -> bool:
    """Like `record`, in the transaction of an AsyncSession."""
    return await database.run_sync(lambda session: record(session, message, listener=listener))


def prune(database: Database, *, older_than: float) -> int:
    """Delete the rows that are older than `older_than` seconds; return their number.

    Blocks. If one of these messages is delivered again later, it is handled again.
    """
    connection = database if isinstance(database, Connection) else database.connection()
    old = delete(INBOX).where(INBOX.c.handled_at < _clock.time_ms() / 1000 - older_than)
    return connection.execute(old).rowcount


@contextmanager
def unit_of_work(
    sessions: Callable[[], Session], message: Message | str, *, listener: str = ""
) -> Iterator[Session]:
    """Handle a message once, in a database transaction: a context manager.

        with unit_of_work(Sessions, message) as db:
            db.add(...)

    The database is committed at the end of the block, the message after the handler has returned.
    An exception rolls both back. Blocks.

    Args:
        sessions: a `sessionmaker`, or another function that returns a new session.
        message: the message, or an application-defined key.
        listener: the name of the handler, if several handlers handle the same messages.

    Raises:
        Skip: the message was already handled, but its acknowledgement was lost; the listener
            acknowledges it.
    """
    with sessions() as session, session.begin():
        if not record(session, message, listener=listener):
            raise _skip(message)
        yield session


@asynccontextmanager
async def unit_of_work_async(
    sessions: Callable[[], AbstractAsyncContextManager[AsyncSession]],
    message: Message | str,
    *,
    listener: str = "",
) -> AsyncIterator[AsyncSession]:
    """Like `unit_of_work`, with the AsyncSessions of an `async_sessionmaker`."""
    async with sessions() as session, session.begin():
        if not await record_async(session, message, listener=listener):
            raise _skip(message)
        yield session


def _skip(message: Message | str) -> Skip:
    return Skip(f"{message if isinstance(message, str) else key_of(message)} was handled before")


class SqlStore(Generic[S]):
    """The common part of the stores of keys in the inbox table."""

    after_commit = False
    SESSION: ClassVar[str]
    MAKER: ClassVar[str]
    """What error messages call a session, and what creates sessions."""

    def __init__(self, sessions: Callable[[], S] | None = None, *, listener: str = "") -> None:
        self._sessions = sessions
        self._listener = listener

    def _new_session(self) -> S:
        if self._sessions is None:
            raise ConfigurationException(
                f"{type(self).__name__}: the handler has no {self.SESSION} among its arguments",
                hint=f"pass {self.MAKER} to the store",
            )
        return self._sessions()


class SqlIdempotencyStore(SqlStore[Session]):
    """Stores the keys of `@idempotent` in the inbox table.

    If the handler has a Session or Connection among its arguments, the key is inserted in that
    transaction, which the handler commits. Otherwise the store uses its own transaction, which is
    open while the handler runs, and is committed after the handler has returned, before the
    message. Its sessions are used by the consumers' threads.

    Args:
        sessions: a `sessionmaker`, for handlers without a session; None: all have a session.
        listener: the name of the handler, if several handlers use the same keys.
    """

    SESSION: ClassVar[str] = "SQLAlchemy Session"
    MAKER: ClassVar[str] = "a sessionmaker"
    blocks = True

    def __init__(
        self, sessions: Callable[[], Session] | None = None, *, listener: str = ""
    ) -> None:
        super().__init__(sessions, listener=listener)
        self._open: dict[str, Session] = {}

    def claim(self, key: str, arguments: Sequence[object]) -> Claim:
        """Insert `key`.

        If two transactions insert it at the same time, the second waits in the database.

        Raises:
            ConfigurationException: there is no session.
        """
        for given in arguments:
            if isinstance(given, Session | Connection | scoped_session):
                database = given() if isinstance(given, scoped_session) else given
                is_ours = not database.in_transaction()
                if record(database, key, listener=self._listener):
                    return Claim.NEW
                if is_ours:  # the handler is not called, so nothing else would end it
                    database.rollback()
                return Claim.DUPLICATE
        if key in self._open:
            return Claim.BUSY
        session = self._new_session()
        try:
            is_new = record(session, key, listener=self._listener)
        except BaseException:
            session.close()
            raise
        if not is_new:
            session.close()
            return Claim.DUPLICATE
        self._open[key] = session
        return Claim.NEW

    def complete(self, key: str) -> None:
        """Commit the store's own transaction, if there is one."""
        session = self._open.pop(key, None)
        if session is not None:
            with session:
                session.commit()

    def release(self, key: str) -> None:
        """Roll the store's own transaction back, if there is one."""
        session = self._open.pop(key, None)
        if session is not None:
            session.close()


class AsyncSqlIdempotencyStore(SqlStore[AsyncSession]):
    """Like `SqlIdempotencyStore`, with AsyncSessions, for `async def` handlers.

    If the handler has an AsyncSession or AsyncConnection among its arguments, the key is inserted
    in that transaction, which the handler commits. Otherwise the store uses its own transaction,
    which is open while the handler runs, and is committed after the handler has returned, before
    the message. It works on asyncio only, like SQLAlchemy; it does not block the loop. The
    transaction of a cancelled handler is rolled back.

    Args:
        sessions: an `async_sessionmaker`, for handlers without a session; None: all have a session.
        listener: the name of the handler, if several handlers use the same keys.
    """

    SESSION: ClassVar[str] = "AsyncSession"
    MAKER: ClassVar[str] = "an async_sessionmaker"

    def __init__(
        self, sessions: Callable[[], AsyncSession] | None = None, *, listener: str = ""
    ) -> None:
        super().__init__(sessions, listener=listener)
        self._open: dict[str, AsyncSession | None] = {}

    async def claim(self, key: str, arguments: Sequence[object]) -> Claim:
        """Insert `key`.

        If two transactions insert it at the same time, the second waits in the database.

        Raises:
            ConfigurationException: there is no session.
        """
        for given in arguments:
            database = given() if isinstance(given, async_scoped_session) else given
            if isinstance(database, AsyncSession | AsyncConnection):
                is_ours = not database.in_transaction()
                if await self._is_new(database, key):
                    return Claim.NEW
                if is_ours:  # the handler is not called, so nothing else would end it
                    await database.rollback()
                return Claim.DUPLICATE
        if key in self._open:
            return Claim.BUSY
        session = self._new_session()
        self._open[key] = None  # seen by other tasks while this one waits for the database
        is_new = False
        try:
            is_new = await self._is_new(session, key)
        finally:
            if not is_new:
                self._open.pop(key)
                await session.close()
        if not is_new:
            return Claim.DUPLICATE
        self._open[key] = session
        return Claim.NEW

    async def complete(self, key: str) -> None:
        """Commit the store's own transaction, if there is one."""
        session = self._open.pop(key, None)
        if session is not None:
            async with session:
                await session.commit()

    async def release(self, key: str) -> None:
        """Roll the store's own transaction back, if there is one."""
        session = self._open.pop(key, None)
        if session is not None:
            await session.close()

    async def _is_new(self, database: AsyncSession | AsyncConnection, key: str) -> bool:
        def insert(given: Database) -> bool:
            return record(given, key, listener=self._listener)

        return await database.run_sync(insert)
