"""A queue of commands inside one process, delivered by a task.

For transports without a socket. A task delivers, never `put` itself: so the calls of two ends that
respond to each other do not nest, and the order is kept, as items put during a delivery follow
those already queued. The receiver gets what is queued as a run, at most `_BURST` commands, after
which the task yields to the loop; what it leaves in the run, because it paused the delivery, is
queued again before all others. Back-pressure works as in `transport.tcp`, but counts commands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from pyjms.errors import ConnectionFailedException, ProtocolViolation
from pyjms.runtime.clock import Waiters
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

HIGH_WATER = 2000  # commands; ActiveMQ's asyncQueueDepth
LOW_WATER = 500
_BURST = 256

T = TypeVar("T")


class Inbox(Generic[T]):
    """Items that wait for delivery. Belongs to one loop.

    Args:
        deliver: takes items from the left, until there are none or it pauses the delivery.
        on_end: gets the error that ended the delivery.
        name: what the log calls the delivery.
    """

    def __init__(
        self,
        deliver: Callable[[deque[T]], object],
        on_end: Callable[[Exception], None],
        name: str,
    ) -> None:
        self._deliver = deliver
        self._on_end = on_end
        self._queue: deque[T] = deque()
        self._end: Exception | None = None
        self._stopped = False
        self._wake = anyio.Event()
        self._resumed: anyio.Event | None = None
        self._space = Waiters()
        self._name = name
        self._task: BackgroundTask | None = None

    @property
    def size(self) -> int:
        """The number of queued items. Thread-safe."""
        return len(self._queue)

    @property
    def congested(self) -> bool:
        """Whether more than the high-water mark is queued: the sender should await `drain`."""
        return len(self._queue) > HIGH_WATER

    def start(self) -> None:
        """Start delivering, beginning with items that are already queued."""
        if self._task is None and not self._stopped:
            self._task = spawn(self._run, name=self._name, on_error=self._on_failure)

    def put(self, item: T) -> None:
        """Queue `item` for delivery; it is dropped after `stop` or the end."""
        if self._stopped:
            return
        if not self._queue:
            self._wake.set()
        self._queue.append(item)

    def put_all(self, items: Iterable[T]) -> None:
        """Queue `items` for delivery, in this order, as `put` would."""
        if self._stopped:
            return
        if not self._queue:
            self._wake.set()
        self._queue.extend(items)

    def end(self, error: Exception) -> None:
        """Report `error` as the end, after the queued items have been delivered."""
        if self._end is None:
            self._end = error
            self._wake.set()
            self.resume()

    async def drain(self) -> None:
        """Wait until the queue is below the low-water mark, or delivery has ended."""
        await self._space.wait_while(lambda: self.congested and not self._stopped)

    @property
    def is_paused(self) -> bool:
        """Whether `deliver` should return, and leave the rest of its items where they are."""
        return self._resumed is not None

    def pause(self) -> None:
        """Stop delivering after the current item."""
        if self._resumed is None and self._end is None:
            self._resumed = anyio.Event()

    def resume(self) -> None:
        """Resume delivering."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    async def stop(self) -> None:
        """Drop the queued items and end the task."""
        self._close()
        await end_tasks(self._task)

    def _close(self) -> None:
        self._stopped = True
        self._queue.clear()
        self._space.wake()

    async def _run(self) -> None:
        while True:
            while self._queue:
                while self._resumed is not None:
                    await self._resumed.wait()
                run = self._take_run()
                self._deliver(run)
                if run:
                    self._queue.extendleft(reversed(run))
                if self._queue:
                    if self._space.event is not None and len(self._queue) <= LOW_WATER:
                        self._space.wake()
                    await checkpoint()
            self._space.wake()
            if self._end is not None:
                self._close()
                self._on_end(self._end)
                return
            self._wake = anyio.Event()
            await self._wake.wait()

    def _take_run(self) -> deque[T]:
        queue = self._queue
        if len(queue) > _BURST:
            return deque(queue.popleft() for _ in range(_BURST))
        self._queue = deque()
        return queue

    def _on_failure(self, error: BaseException) -> None:
        self._close()
        if isinstance(error, ProtocolViolation):
            self._on_end(error)
            return
        logger.error("%s: a listener failed", self._name, exc_info=error)
        failure = ConnectionFailedException(f"{self._name}: a listener failed: {error!r}")
        failure.__cause__ = failure.linked_exception = error
        self._on_end(failure)
