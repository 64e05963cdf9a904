"""A blocking call whose coroutine can run functions in the waiting thread.

    thread                                   loop
    --------------------------------------   ----------------------------------------------
    call_on_loop, waits for functions    ->  runs the coroutine
    runs a function                      <-  run(function), waits
    continues to wait                    ->  continues
    returns or raises the outcome        <-  ends

When the wait is interrupted (Ctrl-C), the coroutine is cancelled, and the thread continues to run
functions for its cleanup, such as a rollback. After a second interruption it does not, and `run`
raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import anyio

from pyjms._wakeup import LoopHandle
from pyjms.core.callback_threads import waiting_thread
from pyjms.errors import IllegalStateException
from pyjms.sync.portal import call_on_loop

__all__ = ["CallersThread"]

R = TypeVar("R")


class _Call:
    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.outcome: Future[Any] = Future()
        self.done = anyio.Event()
        self._function, self._args = function, args
        self._loop = LoopHandle()
        self._context = copy_context()

    def run(self) -> None:
        """Call the function in the thread; raise only interruptions."""
        try:
            self.outcome.set_result(self._context.run(self._function, *self._args))
        except Exception as error:
            self.outcome.set_exception(error)
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Wake the waiting task, with an error if there is no outcome."""
        if not self.outcome.done():
            self.outcome.set_exception(
                IllegalStateException("The thread of the transaction was interrupted")
            )
        self._loop.call_soon(self.done.set)


class CallersThread:
    """The calling thread, for one blocking call."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._serving = True
        self._outcome: Future[Any] | None = None

    @property
    def is_serving(self) -> bool:
        """Whether the thread is still waiting."""
        return self._serving

    def call(
        self,
        loop: LoopHandle,
        function: Callable[..., Coroutine[Any, Any, R]],
        *args: Any,
        context: Context,
    ) -> R:
        """Run `function(*args)` on the loop, with `waiting_thread` set to this object. Once."""
        context.run(waiting_thread.set, self)
        try:
            return call_on_loop(loop, function, *args, context=context, wait=self._wait)
        except BaseException:
            if self._outcome is not None and not self._outcome.done():
                self._serve()
            raise
        finally:
            self._leave()

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run `function(*args)` in the thread, with the task's context variables.

        Raises:
            IllegalStateException: the thread is no longer waiting.
            Exception: raised by the function.
        """
        call = _Call(function, args)
        with self._lock:
            if self._serving:
                self._calls.put(call)
            else:
                call.give_up()
        await call.done.wait()
        return call.outcome.result()

    def _wait(self, outcome: Future[R]) -> R:
        self._outcome = outcome
        outcome.add_done_callback(lambda _: self._calls.put(None))
        self._serve()
        return outcome.result()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()

    def _leave(self) -> None:
        with self._lock:
            self._serving = False
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            if call is not None:
                call.give_up()
