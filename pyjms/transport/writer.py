"""Write coalescing: what is queued between two turns of the loop goes out in one send.

Producers append to `buffer` and call `wake`; one task sends. No frame costs a task, an
event or a system call of its own. The high-water mark says when producers should wait.
"""

from __future__ import annotations

import anyio
from anyio.abc import ByteSendStream

__all__ = ["HIGH_WATER", "LOW_WATER", "CoalescingWriter"]

HIGH_WATER = 1024 * 1024
LOW_WATER = 256 * 1024


class CoalescingWriter:
    """The writing side of a byte stream. Belongs to one loop."""

    def __init__(
        self, stream: ByteSendStream, high_water: int = HIGH_WATER, low_water: int = LOW_WATER
    ) -> None:
        self.buffer = bytearray()
        self.sending = 0
        """Bytes that the task is sending now."""
        self.may_answer = False
        """Whether the peer has sent something since our last send: it may wait for an answer."""
        self._stream = stream
        self._high_water = high_water
        self._low_water = low_water
        self._closing = False
        self._dead = False
        self._wake = anyio.Event()
        self._room: anyio.Event | None = None

    @property
    def congested(self) -> bool:
        """Whether more is waiting than the high-water mark."""
        return len(self.buffer) + self.sending > self._high_water

    @property
    def writing(self) -> bool:
        """Whether a send is under way: the stream takes no more for now."""
        return self.sending > 0

    def wake(self) -> None:
        """Have the task send what `buffer` holds. Cheap when it is awake already."""
        self._wake.set()

    def flush(self) -> None:
        """Send what `buffer` holds without waiting for more, if the peer may wait for it.

        That is at most one system call for each chunk that came in, however many callers.
        """

    async def run(self) -> None:
        """Send until `finish` was called and all is sent, or the stream breaks.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError, OSError: it broke.
        """
        while True:
            while self.buffer:
                data = bytes(self.buffer)
                self.buffer.clear()
                self.sending = len(data)
                await self._stream.send(data)
                self.sending = 0
                self._tell_room()
            if self._closing:
                return
            self._wake = anyio.Event()
            await self._wake.wait()

    async def drained(self) -> None:
        """Wait until no more than the low-water mark is waiting, or the writer is dead."""
        while self.congested and not self._dead:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    def _tell_room(self) -> None:
        if self._room is not None and len(self.buffer) <= self._low_water:
            self._room.set()
            self._room = None

    def finish(self) -> None:
        """Let `run` end once the buffer is empty."""
        self._closing = True
        self._wake.set()

    def abandon(self) -> None:
        """Drop what waits, and let nobody wait for room: the stream is dead."""
        self._dead = True
        self.buffer.clear()
        if self._room is not None:
            self._room.set()
            self._room = None
