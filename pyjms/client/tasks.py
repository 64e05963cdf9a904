"""Background tasks with an owner, which cancels and awaits them when it closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.runtime.event_loop import BackgroundTask, spawn


def background_failure(what: str, error: BaseException) -> JMSException:
    """Return the failure of a connection that the background work `what` has caused.

    A failure of the transport itself is returned unchanged.
    """
    if isinstance(error, ConnectionFailedException):
        return error
    failure = JMSException(
        f"{what} failed: {error!r}",
        hint="the connection was closed, so that the broker redelivers its messages",
    )
    failure.linked_exception = failure.__cause__ = error
    return failure


class OwnedTasks:
    """The running background tasks of one connection or session.

    They are not awaited while they work, so a failure would go unnoticed and the work would stop
    silently: `fail` fails the connection instead.
    """

    def __init__(self, owner: object, fail: Callable[[JMSException], None]) -> None:
        self._owner = owner
        self._fail = fail
        self._tasks: list[BackgroundTask] = []

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any) -> BackgroundTask:
        """Start `function(*args)`; a failure fails the connection."""
        self._tasks = [task for task in self._tasks if not task.done]
        name = f"pyjms {self._owner} {function.__name__}"
        task = spawn(function, *args, name=name, on_error=partial(self._on_failure, name))
        self._tasks.append(task)
        return task

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until all tasks have ended."""
        for task in self._tasks:
            await task.wait()

    def _on_failure(self, name: str, error: BaseException) -> None:
        self._fail(background_failure(f"The background task {name}", error))
