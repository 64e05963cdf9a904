"""The idempotency store in the inbox table, for coroutines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

from pyjms.listener.idempotency.stores import Claim
from pyjms.outbox.inbox import Database, SqlStore, record

__all__ = ["AsyncSqlIdempotencyStore"]


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
