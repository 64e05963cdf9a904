"""Slow consumer strategies, which determine the slow consumers to abort.

A strategy contains only settings, so brokers and policy entries may share it. Its state about the
consumers of one broker is in the watch that it creates.
(activemq-broker T12 to T14)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyjms.errors import ConfigurationException
from pyjms.runtime import clock as _clock
from pyjms_broker.attribute import attribute, duration, flag

if TYPE_CHECKING:
    from pyjms_broker.api.subscription import Subscription


class SlowConsumerWatch(Protocol):
    """The consumers of one broker under one strategy. All calls come from its event loop."""

    def became_slow(self, subscription: Subscription) -> None:
        """Record that a consumer became slow; called each time it becomes slow."""

    def check(
        self, consumers: Iterable[Subscription], report_slow: Callable[[Subscription], None]
    ) -> Mapping[Subscription, str]:
        """Return the consumers to abort, each with the reason for the log.

        Called every `check_period` with the distinct consumers of the strategy's destinations.
        `report_slow` reports a consumer that only this strategy considers slow to the chain.
        """


class SlowConsumerStrategy(Protocol):
    """Determines the consumers to abort. Source: ActiveMQ SlowConsumerStrategy."""

    @property
    def check_period(self) -> float:
        """Seconds between two checks, greater than 0."""

    @property
    def abort_connection(self) -> bool:
        """Whether the consumer's connection is closed instead of the consumer."""

    def watch(self) -> SlowConsumerWatch:
        """Return a new watch for one broker."""


@dataclass(frozen=True, kw_only=True)
class AbortSlowConsumerAttributes:
    """The attributes of both strategies."""

    max_slow_count: int = attribute(
        -1, "How often a consumer may become slow before it is aborted; -1: any number."
    )
    max_slow_duration: float = duration(
        30.0,
        "Time that a consumer may be slow before it is aborted, in whole check periods; "
        "0: unlimited.",
    )
    check_period: float = duration(30.0, "Time between checks of the consumers.")
    abort_connection: bool = flag(
        "Whether the consumer's connection is closed, instead of the consumer."
    )
    ignore_network_consumers: bool = flag(
        "Whether consumers of a network of brokers are never aborted.", default=True
    )

    def __post_init__(self) -> None:
        if self.check_period <= 0:
            raise ConfigurationException("check_period must be more than 0")


@dataclass(frozen=True, kw_only=True)
class AbortSlowAckConsumerAttributes(AbortSlowConsumerAttributes):
    """The attributes of the strategy based on acknowledgements."""

    max_time_since_last_ack: float = duration(
        30.0, "Time without an acknowledgement after which it is slow."
    )
    ignore_idle_consumers: bool = flag(
        "Whether consumers that have no unacknowledged message are never slow.", default=True
    )


@dataclass(frozen=True, kw_only=True)
class AbortSlowConsumerStrategy(AbortSlowConsumerAttributes):
    """Aborts consumers whose prefetch window is full while messages wait for it.

    (ActiveMQ AbortSlowConsumerStrategy; activemq-broker T13)
    """

    def watch(self) -> SlowConsumerWatch:
        """Return a new watch for one broker."""
        return AbortSlowConsumerWatch(self)


@dataclass(frozen=True, kw_only=True)
class AbortSlowAckConsumerStrategy(AbortSlowAckConsumerAttributes):
    """Aborts consumers that have not acknowledged anything for too long.

    A consumer that was idle at a check has the full time for the message that it gets next.
    (ActiveMQ AbortSlowAckConsumerStrategy; activemq-broker T14)
    """

    def watch(self) -> SlowConsumerWatch:
        """Return a new watch for one broker."""
        return AbortSlowAckConsumerWatch(self)


class SlowConsumerEntry:
    """The slowness record of a consumer. Source: ActiveMQ SlowConsumerEntry."""

    __slots__ = ("checks", "count")

    def __init__(self, checks: int = 0) -> None:
        self.checks = checks
        self.count = 1

    def exceeds(self, limits: AbortSlowConsumerAttributes) -> str | None:
        """Describe the limit that it exceeds; None if it exceeds none."""
        seconds = self.checks * limits.check_period
        if 0 < limits.max_slow_duration <= seconds:
            return f"slow for {seconds:g} s (max_slow_duration {limits.max_slow_duration:g} s)"
        if 0 < limits.max_slow_count <= self.count:
            return f"slow {self.count} times (max_slow_count {limits.max_slow_count})"
        return None


class AbortSlowConsumerWatch:
    """The watch of `AbortSlowConsumerStrategy`."""

    def __init__(self, limits: AbortSlowConsumerAttributes) -> None:
        self._limits = limits
        self.slow: dict[Subscription, SlowConsumerEntry] = {}
        """The records of the slow consumers."""

    def became_slow(self, subscription: Subscription) -> None:
        slow = self.slow.get(subscription)
        if slow is None:
            self.slow[subscription] = SlowConsumerEntry()
        else:
            slow.count += 1

    def check(
        self, consumers: Iterable[Subscription], report_slow: Callable[[Subscription], None]
    ) -> Mapping[Subscription, str]:
        before, self.slow = self.slow, {}
        aborted: dict[Subscription, str] = {}
        for subscription in consumers:
            if self._limits.ignore_network_consumers and subscription.info.network_subscription:
                continue
            slow = self._judge(subscription, before.get(subscription), report_slow)
            if slow is None:
                continue
            reason = slow.exceeds(self._limits)
            if reason is None:
                self.slow[subscription] = slow
            else:
                aborted[subscription] = reason
        return aborted

    def _judge(
        self,
        subscription: Subscription,
        slow: SlowConsumerEntry | None,
        report_slow: Callable[[Subscription], None],
    ) -> SlowConsumerEntry | None:
        """Return the record to compare with the limits; None if it is not slow, or only now."""
        if not subscription.is_slow:
            return None
        if slow is None:
            self.slow[subscription] = SlowConsumerEntry()
            return None
        slow.checks += 1
        return slow


class AbortSlowAckConsumerWatch(AbortSlowConsumerWatch):
    """The watch of `AbortSlowAckConsumerStrategy`."""

    def __init__(self, limits: AbortSlowAckConsumerAttributes) -> None:
        super().__init__(limits)
        self._ack_limits = limits

    def became_slow(self, subscription: Subscription) -> None:
        """Do nothing: only acknowledgements count."""

    def check(
        self, consumers: Iterable[Subscription], report_slow: Callable[[Subscription], None]
    ) -> Mapping[Subscription, str]:
        now = _clock.now()
        return {
            each: f"{reason}: no acknowledgement for {now - each.last_ack_time:.0f} s"
            for each, reason in super().check(consumers, report_slow).items()
        }

    def _judge(
        self,
        subscription: Subscription,
        slow: SlowConsumerEntry | None,
        report_slow: Callable[[Subscription], None],
    ) -> SlowConsumerEntry | None:
        limits, now = self._ack_limits, _clock.now()
        if limits.ignore_idle_consumers and not subscription.in_flight:
            subscription.last_ack_time = now
            return None
        if now - subscription.last_ack_time <= limits.max_time_since_last_ack:
            return None
        if slow is None:
            if not subscription.is_slow:
                report_slow(subscription)
            return SlowConsumerEntry(checks=1)
        slow.checks += 1
        slow.count += 1
        return slow
