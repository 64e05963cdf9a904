"""Direct reads from the socket, in a callback of the event loop.

Waking a task for each chunk costs about as much as decoding it. If the loop can watch a descriptor
(asyncio, uvloop), `SocketReader` registers a callback instead, and one task only waits for the end.
Otherwise (trio, Windows) `TcpTransport` reads through the stream. Layers such as TLS are applied to
each chunk in the same callback.

- The descriptor is the writer's duplicate; asyncio does not watch one that a stream owns. The
  stream's descriptor is closed when reading begins, so that a connection has one file handle.
- Each chunk is one `Turn` (`pyjms._wakeup`): all sends that it causes are made at its end, in one
  system call.
- While paused the descriptor is not watched, so the kernel's buffer fills and the peer stops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio
from anyio.abc import ByteStream

from pyjms._wakeup import LoopHandle
from pyjms.transport.layers import LayeredStream, receiver_through
from pyjms.transport.socket_writer import SocketWriter
from pyjms.transport.writer import CoalescingWriter

__all__ = ["SocketReader", "reader_for"]


def reader_for(
    stream: ByteStream,
    writer: CoalescingWriter,
    loop: LoopHandle,
    receive: Callable[[bytes], bool],
    chunk: int,
) -> SocketReader | None:
    """Return a reader of `stream`'s socket, or None if it must be read through the stream.

    None is temporary while the stream has read ahead: bytes, or the end of the connection.
    `receive` is called with each chunk, of at most `chunk` bytes. If a reader is returned, `stream`
    is closed: from then on only the writer's socket keeps the connection open.
    """
    if isinstance(stream, LayeredStream):
        if stream.ahead or stream.layer.error is not None:
            return None
        receive = receiver_through(stream.layer, writer.wake, receive)
        stream = stream.raw
    ahead = getattr(getattr(stream, "_protocol", None), "read_queue", None)
    if ahead is None or ahead or not isinstance(writer, SocketWriter) or not loop.watches:
        return None
    getattr(stream, "_transport").abort()  # noqa: B009 - private to anyio
    return SocketReader(loop, writer, receive, chunk)


class SocketReader:
    """Passes chunks to `receive`, which returns False to pause reading until `resume()`."""

    def __init__(
        self,
        loop: LoopHandle,
        writer: SocketWriter,
        receive: Callable[[bytes], bool],
        chunk: int,
    ) -> None:
        self._loop = loop
        self._turn = loop.turn
        self._writer = writer
        self._socket = writer.socket
        self._recv = partial(self._socket.recv, chunk)
        self._receive = receive
        self._ended = anyio.Event()
        self._error: Exception | None = None
        self._unwatch: Callable[[], object] | None = None

    async def run(self) -> None:
        """Read until the connection ends or `receive` raises; raise that error. Cancellable."""
        self.resume()
        try:
            await self._ended.wait()
        finally:
            self.pause()
        if self._error is not None:
            raise self._error

    def pause(self) -> None:
        """Stop reading until `resume()`. Call it before the socket is closed."""
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()

    def resume(self) -> None:
        """Resume reading."""
        if self._unwatch is None and not self._ended.is_set() and self._socket.fileno() >= 0:
            # the loop calls the turn itself, which reads
            read = partial(self._turn.run, self._read_chunk)
            self._unwatch = self._loop.watch_readable(self._socket.fileno(), read)

    def end(self, error: Exception) -> None:
        """Stop reading for good; `run` raises `error`."""
        self.pause()
        self._error = self._error or error
        self._ended.set()

    def _read_chunk(self) -> None:
        try:
            data = self._recv()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.end(error)
            return
        if not data:
            self.end(anyio.EndOfStream())
            return
        self._writer.may_answer = True
        try:
            if not self._receive(data):
                self.pause()
        except Exception as error:
            self.end(error)
