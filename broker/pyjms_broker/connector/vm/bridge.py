"""A `vm://` connection between two event loops of a process, each in a thread of its own.

    client's loop                               broker's loop
    VmTransport --put--> FarInbox ==call_soon==> Inbox of the broker's end
    Inbox       <==call_soon== FarInbox <--put-- VmTransport

Commands cross as bytes, so that the loops share no object that can change. What one pass of a loop
sends is handed over by one call to the other loop. Flow control counts what is under way and what
waits at the other end. When a loop ends without closing its connections, the other end is notified.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from pyjms import _clock
from pyjms._wakeup import BackgroundTask, LoopHandle, spawn
from pyjms.errors import ConnectionFailedException
from pyjms.transport.inbox import HIGH_WATER, Inbox

__all__ = ["FarEnd", "FarInbox", "run_on"]

_T = TypeVar("_T")
_PROBE = 1.0  # seconds between two checks whether a loop still runs
_PATIENCE = 5  # checks that a loop may leave without an answer


async def run_on(
    loop: LoopHandle, function: Callable[[], Awaitable[_T]], *, must_answer: bool = False
) -> _T:
    """Await `function()` on another loop and return its result. Cancelling cancels it there.

    Args:
        loop: the other loop.
        function: called on that loop.
        must_answer: whether to give up when that loop, stopped or blocked, does nothing for some
            seconds; `function` is called nevertheless should it go on.

    Raises:
        ConnectionFailedException: that loop has ended, or does not answer.
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
        raise _ended()
    try:
        while not done.is_set() and not (must_answer and unanswered > _PATIENCE):
            with _clock.timeout(_PROBE):
                await done.wait()
            unanswered += 1
            if not done.is_set() and not _call(loop, answer):
                raise _ended()
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
        raise _ended()
    return results[0]


class FarInbox:
    """The inbox of the other end of a connection, which is on another loop."""

    def __init__(self, inbox: Inbox[Any], loop: LoopHandle) -> None:
        self._inbox = inbox
        self._loop = loop
        self._queue: deque[Any] = deque()
        self._is_called = False
        self._has_ended = False

    def put(self, data: Any) -> None:
        """Hand `data`, which is bytes, over; a burst of them wakes the other loop once.

        Raises:
            ConnectionFailedException: that loop has ended.
        """
        if self._has_ended:
            raise _ended()
        self._queue.append(data)
        if not self._is_called:
            self._is_called = True
            if not _call(self._loop, self._deliver):
                self._has_ended = True
                raise _ended()

    def end(self, error: Exception) -> None:
        """Report the end after what was handed over before."""
        _call(self._loop, self._end, error)

    @property
    def congested(self) -> bool:
        """Whether too much is under way or waits there."""
        return len(self._queue) + self._inbox.size > HIGH_WATER

    async def drained(self) -> None:
        """Wait until the other end has handled most of it, or has ended. Cancellable."""

        async def wait() -> None:
            self._deliver()
            await self._inbox.drained()

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
    """The other end of a connection, as the end on this loop uses it.

    Args:
        inbox: that of the other end.
        loop: the loop of the other end.
        remote_address: the address of the other end.
    """

    def __init__(self, inbox: Inbox[Any], loop: LoopHandle, remote_address: str) -> None:
        self.inbox = FarInbox(inbox, loop)
        self.remote_address = remote_address
        self._watch: BackgroundTask | None = None

    def watch_own_loop(self) -> None:
        """Tell the other end if this end's loop ends before `close`. Call it on this loop."""
        self._watch = spawn(self._report_end, name=f"pyjms watch {self.remote_address}")

    def close(self) -> None:
        """End the watch: this end stops in an orderly way."""
        if self._watch is not None:
            self._watch.cancel()

    async def _report_end(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.inbox.end(_ended())


def _call(loop: LoopHandle, function: Callable[..., object], *args: Any) -> bool:
    """Call `function(*args)` on `loop`; return whether the loop still runs."""
    try:
        loop.call_soon(function, *args)
    except RuntimeError:
        return False
    return True


def _ended() -> ConnectionFailedException:
    return ConnectionFailedException("The event loop of the other end of vm:// has ended")
