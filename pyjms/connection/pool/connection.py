"""A pooled connection and the handles on it. (spring-jms 9.3 to 9.5)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.connection.pool.options import PoolOptions
from pyjms.connection.pool.session import PooledSession
from pyjms.connection.pool.session_pool import SessionPool
from pyjms.connection.pool.statistics import PoolStats
from pyjms.connection.transport_listeners import SharedInterruptions, TransportListening
from pyjms.core.closing import close_quietly, quietly
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import ConnectionClosedException, JMSException
from pyjms.jms.api import Closeable, Connection, ExceptionListener, MessageTransformer, Session
from pyjms.jms.destination import TemporaryQueue, TemporaryTopic
from pyjms.jms.domain import QueueConnection, TopicConnection
from pyjms.jms.metadata import ConnectionMetaData

__all__ = ["Credentials", "PhysicalConnection", "PooledConnection"]

logger: Final = get_logger(__name__)

Credentials = tuple[str | None, str | None]
"""User name and password, for which connections are pooled separately."""


class PhysicalConnection:
    """A connection of the provider, with the number of handles on it."""

    def __init__(
        self,
        connection: Connection,
        options: PoolOptions,
        stats: PoolStats,
        on_failure: Callable[[PhysicalConnection, JMSException], None],
        *,
        is_jms_11: bool,
    ) -> None:
        """Keep a connection; `on_failure` is called before the exception listeners."""
        self.connection = connection
        self.is_jms_11 = is_jms_11
        """Whether handles behave like those of ActiveMQ's pool."""
        self.references: int = 0
        self.has_failed: bool = False
        self.listeners: list[ExceptionListener] = []
        """The exception listeners of the handles."""
        self.interruptions: SharedInterruptions = SharedInterruptions()
        self.interruptions.watch(connection)
        self._options = options
        self._stats = stats
        self._on_failure = on_failure
        self._own_listener = connection.exception_listener
        connection.exception_listener = self._on_exception
        self._starting = anyio.Lock()
        self._is_started = False
        self._created_at = self._last_used = _clock.now()
        self._pools: dict[SessionMode, SessionPool] = {}
        stats.created_connections.increment()
        stats.connections.increment()
        self._is_open = True

    def take(self) -> None:
        """Count a new handle."""
        self.references += 1
        self._last_used = _clock.now()
        self._stats.borrowed_connections.increment()

    def give_back(self) -> None:
        """Count a closed handle."""
        self.references -= 1
        self._last_used = _clock.now()
        self._stats.borrowed_connections.decrement()

    def is_due(self) -> bool:
        """Return whether to close it: it is unused, and has failed or is idle or open too long."""
        if self.references:
            return False
        now = _clock.now()
        idle, expiry = self._options.idle_timeout, self._options.expiry_timeout
        return (
            self.has_failed
            or (idle > 0 and now > self._last_used + idle)
            or (expiry > 0 and now > self._created_at + expiry)
        )

    async def start(self) -> None:
        """Start the connection; it is never stopped."""
        async with self._starting:
            if not self._is_started:
                await self.connection.start()
                self._is_started = True

    def sessions(self, transacted: bool, acknowledge_mode: SessionMode) -> SessionPool:
        """Return the session pool of a mode."""
        mode = AcknowledgeMode.TRANSACTED if transacted else acknowledge_mode
        pool = self._pools.get(mode)
        if pool is None:

            async def open_session() -> Session:
                return await self.connection.create_session(transacted, acknowledge_mode)

            name = mode.name if isinstance(mode, AcknowledgeMode) else str(mode)
            pool = SessionPool(open_session, self._options, self._stats, name, self.is_jms_11)
            if self._is_open:
                self._pools[mode] = pool
        return pool

    def end(self) -> None:
        """Mark it as about to be closed, and fail callers that wait for a session."""
        if self._is_open:
            self._is_open = False
            self._stats.connections.decrement()
            for pool in self._pools.values():
                pool.close(ConnectionClosedException())
            self._pools.clear()

    async def close(self) -> None:
        """Close the connection with all its sessions. Errors are logged."""
        self.end()
        await close_quietly(self.connection)

    def _on_exception(self, error: JMSException) -> None:
        """Mark the connection as failed; then call the listeners. Called on its loop."""
        first, self.has_failed = not self.has_failed, True
        if first:
            self._on_failure(self, error)
        for listener in [self._own_listener, *self.listeners]:
            if listener is not None:
                try:
                    listener(error)
                except Exception:
                    logger.exception("An exception listener of %r failed", self.connection)


class PooledConnection(TransportListening, QueueConnection, TopicConnection):
    """A handle on a pooled connection, which may have several handles at the same time.

    `close` closes the sessions that were created through this handle, and deletes its temporary
    destinations. `start` starts the connection for all handles; it is never stopped.
    """

    def __init__(
        self,
        physical: PhysicalConnection,
        on_close: Callable[[PhysicalConnection], Awaitable[None]],
    ) -> None:
        """Use `physical`, returned by `on_close`."""
        super().__init__(physical.interruptions)
        self._physical = physical
        self._on_close = on_close
        self._is_stopped = False
        self._is_closed = False
        self._listener: ExceptionListener | None = None
        self._sessions: set[Closeable] = set()
        self._temporaries: set[TemporaryQueue | TemporaryTopic] = set()

    def __repr__(self) -> str:
        return f"<pooled {self._physical.connection!r}>"

    @property
    def client_id(self) -> str | None:
        """The client id of the pooled connection, common to all its handles."""
        return self._usable().client_id

    async def set_client_id(self, client_id: str) -> None:
        """Set the client id of the pooled connection; setting its present one has no effect."""
        connection = self._usable()
        if connection.client_id != client_id:
            await connection.set_client_id(client_id)

    @property
    def metadata(self) -> ConnectionMetaData:
        """The connection's metadata."""
        return self._usable().metadata

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """The exception listener of this handle, in addition to those of other handles."""
        return self._listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._usable()
        self._drop_listener()
        self._listener = listener
        if listener is not None:
            self._physical.listeners.append(listener)

    @property
    def transformer(self) -> MessageTransformer | None:
        """The message transformer of the connection, which its target factory sets."""
        return getattr(self._usable(), "transformer", None)

    @property
    def stats(self) -> Any:
        """The connection's statistics; None unless `jms.statsEnabled` is set."""
        return getattr(self._usable(), "stats", None)

    async def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> Session:
        """Take a session from the pool, which opens a session if none is idle.

        Waits while the maximum number of sessions is in use.

        Raises:
            IllegalStateException: all sessions are in use and `block_if_full` is off, or its
                timeout has passed; or the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """
        self._usable()
        pool = self._physical.sessions(transacted, acknowledge_mode)
        physical = await pool.take()
        session = PooledSession(physical, pool, self._temporaries, self._sessions.discard)
        if self._is_closed:
            await session.close()
            raise ConnectionClosedException
        self._sessions.add(session)
        return session

    async def start(self) -> None:
        """Start the pooled connection; it is never stopped."""
        self._usable()
        await self._physical.start()

    async def stop(self) -> None:
        """Do nothing, as others use the connection; in ActiveMQ's pool, disable this handle."""
        if self._physical.is_jms_11:
            self._usable()
            self._is_stopped = True

    async def close(self) -> None:
        """Close its sessions, delete its temporary destinations, and return the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        self._drop_listener()
        self.drop_transport_listeners()
        try:
            for session in list(self._sessions):
                await quietly(session.close, "close a session of a pooled connection")
            await self._delete_temporaries()
        finally:
            with anyio.CancelScope(shield=True):
                await self._on_close(self._physical)

    async def _delete_temporaries(self) -> None:
        """Delete them with a separate session, as all pooled sessions may be in use."""
        if not self._temporaries or self._physical.has_failed:
            return

        async def delete_all() -> None:
            async with await self._physical.connection.create_session() as session:
                for destination in self._temporaries:
                    await quietly(
                        partial(session.delete_temporary, destination), f"delete {destination}"
                    )

        await quietly(delete_all, "delete the temporary destinations of a pooled connection")

    def _drop_listener(self) -> None:
        if self._listener is not None:
            self._physical.listeners.remove(self._listener)
            self._listener = None

    def _usable(self) -> Connection:
        """Return the connection.

        Raises:
            ConnectionClosedException: the handle is closed or stopped.
        """
        if self._is_closed or self._is_stopped:
            raise ConnectionClosedException
        return self._physical.connection
