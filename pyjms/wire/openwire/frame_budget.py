"""Memory for frames that have arrived in part, of all connections together.

A frame that is larger than what is read at once counts with its whole size from its beginning to
its end. When there is no room for another one, those that take longer than `read_timeout` are
ended, oldest first; if that does not help, the new one is refused. Either ends its connection.

Messages that have arrived and wait for space in the broker have the same memory. They are never
ended: while they leave no room, connections with a new large frame are read no further.
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms.errors import RemoteProtocolError
from pyjms.wire.limits import LARGE_FRAME

__all__ = ["FrameBudget", "UnfinishedFrame"]


class FrameBudget:
    """At most `limit` bytes (0: no limit) of unfinished frames. Belongs to one loop.

    `read_timeout` is how long a frame may take, in seconds, while others wait for its memory;
    `now()` returns the time.
    """

    def __init__(self, limit: int, read_timeout: float, now: Callable[[], float]) -> None:
        self._now = now
        self.limit = limit
        self.read_timeout = read_timeout
        self.used: int = 0
        self.held: int = 0
        """Bytes of messages that have arrived and wait."""
        self._frames: dict[UnfinishedFrame, float] = {}  # to its begin, oldest first
        self._waiting: dict[UnfinishedFrame, int] = {}  # to its size; they have no room yet

    def begin(self, frame: UnfinishedFrame, size: int) -> None:
        """Count a frame from now on, or as soon as messages that wait leave room for it.

        Raises:
            RemoteProtocolError: other frames leave no room for it.
        """
        if self.limit and self.used + size > self.limit:
            self._end_overdue(size)
        # one connection always has room, or a small limit would refuse all
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
        """Count a frame no longer."""
        if self._frames.pop(frame, None) is not None:
            self.used -= size
            self._resume_waiting()
        else:
            self._waiting.pop(frame, None)

    def hold(self, size: int) -> None:
        """Count a message that has arrived and waits."""
        self.held += size

    def release(self, size: int) -> None:
        """Count it no longer."""
        self.held -= size
        self._resume_waiting()

    @property
    def exceeded(self) -> bool:
        """Whether messages that wait have more than the limit."""
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
    """The frame of one connection that has begun to arrive, if it is large."""

    def __init__(self, budget: FrameBudget) -> None:
        self._budget = budget
        self._size = 0
        self._number = -1
        self.fail: Callable[[RemoteProtocolError], object] = _nothing
        """Ends the connection."""
        self.sibling: UnfinishedFrame | None = None
        """The frame of the same connection in another layer, such as WebSocket."""
        self.pause: Callable[[], object] = _no_call
        """Reads no further until `resume` is called; see `can_wait`."""
        self.resume: Callable[[], object] = _no_call

    @property
    def can_wait(self) -> bool:
        """Whether `pause` and `resume` are set."""
        return self.pause is not _no_call

    def update(self, number: int, size: int) -> None:
        """Note that frame `number`, of `size` bytes, is not complete; size 0: no frame is.

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
        """End the connection: the frame takes too long, and others need its memory."""
        size = self._size
        self.close()
        self.fail(
            RemoteProtocolError(
                f"A frame of {size} bytes was not complete after {self._budget.read_timeout:g} s, "
                "and others need its memory"
            )
        )

    def close(self) -> None:
        """Count nothing from now on. Idempotent."""
        size, self._size, self._number = self._size, 0, -1
        if size:
            self._budget.end(self, size)


def _nothing(_error: RemoteProtocolError) -> None:
    """The connection is not open yet."""


def _no_call() -> None:
    """The connection cannot wait."""
