"""Task executors: they run the tasks of containers, with or without a limit on their number.

An executor may refuse a task; the container then pauses the invoker and submits it again when
another invoker receives a message. (spring-jms 1.10.8; Spring: TaskExecutor)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Protocol

from pyjms.errors import ResourceAllocationException
from pyjms.runtime.event_loop import BackgroundTask, spawn

Work = Callable[[], Awaitable[None]]


class AsyncTaskExecutor(Protocol):
    """Starts background tasks."""

    @property
    def prefers_short_lived_tasks(self) -> bool:
        """Whether tasks should end from time to time, so that other tasks can run."""

    def execute(self, function: Work, name: str, ended: Work | None = None) -> BackgroundTask:
        """Start `function()` in the background and return at once.

        `ended()` runs in the same task after `function()`, however that ended; the executor has
        a free slot by then, so `ended` may submit another task.

        Raises:
            ResourceAllocationException: there is no free slot for the task now.
        """


class SimpleAsyncTaskExecutor:
    """Starts every task at once. Spring: SimpleAsyncTaskExecutor."""

    prefers_short_lived_tasks = False

    def execute(self, function: Work, name: str, ended: Work | None = None) -> BackgroundTask:
        """Start `function()`, then `ended()`, without the caller's context variables.

        A task that is started while a message is being handled must not see its session.
        """

        async def both() -> None:
            try:
                await function()
            finally:
                if ended is not None:
                    await ended()

        return Context().run(lambda: spawn(both, name=name))


class TaskExecutor:
    """Runs at most `max_workers` tasks at a time and refuses further tasks; there is no queue.

    `max_workers` may be changed while tasks run. Several containers may share an executor.
    Spring: ThreadPoolTaskExecutor with queueCapacity 0.
    """

    prefers_short_lived_tasks = True

    def __init__(self, max_workers: int) -> None:
        if max_workers < 1:
            raise ValueError(f"max_workers must be at least 1: {max_workers}")
        self.max_workers = max_workers
        self.active_count: int = 0
        self._inner = SimpleAsyncTaskExecutor()

    def execute(self, function: Work, name: str, ended: Work | None = None) -> BackgroundTask:
        """Start `function()`, then `ended()`.

        Raises:
            ResourceAllocationException: `max_workers` tasks are running.
        """
        if self.active_count >= self.max_workers:
            raise ResourceAllocationException(
                f"all {self.max_workers} workers of the task executor are busy",
                hint="raise max_workers to the containers' concurrency or more",
            )

        async def run_and_count() -> None:
            try:
                await function()
            finally:
                self.active_count -= 1

        task = self._inner.execute(run_and_count, name, ended)
        self.active_count += 1
        return task
