"""Timeouts while there is no broker: those of sends (option `timeout`) and of pulls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyjms import _clock
from pyjms._wakeup import Waiter
from pyjms.transport.failover.pulls import OpenPulls
from pyjms.transport.failover.requests import OpenRequests, Request
from pyjms.wire.openwire.commands import Command

__all__ = ["OutageDeadlines"]


@dataclass(eq=False, repr=False)
class OutageDeadlines:
    """The deadlines during one outage; `run` is a task for the time of the outage."""

    _requests: OpenRequests
    _pulls: OpenPulls
    _timeout: float | None
    _on_timeout: Callable[[Request], None]
    _deliver: Callable[[Command], None]
    _began: float = field(default_factory=_clock.now, init=False)
    _alarm: Waiter | None = field(default=None, init=False)

    def changed(self) -> None:
        """Check the deadlines again, because there is a new one."""
        if self._alarm is not None:
            self._alarm.wake()

    async def run(self) -> None:
        """Wait for each deadline, until cancelled."""
        while True:
            deadline = self._next()
            self._alarm = Waiter()
            if deadline is None:
                await self._alarm.wait()
            elif deadline > _clock.now():
                await _clock.wait(self._alarm, deadline - _clock.now())
            else:
                self._pulls.respond_to_overdue(self._deliver)
                for request in self._requests.messages():
                    if self._deadline_of(request) <= _clock.now():
                        self._on_timeout(request)

    def _next(self) -> float | None:
        deadlines = [self._pulls.next_deadline()]
        if self._timeout is not None:
            deadlines += map(self._deadline_of, self._requests.messages())
        return min((d for d in deadlines if d is not None), default=None)

    def _deadline_of(self, request: Request) -> float:
        return max(request.since, self._began) + (
            float("inf") if self._timeout is None else self._timeout
        )
