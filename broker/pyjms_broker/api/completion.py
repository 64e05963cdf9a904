"""Results of operations that may finish later: a message being stored, a send waiting for space.

Broker calls run to completion without blocking. Where something must wait (the journal's sync,
space in memory) they return a `Completion`, and the connector responds to the client when it is
done. None means that the operation has finished already, which is the common case.

Stores and broker filters of others return None, too, so the interfaces accept it. It is not faster
than a finished `Completion` would be; see `decisions D14`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

__all__ = ["Completion", "all_of", "wait_for"]

logger = logging.getLogger(__name__)


class Completion:
    """The result of one operation: done once, with or without an error.

    It belongs to the broker's event loop; no method may be called from another thread.
    """

    __slots__ = ("_callbacks", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[Completion], None]] = []

    def complete(self, error: Exception | None = None) -> None:
        """Mark the operation as done, or as failed with `error`; later calls are ignored.

        Runs the callbacks in the order in which they were added; one that fails is logged.
        """
        if self.done:
            return
        self.done = True
        self.error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # the other callbacks wait for the same result
                logger.exception("A callback of a completion failed")

    def then(self, callback: Callable[[Completion], None]) -> None:
        """Call `callback(self)` when the operation is done; at once if it is done already."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)


def all_of(parts: list[Completion | None]) -> Completion | None:
    """Return a completion that is done when all parts are; its error is the first one.

    None if nothing is unfinished and no part has failed.
    """
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
    """Wait until the operation is done; return at once for None.

    Cancellation ends the waiting, not the operation.

    Raises:
        Exception: the error that the operation failed with.
    """
    if completion is None:
        return
    done = anyio.Event()
    completion.then(lambda _: done.set())
    await done.wait()
    if completion.error is not None:
        raise completion.error
