"""The statistics of a pool."""

from __future__ import annotations

from threading import Lock
from weakref import WeakSet

from pyjms.management.statistics import CountStatistic, Statistics, TimeStatistic

__all__ = ["PoolStats", "pool_statistics"]

_all: WeakSet[PoolStats] = WeakSet()
_lock = Lock()  # of the set: pools belong to any loop, and metrics are read in any thread


def pool_statistics() -> list[PoolStats]:
    """Return the statistics of all pools of this process, ordered by broker and name."""
    with _lock:
        found = list(_all)
    return sorted(found, key=lambda stats: (stats.broker, stats.name))


class PoolStats(Statistics):
    """Statistics of a PooledConnectionFactory, always on: each call costs a few counts."""

    KIND = "pool"
    NAMES: tuple[str, ...] = (
        "connections", "created_connections", "expired_connections", "failed_connections",
        "borrowed_connections", "sessions", "active_sessions", "created_sessions",
        "discarded_sessions", "refused_sessions", "session_wait_time",
    )  # fmt: skip

    def __init__(self, name: str, broker: str) -> None:
        super().__init__(name)
        self.broker = broker
        """The broker's URL without options, or the class of another provider's factory."""
        with _lock:
            _all.add(self)
        self.connections: CountStatistic = CountStatistic(self, "connections")
        """Open physical connections. ActiveMQ: getNumConnections."""
        self.created_connections: CountStatistic = CountStatistic(self, "created_connections")
        """Physical connections opened so far."""
        self.expired_connections: CountStatistic = CountStatistic(self, "expired_connections")
        """Physical connections closed because they were idle or too old."""
        self.failed_connections: CountStatistic = CountStatistic(self, "failed_connections")
        """Physical connections closed because they reported an exception."""
        self.borrowed_connections: CountStatistic = CountStatistic(self, "borrowed_connections")
        """Handles on connections that are not closed."""
        self.sessions: CountStatistic = CountStatistic(self, "sessions")
        """Open physical sessions. ActiveMQ: getNumSessions; the idle ones are the difference."""
        self.active_sessions: CountStatistic = CountStatistic(self, "active_sessions")
        """Sessions in use. ActiveMQ: getNumActiveSessions."""
        self.created_sessions: CountStatistic = CountStatistic(self, "created_sessions")
        """Physical sessions opened so far."""
        self.discarded_sessions: CountStatistic = CountStatistic(self, "discarded_sessions")
        """Physical sessions closed because they could not be cleaned up for their next use."""
        self.refused_sessions: CountStatistic = CountStatistic(self, "refused_sessions")
        """Calls of `create_session` that failed because all sessions were in use."""
        self.session_wait_time: TimeStatistic = TimeStatistic(self, "session_wait_time")
        """Seconds that calls of `create_session` waited because all sessions were in use."""
