"""The clock: the only module that reads the time or sleeps, so that tests can replace it.

`now` is monotonic seconds, `time_ms` the wall clock in milliseconds (message headers), `sleep`,
`wait` and `timeout` wait; `Waiters` are tasks that wait for a condition instead. `check_seconds`
validates arguments in seconds. `install` replaces the clock of this process. (decisions D12)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from numbers import Real
from typing import Any, Final, Protocol

import anyio

from pyjms.runtime.event_loop import Waiter

FOR_EVER: Final = "None waits for ever"
_EXAMPLES: Final = "a number of seconds such as 0.5"


class Waiters:
    """The tasks that wait for one condition. Belongs to one loop.

    Whoever changes the condition calls `wake`, also if nobody waits.
    """

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event: anyio.Event | None = None
        """Set by the next `wake`; None: nobody waits, so that `wake` has no effect."""

    async def wait(self) -> None:
        """Wait until the next `wake`. Cancellable."""
        if self.event is None:
            self.event = anyio.Event()
        await self.event.wait()

    async def wait_while(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()` is false; it is checked now and at each `wake`. Cancellable."""
        while condition():
            await self.wait()

    def wake(self) -> None:
        """Let the waiting tasks go on."""
        event, self.event = self.event, None
        if event is not None:
            event.set()


stopwatch: Final = time.perf_counter
"""Seconds, to measure how long work takes. Tests do not replace it."""


class Clock(Protocol):
    """A clock; its methods are the functions of this module."""

    def now(self) -> float: ...
    def time_ms(self) -> int: ...
    async def sleep(self, seconds: float) -> None: ...
    def timeout(self, seconds: float | None) -> AbstractContextManager[anyio.CancelScope]: ...


class SystemClock:
    """The system's clock."""

    def now(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractContextManager[anyio.CancelScope]:
        return anyio.move_on_after(seconds)


_SYSTEM: Final = SystemClock()
_clock: Clock = _SYSTEM


def install(clock: Clock) -> Clock:
    """Replace the clock by `clock`, and return the previous one."""
    global _clock
    previous, _clock = _clock, clock
    return previous


def now() -> float:
    """Return monotonic seconds."""
    return time.monotonic() if _clock is _SYSTEM else _clock.now()


def time_ms() -> int:
    """Return the wall-clock time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000 if _clock is _SYSTEM else _clock.time_ms()


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


def timeout(seconds: float | None) -> AbstractContextManager[anyio.CancelScope]:
    """Return a context manager that cancels its block after `seconds`; None: never."""
    return _clock.timeout(seconds)


def check_seconds(
    name: str, value: float, *, least: float | None = 0.0, otherwise: str = ""
) -> None:
    """Check that an argument is a finite number of seconds; None has to be handled before.

    Args:
        name: the argument's name, for the error.
        value: the argument.
        least: the smallest allowed number; None: negative numbers are allowed.
        otherwise: a hint about other allowed values, such as `FOR_EVER`.
    """
    kind = type(value)
    if kind is not float and kind is not int and not _is_number(value):
        raise TypeError(_text(name, _EXAMPLES, value, _advice(value), otherwise))
    if not -math.inf < value < math.inf:
        raise ValueError(_text(name, "a finite number of seconds", value, "", otherwise))
    if least is not None and value < least:
        raise ValueError(
            _text(name, f"a number of seconds, {least:g} or more", value, "", otherwise)
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _advice(value: object) -> str:
    if isinstance(value, timedelta):
        return "write its total_seconds()"
    if isinstance(value, str):
        return "texts with a unit, such as 500ms, are for settings files"
    return ""


def _text(name: str, expected: str, value: object, *hints: str) -> str:
    hint = "; ".join(filter(None, hints))
    return f"{name} is {expected}, not {value!r:.50}" + (f" ({hint})" if hint else "")
