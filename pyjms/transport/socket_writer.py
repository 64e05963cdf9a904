"""Write coalescing directly to the socket, without waking a task.

What a chunk of input causes is sent at the end of its turn (`pyjms._wakeup.Turn`), before the
loop looks for more input; what a task queues, in the loop's next pass, or immediately by
`flush`. A burst leaves in one send. Only a socket that takes no more wakes the task, which then
waits until the socket is writable.

The descriptor is our own duplicate, so that no buffer of the stream's transport lies in between.
Where the socket is read directly, too (`socket_reader`), the stream's own is closed, so that a
connection has one file handle; with trio it has two.
"""

from __future__ import annotations

import os
import socket

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

from pyjms._wakeup import LoopHandle
from pyjms.transport.writer import HIGH_WATER, LOW_WATER, CoalescingWriter

__all__ = ["SocketWriter", "writer_for"]


def writer_for(stream: ByteStream) -> CoalescingWriter:
    """Return the best writer for `stream`: directly to its socket if it is a plain one.

    A stream around another one (TLS) also names the socket at the bottom, but its bytes must
    pass through the stream.
    """
    raw = stream.extra(SocketAttribute.raw_socket, None)
    # Windows does not duplicate sockets by descriptor
    if raw is None or not isinstance(stream, SocketStream) or os.name == "nt":
        return CoalescingWriter(stream)
    return SocketWriter(stream, socket.socket(fileno=os.dup(raw.fileno())))


class SocketWriter(CoalescingWriter):
    """Writes to a socket of its own, which `abandon` closes. Belongs to one loop."""

    def __init__(
        self,
        stream: ByteStream,
        own_socket: socket.socket,
        high_water: int = HIGH_WATER,
        low_water: int = LOW_WATER,
    ) -> None:
        super().__init__(stream, high_water, low_water)
        own_socket.setblocking(False)
        self._socket = own_socket
        self._turn = LoopHandle().turn
        self._scheduled = False
        self._full = False
        self._error: OSError | None = None

    @property
    def socket(self) -> socket.socket:
        """The duplicate of the stream's socket; the reader reads from it, too."""
        return self._socket

    @property
    def writing(self) -> bool:
        return self._full

    def wake(self) -> None:
        if not self._scheduled and not self._full:
            self._scheduled = True
            self._turn.send(self._flush)

    def flush(self) -> None:
        if self.may_answer:
            self._send()

    async def run(self) -> None:
        while True:
            if self._closing and not self._full:
                self._send()
            if self._error is not None:
                raise self._error
            if self._full:
                await anyio.wait_writable(self._socket)
                self._full = False
                self._send()
                self._notify_space()
            elif self._closing:
                return
            else:
                self._wake = anyio.Event()
                await self._wake.wait()

    def abandon(self) -> None:
        super().abandon()
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()

    def _flush(self) -> None:
        self._scheduled = False
        self._send()

    def _send(self) -> None:
        self.may_answer = False
        buffer = self.buffer
        if not buffer or self._dead or self._full:
            return
        try:
            sent = self._socket.send(buffer)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._error = error
            self._wake.set()
            return
        if sent == len(buffer):
            buffer.clear()
            self._notify_space()
            return
        del buffer[:sent]
        self._full = True
        self._wake.set()
