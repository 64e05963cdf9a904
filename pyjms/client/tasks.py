"""Background tasks with an owner, which cancels and awaits them when it closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pyjms._wakeup import BackgroundTask, spawn

__all__ = ["OwnedTasks"]


class OwnedTasks:
    """The running background tasks of one connection or session."""

    def __init__(self, owner: object) -> None:
        self._owner = owner
        self._tasks: list[BackgroundTask] = []

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any) -> BackgroundTask:
        """Start `function(*args)`; a failure is logged."""
        self._tasks = [task for task in self._tasks if not task.done]
        task = spawn(function, *args, name=f"pyjms {self._owner} {function.__name__}")
        self._tasks.append(task)
        return task

    def cancel(self) -> None:
        """Cancel all of them."""
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until all of them have ended."""
        for task in self._tasks:
            await task.wait()
