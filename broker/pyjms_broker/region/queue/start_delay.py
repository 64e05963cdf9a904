"""Delayed dispatch: at a queue's first consumers, and of messages withheld from a bridge.

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
    """Delays dispatch from a queue's first consumer until a time or a number of consumers."""

    def __init__(self, policy: PolicyEntry, name: str, started: Callable[[], None]) -> None:
        """Set the callback for the end of the time, and the name of the background task."""
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
        """Begin with the first consumer; end if `count` consumers are enough."""
        if count == 1:
            if self._seconds:
                self._task = _wakeup.spawn(self._run, name=self._name)
        elif self._required and count >= self._required:
            self.cancel()

    def cancel(self) -> None:
        """End the delay without calling `started`. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _run(self) -> None:
        await _clock.sleep(self._seconds)
        self._task = None
        self._started()


class LaterOffer:
    """Calls a function at the earliest of the requested times."""

    def __init__(self, name: str, offer: Callable[[], None]) -> None:
        """Set the function to call, and the name of the background task."""
        self._name = name
        self._offer = offer
        self._task: _wakeup.BackgroundTask | None = None
        self._due = 0.0

    def in_seconds(self, seconds: float) -> None:
        """Request a call in `seconds`, unless an earlier one is already requested."""
        due = _clock.now() + seconds
        if self._task is not None and self._due <= due:
            return
        self.cancel()
        self._due = due
        self._task = _wakeup.spawn(self._run, seconds, name=self._name)

    def cancel(self) -> None:
        """Withdraw the requested call. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _run(self, seconds: float) -> None:
        await _clock.sleep(seconds)
        self._task = None
        self._offer()
