"""Worker threads for `def` handlers and interceptors: one for each consumer.

Theory of operation
-------------------

A consumer handles one message at a time, so one thread per consumer is enough, and the messages of
a consumer stay in order. The thread starts with the first call and blocks on a SimpleQueue; a call
costs one `put` and one wake-up of the loop (`LoopHandle.call_soon`, which coalesces wake-ups). A
shared thread pool would need a separate limit, in addition to the container's concurrency, and
could deadlock when handlers wait for each other.

The caller's context variables are copied into the call, so that a handler in its thread sees the
session bound to it. A Python thread cannot be interrupted: a call that is cancelled is *abandoned*.
Its thread, a daemon, ends when the handler returns, and `busy` stays true, so that nothing waits
for the thread and it gets no further call.

`on_loop` is the opposite direction: a function that must run on the loop is called from the
handler's thread, which waits for the result (`Message.acknowledge`).

`run_around` combines both, for a `def` interceptor: a function runs in the thread and calls
`proceed`, a coroutine function, which runs on the loop.

    task on the loop                          thread
    ----------------------------------------  ------------------------------------------------
    puts the call, waits                  ->  runs function(argument, proceed)
    awaits proceed, with the thread's     <-  function calls proceed: copies its context
      context variables                         variables, and waits at the queue of calls
    a nested call of the same worker      ->  runs it (the `def` handler), then continues to wait
    puts the answer                       ->  proceed returns or raises
    returns or raises the outcome         <-  function ends

So interceptor and handler share a thread, and the rest of the chain runs in the task that a
shutdown cancels. If it is cancelled, `proceed` raises `_GivenUp` in the thread, so that the
function's `finally` blocks run; as with any other call, nothing waits for them.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

import anyio

from pyjms.errors import IllegalStateException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

A = TypeVar("A")
T = TypeVar("T")

current_worker: ContextVar[Worker | None] = ContextVar("pyjms_listener_worker", default=None)
"""The worker thread of the consumer whose message is being handled."""


def required_worker() -> Worker:
    """Return the worker of the consumer that handles the current message."""
    worker = current_worker.get()
    if worker is None:
        raise IllegalStateException("Not inside a listener: there is no worker thread to call in")
    return worker


async def call_in_worker(function: Callable[..., T], *args: Any) -> T:
    """Run `function(*args)` in the thread of the consumer that handles the current message.

    For listeners that are coroutine functions and call a user's `def` handler.

    Raises:
        IllegalStateException: the caller is not a listener called by a container.
    """
    return await required_worker().run(function, *args)


_in_flight: set[_Call] = set()


def calls_in_flight() -> int:
    """Return the number of calls from this loop in threads; a virtual clock waits for them."""
    return sum(call.loop.is_current() for call in tuple(_in_flight))


class _Call:
    __slots__ = ("args", "context", "done", "error", "function", "loop", "result", "wake")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        loop: LoopHandle,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self.loop = loop
        self.wake = wake
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
        if self.wake is not None:
            self.wake()

    def outcome(self) -> Any:
        """Return the function's result, or raise its exception."""
        if self.error is not None:
            raise self.error
        return self.result

    def run(self) -> None:
        try:
            self.result = self.context.run(self.function, *self.args)
        except BaseException as error:  # of any kind: the waiting task must get it
            self.error = error


class _GivenUp(BaseException):  # not caught by `except Exception` of an interceptor that retries
    """Raised in a thread if the task that waits for it was cancelled."""


class _Answer:
    """The outcome of the coroutine function, for which `proceed` waits in the thread."""

    __slots__ = ("context", "error", "result")

    def __init__(self) -> None:
        self.context = copy_context()
        self.result: Any = None
        self.error: BaseException | None = None


class _Exchange:
    """The requests of a thread to the task that waits for it."""

    def __init__(self) -> None:
        self.asked: _Answer | None = None
        self.is_given_up = False
        self._changed = anyio.Event()

    def ask(self, answer: _Answer) -> None:
        """Accept a request, on the loop."""
        self.asked = answer
        self.wake()

    def wake(self) -> None:
        self._changed.set()

    async def wait(self) -> _Answer | None:
        """Return the next request; None: the call has ended."""
        await self._changed.wait()
        self._changed = anyio.Event()
        asked, self.asked = self.asked, None
        return asked


class Worker:
    """One thread, started with the first call. Use it on the loop, one call at a time.

    Args:
        name: the name of the thread.
        listener_id: the listener whose handler it runs; None: it does not run a handler.
    """

    def __init__(self, name: str, listener_id: str | None = None) -> None:
        self.name = name
        self.listener_id = listener_id
        self.loop: LoopHandle = LoopHandle()
        self._calls: SimpleQueue[_Call | _Answer | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = anyio.Event()
        self.busy: bool = False
        self.closed: bool = False
        self.call_context: Context | None = None
        """The context variables around the handler's latest call; None: it has no interceptors."""

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in the thread and return its result, or raise what it raises.

        Cancelling ends the wait, not the call: the thread is abandoned (`busy` stays true).
        """
        call = _Call(function, args, self.loop)
        self._begin(call)
        await call.done.wait()
        self.busy = False
        return call.outcome()  # type: ignore[no-any-return]

    async def run_within(
        self,
        seconds: float | None,
        on_late: Callable[[], None],
        function: Callable[..., T],
        *args: Any,
    ) -> T:
        """Do as `run`, and call `on_late` on the loop when the call has run for `seconds`."""
        call = _Call(function, args, self.loop)
        self._begin(call)
        with _clock.timeout(seconds):
            await call.done.wait()
        if not call.done.is_set():
            on_late()
            await call.done.wait()
        self.busy = False
        return call.outcome()  # type: ignore[no-any-return]

    async def run_around(
        self,
        function: Callable[[A, Callable[[], Any]], Any],
        argument: A,
        proceed: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Run `function(argument, blocking)` in the thread; `blocking()` returns `await proceed()`.

        `proceed` is awaited in the calling task, with the context variables that the function has
        set, and may use this worker; the function may call it several times, in the same thread.
        Cancelling ends the wait as with `run`; a function that waits for `proceed` then ends.
        """
        exchange = _Exchange()
        call = _Call(function, (argument, partial(self._ask, exchange)), self.loop, exchange.wake)
        self._begin(call)
        try:
            while (answer := await exchange.wait()) is not None:
                await self._answer(call, answer, proceed)
        except BaseException:
            exchange.is_given_up = True
            raise
        self.busy = False
        return call.outcome()

    def _begin(self, call: _Call) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
            self._thread.start()
        self.busy = True
        _in_flight.add(call)
        self._calls.put(call)

    async def _answer(
        self, call: _Call, answer: _Answer, proceed: Callable[[], Awaitable[Any]]
    ) -> None:
        """Await `proceed()` for the thread, which waits for the answer."""
        self.busy = False  # a shutdown may cancel `proceed`
        _in_flight.discard(call)
        try:
            with _variables_of(answer.context):
                answer.result = await proceed()
        except Exception as error:
            answer.error = error
        except BaseException:
            answer.error = _GivenUp()
            raise
        finally:
            self.busy = True
            _in_flight.add(call)
            self._calls.put(answer)

    def _ask(self, exchange: _Exchange) -> Any:
        """Request `proceed` from the thread; run its nested calls here, and return its result."""
        if threading.current_thread() is not self._thread:
            raise IllegalStateException(
                "proceed() of a def interceptor was called in another thread",
                hint="call it in the interceptor itself, before the interceptor returns",
            )
        if exchange.is_given_up:
            raise _GivenUp
        answer = _Answer()
        if not self._notify(partial(exchange.ask, answer)):
            raise _GivenUp
        while (call := self._calls.get()) is not answer:
            if isinstance(call, _Call) and not self._run(call):
                raise _GivenUp
        if answer.error is not None:
            raise answer.error
        return answer.result

    def on_loop(self, function: Callable[[A], T]) -> Callable[[A], T]:
        """Return a function that runs `function` on the loop, to be called in a handler's thread.

        The thread waits for the result. The function must not be called on other loops.
        """

        def call(argument: A) -> T:
            if self.loop.is_current():
                return function(argument)
            results: SimpleQueue[Future[T]] = SimpleQueue()
            self.loop.call_soon(lambda: results.put(_attempt(function, argument)))
            return results.get().result()

        return call

    def close(self) -> None:
        """End the thread when it has finished its calls. Returns at once."""
        self.closed = True
        if self._thread is None:
            self._ended.set()
        self._calls.put(None)

    async def join(self, seconds: float | None) -> bool:
        """Wait at most `seconds` until the thread has ended; return whether it has."""
        with _clock.timeout(seconds):
            await self._ended.wait()
        return self._ended.is_set()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if isinstance(call, _Call) and not self._run(call):
                return
            del call  # a waiting thread must not keep the last message alive
        self._notify(self._ended.set)

    def _run(self, call: _Call) -> bool:
        """Run a call in the thread; return False if its loop has ended."""
        call.run()
        if self._notify(call.finish):
            return True
        _in_flight.discard(call)
        return False

    def _notify(self, function: Callable[[], object]) -> bool:
        try:
            self.loop.call_soon(function)
        except RuntimeError:
            logger.debug("The loop of worker %s ended before its handler", self.name)
            return False
        return True


@contextmanager
def _variables_of(context: Context) -> Iterator[None]:
    """Set the context variables whose values in `context` differ, within a block."""
    tokens: list[tuple[ContextVar[Any], Token[Any]]] = []
    here = copy_context()
    for variable, value in context.items():
        if variable not in here or here[variable] is not value:
            tokens.append((variable, variable.set(value)))
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


def _attempt(function: Callable[[A], T], argument: A) -> Future[T]:
    outcome: Future[T] = Future()
    try:
        outcome.set_result(function(argument))
    except Exception as error:
        outcome.set_exception(error)
    return outcome


@contextmanager
def own_worker(name: str) -> Iterator[Worker]:
    """Give the current task a worker until the end of the block, for calls outside a listener."""
    worker = Worker(name)
    token = current_worker.set(worker)
    try:
        yield worker
    finally:
        current_worker.reset(token)
        worker.close()
