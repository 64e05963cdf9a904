"""Measures how late an event loop runs what is due, and logs what holds it.

A thread asks the loop to call back ten times a second. If the answer takes longer than the limit,
the thread looks at what the loop's thread is executing. All users of one loop share a watchdog:
`watch_loop` on the loop, and `release` later. Tests do not replace its time.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import PurePath
from types import FrameType
from typing import Final

from pyjms.runtime.clock import stopwatch
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.logging import get_logger

logger = get_logger(__name__)

_PERIOD: Final = 0.1
_LIMIT: Final = 0.5
"""Seconds that something may hold the loop without being logged."""
_MEMORY: Final = 60.0
"""Seconds for which the longest lag is shown at least, and twice that at most."""
_QUIET: Final = 10.0
"""Seconds between two lines of the log about a loop."""
_FRAMES: Final = 6
_LOOPS: Final = frozenset(("asyncio", "uvloop", "trio", "anyio", "selectors"))
"""Packages whose frames are the loop's own, so that it waits or starts what holds it."""

Reporter = Callable[[Sequence[FrameType], float], bool]
"""Gets the frames of what holds a loop, innermost first, and the limit, in the watchdog's thread;
returns whether it knows what it is, and has reported it."""


class LoopWatchdog:
    """Watches one event loop. Create it by `watch_loop`.

    Args:
        name: whose loop it is, for the log.
        limit: seconds that something may hold the loop without being logged.
    """

    def __init__(self, name: str, limit: float = _LIMIT) -> None:
        self.name = name
        self.held_count = 0
        """How often the loop was held for longer than the limit."""
        self.users = 0
        self.reporters: list[Reporter] = []
        self._limit = limit
        self._loop = LoopHandle()
        self._thread_id = threading.get_ident()
        self._stopping = threading.Event()
        self._answered = threading.Event()
        self._collecting = False
        self._window = stopwatch()
        self._longest = self._former = 0.0
        self._next_line = 0.0
        gc.callbacks.append(self._on_collection)
        threading.Thread(target=self._watch, name=f"pyjms watchdog {name}", daemon=True).start()

    @property
    def longest_lag(self) -> float:
        """The longest time in seconds, of the last minute, that a callback had to wait."""
        return max(self._longest, self._former)

    def release(self, reporter: Reporter | None = None) -> None:
        """Stop watching, unless there are other users, and reporting. On the loop only."""
        if reporter is not None:
            self.reporters.remove(reporter)
        self.users -= 1
        if not self.users:
            self._stopping.set()
            self._answered.set()
            gc.callbacks.remove(self._on_collection)
            _watchdogs.pop(self._loop.token.native_token, None)

    def _watch(self) -> None:
        while not self._stopping.wait(_PERIOD):
            self._answered.clear()
            asked = stopwatch()
            try:
                self._loop.call_soon(self._answered.set)
            except RuntimeError:  # the loop has ended
                return
            if not self._answered.wait(self._limit):
                self._on_hold(asked)
            self._record(stopwatch() - asked)

    def _on_hold(self, asked: float) -> None:
        frames = list(self._frames())
        is_known = not self._collecting and any(
            report(frames, self._limit) for report in self.reporters
        )
        is_logged = not is_known and asked >= self._next_line
        if is_logged:
            self._next_line = asked + _QUIET
            logger.warning(
                "The event loop of %s is held for more than %g s by %s",
                self.name,
                self._limit,
                self._holder(frames),
            )
        self.held_count += 1
        self._answered.wait()
        if is_logged and not self._stopping.is_set():
            held = stopwatch() - asked
            logger.warning("The event loop of %s was held for %.1f s", self.name, held)

    def _record(self, lag: float) -> None:
        now = stopwatch()
        if now - self._window > _MEMORY:
            self._window, self._former, self._longest = now, self._longest, 0.0
        self._longest = max(self._longest, lag)

    def _frames(self) -> Iterator[FrameType]:
        """Yield what the loop's thread executes, innermost first."""
        frame: FrameType | None = sys._current_frames().get(self._thread_id)  # noqa: SLF001
        while frame is not None:
            if frame.f_code is not LoopWatchdog._on_collection.__code__:
                yield frame
            frame = frame.f_back

    def _holder(self, frames: Sequence[FrameType]) -> str:
        own = list(takewhile(lambda frame: not _is_of_loop(frame), frames))
        where = places(own) or "nothing of its own (a busy machine, or a stopped process)"
        return f"a garbage collection in {where}" if self._collecting else where

    def _on_collection(self, phase: str, _info: dict[str, int]) -> None:
        if threading.get_ident() == self._thread_id:
            self._collecting = phase == "start"


def _is_of_loop(frame: FrameType) -> bool:
    path = PurePath(frame.f_code.co_filename)
    return path.stem in _LOOPS or not _LOOPS.isdisjoint(path.parts)


def places(frames: Sequence[FrameType]) -> str:
    """Return file, line and function of the innermost frames, and of the outermost."""
    found = [
        f"{'/'.join(PurePath(each.f_code.co_filename).parts[-3:])}:{each.f_lineno} "
        f"{each.f_code.co_name}"
        for each in frames
    ]
    if len(found) > _FRAMES:
        found[_FRAMES - 1 : -1] = ["..."]
    return " < ".join(found)


_watchdogs: dict[object, LoopWatchdog] = {}


def watch_loop(name: str, reporter: Reporter | None = None) -> LoopWatchdog:
    """Return the watchdog of the running loop; call its `release` on the loop, before that ends.

    `reporter` reports holds that it knows, until it is released.
    """
    loop = LoopHandle().token.native_token
    watchdog = _watchdogs.get(loop)
    if watchdog is None:
        watchdog = _watchdogs[loop] = LoopWatchdog(name)
    if reporter is not None:
        watchdog.reporters.append(reporter)
    watchdog.users += 1
    return watchdog
