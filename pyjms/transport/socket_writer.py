"""Write coalescing directly to the socket, without waking a task.

Commands caused by a chunk of input are sent at the end of its turn (`pyjms._wakeup.Turn`), before
the loop polls for more input; commands queued by a task are sent in the next loop turn, or
immediately by `flush`. A burst is sent with one system call. Only if the socket's buffer is full is
the task woken, which then waits until the socket is writable.

The descriptor is a duplicate, so that no buffer of the stream's transport is in between. If the
socket is also read directly (`socket_reader`), the stream's descriptor is closed, so that a
connection has one file handle; with trio it has two.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

from pyjms._wakeup import LoopHandle
from pyjms.transport.layers import LayeredStream
from pyjms.transport.writer import HIGH_WATER, LOW_WATER, CoalescingWriter

__all__ = ["LayeredSocketWriter", "SocketWriter", "writer_for"]

_PARTS: Final = 64
"""The number of parts (long values and the bytes between them) sent with one system call."""
_LAYER_CHUNK = 256 * 1024
"""Bytes that are passed through a layer at a time: a large message must not block the loop."""


def writer_for(stream: ByteStream) -> CoalescingWriter:
    """Return the best writer for `stream`.

    It writes directly to the socket of a plain socket stream or below a layer. Any other wrapping
    stream also exposes the socket at the bottom, but its bytes must pass through the stream.
    """
    plain = stream.raw if isinstance(stream, LayeredStream) else stream
    raw = plain.extra(SocketAttribute.raw_socket, None)
    # Windows does not duplicate sockets by descriptor
    if raw is None or not isinstance(plain, SocketStream) or os.name == "nt":
        return CoalescingWriter(stream)
    own_socket = socket.socket(fileno=os.dup(raw.fileno()))
    if not isinstance(stream, LayeredStream):
        return SocketWriter(stream, own_socket)
    writer = LayeredSocketWriter(stream, own_socket)
    stream.wake_writer = writer.wake
    return writer


class SocketWriter(CoalescingWriter):
    """Writes to a duplicate of the socket, which `abandon` closes. Belongs to one loop."""

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
        self._error: Exception | None = None

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
                await self._wait_writable()
                self._full = False
                self._send()
                self._notify_space()
            elif self._closing:
                return
            else:
                self._wake = anyio.Event()
                await self._wake.wait()

    async def _wait_writable(self) -> None:
        try:
            await anyio.wait_writable(self._socket)
        except RuntimeError as error:
            # uvloop, about a descriptor whose handle it has closed
            raise anyio.BrokenResourceError from error

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
        if self._dead or self._full or (self.unsent.waiting and not self._send_unsent()):
            return
        buffer = self.buffer
        if not buffer:
            return
        size = len(buffer)
        sent = self._sent(size, self._socket.send, buffer)
        if sent == size:
            buffer.clear()
            self._notify_space()
            return
        del buffer[:sent]

    def _send_unsent(self) -> bool:
        """Send the parts before `buffer`; return whether the socket has accepted all of them."""
        unsent = self.unsent
        while unsent.waiting:
            parts = list(islice(unsent.waiting, _PARTS))
            size = sum(map(len, parts))
            sent = self._sent(size, self._socket.sendmsg, parts)
            unsent.sent(sent)
            if sent < size:
                break
        self._notify_space()
        return not unsent.waiting

    def _sent(self, size: int, send: Callable[[Any], int], data: object) -> int:
        """Return how many of `size` bytes the socket accepted; if not all, wake the task."""
        try:
            sent = send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._error = error
            self._wake.set()
            return 0
        if sent < size:
            self._full = True
            self._wake.set()
        return sent


class LayeredSocketWriter(SocketWriter):
    """Writes to a socket through a layer, which also produces bytes itself."""

    def __init__(self, stream: LayeredStream, own_socket: socket.socket) -> None:
        super().__init__(stream, own_socket)
        self._layer = stream.layer
        self._encoded = b""
        self._ended = False

    def _send(self) -> None:
        self.may_answer = False
        if self._dead or self._full:
            return
        try:
            while self._encoded or self._encode():
                sent = self._socket.send(self._encoded)
                self._encoded = self._encoded[sent:]
        except BlockingIOError:
            self._full = True
            self._wake.set()
        except Exception as error:
            self._error = error
            self._wake.set()
        self.sending: int = len(self._encoded)
        self._notify_space()

    def _encode(self) -> bool:
        """Encode the next bytes to send; return whether there are any."""
        buffer = self.buffer
        if self.unsent.waiting:
            self._encoded = self._layer.send(self.next_unsent(_LAYER_CHUNK))
        elif len(buffer) > _LAYER_CHUNK:
            self._encoded = self._layer.send(buffer[:_LAYER_CHUNK])
            del buffer[:_LAYER_CHUNK]
        elif buffer:
            self._encoded = self._layer.send(buffer)
            buffer.clear()
        else:
            self._encoded = self._layer.outgoing()
            if self._closing and not self._ended and not self._encoded:
                self._ended = True
                self._encoded = self._layer.close()
        return bool(self._encoded)
