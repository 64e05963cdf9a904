"""Limits on the memory that a peer can cause to be allocated; exceeding one is the peer's error.

A reader rejects every count that the rest of the frame cannot contain. The number of elements is
also limited, since a small value needs many times its size once it is decoded. (decisions D15)

`FrameBudget` limits the incomplete frames of all connections together. A frame that is larger than
one read counts with its whole size from its first to its last byte. If there is no room for another
frame, connections whose frames take longer than `read_timeout` are ended, oldest first; if that is
not enough, the connection of the new frame is ended.

Messages that have arrived and wait for space in the broker share this memory. Their connections are
never ended: while they leave no room, connections with a new large frame are not read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from pyjms.errors import RemoteProtocolError

# The stock broker's maxFrameSize; the Java client alone has no limit.
MAX_FRAME_SIZE: Final = 104857600
# Smaller incomplete frames are not counted: a connection has at most one of them.
LARGE_FRAME: Final = 65536
# For the WireFormatInfo, which is much smaller; larger frames are refused before negotiation.
MAX_NEGOTIATION_SIZE: Final = 65536
# ActiveMQ 5.17 reads at most 4096 entries of a WireFormatInfo.
MAX_NEGOTIATION_VALUES: Final = 4096
# The deepest structure of a real conversation is 5 (dispatch, advisory, info, path, id).
MAX_NESTING_DEPTH: Final = 64
# Elements of one array or stack trace, whose count is an i16.
MAX_COUNT: Final = 0x7FFF
# Structures, array elements and stack trace elements of one frame.
MAX_STRUCTURES: Final = 100000
# Values in one map or stream, including nested ones, of a body, which the client decodes.
MAX_VALUES: Final = 10000000
# The same for the properties of one message, which the broker decodes on its event loop.
MAX_PROPERTY_VALUES: Final = 100000
# A field string has a u16 byte count.
MAX_STRING_SIZE: Final = 65535
# ActiveMQ's tight writer refuses longer strings; its reader takes the count as i16.
MAX_TIGHT_STRING_SIZE: Final = 32766
# Cache indexes are i16; a negotiated size of 0 means this.
MAX_CACHE_SIZE: Final = 16383
# activemq-broker 6 stops inflating a body here.
MAX_INFLATED_SIZE: Final = 104857600

_SIZE: Final = 4


def inflate(data: bytes, limit: int = MAX_INFLATED_SIZE) -> bytes:
    """Return the content of a zlib stream of at most `limit` bytes.

    Never allocates more than `limit` + 1 bytes. Bytes after the stream are ignored, as by Java's
    InflaterInputStream. A truncated stream is accepted: Artemis writes such streams, and a Java
    client reads only as far as the lengths in the content require.

    Raises:
        RemoteProtocolError: the stream is damaged or inflates to more than `limit`.
    """
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(data, limit + 1)
    except zlib.error as e:
        raise RemoteProtocolError(f"Compressed body is damaged: {e}") from e
    if len(content) > limit:
        raise RemoteProtocolError(f"Compressed body inflates to more than {limit} bytes")
    return content


def inflate_sized(data: bytes, limit: int = MAX_INFLATED_SIZE) -> bytes:
    """Return the content of a BytesMessage's compressed body: its size, and a zlib stream.

    The stream may contain more than the body: Java deflates its whole buffer.

    Raises:
        RemoteProtocolError: as for `inflate`, or the stream contains less than the declared size.
    """
    length = int.from_bytes(data[:_SIZE], "big")
    content = inflate(data[_SIZE:], limit)
    if len(data) < _SIZE or len(content) < length:
        raise RemoteProtocolError(f"Compressed body holds {len(content)} bytes instead of {length}")
    return content[:length]


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
        """Bytes of messages that have arrived and wait for space in the broker.

        Whoever reduces it calls `resume_waiting` if there are `waiting` frames.
        """
        self._frames: dict[UnfinishedFrame, float] = {}  # start times, oldest first
        self.waiting: dict[UnfinishedFrame, int] = {}
        """The frames without room yet, with their sizes."""

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
            self.waiting[frame] = size
            frame.pause()
        else:
            self._count(frame, size)

    def end(self, frame: UnfinishedFrame, size: int) -> None:
        """Stop counting a frame."""
        if self._frames.pop(frame, None) is not None:
            self.used -= size
            self.resume_waiting()
        else:
            self.waiting.pop(frame, None)

    @property
    def exceeded(self) -> bool:
        """Whether waiting messages exceed the limit."""
        return bool(self.limit) and self.held > self.limit

    def _has_room(self, size: int) -> bool:
        return not (self.limit and self.held) or self.used + self.held + size <= self.limit

    def _count(self, frame: UnfinishedFrame, size: int) -> None:
        self.used += size
        self._frames[frame] = self._now()

    def resume_waiting(self) -> None:
        """Start to count the waiting frames, as far as there is room for them."""
        for frame, size in list(self.waiting.items()):
            if not self._has_room(size):
                return
            del self.waiting[frame]
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
