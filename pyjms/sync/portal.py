"""The blocking portal: coroutines called from threads.

A blocking call runs a coroutine on a loop and waits for the result in the calling thread. An object
belongs to the loop on which it was created. Scripts and threads share one loop, in a daemon thread
that the first call starts. The thread of a listener container's handler uses the application's
loop, so that a template there sees the handler's transaction.

One call, step by step:

    thread                                   loop
    --------------------------------------   ----------------------------------------------
    copies its context variables
    call_soon(begin), waits on a Future  ->  starts a task with those context variables
                                             runs the coroutine
    returns or raises the outcome        <-  sets the Future

Invariants:
- Called on the loop itself, a blocking call would never return, so it raises.
- Context variables set by the caller (a bound transaction) are visible to the coroutine. The
  coroutine's own changes are not, unless the caller passes a context and reads it afterwards.
- A wait can be interrupted (Ctrl-C). Then the coroutine is cancelled. If it completes at the same
  moment, its result is passed to `keep`, so that a received message is returned by the next
  receive instead of being lost.
- After a fork, the child has its own loop. Objects opened before the fork belong to the parent, and
  calls on them raise at once.

anyio's BlockingPortal is not used because it cannot keep the result of an interrupted call.

A script may end with everything still open. At exit, after the last non-daemon thread has ended,
the objects that were opened on the shared loop and not closed are closed in reverse order:
containers stop listening, connections notify their brokers, an embedded broker writes its data.
Listeners that are still handling a message have a moment to finish; nothing waits longer than
`_EXIT_TIMEOUT`.

The loop itself is not stopped. To stop it, asyncio would start a thread that shuts down the
executor of name resolution, and Python 3.12 cannot start threads during interpreter shutdown. The
loop's thread is a daemon thread, which is still waiting for events when the process ends.

After a fork, the child starts its own loop, because the thread exists only in the parent.

Tracebacks show the caller's frames, without those of the portal and the loop: otherwise, a call
that fails would show a dozen internal frames. The frames of application functions that the call has
called, such as message creators and converters, are kept. If the error is a bug in pyjms, such as a
failed assertion, all frames are kept.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import cache, partial
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import anyio

from pyjms.client.connection import ActiveMQConnection
from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, loop_options, spawn
from pyjms.runtime.fork import Inheritance, call_in_child
from pyjms.runtime.logging import get_logger
from pyjms.template.workers import current_worker

logger: Final = get_logger(__name__)

_EXIT_TIMEOUT = 5.0


class _LoopThread:
    """A loop in its own thread, which runs until the process ends."""

    def __init__(self) -> None:
        self._ready: Future[LoopHandle] = Future()
        self._open: WeakValueDictionary[tuple[int, str], Any] = WeakValueDictionary()
        self._thread = threading.Thread(target=self._run, name="pyjms loop", daemon=True)
        self._thread.start()
        self.loop = self._ready.result()
        atexit.register(self._close_all)

    def add(self, core: object, close: str) -> None:
        """Have `core` closed at exit by its coroutine method `close`, if it still exists."""
        held = core.inheritance if isinstance(core, ActiveMQConnection) else core
        if held is not None:
            self._open[id(core), close] = held

    def _run(self) -> None:
        try:
            anyio.run(self._main, backend_options=loop_options())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    async def _main(self) -> None:
        self._ready.set_result(LoopHandle())
        await anyio.sleep_forever()

    def _close_all(self) -> None:
        """Close all open objects, and wait for that. Called at exit, in the main thread."""
        if not self.loop.in_this_process or not self._open:
            return
        done = threading.Event()

        async def close() -> None:
            try:
                with _clock.timeout(_EXIT_TIMEOUT):
                    for (_, method), held in reversed(list(self._open.items())):
                        core = held.item if isinstance(held, Inheritance) else held
                        await _close_quietly(getattr(core, method))
            finally:
                done.set()

        self.loop.call_soon(lambda: spawn(close, name="pyjms exit"))
        done.wait(_EXIT_TIMEOUT + 1)


async def _close_quietly(close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except Exception as error:
        logger.debug("Closing at exit failed: %s", error)


_lock = threading.Lock()
_shared: _LoopThread | None = None


@call_in_child
def _forget() -> None:
    global _shared, _lock
    _shared = None
    _lock = threading.Lock()


def shared_loop() -> LoopHandle:
    """Return the loop that all threads of this process share; the first call starts it."""
    return _loop_thread().loop


def _loop_thread() -> _LoopThread:
    global _shared
    with _lock:
        if _shared is None:
            _shared = _LoopThread()
        return _shared


def current_loop() -> LoopHandle:
    """Return the loop for new objects: in a handler the application's, else the shared loop."""
    worker = current_worker.get()
    if worker is not None and worker.loop.in_this_process:
        return worker.loop
    return shared_loop()


def close_at_exit(core: object, loop: LoopHandle, close: str) -> None:
    """Close `core` when the process ends, by its coroutine method `close`, if `loop` is shared.

    Closing an object that is already closed has no effect.
    """
    shared = _shared
    if shared is not None and shared.loop is loop:
        shared.add(core, close)


_LONGEST_CHAIN: Final = 20


@cache
def _internal_folders() -> tuple[str, ...]:
    import sysconfig  # noqa: PLC0415 - needed only after an error, as is the next
    from pathlib import Path  # noqa: PLC0415

    found = (find_spec(name) for name in ("pyjms", "pyjms_broker"))
    files = [spec.origin for spec in found if spec is not None and spec.origin is not None]
    packages = (f"{Path(file).parent}/" for file in (anyio.__file__, *files))
    return (*packages, f"{sysconfig.get_path('stdlib')}/")


_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_OF_ARGUMENTS: Final = (JMSException, TypeError, ValueError, OSError, TimeoutError)
"""Exceptions raised on purpose: the message explains the cause, not the frames."""


def trim(error: BaseException) -> None:
    """Remove the internal frames from the tracebacks of an error and of its causes."""
    found: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if found is None:
            return
        frames = _frames(found.__traceback__)
        others = [frame for frame in frames if not _is_internal(frame)]
        if isinstance(found, _OF_ARGUMENTS) or (frames and frames[-1] in others):
            found.__traceback__ = _chain(others)
        found = found.__cause__


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _is_internal(traceback: TracebackType) -> bool:
    file, internal = traceback.tb_frame.f_code.co_filename, _internal_folders()
    if file.startswith(internal):  # installed packages may be below the library's directory
        return file.startswith(internal[:-1]) or not any(each in file for each in _INSTALLED)
    return file.endswith(".pyx")  # a compiled event loop


def _chain(frames: list[TracebackType]) -> TracebackType | None:
    chained = None
    for frame in reversed(frames):
        chained = TracebackType(chained, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chained


R = TypeVar("R")


def call_on_loop(
    loop: LoopHandle,
    function: Callable[..., Coroutine[Any, Any, R]],
    *args: Any,
    keep: Callable[[R], object] | None = None,
    context: Context | None = None,
    wait: Callable[[Future[R]], R] = Future.result,
) -> R:
    """Run `function(*args)` on `loop` and return its result. Blocks.

    Args:
        loop: the loop on which the function runs.
        function: a coroutine function.
        args: its arguments.
        keep: called with the result if the wait was interrupted when the coroutine had completed.
        context: the context variables of the coroutine; None: a copy of the caller's.
        wait: waits in the calling thread, and returns the result or raises the error.

    Raises:
        IllegalStateException: the caller runs on that loop, so the call would never return; or in a
            child process, in which the loop does not run.
    """
    if loop.is_current():
        raise IllegalStateException(
            "A blocking call on the event loop that must execute it would never return",
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

    try:
        loop.call_soon(begin)
        return wait(outcome)
    except BaseException as error:
        if not _is_outcome(outcome, error):
            loop.call_soon(partial(_abandon, tasks, outcome, keep))
        trim(error)
        raise


def _is_outcome(outcome: Future[R], error: BaseException) -> bool:
    """Return whether `error` was raised by the coroutine, not by an interruption of the wait."""
    if not outcome.done():
        return False
    return outcome.cancelled() or outcome.exception() is error


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
