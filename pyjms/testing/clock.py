"""A virtual clock that stands still until a test advances it, or jumps when every task waits.

It works on asyncio and trio. Time moves from deadline to deadline, and after each one every task
runs as far as it can, so that whatever happens at second 3 sees the state of second 3.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Self

import anyio
from anyio.lowlevel import checkpoint

from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.template.workers import calls_in_flight

_SETTLE_ROUNDS = 20
_PROBE = 0.001
"""Event loop iterations for the other tasks before checking whether all are blocked, and seconds
for that check: after a check that is too early, anyio on asyncio waits 0.1 s for the next."""
_THREAD_ROUNDS = 50
_THREAD_PAUSE = 0.001
"""A handler's thread that takes longer counts as blocked, and time advances without it."""


@contextmanager
def real_time() -> Iterator[_clock.Clock]:
    """Use the system clock in this block: with a virtual one, the block might never end.

    Yields the clock that is replaced.
    """
    replaced = _clock.install(_clock.SystemClock())
    try:
        yield replaced
    finally:
        _clock.install(replaced)


def is_virtual() -> bool:
    """Return whether a virtual clock is installed."""
    with real_time() as replaced:
        return isinstance(replaced, VirtualClock)


class VirtualClock:
    """Time for tests: `async with VirtualClock() as clock:` installs it.

    `await clock.advance(seconds)` advances it. With `autojump=True` it advances itself to the next
    deadline whenever all tasks are blocked. It gives handlers in threads 50 ms of real time; a task
    that waits for a socket counts as blocked at once, so use autojump for work that stays on the
    loop.
    """

    def __init__(
        self, *, autojump: bool = False, start: float = 1000.0, time_ms: int = 1_700_000_000_000
    ) -> None:
        self._now = start
        self._offset_ms = time_ms - start * 1000
        self._autojump = autojump
        self._order = itertools.count()
        self._deadlines: list[tuple[float, int, Callable[[], object]]] = []
        self._dropped: set[int] = set()
        self._added = anyio.Event()
        self._replaced: _clock.Clock | None = None
        self._jumper: BackgroundTask | None = None

    def now(self) -> float:
        """Return the virtual monotonic time in seconds."""
        return self._now

    def time_ms(self) -> int:
        """Return the virtual wall-clock time in milliseconds; it advances with `now`."""
        return round(self._now * 1000 + self._offset_ms)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has advanced by `seconds`. Cancellable."""
        if seconds <= 0:
            await checkpoint()
            return
        woken = anyio.Event()
        number = self._at(self._now + seconds, woken.set)
        try:
            await woken.wait()
        finally:
            self._drop(number, fired=woken.is_set())

    def timeout(self, seconds: float | None) -> AbstractContextManager[anyio.CancelScope]:
        """Return a block that is cancelled, without an error, after `seconds`."""
        return self._timeout(seconds)

    @contextmanager
    def _timeout(self, seconds: float | None) -> Iterator[anyio.CancelScope]:
        fired = False

        def fire() -> None:
            nonlocal fired
            fired = True
            scope.cancel()

        with anyio.CancelScope() as scope:
            if seconds is None:
                yield scope
                return
            if seconds <= 0:
                scope.cancel()
                yield scope
                return
            number = self._at(self._now + seconds, fire)
            try:
                yield scope
            finally:
                self._drop(number, fired=fired)

    async def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`; at each deadline wait until all tasks have settled."""
        target = self._now + seconds
        await self.settle()
        while (deadline := self._next_deadline()) is not None and deadline <= target:
            self._jump(deadline)
            await self.settle()
        self._now = max(self._now, target)
        await self.settle()

    async def settle(self) -> None:
        """Wait until every other task is blocked."""
        while True:
            for _ in range(_SETTLE_ROUNDS):
                await checkpoint()
            with anyio.move_on_after(_PROBE) as probe:
                await anyio.wait_all_tasks_blocked()
            if not probe.cancelled_caught and not await self._threads_worked():
                return

    async def _threads_worked(self) -> bool:
        """Wait a moment of real time for handlers in threads; return whether one has ended."""
        before = calls_in_flight()
        for _ in range(_THREAD_ROUNDS if before else 0):
            await anyio.sleep(_THREAD_PAUSE)
            if calls_in_flight() != before:
                return True
        return False

    async def __aenter__(self) -> Self:
        self._replaced = _clock.install(self)
        if self._autojump:
            self._jumper = spawn(self._jump_when_blocked, name="virtual clock")
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._replaced is not None:
            _clock.install(self._replaced)
        if self._jumper is not None:
            self._jumper.cancel()
            with anyio.CancelScope(shield=True):
                await self._jumper.wait()

    async def _jump_when_blocked(self) -> None:
        while True:
            await self.settle()
            deadline = self._next_deadline()
            if deadline is None:
                self._added = anyio.Event()
                await self._added.wait()
            else:
                self._jump(deadline)

    def _at(self, deadline: float, action: Callable[[], object]) -> int:
        number = next(self._order)
        heapq.heappush(self._deadlines, (deadline, number, action))
        self._added.set()
        return number

    def _drop(self, number: int, *, fired: bool) -> None:
        if not fired:
            self._dropped.add(number)

    def _next_deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][1] in self._dropped:
            self._dropped.discard(heapq.heappop(self._deadlines)[1])
        return self._deadlines[0][0] if self._deadlines else None

    def _jump(self, deadline: float) -> None:
        self._now = max(self._now, deadline)
        while (following := self._next_deadline()) is not None and following <= deadline:
            heapq.heappop(self._deadlines)[2]()
