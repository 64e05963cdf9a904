"""A shared connection whose sessions, producers and consumers are reused. (spring-jms 3.2)"""

from __future__ import annotations

from collections import deque

from pyjms.connection.cached_session import CachedSession, SessionEntry
from pyjms.connection.single import SingleConnectionFactory
from pyjms.core.closing import quietly
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.jms.api import Connection, ConnectionFactory, ExceptionListener, Session
from pyjms.jms.api.factory import check_least

__all__ = ["CachingConnectionFactory"]


class CachingConnectionFactory(SingleConnectionFactory):
    """A SingleConnectionFactory that also caches sessions. Spring: CachingConnectionFactory.

    Up to `session_cache_size` idle sessions are kept for each acknowledge mode (transacted counts
    as one), with their producers and consumers. More are created on demand, and closed when they
    are returned to a full cache. Tasks of one loop may share the factory.

    A cached consumer keeps prefetching messages even if none are received, so consumers are not
    cached by default, as in Spring Boot. The consumers of a template have no prefetch. Do not use a
    caching factory for listener containers that scale.

    Args:
        target_connection_factory: opens the connection.
        session_cache_size: idle sessions to keep for each acknowledge mode; at least 1.
        cache_producers: whether sessions keep their producers.
        cache_consumers: whether sessions keep their consumers. The default of Spring's class is
            true, Spring Boot's is false.
        client_id: set on the connection when it is opened.
        exception_listener: called with the exceptions that the connection reports.
        reconnect_on_exception: open a new connection after the connection reported an exception.

    Raises:
        ValueError: `session_cache_size` is below 1.
    """

    def __init__(
        self,
        target_connection_factory: ConnectionFactory,
        *,
        session_cache_size: int = 1,
        cache_producers: bool = True,
        cache_consumers: bool = False,
        client_id: str | None = None,
        exception_listener: ExceptionListener | None = None,
        reconnect_on_exception: bool = True,
    ) -> None:
        super().__init__(
            target_connection_factory,
            client_id=client_id,
            exception_listener=exception_listener,
            reconnect_on_exception=reconnect_on_exception,
        )
        check_least("session_cache_size", session_cache_size, 1)
        self.session_cache_size = session_cache_size
        self.cache_producers = cache_producers
        self.cache_consumers = cache_consumers
        self._idle: dict[SessionMode, deque[SessionEntry]] = {}

    async def _open_session(
        self, connection: Connection, transacted: bool, acknowledge_mode: SessionMode
    ) -> Session:
        mode = AcknowledgeMode.TRANSACTED if transacted else acknowledge_mode
        idle = self._idle.setdefault(mode, deque())
        while idle:
            entry = idle.popleft()
            if entry.connection is connection:
                return self._handle(entry)
        session = await connection.create_session(transacted, acknowledge_mode)
        return self._handle(SessionEntry(session, connection, mode))

    def _handle(self, entry: SessionEntry) -> CachedSession:
        return CachedSession(
            entry,
            self._release,
            cache_producers=self.cache_producers,
            cache_consumers=self.cache_consumers,
        )

    async def _release(self, entry: SessionEntry) -> None:
        """Keep an idle session; close it if the cache is full or the connection was replaced."""
        idle = self._idle.setdefault(entry.mode, deque())
        if entry.connection is self._sharing.connection and len(idle) < self.session_cache_size:
            idle.append(entry)
        else:
            await entry.close()

    async def _close_physically(self, connection: Connection, started: bool) -> None:
        for idle in self._idle.values():
            for entry in [e for e in idle if e.connection is connection]:
                idle.remove(entry)
                await quietly(entry.close, "close a cached session")
        await super()._close_physically(connection, started)
