"""A `vm://` connection between two event loops of a process, each in its own thread.

    client's loop                               broker's loop
    VmTransport --put--> FarInbox ==call_soon==> Inbox of the broker's end
    Inbox       <==call_soon== FarInbox <--put-- VmTransport

Commands are passed as bytes, so that the loops share no mutable objects. All commands that one
iteration of a loop sends are passed by one call to the other loop. Flow control counts the data in
transit and waiting at the other end. If a loop ends without closing its connections, the other end
is notified.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, spawn
from pyjms.transport.inbox import HIGH_WATER, Inbox

_T = TypeVar("_T")
_PROBE = 1.0  # seconds between two checks of whether a loop is still running
_PATIENCE = 5  # checks that a loop may leave unanswered


async def run_on(
    loop: LoopHandle, function: Callable[[], Awaitable[_T]], *, must_answer: bool = False
) -> _T:
    """Await `function()` on another loop and return its result. Cancellation cancels it there.

    Args:
        loop: the other loop.
        function: called on that loop.
        must_answer: whether to give up if that loop, stopped or blocked, does nothing for some
            seconds; `function` is still called if the loop continues later.
    """
    own, done = LoopHandle(), anyio.Event()
    results: list[_T] = []
    errors: list[Exception] = []
    tasks: list[BackgroundTask] = []
    unanswered = 0

    async def run() -> None:
        try:
            results.append(await function())
        except Exception as error:
            errors.append(error)
        finally:
            _call(own, done.set)

    def begin() -> None:
        tasks.append(spawn(run, name="pyjms vm bridge"))

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    def answer() -> None:
        nonlocal unanswered
        unanswered = 0

    if not _call(loop, begin):
        raise _loop_ended()
    try:
        while not done.is_set() and not (must_answer and unanswered > _PATIENCE):
            with _clock.timeout(_PROBE):
                await done.wait()
            unanswered += 1
            if not done.is_set() and not _call(loop, answer):
                raise _loop_ended()
    except BaseException:
        _call(loop, cancel)
        raise
    if not done.is_set():
        raise ConnectionFailedException(
            "The event loop of the other end of vm:// does not answer: it is stopped or blocked"
        )
    if errors:
        raise errors[0]
    if not results:
        raise _loop_ended()
    return results[0]


class FarInbox:
    """The inbox of the other end of a connection, on another loop."""

    def __init__(self, inbox: Inbox[Any], loop: LoopHandle) -> None:
        self._inbox = inbox
        self._loop = loop
        self._queue: deque[Any] = deque()
        self._is_called = False
        self._has_ended = False

    def put(self, data: Any) -> None:
        """Pass `data` (bytes) to the other end; a burst wakes the other loop once."""
        if self._has_ended:
            raise _loop_ended()
        self._queue.append(data)
        if not self._is_called:
            self._is_called = True
            if not _call(self._loop, self._deliver):
                self._has_ended = True
                raise _loop_ended()

    def end(self, error: Exception) -> None:
        """Report the end, after all data passed before."""
        _call(self._loop, self._end, error)

    @property
    def congested(self) -> bool:
        """Whether too much data is in transit or waits at the other end."""
        return len(self._queue) + self._inbox.size > HIGH_WATER

    async def drain(self) -> None:
        """Wait until the other end has handled most of the data, or has ended. Cancellable."""

        async def wait() -> None:
            self._deliver()
            await self._inbox.drain()

        try:
            await run_on(self._loop, wait)
        except ConnectionFailedException:
            self._has_ended = True

    def _deliver(self) -> None:
        self._is_called = False
        queue = self._queue
        while queue:
            self._inbox.put(queue.popleft())

    def _end(self, error: Exception) -> None:
        self._deliver()
        self._inbox.end(error)


class FarEnd:
    """The interface to the other end of a connection for the end on this loop.

    Args:
        inbox: the inbox of the other end.
        loop: the loop of the other end.
        remote_address: the address of the other end.
    """

    def __init__(self, inbox: Inbox[Any], loop: LoopHandle, remote_address: str) -> None:
        self.inbox = FarInbox(inbox, loop)
        self.remote_address = remote_address
        self._watch: BackgroundTask | None = None

    def watch_own_loop(self) -> None:
        """Notify the other end if this loop ends before `close`. Call it on this loop."""
        self._watch = spawn(self._report_end, name=f"pyjms watch {self.remote_address}")

    def close(self) -> None:
        """End the watch, because this end stops regularly."""
        if self._watch is not None:
            self._watch.cancel()

    async def _report_end(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.inbox.end(_loop_ended())


def _call(loop: LoopHandle, function: Callable[..., object], *args: Any) -> bool:
    """Call `function(*args)` on `loop`; return whether the loop is still running."""
    try:
        loop.call_soon(function, *args)
    except RuntimeError:
        return False
    return True


def _loop_ended() -> ConnectionFailedException:
    return ConnectionFailedException("The event loop of the other end of vm:// has ended")
