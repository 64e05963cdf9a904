"""Worker threads for `def` handlers: one for each consumer.

Theory of operation
-------------------

A consumer handles one message at a time, so one thread for each is enough, and messages of one
consumer stay in order. The thread starts with the first call and blocks on a SimpleQueue; a call
costs one `put` and one wake-up of the loop (`LoopHandle.call_soon`, which coalesces wake-ups). A
shared thread pool would need a limit of its own, next to the container's concurrency, and could
deadlock when handlers wait for each other.

The caller's context variables are copied into the call, so that a handler in its thread sees the
session bound to it. A Python thread cannot be interrupted: a call that is cancelled is *abandoned*.
Its thread, a daemon, ends when the handler returns, and `busy` stays true, so that it is not waited
for and gets no further call.

`on_loop` is the other direction: a function that must run on the loop, called from the handler's
thread, which waits for the result (`Message.acknowledge`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, ContextVar, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import LoopHandle
from pyjms.errors import IllegalStateException

__all__ = ["Worker", "call_in_worker", "calls_in_flight", "current_worker"]

logger = get_logger(__name__)

A = TypeVar("A")
T = TypeVar("T")

current_worker: ContextVar[Worker | None] = ContextVar("pyjms_listener_worker", default=None)
"""The worker thread of the consumer whose message is being handled."""


async def call_in_worker(function: Callable[..., T], *args: Any) -> T:
    """Run `function(*args)` in the thread of the consumer that handles the current message.

    For listeners that are coroutines themselves and call a user's `def` handler.

    Raises:
        IllegalStateException: no container is calling a listener here.
    """
    worker = current_worker.get()
    if worker is None:
        raise IllegalStateException("Not inside a listener: there is no worker thread to call in")
    return await worker.run(function, *args)


_in_flight: set[_Call] = set()


def calls_in_flight() -> int:
    """Return how many calls from this loop run in threads; a virtual clock waits for them."""
    return sum(call.loop.is_current() for call in tuple(_in_flight))


class _Call:
    __slots__ = ("args", "context", "done", "error", "function", "loop", "result")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], loop: LoopHandle
    ) -> None:
        self.loop = loop
        self.function = function
        self.args = args
        self.context: Context = copy_context()
        self.done = anyio.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def finish(self) -> None:
        """Wake the waiting task, on its loop."""
        _in_flight.discard(self)
        self.done.set()

    def run(self) -> None:
        try:
            self.result = self.context.run(self.function, *self.args)
        except BaseException as error:  # whatever it is, the waiting task must get it
            self.error = error


class Worker:
    """One thread, started with the first call. Use it on the loop, one call at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loop = LoopHandle()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = anyio.Event()
        self.busy = False

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in the thread and return its result, or raise what it raises.

        Cancelling ends the wait, not the call: the thread is abandoned (`busy` stays true).
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
            self._thread.start()
        call = _Call(function, args, self.loop)
        self.busy = True
        _in_flight.add(call)
        self._calls.put(call)
        await call.done.wait()
        self.busy = False
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[no-any-return]

    def on_loop(self, function: Callable[[A], T]) -> Callable[[A], T]:
        """Return a version of `function` that a handler's thread may call: it runs on the loop.

        The thread waits for the result. It must not be called from other loops.
        """

        def call(argument: A) -> T:
            if self.loop.is_current():
                return function(argument)
            results: SimpleQueue[Future[T]] = SimpleQueue()
            self.loop.call_soon(lambda: results.put(_attempt(function, argument)))
            return results.get().result()

        return call

    def close(self) -> None:
        """Let the thread end when it has nothing left to do. Returns at once."""
        if self._thread is None:
            self._ended.set()
        self._calls.put(None)

    async def join(self, seconds: float | None) -> bool:
        """Wait until the thread has ended, `seconds` at most; return whether it has."""
        with _clock.timeout(seconds):
            await self._ended.wait()
        return self._ended.is_set()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            if not self._notify(call.finish):
                _in_flight.discard(call)
                return
            del call  # a waiting thread must not keep the last message alive
        self._notify(self._ended.set)

    def _notify(self, function: Callable[[], object]) -> bool:
        try:
            self.loop.call_soon(function)
        except RuntimeError:
            logger.debug("The loop of worker %s ended before its handler", self.name)
            return False
        return True


def _attempt(function: Callable[[A], T], argument: A) -> Future[T]:
    outcome: Future[T] = Future()
    try:
        outcome.set_result(function(argument))
    except Exception as error:
        outcome.set_exception(error)
    return outcome
