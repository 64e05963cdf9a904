"""From a thread to a loop and back: blocking calls of coroutines.

Scripts share one loop in a daemon thread, started with the first call. In a handler's
thread the application's own loop is used. A blocked call can be interrupted (Ctrl-C):
the coroutine is cancelled, and what it had got at that very moment is kept for the next
call. After a fork the child starts a loop of its own; objects made before belong to the
parent.
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
    """A loop in a thread of its own, for as long as the process lives."""

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
    """The loop that all scripts and threads of this process share; started when first asked for."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = _LoopThread()
            atexit.register(_shared.close)
        return _shared.loop


def _forget_after_fork() -> None:
    global _shared, _lock
    _shared = None  # its thread exists in the parent only
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def current_loop() -> LoopHandle:
    """The loop for new objects: in a handler its application's, else the shared one."""
    worker = current_worker.get()
    return worker._loop if worker is not None else shared_loop()


def call_on_loop(
    loop: LoopHandle,
    function: Callable[..., Coroutine[Any, Any, R]],
    *args: Any,
    keep: Callable[[R], object] | None = None,
    context: Context | None = None,
) -> R:
    """Run `function(*args)` on `loop` and return what it returns. Blocks.

    When the wait is interrupted, the coroutine is cancelled; had it just ended all the
    same, `keep` is called with its result, so that nothing gets lost.

    Raises:
        IllegalStateException: called on that loop itself, where blocking would never end.

    """
    if loop.is_current():
        raise IllegalStateException(
            "A blocking call on the loop that has to do the work would never end",
            hint="use the coroutines of pyjms.aio here",
        )
    answer: Future[R] = Future()
    tasks: list[BackgroundTask] = []
    context = loop.adopt(context or copy_context())

    async def run() -> None:
        try:
            answer.set_result(await function(*args))
        except Exception as error:
            answer.set_exception(error)
        finally:
            if not answer.done():
                answer.cancel()

    def begin() -> None:
        tasks.append(spawn(run, name="pyjms blocking call", context=context))

    loop.call_soon(begin)
    try:
        return answer.result()
    except BaseException:
        if not answer.done():
            loop.call_soon(partial(_give_up, tasks, answer, keep))
        raise


def _give_up(
    tasks: list[BackgroundTask], answer: Future[R], keep: Callable[[R], object] | None
) -> None:
    for task in tasks:
        task.cancel()
    if keep is not None:
        answer.add_done_callback(partial(_keep_result, keep))


def _keep_result(keep: Callable[[R], object], answer: Future[R]) -> None:
    if not answer.cancelled() and answer.exception() is None:
        keep(answer.result())
