"""Waiting in tests for what other tasks and threads do, with an end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

__all__ = ["LONGEST_WAIT", "until", "until_stored"]

LONGEST_WAIT: Final = 60.0
"""Seconds that a test may wait for one thing, on a loaded machine too."""
BUSY_TURNS: Final = 1000
"""After so many turns, some 20 ms, a wait sleeps between them: others need the processor."""


async def until(
    condition: Callable[[], object],
    *,
    turn: Callable[[], Awaitable[object]] = checkpoint,
    seconds: float = LONGEST_WAIT,
) -> None:
    """Give other tasks turns until `condition()` holds.

    Args:
        condition: checked before each turn.
        turn: what lets the others work: a turn of the event loop unless given.
        seconds: in real time; the clocks of tests do not shorten it.

    Raises:
        AssertionError: it did not hold in time. A loop without an end would keep its worker busy
            for ever where another test left a condition that cannot come true.
    """
    turns = 0
    with anyio.move_on_after(seconds):
        while not condition():
            await turn()
            turns += 1
            if turns > BUSY_TURNS:
                await anyio.sleep(0.001)
        return
    code = getattr(condition, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    raise AssertionError(f"the condition{where} did not become true within {seconds} s")


async def until_stored(condition: Callable[[], object]) -> None:
    """Wait with `until` for the effects of a store's tasks and their threads."""
    await until(condition, turn=lambda: anyio.to_thread.run_sync(lambda: None))
