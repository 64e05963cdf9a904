"""The one clock: tests replace it, so nothing else may ask for the time or sleep.

`now` is monotonic seconds, `time_ms` the wall clock in milliseconds (message headers),
`sleep` and `timeout` wait. `install` puts another clock in force for this process.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Protocol

import anyio

from pyjms._wakeup import Waiter

__all__ = [
    "Clock",
    "SystemClock",
    "TimeoutScope",
    "install",
    "now",
    "sleep",
    "time_ms",
    "timeout",
    "wait",
]


class TimeoutScope(Protocol):
    """What `timeout` gives: after the block `cancelled_caught` says whether time ran out."""

    @property
    def cancelled_caught(self) -> bool: ...


class Clock(Protocol):
    """What a clock does; see the functions of this module."""

    def now(self) -> float: ...
    def time_ms(self) -> int: ...
    async def sleep(self, seconds: float) -> None: ...
    def timeout(self, seconds: float | None) -> AbstractContextManager[TimeoutScope]: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractContextManager[TimeoutScope]:
        return anyio.move_on_after(seconds)


_clock: Clock = SystemClock()


def install(clock: Clock) -> Clock:
    """Put `clock` in force and return the one it replaces."""
    global _clock
    previous, _clock = _clock, clock
    return previous


def now() -> float:
    """Seconds of a clock that never goes back."""
    return _clock.now()


def time_ms() -> int:
    """Milliseconds since 1970."""
    return _clock.time_ms()


async def sleep(seconds: float) -> None:
    """Wait. Cancellable."""
    await _clock.sleep(seconds)


async def wait(waiter: Waiter, seconds: float | None) -> None:
    """Wait until `waiter` is woken, at most `seconds`; None: for ever. Cancellable."""
    if seconds is None:
        await waiter.wait()
        return
    call_off = waiter.wake_later(seconds) if type(_clock) is SystemClock else None
    if call_off is None:
        with _clock.timeout(seconds):
            await waiter.wait()
        return
    try:
        await waiter.wait()
    finally:
        call_off()


def timeout(seconds: float | None) -> AbstractContextManager[TimeoutScope]:
    """A block that is cancelled, quietly, after `seconds`; None: never."""
    return _clock.timeout(seconds)
