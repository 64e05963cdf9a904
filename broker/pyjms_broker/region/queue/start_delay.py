"""When a queue dispatches later: with its first consumers, and what a bridge may not take yet.

(activemq-broker Q21; activemq-edges NW6)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyjms import _clock, _wakeup
from pyjms_broker.policy.entry import PolicyEntry

__all__ = ["LaterOffer", "StartDelay"]

_DEFAULT: Final = 1.0
"""Seconds; see `PolicyEntry.time_before_dispatch_starts`."""


class StartDelay:
    """Runs from a queue's first consumer until the time is over or enough consumers are there."""

    def __init__(self, policy: PolicyEntry, name: str, started: Callable[[], None]) -> None:
        """`started` is called when the time is over; `name` is that of the background task."""
        self._required = policy.consumers_before_dispatch_starts
        self._seconds = policy.time_before_dispatch_starts
        if self._required > 1 and not self._seconds:
            self._seconds = _DEFAULT
        self._name = name
        self._started = started
        self._task: _wakeup.BackgroundTask | None = None

    @property
    def is_running(self) -> bool:
        """Whether nothing may be dispatched yet."""
        return self._task is not None

    def consumer_added(self, count: int) -> None:
        """Begin with the first consumer, and end when `count` are enough."""
        if count == 1:
            if self._seconds:
                self._task = _wakeup.spawn(self._run, name=self._name)
        elif self._required and count >= self._required:
            self.cancel()

    def cancel(self) -> None:
        """End it without a call of `started`. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _run(self) -> None:
        await _clock.sleep(self._seconds)
        self._task = None
        self._started()


class LaterOffer:
    """A call at the earliest of the times that were asked for."""

    def __init__(self, name: str, offer: Callable[[], None]) -> None:
        """`offer` is called; `name` is that of the background task."""
        self._name = name
        self._offer = offer
        self._task: _wakeup.BackgroundTask | None = None
        self._due = 0.0

    def in_seconds(self, seconds: float) -> None:
        """Ask for a call in so many seconds; an earlier one that was asked for is enough."""
        due = _clock.now() + seconds
        if self._task is not None and self._due <= due:
            return
        self.cancel()
        self._due = due
        self._task = _wakeup.spawn(self._run, seconds, name=self._name)

    def cancel(self) -> None:
        """Call nothing any more. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _run(self, seconds: float) -> None:
        await _clock.sleep(seconds)
        self._task = None
        self._offer()
