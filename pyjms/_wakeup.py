"""Background tasks and wake-ups of an event loop, on asyncio and trio.

The only module that imports asyncio or trio; everything else uses anyio. anyio has task groups
only, but a connection's reader outlives the call that opened it. And on the path of a message,
anyio's streams and cancel scopes cost about twice what a bare callback and a bare future do.

- `spawn` starts a task that outlives the call that made it. Its failure is never lost: it goes to
  `on_error`, or to the log. `end_tasks` ends such tasks.
- `LoopHandle` is a loop as other threads see it: `call_soon` runs a function on it from any
  thread, `WakeQueue` does so once for a burst of calls.
- `Waiter` lets one task wait for one event; on asyncio it is a bare future and a bare timer.
- `Turn` is what a loop does about one chunk of input. It exists because of when to send:

      phase       what runs                                   then
      take in     the chunk is decoded and handled            what was written is sent
      finish      what `finish_with` was given: store writes  what they wrote is sent
      deferred    what `defer` was given: acknowledgements

  Sending at the end of the turn, not at each write, makes one system call of all responses to a
  chunk, without waking a writer task. Sending before `finish` lets the peers work while the disk
  does. Deferred work is what no peer waits for, so it comes after all sends. When several sockets
  are readable in one pass of the loop, the first one's turn sends at its end, and the output of
  all others leaves together at the start of the next pass.
"""

from __future__ import annotations

import asyncio
import importlib.util
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

from pyjms._fork import Process, inherited_error
from pyjms._logger import get_logger

__all__ = [
    "BackgroundTask",
    "LoopHandle",
    "Turn",
    "Waiter",
    "WakeQueue",
    "end_tasks",
    "loop_options",
    "spawn",
]

logger = get_logger(__name__)

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

    async def run(
        self,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        on_error: Callable[[BaseException], None] | None,
    ) -> None:
        """Await `function(*args)` and record how it ended. For `spawn` only."""
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

    The task belongs to no task group: the caller has to cancel it and wait for it. An exception
    goes to `on_error` (called on the loop), else to the log with its traceback. `context` holds
    the context variables it starts with; by default a copy of the caller's.
    """
    context = copy_context() if context is None else context  # an empty one is false
    task = BackgroundTask(name)
    if sniffio.current_async_library() == "trio":
        import trio  # noqa: PLC0415 - only where it runs

        trio.lowlevel.spawn_system_task(
            task.run, function, args, on_error, name=name, context=context
        )
    else:
        native = asyncio.get_running_loop().create_task(
            task.run(function, args, on_error), name=name, context=context
        )
        _asyncio_tasks.add(native)
        native.add_done_callback(_asyncio_tasks.discard)
    return task


async def end_tasks(*tasks: BackgroundTask | None) -> None:
    """Cancel tasks, and wait until all have ended. None: a task that was not started."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    for task in running:
        await task.wait()


class Turn:
    """Runs what one chunk of input causes, as the module's docstring says. One per loop."""

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
        self.number: int = 0
        """The number of the current turn, from 1; 0 outside of any."""
        self._count = 0

    def run(self, take_in: Callable[[], object]) -> None:
        """Call `take_in()`, then what `send`, `finish_with` and `defer` were given meanwhile."""
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
        """Call `flush()` once, at the end of the current turn or in the loop's next pass."""
        self._sends.append(flush)
        if not self._is_open and not self._has_sent:
            self._await_next_pass()

    def finish_with(self, function: Callable[[], object]) -> bool:
        """Call `function()` once the chunk is handled and its output sent; its own sends follow.

        Returns False, and does not call it, if there is no current turn or another turn of this
        pass of the loop has sent already.
        """
        if not self._is_open or self._has_sent:
            return False
        self._early.append(function)
        return True

    def defer(self, function: Callable[[], object]) -> bool:
        """Call `function()` after the sends of the current turn; False: there is none, no call."""
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
    """A running event loop, usable from other threads. Create it on the loop."""

    def __init__(self) -> None:
        self._process = Process.current
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
            # the context of a thread does not say which async library runs here
            partial(native.call_soon_threadsafe, context=self.adopt(copy_context()))
            if isinstance(native, asyncio.AbstractEventLoop)
            else native.run_sync_soon
        )

    @property
    def turn(self) -> Turn:
        """The Turn of this loop; it exists as long as somebody refers to it."""
        turn = _turns.get(self.token.native_token)
        if turn is None:
            turn = _turns[self.token.native_token] = Turn(self.call_next)
        return turn

    @property
    def in_this_process(self) -> bool:
        """Whether the loop runs in this process, and not only in the one that forked it."""
        return self._process is Process.current

    def is_current(self) -> bool:
        """Return whether the caller runs on this loop."""
        try:
            return current_token() == self.token
        except RuntimeError:
            return False

    def adopt(self, context: Context) -> Context:
        """Make `context`, of another thread, usable for tasks on this loop, and return it."""
        context.run(sniffio.current_async_library_cvar.set, self._library)
        return context

    @property
    def watches(self) -> bool:
        """Whether `watch_readable` works on this loop."""
        return self._add_reader is not None

    def watch_readable(self, fd: int, function: Callable[[], object]) -> Callable[[], object]:
        """Call `function()` whenever `fd` is readable, until the returned function is called."""
        assert self._add_reader is not None, "check `watches` first"
        # a bare callback is not a task: its context must say which library runs here
        self.adopt(copy_context()).run(self._add_reader, fd, function)
        return partial(self.token.native_token.remove_reader, fd)  # type: ignore[attr-defined]

    def call_next(self, function: Callable[[], object]) -> None:
        """Call `function()` in the loop's next pass. On the loop only."""
        self._call_next(function)

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Call `function()` in `seconds`, or in the next pass if the loop has no bare timers.

        On the loop only.
        """
        if self._call_later is None:
            self._call_next(function)
        else:
            self._call_later(seconds, function)

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function(*args)` on the loop. Thread-safe.

        Raises:
            RuntimeError: the loop has ended.
            IllegalStateException: it runs in the process that has forked this one.
        """
        if self._process is not Process.current:
            raise inherited_error("This connection, or the one this object belongs to,")
        self._call_soon(function, *args)


class Waiter:
    """Lets one task wait until it is woken, once. Create it in that task.

    On asyncio it is a bare future, with a bare timer instead of a cancel scope: half the cost.
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
        """End the wait. On the loop only; idempotent."""
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
        """Have the loop's timer call `wake`; return what cancels it, or None if it has no timer."""
        if self._future is None:
            return None
        return self._future.get_loop().call_later(seconds, self.wake).cancel


class WakeQueue:
    """Hands functions from threads to a loop; a burst of them wakes the loop once."""

    def __init__(self, loop: LoopHandle) -> None:
        self._loop = loop
        self._queue: deque[Callable[[], object]] = deque()
        self._awake = False

    def put(self, function: Callable[[], object]) -> None:
        """Call `function()` on the loop soon, in the order of the calls to `put`. Thread-safe."""
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
    """Return the `backend_options` for `anyio.run`: uvloop where it is installed."""
    return {"use_uvloop": importlib.util.find_spec("uvloop") is not None}
