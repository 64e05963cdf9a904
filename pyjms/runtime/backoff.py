"""Back-offs, the waits between attempts: Spring's classes.

Intervals are seconds; `str` shows milliseconds, as Spring's log lines do.
"""

from __future__ import annotations

import random
from typing import Protocol

from pyjms.runtime.clock import check_seconds

DEFAULT_INTERVAL = 5.0
DEFAULT_INITIAL_INTERVAL = 2.0
DEFAULT_MULTIPLIER = 1.5
DEFAULT_MAX_INTERVAL = 30.0


class BackOffExecution(Protocol):
    """The progress of one series of attempts. Its `str` is part of Spring's log lines."""

    def next_back_off(self) -> float | None:
        """Count one more attempt and return the seconds to wait before it; None: give up."""


class BackOff(Protocol):
    """A rule for the waits between attempts; each outage starts an execution. Spring: BackOff."""

    def start(self) -> BackOffExecution:
        """Return a new execution, which has counted no attempt yet."""


class FixedBackOff:
    """The same `interval` (seconds) before each of `max_attempts` (None: unlimited).

    Up to `jitter` seconds are added to each wait at random, so that not all clients of a broker
    reconnect at the same moment when it is back. None: no jitter, except that a JmsApplication adds
    a fifth of the interval when the attempts are unlimited; 0: never any jitter.
    """

    def __init__(
        self,
        interval: float = DEFAULT_INTERVAL,
        max_attempts: int | None = None,
        *,
        jitter: float | None = None,
    ) -> None:
        check_seconds("interval", interval)
        if jitter is not None:
            check_seconds("jitter", jitter)
        self.interval = interval
        self.max_attempts = max_attempts
        self.jitter = jitter

    def start(self) -> BackOffExecution:
        """Return a new execution, which has counted no attempt yet."""
        return _FixedBackOffExecution(self)

    def __repr__(self) -> str:
        return f"FixedBackOff(interval={self.interval}, max_attempts={self.max_attempts})"


class _FixedBackOffExecution:
    def __init__(self, back_off: FixedBackOff) -> None:
        self._back_off = back_off
        self._attempts = 0

    def next_back_off(self) -> float | None:
        self._attempts += 1
        limit = self._back_off.max_attempts
        if limit is not None and self._attempts > limit:
            return None
        return self._back_off.interval + random.uniform(0, self._back_off.jitter or 0)  # noqa: S311 - no secret

    def __str__(self) -> str:
        limit = self._back_off.max_attempts
        return (
            f"FixedBackOffExecution[interval={_millis(self._back_off.interval)}, "
            f"currentAttempts={self._attempts}, "
            f"maxAttempts={'unlimited' if limit is None else limit}]"
        )


class ExponentialBackOff:
    """Waits that grow by `multiplier` from `initial_interval` to `max_interval` (seconds).

    It ends when the waits add up to `max_elapsed_time` seconds, or after `max_attempts`
    attempts (None: never). Up to `jitter` seconds are added to each wait at random. Spring:
    ExponentialBackOff, same defaults.
    """

    def __init__(
        self,
        initial_interval: float = DEFAULT_INITIAL_INTERVAL,
        multiplier: float = DEFAULT_MULTIPLIER,
        *,
        max_interval: float = DEFAULT_MAX_INTERVAL,
        max_elapsed_time: float | None = None,
        max_attempts: int | None = None,
        jitter: float = 0.0,
    ) -> None:
        check_seconds("jitter", jitter)
        check_seconds("initial_interval", initial_interval)
        check_seconds("max_interval", max_interval)
        if multiplier < 1:
            raise ValueError(f"Invalid multiplier {multiplier}: it must be 1 or more")
        self.initial_interval = initial_interval
        self.multiplier = multiplier
        self.max_interval = max_interval
        self.max_elapsed_time = max_elapsed_time
        self.max_attempts = max_attempts
        self.jitter = jitter

    def start(self) -> BackOffExecution:
        """Return a new execution, which has counted no attempt yet."""
        return _ExponentialBackOffExecution(self)


class _ExponentialBackOffExecution:
    def __init__(self, back_off: ExponentialBackOff) -> None:
        self._back_off = back_off
        self._interval: float | None = None
        self._elapsed = 0.0
        self._attempts = 0

    def next_back_off(self) -> float | None:
        rule = self._back_off
        if rule.max_elapsed_time is not None and self._elapsed >= rule.max_elapsed_time:
            return None
        if rule.max_attempts is not None and self._attempts >= rule.max_attempts:
            return None
        interval = (
            rule.initial_interval if self._interval is None else self._interval * rule.multiplier
        )
        self._interval = min(interval, rule.max_interval)
        self._elapsed += self._interval
        self._attempts += 1
        return self._interval + random.uniform(0, rule.jitter)  # noqa: S311 - no secret

    def __str__(self) -> str:
        current = "n/a" if self._interval is None else f"{_millis(self._interval)}ms"
        return (
            f"ExponentialBackOffExecution[currentInterval={current}, "
            f"multiplier={self._back_off.multiplier}, attempts={self._attempts}]"
        )


def _millis(seconds: float) -> int:
    return round(seconds * 1000)
