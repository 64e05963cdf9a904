"""One connection, and sessions, producers and consumers that are used again. (spring-jms 3.2)"""

from __future__ import annotations

from collections import deque

from pyjms.connection.cached_session import CachedSession, SessionEntry
from pyjms.connection.single import SingleConnectionFactory
from pyjms.core.closing import quietly
from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import Connection, ConnectionFactory, ExceptionListener, Session

__all__ = ["CachingConnectionFactory"]


class CachingConnectionFactory(SingleConnectionFactory):
    """A SingleConnectionFactory whose sessions go back to a cache when they are closed.

    Up to `session_cache_size` idle sessions for each acknowledge mode (transacted is one of
    its own) are kept, with their producers and consumers; more are opened on demand and
    closed for good when they come back to a full cache. A cached consumer goes on to fetch
    messages that nobody listens for: use `cache_consumers=False` with templates that
    receive, and no caching factory below listener containers that scale.
    """

    def __init__(
        self,
        target_connection_factory: ConnectionFactory,
        *,
        session_cache_size: int = 1,
        cache_producers: bool = True,
        cache_consumers: bool = True,
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
        if session_cache_size < 1:
            raise ValueError("session_cache_size must be 1 or higher")
        self.session_cache_size = session_cache_size
        self.cache_producers = cache_producers
        self.cache_consumers = cache_consumers
        self._idle: dict[AcknowledgeMode | int, deque[SessionEntry]] = {}

    async def _open_session(
        self, connection: Connection, transacted: bool, acknowledge_mode: AcknowledgeMode | int
    ) -> Session:
        mode = AcknowledgeMode.TRANSACTED if transacted else acknowledge_mode
        idle = self._idle.setdefault(mode, deque())
        while idle:
            entry = idle.popleft()
            if entry.connection is connection:
                return CachedSession(self, entry)
        session = await connection.create_session(transacted, acknowledge_mode)
        return CachedSession(self, SessionEntry(session, connection, mode))

    async def _take_back(self, entry: SessionEntry) -> None:
        """Keep an idle session, or close it where there is no room or the connection is gone."""
        idle = self._idle.setdefault(entry.mode, deque())
        if entry.connection is self._connection and len(idle) < self.session_cache_size:
            idle.append(entry)
        else:
            await entry.close()

    async def _close_physically(self, connection: Connection, started: bool) -> None:
        for idle in self._idle.values():
            for entry in [e for e in idle if e.connection is connection]:
                idle.remove(entry)
                await quietly(entry.close, "close a cached session")
        await super()._close_physically(connection, started)
