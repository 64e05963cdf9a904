"""Subscription recovery policies, which keep a topic's messages for retroactive consumers.

(activemq-broker 4.2)
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.ids import IdGenerator
from pyjms.wire.openwire.commands import MessageId, ProducerId
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.api.message import MessageReference, copy_command
from pyjms_broker.api.policies import MessageQuery, SubscriptionRecovery
from pyjms_broker.attribute import Unit, attribute, count, duration

__all__ = [
    "FixedCountSubscriptionRecoveryPolicy",
    "FixedSizedSubscriptionRecoveryPolicy",
    "LastImageSubscriptionRecoveryPolicy",
    "NoSubscriptionRecoveryPolicy",
    "QueryBasedSubscriptionRecoveryPolicy",
    "RecoveryBuffer",
    "TimedSubscriptionRecoveryPolicy",
]


class RecoveryBuffer(SubscriptionRecovery):
    """Keeps every message; subclasses drop surplus messages in `trim`."""

    def __init__(self) -> None:
        self.references: deque[MessageReference] = deque()
        """The kept messages, oldest first."""
        self.size = 0
        """Their size in bytes, which counts as used memory."""

    def add(self, reference: MessageReference) -> bool:
        reference.increment_reference_count()
        self.references.append(reference)
        self.size += reference.size
        self.trim()
        return True

    def trim(self) -> None:
        """Drop messages that need not be kept any longer."""

    def messages(self, requested: Destination) -> tuple[MessageReference, ...]:
        self.trim()
        return tuple(self.references)

    def evict(self) -> bool:
        if not self.references:
            return False
        self._release(self.references.popleft())
        return True

    def drop(self, reference: MessageReference) -> None:
        """Drop one of `references`."""
        self.references.remove(reference)
        self._release(reference)

    def _release(self, reference: MessageReference) -> None:
        self.size -= reference.size
        reference.decrement_reference_count()

    def close(self) -> None:
        while self.evict():
            pass


class _LimitedBuffer(RecoveryBuffer):
    """Keeps at most `count` messages, or messages of at most `size` bytes."""

    def __init__(self, *, count: float = math.inf, size: float = math.inf) -> None:
        super().__init__()
        self._count_limit, self._size_limit = count, size

    def trim(self) -> None:
        while len(self.references) > self._count_limit or self.size > self._size_limit:
            self.evict()


class _TimedBuffer(RecoveryBuffer):
    """Keeps messages with their times of arrival; a task drops those that are too old."""

    def __init__(self, duration: float, name: str) -> None:
        super().__init__()
        self._duration = duration
        self._name = name
        self._arrivals: deque[float] = deque()
        self._task: event_loop.BackgroundTask | None = None

    def add(self, reference: MessageReference) -> bool:
        self._arrivals.append(_clock.now())
        if self._task is None or self._task.done:
            self._task = event_loop.spawn(self._drop_old, name=f"recovery policy of {self._name}")
        return super().add(reference)

    def trim(self) -> None:
        oldest = _clock.now() - self._duration
        while self._arrivals and self._arrivals[0] <= oldest:
            self.evict()

    def evict(self) -> bool:
        if self._arrivals:
            self._arrivals.popleft()
        return super().evict()

    async def _drop_old(self) -> None:
        while self._arrivals:
            await _clock.sleep(max(0.0, self._arrivals[0] + self._duration - _clock.now()))
            self.trim()

    def close(self) -> None:
        super().close()
        if self._task is not None:
            self._task.cancel()


class _QueryRecovery(SubscriptionRecovery):
    def __init__(self, query: MessageQuery, topic: RegionDestination) -> None:
        self._query = query
        self._topic = topic
        self._producer_id = ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)

    def add(self, reference: MessageReference) -> bool:
        return self._query.validate_update(reference.message)

    def messages(self, requested: Destination) -> Iterator[MessageReference]:
        for found in self._query.execute(requested):
            message = copy_command(found)
            message.message_id = MessageId(None, self._producer_id, next(self._sequence))
            message.producer_id = self._producer_id
            message.destination = message.destination or self._topic.destination
            yield self._topic.reference_to(message)

    def evict(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing, because the query keeps the messages."""


@dataclass(frozen=True, kw_only=True)
class NoSubscriptionRecoveryPolicy:
    """Keeps nothing, as without a policy."""

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        return None


@dataclass(frozen=True, kw_only=True)
class FixedCountSubscriptionRecoveryPolicy:
    """Keeps the last `maximum_size` messages."""

    maximum_size: int = count(100, "Number of messages.", minimum=1)

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        return _LimitedBuffer(count=self.maximum_size)


@dataclass(frozen=True, kw_only=True)
class FixedSizedSubscriptionRecoveryPolicy:
    """Keeps the last messages that fit into `maximum_size` bytes of memory."""

    maximum_size: int = attribute(
        65_536, "Memory for the messages of one topic.", unit=Unit.BYTES, minimum=1
    )

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        return _LimitedBuffer(size=self.maximum_size)


@dataclass(frozen=True, kw_only=True)
class LastImageSubscriptionRecoveryPolicy:
    """Keeps the last message."""

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        return _LimitedBuffer(count=1)


@dataclass(frozen=True, kw_only=True)
class TimedSubscriptionRecoveryPolicy:
    """Keeps the messages of the last `recover_duration` seconds."""

    recover_duration: float = duration(60.0, "Time for which a message is kept.")

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        return _TimedBuffer(self.recover_duration, str(topic))


@dataclass(frozen=True, kw_only=True)
class QueryBasedSubscriptionRecoveryPolicy:
    """Keeps nothing; `query` returns the messages, and decides which are published."""

    query: MessageQuery

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        return _QueryRecovery(self.query, topic)
