"""Long work on an event loop, in slices between which everything else runs."""

from __future__ import annotations

from typing import Final

import anyio.lowlevel

from pyjms.runtime.clock import stopwatch

_LONGEST: Final = 0.002
"""Seconds of a slice: short for a client that waits, long against the cost of one loop turn."""
_ITEMS: Final = 100
"""Items of a slice, however quick they are."""


class Slices:
    """The slices of one piece of work. Use it in one task.

    Args:
        items: the maximum number of items in a slice.
    """

    __slots__ = ("_end", "_items", "_left")

    def __init__(self, items: int = _ITEMS) -> None:
        self._items = self._left = items
        self._end = stopwatch() + _LONGEST

    async def after_item(self) -> None:
        """Let other tasks run if the slice is over. Cancellable."""
        self._left -= 1
        if self._left <= 0 or stopwatch() >= self._end:
            await anyio.lowlevel.checkpoint()
            self._left = self._items
            self._end = stopwatch() + _LONGEST
