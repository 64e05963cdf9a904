"""The blocking portal: coroutines called from threads, and the loop on which they run.

There is one implementation, the coroutine core; a blocking call runs a coroutine of it on a loop
and waits for the result in the calling thread.

Which loop. An object belongs to the loop on which it was created. Scripts and threads share one
loop, in a daemon thread that the first call starts. In the thread of a listener container's
handler it is the application's own loop, so that a template there sees the handler's transaction.

One call, step by step:

    thread                                   loop
    --------------------------------------   ----------------------------------------------
    copies its context variables
    call_soon(begin), waits on a Future  ->  starts a task with those context variables
                                             runs the coroutine
    returns or raises the outcome        <-  sets the Future

Invariants:
- Called on the loop itself a blocking call would never end, so it raises.
- Context variables set by the caller (a bound transaction) are visible to the coroutine. The
  coroutine's own changes are not, unless the caller passes a context and reads it afterwards.
- A wait can be interrupted (Ctrl-C). Then the coroutine is cancelled. If it had completed at that
  very moment, its result goes to `keep`, so that a received message is returned by the next
  receive instead of being lost.
- After a fork the child starts a loop of its own, as the thread exists in the parent only. Objects
  created before belong to the parent.

anyio's BlockingPortal does not serve here: it has no way to keep the result of an interrupted call.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

import anyio

from pyjms._wakeup import BackgroundTask, LoopHandle, loop_options, spawn
from pyjms.errors import IllegalStateException
from pyjms.listener.workers import current_worker

__all__ = ["call_on_loop", "current_loop", "shared_loop"]

R = TypeVar("R")


class _LoopThread:
    """A loop in its own thread, which lives as long as the process."""

    def __init__(self) -> None:
        self._ready: Future[LoopHandle] = Future()
        self._stop: anyio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="pyjms loop", daemon=True)
        self._thread.start()
        self.loop = self._ready.result()

    def _run(self) -> None:
        try:
            anyio.run(self._main, backend_options=loop_options())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    async def _main(self) -> None:
        self._stop = anyio.Event()
        self._ready.set_result(LoopHandle())
        await self._stop.wait()

    def close(self) -> None:
        """End the loop and wait for its thread."""
        if self._stop is not None and self._thread.is_alive():
            self.loop.call_soon(self._stop.set)
            self._thread.join(timeout=5)


_lock = threading.Lock()
_shared: _LoopThread | None = None


def shared_loop() -> LoopHandle:
    """Return the loop that all threads of this process share; the first call starts it."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = _LoopThread()
            atexit.register(_shared.close)
        return _shared.loop


def _forget_after_fork() -> None:
    global _shared, _lock
    _shared = None  # its thread exists only in the parent
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def current_loop() -> LoopHandle:
    """Return the loop for new objects: in a handler the application's, else the shared one."""
    worker = current_worker.get()
    return worker.loop if worker is not None else shared_loop()


def call_on_loop(
    loop: LoopHandle,
    function: Callable[..., Coroutine[Any, Any, R]],
    *args: Any,
    keep: Callable[[R], object] | None = None,
    context: Context | None = None,
) -> R:
    """Run `function(*args)` on `loop` and return its result. Blocks.

    Args:
        loop: the loop to run it on.
        function: a coroutine function.
        args: its arguments.
        keep: called with the result if the wait was interrupted when there was one already.
        context: the context variables of the coroutine; None: a copy of the caller's.

    Raises:
        IllegalStateException: called on that loop itself, where blocking would never end.
    """
    if loop.is_current():
        raise IllegalStateException(
            "A blocking call on the loop that has to do the work would never end",
            hint="use the coroutines of pyjms.aio here",
        )
    outcome: Future[R] = Future()
    tasks: list[BackgroundTask] = []
    context = loop.adopt(copy_context() if context is None else context)

    async def run() -> None:
        try:
            outcome.set_result(await function(*args))
        except Exception as error:
            outcome.set_exception(error)
        finally:
            if not outcome.done():
                outcome.cancel()

    def begin() -> None:
        tasks.append(spawn(run, name="pyjms blocking call", context=context))

    loop.call_soon(begin)
    try:
        return outcome.result()
    except BaseException:
        if not outcome.done():
            loop.call_soon(partial(_abandon, tasks, outcome, keep))
        raise


def _abandon(
    tasks: list[BackgroundTask], outcome: Future[R], keep: Callable[[R], object] | None
) -> None:
    for task in tasks:
        task.cancel()
    if keep is not None:
        outcome.add_done_callback(partial(_keep_result, keep))


def _keep_result(keep: Callable[[R], object], outcome: Future[R]) -> None:
    if not outcome.cancelled() and outcome.exception() is None:
        keep(outcome.result())
