"""What a consumer was sent and has not handed out yet; the prefetch bounds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from pyjms.wire.openwire.commands import Command, ConsumerInfo, MessageDispatch, MessagePull

__all__ = [
    "DispatchBuffer",
    "FifoBuffer",
    "PriorityBuffer",
    "PullRequests",
]


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


class PullRequests:
    """The pulls of one consumer that the broker has not answered."""

    def __init__(self, info: ConsumerInfo, oneway: Callable[[Command], None]) -> None:
        self._info = info
        self._oneway = oneway
        self.unanswered = 0
        """How many with a time-out wait for their end."""
        self.is_over = False
        """Whether the broker said that the time of the last pull is over."""
        self._endless = False

    @property
    def is_waiting(self) -> bool:
        """Whether any pull may still bring a message."""
        return self._endless or self.unanswered > 0

    def ask(self, timeout: float | None) -> None:
        """Ask for a message within `timeout` seconds; an endless pull is asked for only once."""
        self.is_over = False
        if timeout is None and self._endless:
            return
        if timeout is None:
            self._endless = True
            milliseconds = 0
        else:
            self.unanswered += 1
            milliseconds = max(1, round(timeout * 1000)) if timeout > 0 else -1
        self._oneway(MessagePull(self._info.consumer_id, self._info.destination, milliseconds))

    def message_came(self) -> None:
        """A message answers all: the broker signals none of the ends that are due."""
        self.unanswered = 0
        self._endless = False

    def nothing_came(self) -> None:
        """A dispatch without message: the time of the oldest pull is over."""
        self.unanswered = max(0, self.unanswered - 1)
        self.is_over = self.unanswered == 0
