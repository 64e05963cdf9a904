"""The threads in which blocking callbacks of a transaction are called.

A coroutine ends the transaction, on the loop. Callbacks that were registered in a thread may block
and may be bound to that thread (a database connection), so they are called in it: in the thread
that waits for the coroutine in a blocking call, or in the thread of the consumer whose `def`
handler registered them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

from anyio import to_thread
from anyio.lowlevel import current_token

from pyjms.core.closing import call
from pyjms.core.workers import Worker, current_worker

__all__ = ["WaitingThread", "call_in_thread", "is_on_a_loop", "waiting_thread"]


class WaitingThread(Protocol):
    """A thread that waits for the current task, and runs functions for it during the wait."""

    @property
    def is_serving(self) -> bool:
        """Whether it still waits."""

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run `function(*args)` in the thread; return its result or raise its error."""


waiting_thread: ContextVar[WaitingThread | None] = ContextVar("pyjms_waiting_thread", default=None)
"""The thread that waits for the current task in a blocking call."""


def is_on_a_loop() -> bool:
    """Return whether the calling code runs on an event loop, where it must not block."""
    try:
        current_token()  # of this thread; context variables may come from a task on a loop
    except RuntimeError:
        return False
    return True


async def call_in_thread(function: Callable[..., Awaitable[Any] | Any], *args: Any) -> Any:
    """Call a function that may block in the thread to which it belongs; return its result.

    If there is no such thread, or it has ended or is busy in a handler, another thread is used: a
    task that outlives the handler that has started it still has the handler's context variables. A
    coroutine function is awaited on the loop.
    """
    thread, worker = waiting_thread.get(), current_worker.get()
    if thread is not None and thread.is_serving:
        result = await thread.run(function, *args)
    elif worker is not None and _is_free(worker):
        result = await worker.run(function, *args)
    else:
        result = await to_thread.run_sync(partial(function, *args))
    return await call(lambda: result)


def _is_free(worker: Worker) -> bool:
    return worker.loop.is_current() and not worker.busy and not worker.closed
