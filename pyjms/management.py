"""Statistics with the names of org.apache.activemq.management, and observers of their changes.

    class Exporter:
        def on_change(self, stats, name, value):
            self.totals[stats.KIND, name] += value

        def on_closed(self, stats):
            ...

    add_metrics_observer(Exporter())

Statistics are changed on the loop of the object they describe; reading them is thread-safe.

Those of connections and of the objects that they create (ActiveMQ: JMSStatsImpl etc.) exist if
`jms.statsEnabled` is on. The counts of a producer or consumer are also counted by its session and
connection: a session's `message_count` is the sum of sent and received messages. This is a layer
below the client, as pools also have statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, Self, cast, get_type_hints
from weakref import WeakSet

from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

__all__ = [
    "CountStatistic",
    "JMSConnectionStats",
    "JMSConsumerStats",
    "JMSProducerStats",
    "JMSSessionStats",
    "JMSStats",
    "MetricsObserver",
    "Statistics",
    "TimeStatistic",
    "add_metrics_observer",
    "remove_metrics_observer",
]

logger: Final = get_logger(__name__)


class Statistics:
    """The statistics of one object: attributes that its class annotates as statistics.

        class PoolStats(Statistics):
            connections: CountStatistic

    Args:
        name: the name of the object, such as a connection's id.
        parent: the statistics that include these: those of a session are part of those of its
            connection.
    """

    KIND = ""
    """The kind of object: connection, session, producer, consumer or pool."""
    NAMES: tuple[str, ...] = ()
    """The names of the statistics, those of base classes first."""
    _kinds: Mapping[str, type[CountStatistic | TimeStatistic]] = {}

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls)
        kinds = (CountStatistic, TimeStatistic)
        cls._kinds = {name: kind for name, kind in hints.items() if kind in kinds}
        cls.NAMES = vars(cls).get("NAMES", tuple(cls._kinds))

    def __init__(self, name: str, parent: Statistics | None = None) -> None:
        self.name = name
        self.parent = parent
        self.is_closed: bool = False
        """Whether the object is closed."""
        for statistic, kind in self._kinds.items():
            setattr(self, statistic, kind(self, statistic))

    def as_dict(self) -> dict[str, float]:
        """Return the values by name; for a time its count, total, shortest and longest."""
        values: dict[str, float] = {}
        for name in self.NAMES:
            values |= getattr(self, name).values()
        return values

    def reset(self) -> None:
        """Begin again at 0."""
        for name in self.NAMES:
            getattr(self, name).reset()

    def close(self) -> None:
        """Record that the object is closed, and tell the observers. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for observer in tuple(_observers):
            try:
                observer.on_closed(self)
            except Exception:
                logger.exception("A metrics observer failed on the end of %s", self.name)

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value:g}" for name, value in self.as_dict().items())
        return f"<{self.KIND} {self.name}: {listed}>"


class MetricsObserver(Protocol):
    """Called with each change of a statistic, on the loop where it happens: it must not block.

    Exceptions that it raises are only logged.
    """

    def on_change(self, stats: Statistics, name: str, value: float) -> None:
        """Handle a change of the statistic `name` of `stats`.

        Args:
            stats: the statistics of a connection, session, producer, consumer or pool; afterwards
                the change is also reported for the parents.
            name: the attribute of `stats`.
            value: the difference for a CountStatistic, the new duration in seconds for a
                TimeStatistic.
        """

    def on_closed(self, stats: Statistics) -> None:
        """Handle the close of the object of `stats`, after which there are no changes."""


_observers: list[MetricsObserver] = []


def add_metrics_observer(observer: MetricsObserver) -> None:
    """Register `observer` for all changes of statistics in this process. Idempotent.

    Connections have statistics if `jms.statsEnabled` is on, pools always. Thread-safe.
    """
    if observer not in _observers:
        _observers.append(observer)


def remove_metrics_observer(observer: MetricsObserver) -> None:
    """Remove `observer`. Thread-safe."""
    if observer in _observers:
        _observers.remove(observer)


def _notify(stats: Statistics, name: str, value: float) -> None:
    for observer in tuple(_observers):
        try:
            observer.on_change(stats, name, value)
        except Exception:
            logger.exception("A metrics observer failed on %s of %s", name, stats.name)


class _Statistic:
    """One statistic.

    Args:
        owner: the statistics to which it belongs.
        name: its name there; a statistic of this name in the owner's parent also changes.
    """

    __slots__ = ("chain", "count", "name", "owner", "start_time")

    chain: tuple[Self, ...]
    """This statistic, and those of the parents that also change."""

    def __init__(self, owner: Statistics, name: str) -> None:
        self.owner: Statistics = owner
        self.name: str = name
        parents: tuple[Any, ...] = getattr(getattr(owner.parent, name, None), "chain", ())
        self.chain = (cast("Any", self), *parents)
        self.count: int = 0
        self.start_time: int = _clock.time_ms()
        """Milliseconds since 1970, of the start or the last reset."""


class CountStatistic(_Statistic):
    """A number that is counted up, or up and down. ActiveMQ: CountStatisticImpl."""

    __slots__ = ("last_sample_time",)

    def __init__(self, owner: Statistics, name: str) -> None:
        super().__init__(owner, name)
        self.last_sample_time: int = self.start_time
        """Milliseconds since 1970, of the start, the last reset or the last change."""

    def increment(self, amount: int = 1) -> None:
        """Add `amount`, here and in the parents."""
        now = _clock.time_ms()
        for statistic in self.chain:
            statistic.count += amount
            statistic.last_sample_time = now
        if _observers:
            for statistic in self.chain:
                _notify(statistic.owner, self.name, amount)

    def decrement(self, amount: int = 1) -> None:
        """Subtract `amount`, here and in the parents."""
        self.increment(-amount)

    def reset(self) -> None:
        """Begin again at 0."""
        self.count = 0
        self.start_time = self.last_sample_time = _clock.time_ms()

    def values(self) -> dict[str, float]:
        """Return the value by name."""
        return {self.name: self.count}

    def __repr__(self) -> str:
        return f"<{self.name} {self.count}>"


class TimeStatistic(_Statistic):
    """The number and lengths of durations, in seconds. ActiveMQ: TimeStatisticImpl."""

    __slots__ = ("max_time", "min_time", "total_time")

    def __init__(self, owner: Statistics, name: str) -> None:
        super().__init__(owner, name)
        self.total_time: float = 0.0
        self.min_time: float = 0.0
        self.max_time: float = 0.0

    def add_time(self, seconds: float) -> None:
        """Add a duration, here and in the parents."""
        for statistic in self.chain:
            if not statistic.count or seconds < statistic.min_time:
                statistic.min_time = seconds
            statistic.max_time = max(statistic.max_time, seconds)
            statistic.count += 1
            statistic.total_time += seconds
        if _observers:
            for statistic in self.chain:
                _notify(statistic.owner, self.name, seconds)

    @property
    def average_time(self) -> float:
        """The mean duration; 0 if there are none."""
        return self.total_time / self.count if self.count else 0.0

    @property
    def average_per_second(self) -> float:
        """The number of mean durations per second; 0 if there are none."""
        return 1 / self.average_time if self.total_time else 0.0

    @property
    def average_time_excluding_min_max(self) -> float:
        """The mean without the shortest and the longest duration; 0 for fewer than three."""
        if self.count < 3:
            return 0.0
        return (self.total_time - self.min_time - self.max_time) / (self.count - 2)

    def reset(self) -> None:
        """Remove all durations."""
        self.count = 0
        self.total_time = self.min_time = self.max_time = 0.0
        self.start_time = _clock.time_ms()

    def values(self) -> dict[str, float]:
        """Return count, total, shortest and longest by name."""
        return {
            f"{self.name}_count": self.count,
            f"{self.name}_total": self.total_time,
            f"{self.name}_min": self.min_time,
            f"{self.name}_max": self.max_time,
        }

    def __repr__(self) -> str:
        return f"<{self.name} {self.count} x {self.average_time * 1000:g} ms>"


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

    def close(self) -> None:
        """Stop counting its subscription, and tell the observers."""
        if self._durable is not None and not self.is_closed:
            self._durable.decrement()
        super().close()
