"""Write coalescing: everything queued during one loop turn is sent at once.

Callers append to `buffer` and call `wake`; no frame needs a separate task, event or system call.

    state      buffer     left by                    effect
    idle       empty      wake()                     a send is scheduled
    sending    any        the stream accepted all    idle, or the next send
    closing    any        the buffer is empty        run() returns
    dead       dropped                               drained() returns

`CoalescingWriter` sends from a task, through any byte stream. `SocketWriter` sends directly to the
socket, without waking a task: commands caused by a chunk of input at the end of its turn
(`pyjms.runtime.event_loop.Turn`), before the loop polls for more input; commands queued by a task
in the next loop turn, or immediately by `flush`. Only if the socket's buffer is full is the task
woken, which then waits until the socket is writable. The descriptor is a duplicate, so that no
buffer of the stream's transport is in between. If the socket is also read directly, the stream's
descriptor is closed, so that a connection has one file handle; with trio it has two.

Back-pressure: above the high-water mark `congested` is true and `drained()` waits until the
low-water mark. The gap between them keeps a producer from being woken for every frame.

Long values, such as message bodies, are queued separately without being copied (`splice`): a value
that many connections have to send is in memory once. The bytes that wait for one connection are
limited by its writer's high-water mark plus one frame. `UnsentBudget` limits the long values that
wait for all connections together, without blocking senders: it ends the connections of peers that
do not read.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

import anyio
from anyio.abc import ByteSendStream, ByteStream, SocketAttribute, SocketStream

from pyjms.errors import ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import Waiters
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.layers import LayeredStream

logger: Final = get_logger(__name__)

_SHORT_PATIENCE: Final = 1.0
"""Seconds that a value may wait while more than twice the allowed bytes wait."""
_SLOWEST: Final = 64 * 1024
"""Bytes per second: a peer that reads at least that fast is slow, but not ended."""


class _Value:
    """A waiting value; `held` references it, so that its `id()` is not reused."""

    __slots__ = ("connections", "held")

    def __init__(self, held: bytes) -> None:
        self.held = held
        self.connections = 1


class UnsentBudget:
    """A limit on the memory of long values that wait to be sent: `limit` bytes (0: no limit).

    While the limit is exceeded, connections with a value that has waited for `write_timeout`
    seconds are ended, the longest wait first, unless their peers read 64 KiB per second. While more
    than twice the limit waits, a value may wait for only one second. A single value is always
    allowed, however many connections have to send it. Belongs to one loop.
    """

    def __init__(self, limit: int, write_timeout: float) -> None:
        self.limit = limit
        self.write_timeout = write_timeout
        self.used: int = 0
        """Bytes of the waiting values; one that several connections have to send counts once."""
        self._values: dict[int, _Value] = {}  # by the value's id()
        self._waiting: dict[UnsentParts, float] = {}  # the start of each wait, oldest first
        self._enforcing: BackgroundTask | None = None
        self._changed: anyio.Event | None = None

    def begin(self, parts: UnsentParts, value: bytes) -> None:
        """Count a value that a connection has to send."""
        known = self._values.get(id(value))
        if known is None:
            self._values[id(value)] = _Value(value)
            self.used += len(value)
        else:
            known.connections += 1
        if parts not in self._waiting:
            self._start(parts)
        if self._exceeded:
            if self._enforcing is None or self._enforcing.done:
                self._enforcing = spawn(self._enforce, name="limit of what peers do not read")
            else:
                self._notify()

    def end(self, parts: UnsentParts, value: bytes, *, has_more: bool) -> None:
        """Stop counting a value; `has_more`: the connection has other values to send."""
        known = self._values[id(value)]
        known.connections -= 1
        if not known.connections:
            del self._values[id(value)]
            self.used -= len(value)
        self._waiting.pop(parts, None)
        if has_more:
            self._start(parts)
        self._notify()

    @property
    def _exceeded(self) -> bool:
        return bool(self.limit) and self.used > self.limit and len(self._values) > 1

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _enforce(self) -> None:
        """End connections until the limit holds; runs as a task, outside of the senders' calls."""
        while self._exceeded:
            parts, begun = next(iter(self._waiting.items()))
            patience = self.write_timeout
            if self.used > 2 * self.limit:
                patience = min(patience, _SHORT_PATIENCE)
            left = begun + patience - _clock.now()
            if left <= 0:
                self._end_or_renew(parts, patience)
                continue
            self._changed = anyio.Event()
            with _clock.timeout(left):
                await self._changed.wait()
            self._changed = None

    def _end_or_renew(self, parts: UnsentParts, patience: float) -> None:
        if patience < self.write_timeout or parts.taken < self.write_timeout * _SLOWEST:
            parts.abort(self)
            return
        del self._waiting[parts]
        self._start(parts)

    def _start(self, parts: UnsentParts) -> None:
        parts.taken = 0
        self._waiting[parts] = _clock.now()


class UnsentParts:
    """The long values that one connection has to send and the bytes between them, in order."""

    def __init__(self) -> None:
        self.waiting: deque[memoryview] = deque()
        """The parts to send; they are removed only by `remove` and `take`."""
        self.size: int = 0
        """The number of bytes to send."""
        self.taken: int = 0
        """The number of bytes sent since the budget started to count a value."""
        self._values: deque[bytes | None] = deque()  # for each part; None: not a long value
        self._budget: UnsentBudget | None = None
        self._fail: Callable[[Exception], object] = _nothing

    def count_in(self, budget: UnsentBudget, fail: Callable[[Exception], object]) -> None:
        """Start to count the values in `budget`; `fail(error)` ends the connection."""
        self._budget, self._fail = budget, fail

    def add(self, data: bytes | bytearray, value: bytes) -> None:
        """Add bytes, which must not change any more, followed by a long value."""
        if data:
            self.waiting.append(memoryview(data))
            self._values.append(None)
        self.waiting.append(memoryview(value))
        self._values.append(value)
        self.size += len(data) + len(value)
        if self._budget is not None:
            self._budget.begin(self, value)

    def remove(self, count: int) -> None:
        """Remove the next `count` bytes."""
        self.size -= count
        self.taken += count
        while count:
            first = self.waiting[0]
            if count < len(first):
                self.waiting[0] = first[count:]
                return
            count -= len(first)
            self._remove_first()

    def take(self, size: int) -> bytes:
        """Remove and return `size` bytes, or fewer if there are fewer."""
        data = bytearray()
        while self.waiting and len(data) < size:
            part = self.waiting[0][: size - len(data)]
            data += part
            self.remove(len(part))
        return bytes(data)

    def clear(self) -> None:
        """Remove everything. Idempotent."""
        while self.waiting:
            self._remove_first()
        self.size = 0

    def abort(self, budget: UnsentBudget) -> None:
        """End the connection, as its peer does not read and other connections need the memory."""
        error = ConnectionFailedException(
            f"The peer has not read a message of {len(self._long_value)} bytes in time, and "
            f"messages of {budget.used} bytes wait, while the limit is {budget.limit}",
            hint="the broker's unsent_frames_limit and frame_write_timeout set the limits",
        )
        logger.warning("Closing a connection: %s", error)
        self._fail(error)
        self.clear()

    @property
    def _long_value(self) -> bytes:
        return next((value for value in self._values if value is not None), b"")

    def _remove_first(self) -> None:
        self.waiting.popleft()
        value = self._values.popleft()
        if value is not None and self._budget is not None:
            self._budget.end(self, value, has_more=bool(self._long_value))


def _nothing(_error: Exception) -> None:
    """Do nothing: the connection is not counted."""


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
        sent = self._try_to_send(size, self._socket.send, buffer)
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
            sent = self._try_to_send(size, self._socket.sendmsg, parts)
            unsent.remove(sent)
            if sent < size:
                break
        self._notify_space()
        return not unsent.waiting

    def _try_to_send(self, size: int, send: Callable[[Any], int], data: object) -> int:
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
