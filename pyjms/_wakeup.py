"""The one room that knows asyncio and trio by name: background tasks, and waking a loop.

`spawn` starts a task that outlives the call that made it, on either backend. Its failure
is never lost: it goes to `on_error`, or to the log. `LoopHandle.call_soon` runs a function
on the loop from any thread; `WakeQueue` does so once a burst. A `Turn` is what a loop does
for one chunk that came in; a `Waiter` is the cheapest way to wait for what it brings.
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
from weakref import WeakValueDictionary

import anyio
import sniffio
from anyio.lowlevel import EventLoopToken, current_token

__all__ = [
    "BackgroundTask",
    "LoopHandle",
    "Turn",
    "Waiter",
    "WakeQueue",
    "loop_options",
    "spawn",
]

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


class Turn:
    """What a loop does about one socket that can be read, and what waits for the end of that.

    `run` takes the chunk in, sends what was written meanwhile, does what finishes it, sends again,
    and then does what was put off, which no peer waits for. Sockets that can be read in the same
    pass of the loop have what they cause sent together, at the start of the next pass. One object
    a loop.
    """

    __slots__ = (
        "__weakref__",
        "_call_next",
        "_count",
        "_early",
        "_has_sent",
        "_is_open",
        "_late",
        "_sends",
        "number",
    )

    def __init__(self, call_next: Callable[[Callable[[], object]], object]) -> None:
        self._call_next = call_next
        self._sends: list[Callable[[], object]] = []
        self._late: deque[Callable[[], object]] = deque()
        self._early: list[Callable[[], object]] = []
        self._is_open = False
        self._has_sent = False  # in this pass of the loop; `_next_pass` is under way
        self.number = 0
        """Which one is under way, from 1; 0 outside of all."""
        self._count = 0

    def run(self, take_in: Callable[[], object]) -> None:
        """Call `take_in()`; what `send` and `defer` were given meanwhile follows."""
        self._is_open = True
        self.number = self._count = self._count + 1
        try:
            take_in()
            if self._early:
                self._send_now()  # peers read while the disk works
                self._finish_early()
                self._send_now()
            elif not self._has_sent:
                self._send_now()
            while self._late:
                self._late.popleft()()
        finally:
            self._is_open = False
            self.number = 0
            if self._early:
                self._finish_early()
            if self._sends and not self._has_sent:
                self._await_next_pass()

    def send(self, flush: Callable[[], object]) -> None:
        """Call `flush()` once: at the end of this turn, or in the loop's next pass."""
        self._sends.append(flush)
        if not self._is_open and not self._has_sent:
            self._await_next_pass()

    def finish_with(self, function: Callable[[], object]) -> bool:
        """Call `function()` when all of the chunk was taken in and sent; its own sends follow.

        False, and no call: there is no turn, or others had theirs in this pass of the loop.
        """
        if not self._is_open or self._has_sent:
            return False
        self._early.append(function)
        return True

    def defer(self, function: Callable[[], object]) -> bool:
        """Call `function()` after this turn's sends; False, and no call: there is no turn."""
        if self._is_open:
            self._late.append(function)
        return self._is_open

    def _send_now(self) -> None:
        if self._sends:
            if not self._has_sent:
                self._await_next_pass()
            self._send()

    def _await_next_pass(self) -> None:
        self._has_sent = True
        self._call_next(self._next_pass)

    def _next_pass(self) -> None:
        self._has_sent = False
        self._send()

    def _finish_early(self) -> None:
        early, self._early = self._early, []
        for function in early:
            function()

    def _send(self) -> None:
        sends, self._sends = self._sends, []
        for flush in sends:
            flush()


_turns: WeakValueDictionary[object, Turn] = WeakValueDictionary()


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
        self._call_later: Callable[..., object] | None = (
            partial(native.call_later, context=self.adopt(copy_context()))
            if isinstance(native, asyncio.AbstractEventLoop)
            else None
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

    @property
    def turn(self) -> Turn:
        """The turn of this loop; it lives as long as somebody keeps it."""
        turn = _turns.get(self.token.native_token)
        if turn is None:
            turn = _turns[self.token.native_token] = Turn(self.call_next)
        return turn

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

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Run `function()` in `seconds`, or in the next turn where a loop has no bare timers.

        Call it on the loop.
        """
        if self._call_later is None:
            self._call_next(function)
        else:
            self._call_later(seconds, function)

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Run `function(*args)` on the loop, from any thread.

        Raises:
            RuntimeError: the loop has ended.
        """
        self._call_soon(function, *args)


class Waiter:
    """Where one task waits until it is woken, once. Make it in that task.

    On asyncio a bare future, and a bare timer where others need a cancel scope: half the price.
    """

    __slots__ = ("_event", "_future")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self._event: anyio.Event | None = None
        if sniffio.current_async_library() == "asyncio":
            self._future = asyncio.get_running_loop().create_future()
        else:
            self._event = anyio.Event()

    def wake(self) -> None:
        """End the wait. On the loop; again is no harm."""
        if self._event is not None:
            self._event.set()
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Wait until `wake`. Cancellable."""
        if self._future is not None:
            await self._future
        elif self._event is not None:
            await self._event.wait()

    def wake_later(self, seconds: float) -> Callable[[], object] | None:
        """Have the loop's own timer wake it; return what calls that off. None: it has none."""
        if self._future is None:
            return None
        return self._future.get_loop().call_later(seconds, self.wake).cancel


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
