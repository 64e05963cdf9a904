"""The memory budget for incomplete frames of all connections together.

A frame that is larger than one read counts with its whole size from its first to its last byte. If
there is no room for another frame, connections whose frames take longer than `read_timeout` are
ended, oldest first; if that is not enough, the connection of the new frame is ended.

Messages that have arrived and wait for space in the broker share this memory. Their connections are
never ended: while they leave no room, connections with a new large frame are not read.
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms.errors import RemoteProtocolError
from pyjms.wire.limits import LARGE_FRAME

__all__ = ["FrameBudget", "UnfinishedFrame"]


class FrameBudget:
    """A limit of `limit` bytes (0: no limit) on incomplete frames. Belongs to one loop.

    `read_timeout`: how many seconds a frame may take while others need its memory. `now()` returns
    the time.
    """

    def __init__(self, limit: int, read_timeout: float, now: Callable[[], float]) -> None:
        self._now = now
        self.limit = limit
        self.read_timeout = read_timeout
        self.used: int = 0
        self.held: int = 0
        """Bytes of messages that have arrived and wait for space in the broker."""
        self._frames: dict[UnfinishedFrame, float] = {}  # start times, oldest first
        self._waiting: dict[UnfinishedFrame, int] = {}  # sizes of frames without room yet

    def begin(self, frame: UnfinishedFrame, size: int) -> None:
        """Start to count a frame, at once or as soon as waiting messages leave room for it.

        Raises:
            RemoteProtocolError: other frames leave no room for it.
        """
        if self.limit and self.used + size > self.limit:
            self._end_overdue(size)
        # a single frame is always allowed: otherwise a small limit would refuse all
        others = self._frames.keys() - {frame.sibling}
        if self.limit and others and self.used + size > self.limit:
            raise RemoteProtocolError(
                f"No memory for a frame of {size} bytes: {len(self._frames)} others have arrived "
                f"in part, with {self.used} of {self.limit} bytes"
            )
        if frame.can_wait and not self._has_room(size):
            self._waiting[frame] = size
            frame.pause()
        else:
            self._count(frame, size)

    def end(self, frame: UnfinishedFrame, size: int) -> None:
        """Stop counting a frame."""
        if self._frames.pop(frame, None) is not None:
            self.used -= size
            self._resume_waiting()
        else:
            self._waiting.pop(frame, None)

    def hold(self, size: int) -> None:
        """Count a message that has arrived and waits."""
        self.held += size

    def release(self, size: int) -> None:
        """Stop counting such a message."""
        self.held -= size
        self._resume_waiting()

    @property
    def exceeded(self) -> bool:
        """Whether waiting messages exceed the limit."""
        return bool(self.limit) and self.held > self.limit

    def _has_room(self, size: int) -> bool:
        return not (self.limit and self.held) or self.used + self.held + size <= self.limit

    def _count(self, frame: UnfinishedFrame, size: int) -> None:
        self.used += size
        self._frames[frame] = self._now()

    def _resume_waiting(self) -> None:
        for frame, size in list(self._waiting.items()):
            if not self._has_room(size):
                return
            del self._waiting[frame]
            self._count(frame, size)
            frame.resume()

    def _end_overdue(self, size: int) -> None:
        latest = self._now() - self.read_timeout
        for frame, begun in list(self._frames.items()):
            if begun > latest or self.used + size <= self.limit:
                return
            frame.abort()


class UnfinishedFrame:
    """The large incomplete frame of one connection, if there is one."""

    def __init__(self, budget: FrameBudget) -> None:
        self._budget = budget
        self._size = 0
        self._number = -1
        self.fail: Callable[[RemoteProtocolError], object] = _nothing
        """Ends the connection."""
        self.sibling: UnfinishedFrame | None = None
        """The frame of the same connection in another layer, such as WebSocket."""
        self.pause: Callable[[], object] = _no_call
        """Pauses reading until `resume` is called; see `can_wait`."""
        self.resume: Callable[[], object] = _no_call

    @property
    def can_wait(self) -> bool:
        """Whether `pause` and `resume` are set."""
        return self.pause is not _no_call

    def update(self, number: int, size: int) -> None:
        """Record that frame `number`, of `size` bytes, is incomplete; size 0: there is none.

        Raises:
            RemoteProtocolError: there is no room for it.
        """
        if number == self._number and size == self._size:
            return
        self.close()
        if size > LARGE_FRAME:
            self._budget.begin(self, size)
            self._number, self._size = number, size

    def abort(self) -> None:
        """End the connection, because its frame takes too long and others need the memory."""
        size = self._size
        self.close()
        self.fail(
            RemoteProtocolError(
                f"A frame of {size} bytes was not complete after {self._budget.read_timeout:g} s, "
                "and others need its memory"
            )
        )

    def close(self) -> None:
        """Stop counting. Idempotent."""
        size, self._size, self._number = self._size, 0, -1
        if size:
            self._budget.end(self, size)


def _nothing(_error: RemoteProtocolError) -> None:
    """Do nothing: the connection is not open yet."""


def _no_call() -> None:
    """Do nothing: the connection cannot pause."""
