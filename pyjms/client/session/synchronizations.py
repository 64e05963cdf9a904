"""The synchronizations of one transaction, called at its end.

Each `before_end` is called once, even if a cancelled commit is repeated. The callbacks after the
end are not cancelled: the outcome is decided, and each synchronization must be informed of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from pyjms._logger import get_logger
from pyjms.jms.transaction.synchronization import Synchronization

__all__ = ["Synchronizations", "after_commit", "after_rollback"]

logger: Final = get_logger(__name__)


class Synchronizations:
    """The synchronizations of a transaction in progress, in the order of registration."""

    def __init__(self) -> None:
        self._registered: list[Synchronization] = []
        self._called = 0
        self.is_calling: bool = False
        """Whether a `before_end` is running; it may neither commit nor roll back."""

    def add(self, synchronization: Synchronization) -> None:
        """Register a synchronization."""
        self._registered.append(synchronization)

    async def before_end(self) -> None:
        """Call `before_end` of each, including those that are registered during the calls.

        Raises:
            Exception: raised by a synchronization; the later ones are not called.
        """
        while self._called < len(self._registered):
            synchronization = self._registered[self._called]
            self._called += 1
            self.is_calling = True
            try:
                result = synchronization.before_end()
                if result is not None:
                    await result
            finally:
                self.is_calling = False

    def detach(self) -> Sequence[Synchronization]:
        """Return the synchronizations of the ending transaction, and start with an empty list."""
        if not self._registered:
            return ()
        registered, self._registered, self._called = self._registered, [], 0
        return registered


async def after_commit(synchronizations: Sequence[Synchronization]) -> None:
    """Call `after_commit` of each; not cancellable. Errors are logged."""
    await _call([synchronization.after_commit for synchronization in synchronizations])


async def after_rollback(synchronizations: Sequence[Synchronization]) -> None:
    """Call `after_rollback` of each; not cancellable. Errors are logged."""
    await _call([synchronization.after_rollback for synchronization in synchronizations])


async def _call(functions: Sequence[Callable[[], Awaitable[None] | None]]) -> None:
    for function in functions:
        try:
            result = function()
            if result is not None:
                with anyio.CancelScope(shield=True):
                    await result
        except Exception:
            logger.exception("A synchronization failed after the end of its transaction")
