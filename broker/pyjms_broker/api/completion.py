"""The answer of work that may not be done yet: a message being stored, a send that waits for space.

Broker calls run to their end without waiting. Where something must wait (the journal's
sync, memory) they return a `Completion`; None means done already, which is the common
case and costs nothing. The connector answers the client when the completion is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

__all__ = ["Completion", "all_of", "wait_for"]

logger = logging.getLogger(__name__)


class Completion:
    """Done once, with or without an error. Belongs to the broker's loop."""

    __slots__ = ("_callbacks", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[Completion], None]] = []

    def complete(self, error: Exception | None = None) -> None:
        """Say that it is done, or failed; runs the callbacks in the order they came."""
        if self.done:
            return
        self.done = True
        self.error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # the others wait for the same answer
                logger.exception("A callback of a completion failed")

    def then(self, callback: Callable[[Completion], None]) -> None:
        """Call `callback(self)` when done; at once if it is."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)


def all_of(parts: list[Completion | None]) -> Completion | None:
    """A completion that is done when all parts are; None when there is nothing to wait for."""
    waiting = [part for part in parts if part is not None and not part.done]
    failed = next((p for p in parts if p is not None and p.done and p.error is not None), None)
    if not waiting:
        return failed
    whole = Completion()
    left = len(waiting)
    first_error: Exception | None = failed.error if failed is not None else None

    def one_done(part: Completion) -> None:
        nonlocal left, first_error
        left -= 1
        first_error = first_error or part.error
        if left == 0:
            whole.complete(first_error)

    for part in waiting:
        part.then(one_done)
    return whole


async def wait_for(completion: Completion | None) -> None:
    """Wait until it is done; None is done already. Cancelling ends the waiting only.

    Raises:
        Exception: the error that it is done with.
    """
    if completion is None:
        return
    done = anyio.Event()
    completion.then(lambda _: done.set())
    await done.wait()
    if completion.error is not None:
        raise completion.error
