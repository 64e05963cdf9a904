"""What a consumer was sent and has not handed out yet; the prefetch bounds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pyjms.wire.openwire.commands import MessageDispatch

__all__ = ["DispatchBuffer", "FifoBuffer", "PriorityBuffer"]


class FifoBuffer(deque[MessageDispatch]):
    """Messages in the order of their coming."""

    def put_back(self, dispatches: list[MessageDispatch]) -> None:
        """Take `dispatches`, oldest first, before all others."""
        self.extendleft(reversed(dispatches))


class PriorityBuffer:
    """Messages by priority, the highest first; in the order of their coming within one. (Q20)"""

    def __init__(self) -> None:
        self._queues = [FifoBuffer() for _ in range(10)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[MessageDispatch]:
        for queue in reversed(self._queues):
            yield from queue

    def append(self, dispatch: MessageDispatch) -> None:
        """Add a message that came."""
        self._queue_of(dispatch).append(dispatch)
        self._count += 1

    def put_back(self, dispatches: list[MessageDispatch]) -> None:
        """Take `dispatches`, oldest first, before all others of their priority."""
        for dispatch in reversed(dispatches):
            self._queue_of(dispatch).appendleft(dispatch)
        self._count += len(dispatches)

    def popleft(self) -> MessageDispatch:
        """Take the next message.

        Raises:
            IndexError: there is none.
        """
        for queue in reversed(self._queues):
            if queue:
                self._count -= 1
                return queue.popleft()
        raise IndexError("the buffer is empty")

    def clear(self) -> None:
        """Drop everything."""
        for queue in self._queues:
            queue.clear()
        self._count = 0

    def _queue_of(self, dispatch: MessageDispatch) -> FifoBuffer:
        assert dispatch.message is not None
        return self._queues[min(max(dispatch.message.priority, 0), 9)]


DispatchBuffer = FifoBuffer | PriorityBuffer
