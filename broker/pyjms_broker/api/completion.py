"""Results of operations that may finish later, such as storing a message or waiting for space.

Broker methods do not block. Where an operation must wait (for the journal's sync or for memory),
they return a `Completion`, and the connector responds to the client when it is done. `COMPLETED`
means that the operation has already finished without an error, the common case; `result is
COMPLETED` is a fast check for it.

None is not a valid result. If a method of a store or broker filter returned None, usually because
of a missing `return`, the broker would confirm a message that is not stored yet. Callers of
extensions therefore refuse it with `completion_of`. (decisions D14)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import anyio

from pyjms.runtime.logging import get_logger

logger = get_logger(__name__)

_OWN_PACKAGE: Final = "pyjms_broker."
_HINT: Final = " (hint: return the Completion of the call that it passes on, or COMPLETED)"


class Completion:
    """The result of an operation, which is done once, with or without an error.

    Use it only on the broker's event loop; not thread-safe.
    """

    __slots__ = ("_callbacks", "_failure_callbacks", "done", "error")

    def __init__(self) -> None:
        self.done: bool = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[Completion], None]] = []
        self._failure_callbacks: list[Callable[[Completion], None]] | None = None

    def complete(self, error: Exception | None = None) -> None:
        """Mark the operation as done or failed; later calls are ignored.

        Runs the callbacks in the order they were added, after a failure first those of
        `on_failure`; their exceptions are logged.
        """
        if self.done:
            return
        self.done = True
        self.error = error
        callbacks, self._callbacks = self._callbacks, []
        if error is not None and self._failure_callbacks is not None:
            callbacks = self._failure_callbacks + callbacks
        self._failure_callbacks = None
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # the other callbacks must still run
                logger.exception("A callback of a completion failed")

    def then(self, callback: Callable[[Completion], None]) -> None:
        """Call `callback(self)` when the operation is done, or at once if it is already done."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def on_failure(self, callback: Callable[[Completion], None]) -> None:
        """Call `callback(self)` when the operation has failed, or at once if it already has."""
        if not self.done:
            self._failure_callbacks = [*(self._failure_callbacks or ()), callback]
        elif self.error is not None:
            callback(self)


COMPLETED: Final = Completion()
"""The result of an operation that has finished without an error and without waiting."""
COMPLETED.complete()


def completion_of(result: object, extension: object, operation: str) -> Completion:
    """Return `result`, which a store or a filter chain returned from `operation`.

    Hot paths call this function only if `result` is not `COMPLETED`.

    Raises:
        TypeError: it is not a completion.
    """
    if isinstance(result, Completion):
        return result
    raise TypeError(
        f"{_extensions_in(extension)} returned {result!r} from {operation} instead of a "
        f"Completion{_HINT}"
    )


def _check(part: object) -> None:
    if not isinstance(part, Completion):
        raise TypeError(f"An operation returned {part!r} instead of a Completion{_HINT}")


def _extensions_in(outermost: object) -> str:
    """Return the class of a store, or the classes of the filters installed by plug-ins."""
    chain = [outermost]
    while (inner := getattr(chain[-1], "next", None)) is not None:
        chain.append(inner)
    names = [
        f"{type(each).__module__}.{type(each).__qualname__}"
        for each in chain
        if not type(each).__module__.startswith(_OWN_PACKAGE)
    ]
    return " or ".join(names) or type(outermost).__qualname__


def all_of(parts: Iterable[Completion]) -> Completion:
    """Return a completion that is done when all parts are; its error is the first error.

    Returns `COMPLETED` if all parts are done without an error.

    Raises:
        TypeError: a part is not a completion.
    """
    waiting: list[Completion] = []
    failed: Completion | None = None
    for part in parts:
        if part is COMPLETED:
            continue
        _check(part)
        if not part.done:
            waiting.append(part)
        elif failed is None and part.error is not None:
            failed = part
    if not waiting:
        return COMPLETED if failed is None else failed
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


async def wait_for(completion: Completion) -> None:
    """Wait until the operation is done.

    Cancellation ends the waiting, not the operation.

    Raises:
        Exception: the error of the operation.
        TypeError: it is not a completion.
    """
    if completion is COMPLETED:
        return
    _check(completion)
    if not completion.done:
        done = anyio.Event()
        completion.then(lambda _: done.set())
        await done.wait()
    if completion.error is not None:
        raise completion.error
