"""Statistics of connections and the objects that they create. (ActiveMQ: JMSStatsImpl etc.)

They exist if `jms.statsEnabled` is on. The counts of a producer or consumer are also counted by its
session and connection: a session's `message_count` is the sum of sent and received messages.
"""

from __future__ import annotations

from weakref import WeakSet

from pyjms import _clock
from pyjms.management.statistics import CountStatistic, Statistics, TimeStatistic

__all__ = [
    "JMSConnectionStats",
    "JMSConsumerStats",
    "JMSEndpointStats",
    "JMSProducerStats",
    "JMSSessionStats",
    "JMSStats",
]


class JMSEndpointStats(Statistics):
    """Statistics of connections, sessions, producers, consumers. ActiveMQ: JMSEndpointStats."""

    message_count: CountStatistic
    """Messages sent, or delivered to the application."""
    pending_message_count: CountStatistic
    """Messages that have arrived and were not delivered yet."""
    expired_message_count: CountStatistic
    """Messages that expired before their delivery."""
    message_wait_time: TimeStatistic
    """Seconds from a message's arrival to its delivery."""
    message_rate_time: TimeStatistic
    """Seconds between successive messages."""
    message_process_time: TimeStatistic
    """Seconds that a listener took for a message; `receive` is not measured."""

    def __init__(self, name: str, parent: Statistics | None = None) -> None:
        super().__init__(name, parent)
        self._last: float | None = None

    def on_message(self) -> None:
        """Count a message that was sent or delivered. ActiveMQ: onMessage."""
        now = _clock.now()
        if self._last is not None:
            self.message_rate_time.add_time(now - self._last)
        self._last = now
        self.message_count.increment()


class JMSConnectionStats(JMSEndpointStats):
    """Statistics of a connection. ActiveMQ: JMSConnectionStatsImpl."""

    KIND = "connection"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._sessions: WeakSet[JMSSessionStats] = WeakSet()

    @property
    def sessions(self) -> list[JMSSessionStats]:
        """The statistics of the open sessions."""
        return [stats for stats in self._sessions if not stats.is_closed]

    def add_session(self, name: str) -> JMSSessionStats:
        """Return the statistics of a new session."""
        stats = JMSSessionStats(name, self)
        self._sessions.add(stats)
        return stats


class JMSStats:
    """The statistics of the connections of a factory. ActiveMQ: JMSStatsImpl."""

    def __init__(self) -> None:
        self._connections: WeakSet[JMSConnectionStats] = WeakSet()

    @property
    def connections(self) -> list[JMSConnectionStats]:
        """The statistics of the open connections that were created with `stats_enabled`."""
        found = [stats for stats in self._connections if not stats.is_closed]
        return sorted(found, key=lambda stats: stats.name)

    def add_connection(self, stats: JMSConnectionStats) -> None:
        """Add the statistics of a new connection."""
        self._connections.add(stats)


class JMSSessionStats(JMSEndpointStats):
    """Statistics of a session. ActiveMQ: JMSSessionStatsImpl."""

    KIND = "session"
    durable_subscription_count: CountStatistic
    """Durable subscriptions that have a consumer in the session."""

    def __init__(self, name: str, parent: JMSConnectionStats) -> None:
        super().__init__(name, parent)
        self._endpoints: WeakSet[JMSProducerStats | JMSConsumerStats] = WeakSet()

    @property
    def producers(self) -> list[JMSProducerStats]:
        """The statistics of the open producers."""
        return [s for s in self._open() if isinstance(s, JMSProducerStats)]

    @property
    def consumers(self) -> list[JMSConsumerStats]:
        """The statistics of the open consumers."""
        return [s for s in self._open() if isinstance(s, JMSConsumerStats)]

    def add_producer(self, name: str, destination: str | None) -> JMSProducerStats:
        """Return the statistics of a new producer."""
        stats = JMSProducerStats(name, self, destination)
        self._endpoints.add(stats)
        return stats

    def add_consumer(self, name: str, destination: str, *, durable: bool) -> JMSConsumerStats:
        """Return the statistics of a new consumer."""
        stats = JMSConsumerStats(name, self, destination, durable=durable)
        self._endpoints.add(stats)
        return stats

    def _open(self) -> list[JMSProducerStats | JMSConsumerStats]:
        found = [stats for stats in self._endpoints if not stats.is_closed]
        return sorted(found, key=lambda stats: stats.name)


class JMSProducerStats(JMSEndpointStats):
    """Statistics of a producer. ActiveMQ: JMSProducerStatsImpl."""

    KIND = "producer"

    def __init__(self, name: str, parent: JMSSessionStats, destination: str | None) -> None:
        super().__init__(name, parent)
        self.destination = destination
        """The destination's name; None: each send gives a destination."""


class JMSConsumerStats(JMSEndpointStats):
    """Statistics of a consumer. ActiveMQ: JMSConsumerStatsImpl."""

    KIND = "consumer"

    def __init__(self, name: str, parent: JMSSessionStats, origin: str, *, durable: bool) -> None:
        super().__init__(name, parent)
        self.origin = origin
        """The destination's name."""
        self._durable = parent.durable_subscription_count if durable else None
        if self._durable is not None:
            self._durable.increment()

    def closed(self) -> None:
        """Stop counting its subscription, and tell the observers."""
        if self._durable is not None and not self.is_closed:
            self._durable.decrement()
        super().closed()
