"""The prefetch buffers of consumers: by arrival, by priority, or measured.

They stay interpreted in the compiled wheel: the usual one is a deque, which compiled classes cannot
extend, and its methods are C code anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from pyjms.management import JMSConsumerStats
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import MessageDispatch


class DispatchBuffer(Protocol):
    """A prefetch buffer."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[MessageDispatch]: ...
    def append(self, dispatch: MessageDispatch, /) -> None:
        """Add a message."""

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Put `dispatches`, oldest first, before all others (of their priority)."""

    def popleft(self) -> MessageDispatch:
        """Remove and return the next message; raise IndexError if there is none."""

    def clear(self) -> None:
        """Drop all messages."""


class FifoBuffer(deque[MessageDispatch]):
    """Messages in the order of arrival."""

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        self.extendleft(reversed(dispatches))


class PriorityBuffer:
    """Messages by priority, highest first, and in order of arrival within one."""

    def __init__(self) -> None:
        self._queues = [FifoBuffer() for _ in range(10)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[MessageDispatch]:
        for queue in reversed(self._queues):
            yield from queue

    def append(self, dispatch: MessageDispatch) -> None:
        self._queue_of(dispatch).append(dispatch)
        self._count += 1

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        for dispatch in reversed(dispatches):
            self._queue_of(dispatch).appendleft(dispatch)
        self._count += len(dispatches)

    def popleft(self) -> MessageDispatch:
        for queue in reversed(self._queues):
            if queue:
                self._count -= 1
                return queue.popleft()
        raise IndexError("the buffer is empty")

    def clear(self) -> None:
        for queue in self._queues:
            queue.clear()
        self._count = 0

    def _queue_of(self, dispatch: MessageDispatch) -> FifoBuffer:
        assert dispatch.message is not None
        return self._queues[min(max(dispatch.message.priority, 0), 9)]


class MeasuredBuffer:
    """A buffer that measures how many messages wait in it, and for how long."""

    def __init__(self, buffer: DispatchBuffer, stats: JMSConsumerStats) -> None:
        self._buffer = buffer
        self._stats = stats
        self._arrivals: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._buffer)

    def __iter__(self) -> Iterator[MessageDispatch]:
        return iter(self._buffer)

    def append(self, dispatch: MessageDispatch) -> None:
        self._buffer.append(dispatch)
        self._note_arrival(dispatch)

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        self._buffer.requeue(dispatches)
        for dispatch in dispatches:
            self._note_arrival(dispatch)

    def popleft(self) -> MessageDispatch:
        dispatch = self._buffer.popleft()
        self._stats.pending_message_count.decrement()
        self._stats.message_wait_time.add_time(_clock.now() - self._arrivals.pop(id(dispatch)))
        return dispatch

    def clear(self) -> None:
        self._stats.pending_message_count.decrement(len(self._buffer))
        self._buffer.clear()
        self._arrivals.clear()

    def _note_arrival(self, dispatch: MessageDispatch) -> None:
        self._arrivals[id(dispatch)] = _clock.now()
        self._stats.pending_message_count.increment()
