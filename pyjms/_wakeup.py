"""The one room that knows asyncio and trio by name: background tasks, and waking a loop.

`spawn` starts a task that outlives the call that made it, on either backend. Its failure
is never lost: it goes to `on_error`, or to the log. `LoopHandle.call_soon` runs a function
on the loop from any thread; `WakeQueue` does so once a burst.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import anyio
import sniffio
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ["BackgroundTask", "LoopHandle", "WakeQueue", "loop_options", "spawn"]

logger = logging.getLogger(__name__)

_asyncio_tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps weak references only


class BackgroundTask:
    """A task started by `spawn`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: BaseException | None = None
        self._scope = anyio.CancelScope()
        self._done = anyio.Event()

    @property
    def done(self) -> bool:
        """Whether the task has ended."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Ask the task to stop at its next wait. Call it on the task's loop."""
        self._scope.cancel()

    async def wait(self) -> None:
        """Wait until the task has ended, however it ended."""
        await self._done.wait()

    async def _run(
        self,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        on_error: Callable[[BaseException], None] | None,
    ) -> None:
        try:
            with self._scope:
                await function(*args)
        except Exception as error:
            self.error = error
            if on_error is None:
                logger.exception("Background task %s failed", self.name)
            else:
                on_error(error)
        finally:
            self._done.set()


def spawn(
    function: Callable[..., Awaitable[Any]],
    *args: Any,
    name: str,
    on_error: Callable[[BaseException], None] | None = None,
    context: Context | None = None,
) -> BackgroundTask:
    """Start `function(*args)` in the background of the running loop and return its handle.

    The task belongs to nobody's task group: whoever spawns it cancels it and waits for it.
    An exception goes to `on_error` (called on the loop), else to the log with its trace.
    `context` holds the context variables it starts with; by default a copy of the caller's.
    """
    context = context or copy_context()
    task = BackgroundTask(name)
    if sniffio.current_async_library() == "trio":
        import trio  # noqa: PLC0415 - only where it runs

        trio.lowlevel.spawn_system_task(
            task._run, function, args, on_error, name=name, context=context
        )
    else:
        native = asyncio.get_running_loop().create_task(
            task._run(function, args, on_error), name=name, context=context
        )
        _asyncio_tasks.add(native)
        native.add_done_callback(_asyncio_tasks.discard)
    return task


class LoopHandle:
    """A running loop, as other threads see it. Make it on the loop."""

    def __init__(self) -> None:
        self.token: EventLoopToken = current_token()
        self._library = sniffio.current_async_library()
        native: Any = self.token.native_token
        self._call_next: Callable[..., object] = (
            partial(native.call_soon, context=self.adopt(copy_context()))
            if isinstance(native, asyncio.AbstractEventLoop)
            else native.run_sync_soon
        )
        # Windows' default loop has no add_reader, and neither has trio
        self._add_reader: Callable[..., object] | None = (
            native.add_reader
            if isinstance(native, asyncio.AbstractEventLoop) and os.name != "nt"
            else None
        )
        self._call_soon: Callable[..., object] = (
            # a thread's own context would not say which library runs here
            partial(native.call_soon_threadsafe, context=self.adopt(copy_context()))
            if isinstance(native, asyncio.AbstractEventLoop)
            else native.run_sync_soon
        )

    def is_current(self) -> bool:
        """Whether the caller runs on this very loop."""
        try:
            return current_token() == self.token
        except RuntimeError:
            return False

    def adopt(self, context: Context) -> Context:
        """Return `context`, a thread's, made fit for tasks on this loop."""
        context.run(sniffio.current_async_library_cvar.set, self._library)
        return context

    @property
    def watches(self) -> bool:
        """Whether `watch_readable` works on this loop."""
        return self._add_reader is not None

    def watch_readable(self, fd: int, function: Callable[[], object]) -> Callable[[], object]:
        """Run `function()` whenever `fd` can be read, until the returned function is called."""
        assert self._add_reader is not None, "ask `watches` first"
        # a bare callback is no task: its context must say which library runs here
        self.adopt(copy_context()).run(self._add_reader, fd, function)
        return partial(self.token.native_token.remove_reader, fd)  # type: ignore[attr-defined]

    def call_next(self, function: Callable[[], object]) -> None:
        """Run `function()` in the loop's next turn. Call it on the loop."""
        self._call_next(function)

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Run `function(*args)` on the loop, from any thread.

        Raises:
            RuntimeError: the loop has ended.
        """
        self._call_soon(function, *args)


class WakeQueue:
    """Functions handed from threads to a loop; a burst of them wakes the loop once."""

    def __init__(self, loop: LoopHandle) -> None:
        self._loop = loop
        self._queue: deque[Callable[[], object]] = deque()
        self._awake = False

    def put(self, function: Callable[[], object]) -> None:
        """Run `function` on the loop soon, in the order of the calls. Any thread."""
        self._queue.append(function)
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._awake = False
        queue = self._queue
        while queue:
            try:
                queue.popleft()()
            except Exception:
                logger.exception("A call from another thread failed")


def loop_options() -> dict[str, Any]:
    """The `backend_options` of `anyio.run`: uvloop where it is installed."""
    return {"use_uvloop": importlib.util.find_spec("uvloop") is not None}
