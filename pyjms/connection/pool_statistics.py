"""The statistics of a pool."""

from __future__ import annotations

from threading import Lock
from weakref import WeakSet

from pyjms.management import CountStatistic, Statistics, TimeStatistic

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

    connections: CountStatistic
    """Open physical connections. ActiveMQ: getNumConnections."""
    created_connections: CountStatistic
    """Physical connections opened so far."""
    expired_connections: CountStatistic
    """Physical connections closed because they were idle or too old."""
    failed_connections: CountStatistic
    """Physical connections closed because they reported an exception."""
    borrowed_connections: CountStatistic
    """Handles on connections that are not closed."""
    sessions: CountStatistic
    """Open physical sessions. ActiveMQ: getNumSessions; the idle ones are the difference."""
    active_sessions: CountStatistic
    """Sessions in use. ActiveMQ: getNumActiveSessions."""
    created_sessions: CountStatistic
    """Physical sessions opened so far."""
    discarded_sessions: CountStatistic
    """Physical sessions closed because they could not be cleaned up for their next use."""
    refused_sessions: CountStatistic
    """Calls of `create_session` that failed because all sessions were in use."""
    session_wait_time: TimeStatistic
    """Seconds that calls of `create_session` waited because all sessions were in use."""

    def __init__(self, name: str, broker: str) -> None:
        super().__init__(name)
        self.broker = broker
        """The broker's URL without options, or the class of another provider's factory."""
        with _lock:
            _all.add(self)
