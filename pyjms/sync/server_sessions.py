"""Connection consumers of the blocking API: the pool and its sessions are called in threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from anyio import to_thread

from pyjms.connection.server_sessions import SimpleServerSessionPool as CorePool
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.jms import api
from pyjms.jms.message import Message
from pyjms.runtime.event_loop import LoopHandle
from pyjms.sync.facade import Facade, core_of
from pyjms.sync.session import BlockingListener, CloseableFacade, Session
from pyjms.template.workers import Worker


class ServerSession(Protocol):
    """A session of a pool, with a thread that runs it. JMS: javax.jms.ServerSession."""

    @property
    def session(self) -> Session:
        """The session, which has a message listener and belongs to the consumer's connection."""

    def start(self) -> None:
        """Call `session.run()` in a separate thread; then become available again."""


class ServerSessionPool(Protocol):
    """Sessions for a connection consumer. JMS: javax.jms.ServerSessionPool."""

    def get_server_session(self) -> ServerSession:
        """Return a server session; block until one is available.

        It is called in a thread, in which it may still be blocked after the connection consumer was
        closed.
        """


class ConnectionConsumer(CloseableFacade[api.ConnectionConsumer]):
    """Passes a destination's messages to the sessions of a pool. JMS: ConnectionConsumer.

    Threads may share it. `close` waits for running listeners.
    """

    __slots__ = ("server_session_pool",)

    server_session_pool: ServerSessionPool | SimpleServerSessionPool
    """The pool whose sessions receive the messages."""


class SimpleServerSessionPool(CloseableFacade[CorePool]):
    """A pool of up to `size` sessions, each with a separate thread for its listener.

    For `connection.create_connection_consumer`. Threads may share it; it owns its sessions.

    Args:
        connection: the connection of the connection consumer.
        create_listener: returns the message listener of a session, a plain function that may
            block; both are called in the session's thread. The listener of a transacted session
            must commit or roll back.
        size: the maximum number of sessions.
        transacted: whether the sessions are transacted.
        acknowledge_mode: the acknowledge mode of sessions that are not transacted.

    Raises:
        ValueError: `size` is below 1.
    """

    __slots__ = ()

    def __init__(
        self,
        connection: Facade[object],
        create_listener: Callable[[Session], BlockingListener],
        *,
        size: int = 1,
        transacted: bool = False,
        acknowledge_mode: SessionMode = AcknowledgeMode.AUTO,
    ) -> None:
        loop: LoopHandle = connection.loop

        def listener_of(session: api.Session) -> api.MessageListener:
            listening = _ListenerInThread(create_listener, Session.of(session, loop, connection))
            self.threads.add(listening.worker)
            return listening

        core = CorePool(
            core_of(connection),
            listener_of,
            size=size,
            transacted=transacted,
            acknowledge_mode=acknowledge_mode,
        )
        self.attach(core, loop, connection)


class _ListenerInThread:
    """Calls a session's listener, which is created with the first message, in a thread."""

    def __init__(
        self, create_listener: Callable[[Session], BlockingListener], session: Session
    ) -> None:
        self.worker = Worker(f"pyjms listener of {session!r}")
        self._create = create_listener
        self._session = session
        self._listener: BlockingListener | None = None

    async def __call__(self, message: Message) -> None:
        await self.worker.run(self._listen, message)

    def _listen(self, message: Message) -> None:
        if self._listener is None:
            self._listener = self._create(self._session)
        self._listener(message)


class _PoolInThread:
    """Adapts a blocking pool for a connection consumer."""

    def __init__(self, pool: ServerSessionPool) -> None:
        self._pool = pool

    async def get_server_session(self) -> api.ServerSession:
        return _SessionInThread(
            await to_thread.run_sync(self._pool.get_server_session, abandon_on_cancel=True)
        )


class _SessionInThread:
    """Adapts a blocking server session for a connection consumer."""

    def __init__(self, server_session: ServerSession) -> None:
        self._server_session = server_session

    @property
    def session(self) -> api.Session:
        return self._server_session.session.core

    async def start(self) -> None:
        await to_thread.run_sync(self._server_session.start)


def core_pool(pool: ServerSessionPool | SimpleServerSessionPool) -> api.ServerSessionPool:
    """Return the coroutine pool or the adapter for a blocking pool."""
    return pool.core if isinstance(pool, Facade) else _PoolInThread(pool)
