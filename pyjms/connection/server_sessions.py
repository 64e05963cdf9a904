"""A pool of sessions for connection consumers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio

from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import IllegalStateException
from pyjms.jms import api
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import close_quietly

logger: Final = get_logger(__name__)


class SimpleServerSessionPool(api.Closeable):
    """Up to `size` sessions of one connection, each running in a separate task.

    For `connection.create_connection_consumer`; tasks of one loop may share it. Sessions are
    created when they are first needed. A session whose run fails is closed and replaced. Spring 2:
    SimpleServerSessionFactory, CommonsPoolServerSessionFactory.

    Args:
        connection: the connection of the connection consumer.
        create_listener: returns the message listener of a session; a transacted session's listener
            commits or rolls back itself.
        size: the maximum number of sessions that work at the same time.
        transacted: whether the sessions are transacted.
        acknowledge_mode: the mode of the sessions, if they are not transacted.

    Raises:
        ValueError: `size` is below 1.
    """

    def __init__(
        self,
        connection: api.Connection,
        create_listener: Callable[[api.Session], api.MessageListener],
        *,
        size: int = 1,
        transacted: bool = False,
        acknowledge_mode: SessionMode = AcknowledgeMode.AUTO,
    ) -> None:
        api.check_least("size", size, 1)
        self._connection = connection
        self._create_listener = create_listener
        self._transacted = transacted
        self._acknowledge_mode = acknowledge_mode
        self._available = anyio.Semaphore(size)
        self._idle: list[api.Session] = []
        self._running: dict[api.Session, BackgroundTask] = {}
        self._is_closed = False

    async def get_server_session(self) -> api.ServerSession:
        """Return an idle session or a new one; wait while the maximum number is in use.

        Raises:
            IllegalStateException: the pool is closed.
            JMSException: the session could not be created.
        """
        await self._available.acquire()
        try:
            self._check_open()
            session = self._idle.pop() if self._idle else await self._create()
        except BaseException:
            self._available.release()
            raise
        return _ServerSession(session, partial(self._start, session))

    async def close(self) -> None:
        """Close the sessions, each after its listener has returned. Idempotent.

        Listeners of the sessions must not call it: it would wait for them.
        """
        self._is_closed = True
        self._available.release()  # a waiting task sees that it is closed, and wakes the next one
        for session in [*self._idle, *self._running]:
            await session.close()
        for task in list(self._running.values()):
            await task.wait()
        self._idle.clear()

    async def _create(self) -> api.Session:
        session = await self._connection.create_session(self._transacted, self._acknowledge_mode)
        await session.set_message_listener(self._create_listener(session))
        return session

    def _start(self, session: api.Session) -> None:
        self._running[session] = spawn(self._run, session, name=f"pyjms run {session!r}")

    async def _run(self, session: api.Session) -> None:
        try:
            await session.run()
        except Exception as error:
            logger.debug("A server session has ended: %s", error)
            await close_quietly(session)
        else:
            if not self._is_closed:
                self._idle.append(session)
        finally:
            del self._running[session]
            self._available.release()

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateException("The pool of server sessions is closed")


class _ServerSession:
    """One use of a session of the pool."""

    def __init__(self, session: api.Session, start: Callable[[], None]) -> None:
        self.session = session
        self.start = start
