"""Background tasks and wake-ups of an event loop, on asyncio and trio.

The only module that imports asyncio or trio; all others use anyio. anyio has only task groups, but
a connection's reader outlives the call that opened it. And on the path of a message, anyio's
streams and cancel scopes cost about twice as much as a plain callback and a plain future.

- `spawn` starts a task that outlives the call that started it. Its failure is never lost: it is
  passed to `on_error`, or logged. `end_tasks` ends such tasks.
- `LoopHandle` makes a loop usable from other threads: `call_soon` runs a function on it from any
  thread, `WakeQueue` wakes the loop once for a burst of calls.
- `Waiter` lets one task wait for one event; on asyncio it is a plain future and a plain timer.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sized
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
import sniffio
from anyio.lowlevel import EventLoopToken, current_token

from pyjms.runtime.fork import Process, inherited_error
from pyjms.runtime.logging import get_logger
from pyjms.runtime.turn import Turn

logger = get_logger(__name__)

_T = TypeVar("_T")

_asyncio_tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps only weak references


class BackgroundTask:
    """A task started by `spawn`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: BaseException | None = None
        self._scope = anyio.CancelScope()
        self._done = anyio.Event()
        self._has_ended = False  # before `on_error` is called, which is before `done`

    @property
    def done(self) -> bool:
        """Whether the task has ended."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Request that the task stops at its next wait. Call it on the task's loop."""
        if not self._has_ended:  # otherwise anyio would format the caller's task for nothing
            self._scope.cancel()

    async def wait(self) -> None:
        """Wait until the task has ended, in whatever way."""
        await self._done.wait()

    async def run(
        self,
        function: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        on_error: Callable[[BaseException], None] | None,
    ) -> None:
        """Await `function(*args)` and record the outcome. For `spawn` only."""
        try:
            with self._scope:
                await function(*args)
            self._has_ended = True
        except Exception as error:
            self._has_ended = True
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

    The task belongs to no task group: the caller has to cancel it and wait for it. An exception is
    passed to `on_error` (called on the loop), or else logged with its traceback. `context` has the
    task's initial context variables; by default a copy of the caller's.
    """
    context = copy_context() if context is None else context  # an empty context is falsy
    task = BackgroundTask(name)
    if sniffio.current_async_library() == "trio":
        import trio  # noqa: PLC0415 - only if it is running

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


async def with_cleanup(
    work: Callable[[], Awaitable[_T]], cleanup: Callable[[], Awaitable[object]]
) -> _T:
    """Return the result of `work()` after `cleanup()`, also if the first fails or is cancelled.

    For coroutines that mypyc compiles: in them, an await in `finally` or `except` loses the error.
    """
    try:
        return await work()
    finally:
        await cleanup()


def current_task() -> object:
    """Return the running task; anyio describes it as well, for six times the price."""
    if sniffio.current_async_library() == "trio":
        import trio  # noqa: PLC0415 - only if it is running

        return trio.lowlevel.current_task()
    return asyncio.current_task()


def name_of(task: object) -> str:
    """Return the name of a task that `current_task` has returned."""
    return task.get_name() if isinstance(task, asyncio.Task) else getattr(task, "name", "")


class _TurnOfLoop:
    """Keeps a Turn, and is kept by it: there are no weak references to compiled objects."""

    __slots__ = ("__weakref__", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        turn.keeper = self


_turns: WeakValueDictionary[object, _TurnOfLoop] = WeakValueDictionary()


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
            # a thread's context does not tell which async library runs here
            partial(native.call_soon_threadsafe, context=self.adopt(copy_context()))
            if isinstance(native, asyncio.AbstractEventLoop)
            else native.run_sync_soon
        )

    @property
    def turn(self) -> Turn:
        """The Turn of this loop, which exists as long as it is referenced."""
        native = self.token.native_token
        found = _turns.get(native)
        if found is None:
            # private to asyncio: the callbacks that are left in this loop turn, or for the next
            others: Sized = getattr(native, "_ready", (None,))
            found = _turns[native] = _TurnOfLoop(Turn(self._call_next, others))
        return found.turn

    @property
    def in_this_process(self) -> bool:
        """Whether the loop runs in this process, not only in the parent of a fork."""
        return self._process is Process.current

    def is_current(self) -> bool:
        """Return whether the caller runs on this loop."""
        try:
            return current_token() == self.token
        except RuntimeError:
            return False

    def adopt(self, context: Context) -> Context:
        """Make a `context` of another thread usable for tasks on this loop, and return it."""
        context.run(sniffio.current_async_library_cvar.set, self._library)
        return context

    @property
    def watches(self) -> bool:
        """Whether `watch_readable` works on this loop."""
        return self._add_reader is not None

    def watch_readable(self, fd: int, function: Callable[[], object]) -> Callable[[], object]:
        """Call `function()` whenever `fd` is readable, until the returned function is called."""
        assert self._add_reader is not None, "check `watches` first"
        # a plain callback is not a task: its context must tell which library runs here
        self.adopt(copy_context()).run(self._add_reader, fd, function)
        return partial(self.token.native_token.remove_reader, fd)  # type: ignore[attr-defined]

    def call_next(self, function: Callable[[], object]) -> None:
        """Call `function()` in the next loop turn. On the loop only."""
        self._call_next(function)

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Call `function()` in `seconds`, or in the next loop turn if the loop has no timers.

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
            IllegalStateException: it runs in the process that forked this one.
        """
        if self._process is not Process.current:
            raise inherited_error("This connection, or the one this object belongs to,")
        self._call_soon(function, *args)


class Waiter:
    """Lets one task wait until it is woken, once. Create it in that task.

    On asyncio it is a plain future, with a plain timer instead of a cancel scope: half the cost.
    """

    __slots__ = ("_event", "_future")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self._event: anyio.Event | None = None
        # written out: without a name, `current_async_library` looks for the running task as well
        library = sniffio.thread_local.name or sniffio.current_async_library_cvar.get()
        if library is None or library == "asyncio":
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
        """Schedule `wake`; return a function that cancels it, or None if the loop has no timers."""
        if self._future is None:
            return None
        return self._future.get_loop().call_later(seconds, self.wake).cancel


class WakeQueue:
    """Passes functions from threads to a loop; a burst of them wakes the loop once."""

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
    """Return the `backend_options` for `anyio.run`: uvloop if it is installed."""
    return {"use_uvloop": importlib.util.find_spec("uvloop") is not None}
