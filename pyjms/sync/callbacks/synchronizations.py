"""Synchronizations of the blocking API, whose methods may block: they are called in a thread."""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread

from pyjms.jms.transaction.synchronization import Synchronization

__all__ = ["SynchronizationInThread"]


class SynchronizationInThread(Synchronization):
    """Calls the methods of `synchronization` in a thread, without blocking the loop."""

    def __init__(self, synchronization: Synchronization) -> None:
        self._target = synchronization

    async def before_end(self) -> None:
        await _call(self._target.before_end)

    async def after_commit(self) -> None:
        await _call(self._target.after_commit)

    async def after_rollback(self) -> None:
        await _call(self._target.after_rollback)


async def _call(function: Callable[[], object]) -> None:
    await to_thread.run_sync(function)
