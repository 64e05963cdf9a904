"""The time in which a queue with its first consumers dispatches nothing yet.

(activemq-broker Q21)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyjms import _clock, _wakeup
from pyjms_broker.policy.entry import PolicyEntry

__all__ = ["StartDelay"]

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
