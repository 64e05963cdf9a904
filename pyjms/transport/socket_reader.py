"""Reading straight from the socket: what comes is taken in by the loop's own callback.

No task wakes up for a chunk, where the loop can watch a descriptor (asyncio, uvloop);
elsewhere `TcpTransport` reads through the stream. The reader never reads while paused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio
from anyio.abc import ByteStream

from pyjms._wakeup import LoopHandle
from pyjms.transport.socket_writer import SocketWriter
from pyjms.transport.writer import CoalescingWriter

__all__ = ["SocketReader", "reader_for"]


def reader_for(
    stream: ByteStream,
    writer: CoalescingWriter,
    loop: LoopHandle,
    take: Callable[[bytes], bool],
    chunk: int,
) -> SocketReader | None:
    """A reader of `stream`'s socket; None where it must be read through the stream.

    That is so while the stream itself holds bytes that it has read ahead.
    """
    ahead = getattr(getattr(stream, "_protocol", None), "read_queue", None)
    if ahead is None or ahead or not isinstance(writer, SocketWriter) or not loop.watches:
        return None
    return SocketReader(loop, writer, take, chunk)


class SocketReader:
    """Hands chunks to `take`, which returns False to have it wait until `go_on`."""

    def __init__(
        self,
        loop: LoopHandle,
        writer: SocketWriter,
        take: Callable[[bytes], bool],
        chunk: int,
    ) -> None:
        self._loop = loop
        self._turn = loop.turn
        self._writer = writer
        self._socket = writer.socket
        self._receive = partial(self._socket.recv, chunk)
        self._take = take
        self._ended = anyio.Event()
        self._error: Exception | None = None
        self._unwatch: Callable[[], object] | None = None

    async def run(self) -> None:
        """Read until the socket ends or `take` raises; that is raised. Cancellable."""
        self.go_on()
        try:
            await self._ended.wait()
        finally:
            self.wait()
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Read nothing until `go_on`. Call it before the socket is closed."""
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()

    def go_on(self) -> None:
        """Read again."""
        if self._unwatch is None and not self._ended.is_set() and self._socket.fileno() >= 0:
            self._unwatch = self._loop.watch_readable(self._socket.fileno(), self._readable)

    def end(self, error: Exception) -> None:
        """Stop for good, because of `error`."""
        self.wait()
        self._error = self._error or error
        self._ended.set()

    def _readable(self) -> None:
        self._turn.run(self._take_chunk)

    def _take_chunk(self) -> None:
        try:
            data = self._receive()
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
            if not self._take(data):
                self.wait()
        except Exception as error:
            self.end(error)
