"""Write coalescing: everything queued during one loop turn is sent at once.

Callers append to `buffer` and call `wake`; no frame needs a separate task, event or system call.
`CoalescingWriter` sends from a task, through any byte stream. `SocketWriter`, in `socket_writer`,
sends directly to the socket.

    state      buffer     left by                    effect
    idle       empty      wake()                     a send is scheduled
    sending    any        the stream accepted all    idle, or the next send
    closing    any        the buffer is empty        run() returns
    dead       dropped                               drained() returns

Long values are queued separately without being copied (`splice`), since other connections may have
to send them as well.

Back-pressure: above the high-water mark `congested` is true and `drained()` waits until the
low-water mark. The gap between them keeps a producer from being woken for every frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import anyio
from anyio.abc import ByteSendStream

from pyjms._clock import Waiters
from pyjms.transport.unsent import UnsentParts

__all__ = ["HIGH_WATER", "LOW_WATER", "CoalescingWriter"]

HIGH_WATER = 1024 * 1024
LOW_WATER = 256 * 1024
_CHUNK: Final = 256 * 1024
"""Bytes of a long value that are passed to a stream at a time."""


class CoalescingWriter:
    """Writes to a byte stream. Belongs to one loop."""

    def __init__(
        self, stream: ByteSendStream, high_water: int = HIGH_WATER, low_water: int = LOW_WATER
    ) -> None:
        self.buffer: bytearray = bytearray()
        self.unsent: UnsentParts = UnsentParts()
        """Long values and the bytes before them; `buffer` follows."""
        self.sending: int = 0
        """The number of bytes that are being sent."""
        self.may_answer = False
        """Whether the peer has sent something since the last send, and may await a response."""
        self._stream = stream
        self._high_water = high_water
        self._low_water = low_water
        self._closing = False
        self._dead = False
        self._wake = anyio.Event()
        self._space = Waiters()

    @property
    def congested(self) -> bool:
        """Whether more than the high-water mark is queued."""
        return self.queued > self._high_water

    @property
    def queued(self) -> int:
        """The number of bytes that the stream has not accepted yet."""
        return len(self.buffer) + self.unsent.size + self.sending

    @property
    def writing(self) -> bool:
        """Whether a send is in progress: the stream's buffer is full."""
        return self.sending > 0

    def wake(self) -> None:
        """Schedule a send of `buffer`. Cheap if a send is already scheduled."""
        self._wake.set()

    def splice(self, values: Iterable[tuple[int, bytes]]) -> None:
        """Insert long values at positions of `buffer`, in order, and schedule a send.

        They are not copied.
        """
        buffer, at = self.buffer, 0
        for position, value in values:
            self.unsent.add(buffer[at:position], value)
            at = position
        self.buffer = buffer[at:]
        self.wake()

    def flush(self) -> None:
        """Send `buffer` without waiting for more, if the peer may await a response.

        That is at most one system call per received chunk, however many callers there are.
        """

    async def run(self) -> None:
        """Send until `finish` was called and everything is sent, or the stream breaks.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError, OSError: the stream broke.
        """
        while True:
            while self.unsent.waiting or self.buffer:
                data = self._next_chunk()
                self.sending = len(data)
                await self._stream.send(data)
                self.sending = 0
                self._notify_space()
            if self._closing:
                return
            self._wake = anyio.Event()
            await self._wake.wait()

    def _next_chunk(self) -> bytes:
        if self.unsent.waiting:
            return self.next_unsent(_CHUNK)
        data = bytes(self.buffer)
        self.buffer.clear()
        return data

    def next_unsent(self, size: int) -> bytes:
        """Remove and return `size` bytes of long values and the bytes around them."""
        data = self.unsent.take(size)
        if not self.unsent.waiting:
            rest = size - len(data)
            data += self.buffer[:rest]
            del self.buffer[:rest]
        return data

    async def drained(self) -> None:
        """Wait until no more than the low-water mark is queued, or the writer was abandoned."""
        await self._space.wait_while(lambda: self.congested and not self._dead)

    def _notify_space(self) -> None:
        left = len(self.buffer) + self.unsent.size
        if self._space.event is not None and left <= self._low_water:
            self._space.wake()

    def finish(self) -> None:
        """Make `run` return once the buffer is empty."""
        self._closing = True
        self._wake.set()

    def abandon(self) -> None:
        """Drop the queued bytes and end all waits for space, because the stream is dead."""
        self._dead = True
        self.buffer.clear()
        self.unsent.clear()
        self._space.wake()
