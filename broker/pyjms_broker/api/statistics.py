"""The counters of a destination, several of which change with each message."""

from __future__ import annotations

from typing import Final

NO_MINIMUM: Final = (1 << 63) - 1
"""The initial minimum, greater than any value."""


class DestinationStatistics:
    """Counters of one destination.

    `messages` is the current number of messages, including those in flight. (activemq-broker Q4)
    Sizes are in bytes as counted for memory limits, times in milliseconds. Source: ActiveMQ
    DestinationStatistics.
    """

    __slots__ = (
        "blocked_sends",
        "blocked_time",
        "consumers",
        "dequeues",
        "dispatched",
        "enqueues",
        "expired",
        "inflight",
        "max_size",
        "max_time",
        "messages",
        "min_size",
        "min_time",
        "producers",
        "timed",
        "total_size",
        "total_time",
    )

    def __init__(self) -> None:
        self.inflight: int = 0
        self.messages: int = 0
        self.consumers: int = 0
        self.producers: int = 0
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero, except numbers of the current state (messages, consumers).

        Source: ActiveMQ DestinationView.resetStatistics.
        """
        self.enqueues: int = 0
        self.dequeues: int = 0
        self.dispatched: int = 0
        self.expired: int = 0
        self.blocked_sends: int = 0
        self.blocked_time: float = 0.0
        """Total time that sends have waited for space."""
        self.total_size: int = 0
        """Total size of the messages in `enqueues`."""
        self.max_size: int = 0
        self.min_size: int = NO_MINIMUM
        self.timed: int = 0
        """Number of messages in `total_time`."""
        self.total_time: int = 0
        """Total time from arrival to first dispatch."""
        self.max_time: int = 0
        self.min_time: int = NO_MINIMUM

    def new_extreme_size(self, size: int) -> None:
        """Record the size of a message that is a new minimum or maximum."""
        self.min_size = min(self.min_size, size)
        self.max_size = max(self.max_size, size)

    def new_extreme_time(self, milliseconds: int) -> None:
        """Record the waiting time of a message that is a new minimum or maximum."""
        self.min_time = min(self.min_time, milliseconds)
        self.max_time = max(self.max_time, milliseconds)

    @property
    def average_size(self) -> float:
        """The average size of enqueued messages; 0 without any."""
        return self.total_size / self.enqueues if self.enqueues else 0.0

    @property
    def average_time(self) -> float:
        """The average time to the first dispatch; 0 without any."""
        return self.total_time / self.timed if self.timed else 0.0

    def add_counters(self, other: DestinationStatistics) -> None:
        """Add the counters of another destination that `reset` sets to zero."""
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.min_size = min(self.min_size, other.min_size)
        self.max_size = max(self.max_size, other.max_size)
        self.min_time = min(self.min_time, other.min_time)
        self.max_time = max(self.max_time, other.max_time)

    def add(self, other: DestinationStatistics) -> None:
        """Add all counters of another destination."""
        self.add_counters(other)
        for name in _GAUGES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNTERS: Final = (
    "enqueues",
    "dequeues",
    "dispatched",
    "expired",
    "blocked_sends",
    "blocked_time",
    "total_size",
    "timed",
    "total_time",
)
"""The fields that `reset` sets to zero, and whose sum includes removed destinations."""
_GAUGES: Final = ("inflight", "messages", "consumers", "producers")
SUMS: Final = frozenset((*COUNTERS, *_GAUGES))
"""The fields whose value for several destinations is the sum."""
