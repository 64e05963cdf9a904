"""Background tasks and wake-ups of an event loop, on asyncio and trio.

The only module that imports asyncio or trio; all others use anyio. anyio has only task groups, but
a connection's reader outlives the call that opened it. And on the path of a message, anyio's
streams and cancel scopes cost about twice as much as a plain callback and a plain future.

- `spawn` starts a task that outlives the call that started it. Its failure is never lost: it is
  passed to `on_error`, or logged. `end_tasks` ends such tasks.
- `LoopHandle` makes a loop usable from other threads: `call_soon` runs a function on it from any
  thread, `WakeQueue` wakes the loop once for a burst of calls.
- `Waiter` lets one task wait for one event; on asyncio it is a plain future and a plain timer.
- `Turn` runs everything that a loop does about one chunk of input. It determines when to send:

      phase       what runs                               then
      take in     the chunk is decoded and handled        the written output is sent
      finish      functions of `finish_with`: store       the output of these functions is sent
                  writes
      deferred    functions of `defer`: acknowledgements

  Sending at the end of the turn, not at each write, sends all responses to a chunk with one system
  call, without waking a writer task. Sending before `finish` lets the peers work while the disk is
  busy. No peer waits for deferred work, so it runs after all sends. If several sockets are readable
  in one loop turn, the first socket's `Turn` sends at its end, and the output of all others is sent
  together at the start of the next loop turn. That costs a loop turn of its own, so it is left out
  if the loop has nothing else to run in this one (asyncio; of other loops that is not known).
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sized
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
import sniffio
from anyio.lowlevel import EventLoopToken, current_token

from pyjms.runtime.fork import Process, inherited_error
from pyjms.runtime.logging import get_logger

logger = get_logger(__name__)

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


def current_task() -> object:
    """Return the running task; anyio describes it as well, for six times the price."""
    if sniffio.current_async_library() == "trio":
        import trio  # noqa: PLC0415 - only if it is running

        return trio.lowlevel.current_task()
    return asyncio.current_task()


def name_of(task: object) -> str:
    """Return the name of a task that `current_task` has returned."""
    return task.get_name() if isinstance(task, asyncio.Task) else getattr(task, "name", "")


_ENDS_AT_ONCE: Final = 20


class Turn:
    """Runs the phases of one chunk of input; see the module's docstring. One per loop."""

    __slots__ = (
        "__weakref__",
        "_call_next",
        "_count",
        "_early",
        "_ends",
        "_has_sent",
        "_others",
        "_sends",
        "is_open",
        "late",
        "number",
    )

    def __init__(
        self, call_next: Callable[[Callable[[], object]], object], others: Sized = (None,)
    ) -> None:
        """Create the turn of a loop; `others` is not empty if the loop has more to run now."""
        self._call_next = call_next
        self._others = others
        self._sends: list[Callable[[], object]] = []
        self._early: list[Callable[[], object]] = []
        self.is_open: bool = False
        """Whether a chunk is being processed."""
        self.late: deque[Callable[[], object]] = deque()
        """The functions of `defer`; one may be appended while the turn is open."""
        self._has_sent = False  # in this loop turn; `_next_pass` is scheduled
        self._ends: deque[Callable[[], object]] = deque()
        self.number: int = 0
        """The number of the current turn, from 1; 0: there is none."""
        self._count = 0

    def run(self, take_in: Callable[[], object], *, is_alone: bool = False) -> None:
        """Call `take_in()`, then the functions passed to `send`, `finish_with` and `defer`.

        `is_alone`: it is not one of several chunks, whose output is sent together.
        """
        others = () if is_alone else self._others
        self.is_open = True
        self.number = self._count = self._count + 1
        try:
            take_in()
            if self._early:
                self._send(others)  # peers read while the disk works
                self._finish_early()
                self._send(others)
            elif self._sends and (is_alone or not self._has_sent):
                self._send(others)
            late = self.late
            while late:
                late.popleft()()
        finally:
            self.is_open = False
            self.number = 0
            if self._early:
                self._finish_early()
            if self._sends and not self._has_sent:
                self._has_sent = True
                self._call_next(self._next_pass)

    def send(self, flush: Callable[[], object]) -> None:
        """Call `flush()` once, at the end of the current turn or in the next loop turn."""
        self._sends.append(flush)
        if not self.is_open and not self._has_sent:
            self._has_sent = True
            self._call_next(self._next_pass)

    def finish_with(self, function: Callable[[], object]) -> bool:
        """Call `function()` after the chunk's output is sent; its own output is sent afterwards.

        Returns False, and does not call it, if there is no current turn, or another `Turn` in this
        loop turn has already sent.
        """
        if not self.is_open or self._has_sent:
            return False
        self._early.append(function)
        return True

    def defer(self, function: Callable[[], object]) -> bool:
        """Call `function()` after the sends of the current turn; False: there is no turn."""
        if self.is_open:
            self.late.append(function)
        return self.is_open

    def end_with(self, function: Callable[[], object]) -> None:
        """Call `function()`, which ends a connection, in one of the next loop turns.

        Few are called in each: a host with thousands of connections may have died.
        """
        self._ends.append(function)
        if len(self._ends) == 1:
            self._call_next(self._end_some)

    def _end_some(self) -> None:
        for _ in range(min(len(self._ends), _ENDS_AT_ONCE)):
            self._ends[0]()
            self._ends.popleft()
        if self._ends:
            self._call_next(self._end_some)

    def _send(self, others: Sized) -> None:
        sends, self._sends = self._sends, []
        if sends and others and not self._has_sent:
            self._has_sent = True
            self._call_next(self._next_pass)
        for flush in sends:
            flush()

    def _next_pass(self) -> None:
        self._has_sent = False
        sends, self._sends = self._sends, []
        for flush in sends:
            flush()

    def _finish_early(self) -> None:
        early, self._early = self._early, []
        for function in early:
            function()


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
            # a thread's context does not tell which async library runs here
            partial(native.call_soon_threadsafe, context=self.adopt(copy_context()))
            if isinstance(native, asyncio.AbstractEventLoop)
            else native.run_sync_soon
        )

    @property
    def turn(self) -> Turn:
        """The Turn of this loop, which exists as long as it is referenced."""
        turn = _turns.get(self.token.native_token)
        if turn is None:
            native = self.token.native_token
            # private to asyncio: the callbacks that are left in this loop turn, or for the next
            others: Sized = getattr(native, "_ready", (None,))
            turn = _turns[native] = Turn(self._call_next, others)
        return turn

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
