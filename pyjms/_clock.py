"""The clock: the only module that reads the time or sleeps, so that tests can replace it.

`now` is monotonic seconds, `time_ms` the wall clock in milliseconds (message headers), `sleep`,
`wait` and `timeout` wait. `install` puts another clock in force for this process. (decisions D12)
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
    """The scope of a timeout."""

    @property
    def cancelled_caught(self) -> bool:
        """After the block: whether the time ran out."""


class Clock(Protocol):
    """A clock; its methods are the functions of this module."""

    def now(self) -> float: ...
    def time_ms(self) -> int: ...
    async def sleep(self, seconds: float) -> None: ...
    def timeout(self, seconds: float | None) -> AbstractContextManager[TimeoutScope]: ...


class SystemClock:
    """The clock of the machine."""

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
    """Return monotonic seconds."""
    return _clock.now()


def time_ms() -> int:
    """Return the wall clock, in milliseconds since 1970."""
    return _clock.time_ms()


async def sleep(seconds: float) -> None:
    """Wait for `seconds`. Cancellable."""
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
    """Return a context manager that cancels its block after `seconds`; None: never."""
    return _clock.timeout(seconds)
