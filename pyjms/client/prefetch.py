"""The prefetch buffer of a consumer, its waiting receivers, and pulls if the prefetch is 0.

The broker dispatches up to `prefetch_size` messages ahead of their acknowledgements; they wait
in the buffer until the application receives them. The prefetch bounds the buffer.

Without prefetch every receive sends a MessagePull. The broker responds with a message or, if the
pull has a timeout that has passed, with a dispatch without message. A receive that is cancelled
leaves its pull pending at the broker, so pulls are counted: the response to an abandoned pull must
not be mistaken for the response to the present one. (activemq-broker Q14)

ActiveMQ never signals a timeout for a pull without a timeout. Artemis does so at once if the queue
is empty; from then on, the receives of such a consumer repeat pulls with a timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import FOR_EVER, check_seconds
from pyjms.runtime.event_loop import Waiter
from pyjms.wire.openwire.commands import Command, ConsumerInfo, MessageDispatch, MessagePull

__all__ = [
    "DispatchBuffer",
    "FifoBuffer",
    "PriorityBuffer",
    "PullRequests",
    "Receivers",
    "deadline_after",
    "seconds_left",
    "sequence_id",
]

_SECONDS_OF_REPEATED_PULLS = 30.0


def sequence_id(dispatch: MessageDispatch) -> int:
    """Return the broker's number of the message, -1 if it has none."""
    assert dispatch.message is not None
    message_id = dispatch.message.message_id
    return -1 if message_id is None else message_id.broker_sequence_id


def seconds_left(deadline: float | None) -> float | None:
    """Return the seconds until `deadline`, at least 0; None: there is none."""
    return None if deadline is None else max(0.0, deadline - _clock.now())


class FifoBuffer(deque[MessageDispatch]):
    """Messages in the order of arrival."""

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Put `dispatches`, oldest first, before all others."""
        self.extendleft(reversed(dispatches))


class PriorityBuffer:
    """Messages by priority, highest first, and in order of arrival within one.

    (activemq-broker Q20)
    """

    def __init__(self) -> None:
        self._queues = [FifoBuffer() for _ in range(10)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[MessageDispatch]:
        for queue in reversed(self._queues):
            yield from queue

    def append(self, dispatch: MessageDispatch) -> None:
        """Add a message."""
        self._queue_of(dispatch).append(dispatch)
        self._count += 1

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Put `dispatches`, oldest first, before all others of their priority."""
        for dispatch in reversed(dispatches):
            self._queue_of(dispatch).appendleft(dispatch)
        self._count += len(dispatches)

    def popleft(self) -> MessageDispatch:
        """Remove and return the next message.

        Raises:
            IndexError: the buffer is empty.
        """
        for queue in reversed(self._queues):
            if queue:
                self._count -= 1
                return queue.popleft()
        raise IndexError("the buffer is empty")

    def clear(self) -> None:
        """Drop all messages."""
        for queue in self._queues:
            queue.clear()
        self._count = 0

    def _queue_of(self, dispatch: MessageDispatch) -> FifoBuffer:
        assert dispatch.message is not None
        return self._queues[min(max(dispatch.message.priority, 0), 9)]


class DispatchBuffer(Protocol):
    """A prefetch buffer."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[MessageDispatch]: ...
    def append(self, dispatch: MessageDispatch, /) -> None: ...
    def requeue(self, dispatches: list[MessageDispatch]) -> None: ...
    def popleft(self) -> MessageDispatch: ...
    def clear(self) -> None: ...


class PullRequests:
    """The pulls of one consumer that are pending at the broker."""

    def __init__(self, info: ConsumerInfo, oneway: Callable[[Command], None]) -> None:
        self._info = info
        self._oneway = oneway
        self.pending_timeouts: int = 0
        """The number of pulls with a timeout to which the broker has not responded."""
        self.timed_out: bool = False
        """Whether the broker has signalled the timeout of the last pull."""
        self._is_ahead = False
        self._unlimited = False  # a pull without timeout is pending
        self._waits_for_ever = False  # the present receive has no timeout
        self._repeated = False  # receives without a timeout repeat pulls with a timeout

    @property
    def is_pending(self) -> bool:
        """Whether a pull may still bring a message."""
        return self._unlimited or self.pending_timeouts > 0

    def request_ahead(self, timeout: float | None) -> None:
        """Pull a message for a `receive` that is about to follow, if there is no prefetch."""
        if self._info.prefetch_size == 0:
            self.request(timeout)
            self._is_ahead = True

    def begin(self, timeout: float | None) -> bool:
        """Pull a message for a `receive`, unless it was requested ahead.

        Returns whether the broker may first signal the timeout of an earlier, cancelled pull.
        """
        if self._is_ahead:
            self._is_ahead = False
            return False
        is_stale = self.pending_timeouts > 0
        self.request(timeout)
        return is_stale

    def request(self, timeout: float | None) -> None:
        """Pull a message within `timeout` seconds; at most one unlimited pull is pending."""
        self.timed_out = False
        self._waits_for_ever = timeout is None
        if timeout is None and self._repeated:
            timeout = _SECONDS_OF_REPEATED_PULLS
        if timeout is None and self._unlimited:
            return
        if timeout is None:
            self._unlimited = True
            milliseconds = 0
        else:
            self.pending_timeouts += 1
            milliseconds = max(1, round(timeout * 1000)) if timeout > 0 else -1
        self._oneway(MessagePull(self._info.consumer_id, self._info.destination, milliseconds))

    def on_message(self) -> None:
        """Record that a message arrived: the broker signals none of the pending timeouts."""
        self.pending_timeouts = 0
        self._unlimited = self._is_ahead = False

    def on_timeout(self) -> None:
        """Record a dispatch without message: the oldest pull has timed out."""
        if self.pending_timeouts:
            self.pending_timeouts -= 1
        elif self._unlimited:
            self._unlimited = self._is_ahead = False
            self._repeated = True
        self.timed_out = not (self.pending_timeouts or self._waits_for_ever)


class Receivers:
    """The tasks that wait in `receive` of one consumer."""

    def __init__(self) -> None:
        self.waiting: list[Waiter] = []

    async def wait(self, seconds: float | None) -> None:
        """Wait until `wake` is called, at most `seconds`; None: for ever."""
        waiter = Waiter()
        self.waiting.append(waiter)
        try:
            await _clock.wait(waiter, seconds)
        finally:
            if waiter in self.waiting:
                self.waiting.remove(waiter)

    def wake(self) -> None:
        """Wake all waiting tasks."""
        waiting, self.waiting = self.waiting, []
        for waiter in waiting:
            waiter.wake()


def deadline_after(timeout: float | None) -> float | None:
    """Return the deadline of a receive; None: it waits for ever.

    Raises:
        TypeError: the timeout is not a number.
        ValueError: the timeout is not finite.
    """
    if timeout is None:
        return None
    check_seconds("timeout", timeout, least=None, otherwise=FOR_EVER)
    return _clock.now() + timeout
