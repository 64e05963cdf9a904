"""The blocking portal: coroutines called from threads.

There is one implementation, the coroutine core; a blocking call runs one of its coroutines on a
loop and waits for the result in the calling thread.

An object belongs to the loop on which it was created. Scripts and threads share one loop
(`pyjms.sync.shared_loop`), in a daemon thread that the first call starts. The thread of a listener
container's handler uses the application's loop, so that a template there sees the handler's
transaction.

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
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

from pyjms._wakeup import BackgroundTask, LoopHandle, spawn
from pyjms.errors import IllegalStateException
from pyjms.sync.tracebacks import trim

__all__ = ["call_on_loop"]

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
