"""Commands of any wire format over a byte stream, as a rule a TCP socket.

The same class is used for a client's connection, which `start()` opens, and for one that a broker
has accepted (`accepted_tcp`). It is independent of the protocol: a wire format
(`pyjms.wire.format`) converts chunks to commands and back.

Reading. Waking a task for each chunk costs about as much as decoding it. So if the loop can watch a
descriptor (asyncio, uvloop), its callback reads a chunk, decodes it and passes each command to the
listener by a plain call (`SocketReader`), and one task only waits for the end. Otherwise (trio,
Windows), and while the stream has bytes that it has read ahead, a task does the same through the
stream. Layers such as TLS are applied to each chunk in the same callback.

- The descriptor is the writer's duplicate; asyncio does not watch one that a stream owns. The
  stream's descriptor is closed when reading begins, so that a connection has one file handle.
- Each chunk is one `Turn` (`pyjms.runtime.event_loop`): all sends that it causes are made at its
  end, in one system call.
- While the listener has paused reading, decoded commands stay in `_received` and nothing more is
  read: the kernel's buffer fills, so that back-pressure reaches the peer.

Writing. `oneway` encodes into the buffer of the writer, which sends it once per loop turn, so that
no frame needs a separate task, event or system call.

    state      buffer     left by                    effect
    idle       empty      wake()                     a send is scheduled
    sending    any        the stream accepted all    idle, or the next send
    closing    any        the buffer is empty        run() returns
    dead       dropped                               drain() returns

- `CoalescingWriter` sends from a task, through any byte stream. `SocketWriter` sends directly to
  the socket, without waking a task: commands caused by a chunk of input at the end of its turn,
  before the loop polls for more input; commands queued by a task in the next loop turn, or
  immediately by `flush`. Only if the socket's buffer is full is the task woken, which then waits
  until the socket is writable. The descriptor is a duplicate, so that no buffer of the stream's
  transport is in between; with trio a connection has two file handles.
- Back-pressure: above the high-water mark `congested` is true and `drain()` waits until the
  low-water mark. The gap between them keeps a producer from being woken for every frame.
- Long values, such as message bodies, are queued separately without being copied: see
  `pyjms.transport.unsent`.

Failure. All errors of the reader, the writer, the wire format and the listener are passed to
`fail`, which reports the first one to `listener.on_exception`, unless `stop()` was called before. A
protocol error of the peer is reported after the commands that preceded it.

Silence. `wait_for_silence` detects a silent peer, and sends keep-alives so that the peer detects no
silence. One task per connection compares two counters with their values at its previous check, so
no command needs a timestamp.

- Nothing written since the last check: a keep-alive is sent, unless a write is in progress: then
  enough bytes are waiting for the peer to see that this side is alive.
- Nothing received since the last check: the peer is silent, unless this side has paused reading.
- After a long halt (a suspended machine) the next check is due a whole period later, so that two
  checks never follow each other without time for the peer to send.

(activemq-edges I2, I3, ST13)
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, TypeVar

import anyio
from anyio.abc import ByteSendStream, ByteStream, SocketAttribute, SocketStream

from pyjms.errors import (
    ConnectionFailedException,
    ProtocolViolation,
    RemoteProtocolError,
    UnusedConnectionException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import Waiters
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, end_tasks, spawn, with_cleanup
from pyjms.runtime.fork import Inheritance, inherits, let_go_of_socket
from pyjms.runtime.logging import get_logger
from pyjms.runtime.turn import Turn
from pyjms.transport.base import Transport
from pyjms.transport.layers import LayeredStream, receiver_through
from pyjms.transport.options import (
    TcpOptions,
    apply_options,
    certificate_of,
    peer_address,
    read_on_demand,
    set_of_stream,
    set_option,
)
from pyjms.transport.unsent import UnsentBudget, UnsentParts
from pyjms.wire.format import SharingWireFormat, WireFormat
from pyjms.wire.limits import UnfinishedFrame

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

logger: Final = get_logger(__name__)

HIGH_WATER = 1024 * 1024
LOW_WATER = 256 * 1024
EARLY_BYTES: Final = 32 * 1024
"""With `flush`, more bytes are sent at once: the peer works on them while a long unit of work, as a
transaction, is still being queued."""
_VALUE_CHUNK: Final = 256 * 1024
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
        self.high_water: int = high_water
        self._low_water = low_water
        self._closing = False
        self._dead = False
        self._wake = anyio.Event()
        self._space = Waiters()

    @property
    def congested(self) -> bool:
        """Whether more than the high-water mark is queued."""
        return self.queued > self.high_water

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

    def send_now(self) -> None:
        """Send `buffer` as far as the stream accepts it at once; the rest later."""
        self.wake()

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
        """Send `buffer` without waiting for more, if the peer may await a response or it is long.

        That is at most one system call per received chunk, or per `EARLY_BYTES`, however many
        callers there are.
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
            return self.next_unsent(_VALUE_CHUNK)
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

    async def drain(self) -> None:
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
            self._turn.send(self.send_now)

    def flush(self) -> None:
        if self.may_answer or len(self.buffer) >= EARLY_BYTES:
            self.send_now()

    async def run(self) -> None:
        while True:
            if self._closing and not self._full:
                self.send_now()
            if self._error is not None:
                raise self._error
            if self._full:
                await self._wait_writable()
                self._full = False
                self.send_now()
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

    def send_now(self) -> None:
        self._scheduled = self.may_answer = False
        if self._dead or self._full or (self.unsent.waiting and not self._send_unsent()):
            return
        buffer = self.buffer
        if not buffer:
            return
        try:
            sent = self._socket.send(buffer)
        except OSError as error:
            self._on_refusal(error)
            return
        if sent < len(buffer):
            del buffer[:sent]
            self._on_refusal(None)
            return
        buffer.clear()
        if self._space.event is not None:
            self._notify_space()

    def _send_unsent(self) -> bool:
        """Send the parts before `buffer`; return whether the socket has accepted all of them."""
        unsent = self.unsent
        while unsent.waiting:
            parts = list(islice(unsent.waiting, _PARTS))
            try:
                sent = self._socket.sendmsg(parts)
            except OSError as error:
                self._on_refusal(error)
                break
            unsent.remove(sent)
            if sent < sum(map(len, parts)):
                self._on_refusal(None)
                break
        self._notify_space()
        return not unsent.waiting

    def _on_refusal(self, error: OSError | None) -> None:
        """Wake the task, as the socket has not accepted everything, or is broken."""
        if error is None or isinstance(error, BlockingIOError):
            self._full = True
        else:
            self._error = error
        self._wake.set()


class LayeredSocketWriter(SocketWriter):
    """Writes to a socket through a layer, which also produces bytes itself."""

    def __init__(self, stream: LayeredStream, own_socket: socket.socket) -> None:
        super().__init__(stream, own_socket)
        self._layer = stream.layer
        self._encoded = b""
        self._ended = False

    def send_now(self) -> None:
        self._scheduled = self.may_answer = False
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
        self._turn.end_with(self._ended.set)

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


CLOSE_TIMEOUT = 5.0
"""Seconds that `stop()` waits for a slow peer to read the queued bytes."""
_CHUNK = 65536

C = TypeVar("C")


async def open_socket(host: str, port: int, options: TcpOptions, url: str) -> ByteStream:
    """Open a socket to `host` and `port`; error messages name `url`.

    Raises:
        ConnectionFailedException: the connection is refused, or not established within
            `options.connection_timeout` seconds.
    """
    if options.use_local_host and host == socket.gethostname():
        host = "localhost"
    try:
        with _clock.timeout(options.connection_timeout):
            return await anyio.connect_tcp(host, port)
    except OSError as error:
        raise ConnectionFailedException(
            f"Could not connect to broker URL: {url}. Reason: {_reason(error)}",
            hint="is the host name right?"
            if isinstance(error, socket.gaierror)
            else "is a broker running there, and is the port right?",
        ) from error
    raise ConnectionFailedException(
        f"Could not connect to broker URL: {url}. Reason: no answer within "
        f"{options.connection_timeout:g} s",
        hint="option connectionTimeout (ms) sets the limit",
    )


def _reason(error: OSError) -> str:
    """Return the system's error text; if several addresses were tried, that of the last one."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    found = cause if isinstance(cause, OSError) else error
    if found.errno is not None and found.errno > 0:
        return os.strerror(found.errno)  # asyncio and trio have different texts
    return found.strerror or str(found)


class TcpTransport(Transport[C]):
    """Carries commands over a byte stream that is open already or that `start()` opens.

    Give either `stream`, which is connected, or `connect`, which opens a stream. `secure` makes a
    handshake on a connected stream and returns the stream to use instead. A plain socket stream, or
    a `LayeredStream` above one, is read and written directly on the socket, any other stream
    through its methods. Socket options are set if there is a socket below. `on_closed` is called
    when nothing more is read, possibly twice. `refusal_hint` is the hint of the error if the peer
    ends the connection before it has sent anything.
    """

    def __init__(
        self,
        wire_format: WireFormat[C],
        options: TcpOptions,
        *,
        stream: ByteStream | None = None,
        connect: Callable[[], Awaitable[ByteStream]] | None = None,
        secure: Callable[[ByteStream], Awaitable[ByteStream]] | None = None,
        remote_address: str = "",
        refusal_hint: str = "",
        on_closed: Callable[[], object] | None = None,
    ) -> None:
        self.wire_format = wire_format
        self._encode: Callable[[bytearray, C], Iterable[tuple[int, bytes]] | None] = (
            wire_format.encode_shared
            if isinstance(wire_format, SharingWireFormat)
            else wire_format.encode_into
        )
        self.encode_run: Callable[[bytearray, Sequence[C], int], int] | None = None
        """Appends the frames of several commands at once, until the buffer has a number of bytes;
        returns how many. None: they are encoded singly."""
        self.unsent_budget: UnsentBudget | None = None
        """The budget that counts long values waiting to be written; set it before `start()`."""
        self.options = options
        self.receiver: Callable[[C], object] | None = None
        """Gets the commands instead of `listener`, once its filters need them no more."""
        self.list_receiver: Callable[[deque[C]], object] | None = None
        """Takes commands from the left, until there are none or it pauses reading, instead."""
        self.received_bytes: int = 0
        self.sent_commands: int = 0
        self._stream = stream
        self._connect = connect
        self._secure = secure
        self._remote = remote_address or (
            peer_address(stream) if stream is not None else "tcp://unknown"
        )
        self._writer: CoalescingWriter | None = None
        self._reader_task: BackgroundTask | None = None
        self._writer_task: BackgroundTask | None = None
        self._closer_task: BackgroundTask | None = None
        self._on_closed = on_closed
        self._refusal_hint = refusal_hint
        self._error: Exception | None = None
        self._stopped = False
        self._resumed: anyio.Event | None = None
        self._memory: anyio.Event | None = None
        self._received: deque[C] = deque()
        self._violation: RemoteProtocolError | None = None
        self._holds = False  # `buffer` begins with a held command, and no send is scheduled
        self._reader: SocketReader | None = None
        self._turn: Turn | None = None
        self._inheritance: Inheritance | None = None
        self._loop: LoopHandle

    @property
    def remote_address(self) -> str:
        return self._remote

    @property
    def writing(self) -> bool:
        """Whether a send is in progress: the socket's buffer is full."""
        return self._writer is not None and self._writer.writing

    @property
    def reading_paused(self) -> bool:
        """Whether this side has paused reading."""
        return self._resumed is not None or self._memory is not None

    async def start(self) -> None:
        if self._stopped:
            raise ConnectionFailedException(f"The transport to {self._remote} was stopped")
        if self._stream is None:
            if self._connect is None:
                raise ConnectionFailedException(
                    f"The transport to {self._remote} has neither a stream nor a way to open one"
                )
            self._stream = await self._connect()
        if self._secure is not None:
            read_on_demand(self._stream)
            self._stream = await self._secure(self._stream)
        apply_options(self._stream, self.options)
        read_on_demand(self._stream)
        self._inheritance = inherits(self)
        self._loop = LoopHandle()
        self._writer = writer_for(self._stream)
        if self.unsent_budget is not None:
            self._writer.unsent.count_in(self.unsent_budget, self._fail_unsent)
        name = f"pyjms {self._remote}"
        self._writer_task = spawn(self._writer.run, name=f"{name} writer", on_error=self.fail)
        self._reader_task = spawn(
            self._read, self._stream, name=f"{name} reader", on_error=self.fail
        )

    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        await with_cleanup(self._write_rest, partial(self._close, self._stream))

    async def _write_rest(self) -> None:
        await end_tasks(self._reader_task)
        writer = self._writer_task
        if self._writer is not None and writer is not None:
            self._writer.finish()
            with _clock.timeout(CLOSE_TIMEOUT) as flushing:
                await writer.wait()
            if flushing.cancelled_caught:
                logger.warning(
                    "%s accepted no data while closing; discarded the rest", self._remote
                )

    async def _close(self, stream: ByteStream | None) -> None:
        writer = self._writer_task
        if self._on_closed is not None:
            self._on_closed()
        if self._writer is not None:
            self._writer.abandon()
        if writer is not None:
            writer.cancel()
        if stream is not None:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)
                for task in (writer, self._closer_task):
                    if task is not None:
                        await task.wait()
        self._inheritance = None

    def oneway(self, command: C) -> None:
        writer = self._writer
        if writer is None or self._stopped or self._error is not None:
            raise self._unusable()
        if not writer.buffer and not self._holds:
            writer.wake()
        shared = self._encode(writer.buffer, command)
        self.sent_commands += 1
        if shared:
            writer.splice(shared)
        if self._holds:
            self._holds = False
            writer.send_now()

    @property
    def run_room(self) -> int:
        writer = self._writer
        if self.encode_run is None or writer is None or self._stopped or self._error is not None:
            return 0
        return max(0, writer.high_water - writer.queued)

    def oneway_run(self, commands: Sequence[C]) -> int:
        writer, encode = self._writer, self.encode_run
        if encode is None or writer is None or self._holds or not self.run_room:
            return 0
        if not writer.buffer:
            writer.wake()
        most = writer.high_water - writer.unsent.size - writer.sending
        count = encode(writer.buffer, commands, most)
        self.sent_commands += count
        return count

    def hold(self, command: C) -> None:
        writer = self._writer
        if (
            writer is None
            or self._stopped
            or self._error is not None
            or (writer.buffer and not self._holds)  # these bytes are sent soon
        ):
            self.oneway(command)
            return
        self._holds = True
        shared = self._encode(writer.buffer, command)
        if shared:
            writer.splice(shared)

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def defer(self, function: Callable[[], object]) -> bool:
        turn = self._turn
        if turn is None or not turn.is_open:
            return False
        turn.late.append(function)
        return True

    @property
    def queued_bytes(self) -> int | None:
        return None if self._writer is None else self._writer.queued

    @property
    def congested(self) -> bool:
        writer = self._writer  # written out, because it is asked after each command
        return writer is not None and (
            len(writer.buffer) + writer.unsent.size + writer.sending > writer.high_water
        )

    async def drain(self) -> None:
        if self._writer is not None:
            await self._writer.drain()

    def pause_reading(self) -> None:
        if self._resumed is None:
            self._resumed = anyio.Event()

    def resume_reading(self) -> None:
        paused, self._resumed = self._resumed, None
        self._end(paused)

    def wait_for_memory(self) -> None:
        """Stop reading until `has_memory`, as there is no memory for the frame that has begun."""
        self._memory = self._memory or anyio.Event()

    def has_memory(self) -> None:
        """Resume reading, unless reading is paused as well."""
        paused, self._memory = self._memory, None
        self._end(paused)

    def _end(self, pause: anyio.Event | None) -> None:
        if pause is not None:
            pause.set()
            self._continue_soon()

    def _continue_soon(self) -> None:
        if self._reader is not None:
            self._loop.call_next(self._continue_reading)

    def on_fork(self) -> None:
        """Close this process's copy of the socket in a forked child; it belongs to the parent."""
        stream, writer = self._stream, self._writer
        sockets = [] if stream is None else [stream.extra(SocketAttribute.raw_socket, None)]
        if isinstance(writer, SocketWriter):
            sockets.append(writer.socket)
        for raw in sockets:
            if raw is not None and raw.fileno() >= 0:
                let_go_of_socket(raw.fileno())

    def set_tcp_no_delay(self, on: bool) -> None:
        """Disable (`on`) or enable Nagle's algorithm, unless option `tcpNoDelay` was given."""
        if self.options.tcp_no_delay is not None:
            return
        if isinstance(self._writer, SocketWriter):
            set_option(self._writer.socket, socket.IPPROTO_TCP, socket.TCP_NODELAY, int(on))
        elif self._stream is not None:
            set_of_stream(self._stream, socket.IPPROTO_TCP, socket.TCP_NODELAY, int(on))

    def fail(self, error: BaseException) -> None:
        """End the transport because of `error` and report it to the listener.

        Only the first call has an effect, and none after `stop()`.
        """
        if self._error is not None or self._stopped:
            return
        self._error = failure = self._as_failure(error)
        if self._on_closed is not None:
            self._on_closed()
        if self._reader is not None:
            self._reader.pause()
        if self._writer is not None:
            self._writer.abandon()
        if self._reader_task is not None:
            self._reader_task.cancel()
        if self._writer_task is not None:
            # not in this task, which anyio would format: a host may have lost all its connections
            self._loop.call_next(self._writer_task.cancel)
        if self._stream is not None:
            self._closer_task = spawn(
                anyio.aclose_forcefully, self._stream, name=f"pyjms {self._remote} closer"
            )
        self.listener.on_exception(failure)

    def _fail_unsent(self, error: Exception) -> None:
        """End the transport because its peer does not read, even while it is being stopped."""
        self.fail(error)
        if self._writer is not None:
            self._writer.abandon()

    async def _read(self, stream: ByteStream) -> None:
        """Read through the stream until its socket can be read directly, if it can."""
        assert self._writer is not None
        while True:
            self._reader = reader_for(stream, self._writer, self._loop, self._receive, _CHUNK)
            if self._reader is not None:
                self._stream = None  # only the writer's socket keeps the connection open now
                self._turn = self._loop.turn
                await self._reader.run()
            reading = self._receive(await stream.receive(_CHUNK))
            while not reading:
                for ready in (self._resumed, self._memory):
                    if ready is not None:
                        await ready.wait()
                reading = self._receive()

    def _receive(self, data: bytes = b"") -> bool:
        """Decode a chunk and deliver its commands; return whether to continue reading.

        If not, reading is paused, and the rest of the commands stays queued until the next call.
        """
        received = self._received
        if data:
            self.received_bytes += len(data)
            try:
                received.extend(self.wire_format.receive_data(data))
            except RemoteProtocolError as error:
                received.extend(error.completed)
                self._violation = error
        deliver, deliver_all = self.receiver or self.listener.on_command, self.list_receiver
        while received:
            if self._resumed is not None:
                return False
            if deliver_all is not None:
                deliver_all(received)
            else:
                deliver(received.popleft())
        if self._violation is not None:
            raise self._violation
        return self._resumed is None and self._memory is None

    def _continue_reading(self) -> None:
        """Deliver the commands queued while reading was paused, then resume reading."""
        reader = self._reader
        if reader is None or self._stopped or self._error is not None:
            return
        try:
            if self._receive():
                reader.resume()
        except Exception as error:
            reader.end(error)

    def _as_failure(self, error: BaseException) -> Exception:
        if isinstance(error, ProtocolViolation | ConnectionFailedException):
            return error
        kind = ConnectionFailedException if self.received_bytes else UnusedConnectionException
        if isinstance(error, anyio.EndOfStream):
            reason = "the peer closed the connection"
        elif isinstance(error, anyio.BrokenResourceError | anyio.ClosedResourceError | OSError):
            reason = str(error.__cause__ or error) or "the connection broke"
        else:
            logger.error("A listener of %s failed", self._remote, exc_info=error)
            kind, reason = ConnectionFailedException, f"a listener failed: {error!r}"
        hint = "" if self.received_bytes else self._refusal_hint
        failure = kind(f"{self._remote}: {reason}", hint=hint)
        failure.__cause__ = failure.linked_exception = error
        return failure

    def _unusable(self) -> ConnectionFailedException:
        why = self._error or ("it was stopped" if self._stopped else "it is not started")
        return ConnectionFailedException(f"Cannot send to {self._remote}: {why}")


class StreamDetails(TypedDict, total=False):
    """What a connector may say of an accepted stream; see `accepted_tcp`."""

    tls: TlsContext | None
    layered: UnfinishedFrame | None
    unsent_budget: UnsentBudget | None


class _AcceptedTransport(TcpTransport[C]):
    """A transport that has its client's certificate, once it has started."""

    certificate: Mapping[str, Any] | None = None

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return self.certificate


def accepted_tcp(
    stream: ByteStream,
    wire_format: WireFormat[C],
    tcp_options: TcpOptions,
    *,
    scheme: str,
    timeout: float | None,
    unfinished: UnfinishedFrame | None = None,
    discard: Callable[[], object] | None = None,
    tls: TlsContext | None = None,
    layered: UnfinishedFrame | None = None,
    unsent_budget: UnsentBudget | None = None,
) -> TcpTransport[C]:
    """Return a transport of an accepted connection, not started.

    With `tls`, `start` begins with a handshake, which may take `timeout` seconds. At the end of the
    connection, `discard()` drops the part of an incomplete frame that `wire_format` has buffered.
    `unfinished` is the frame counted by `wire_format`, `layered` the frame counted by a layer of
    `stream`, such as WebSocket; `scheme` is the scheme of the client's address in messages.
    `unsent_budget` counts the long values that wait to be written.
    """
    remote = peer_address(stream, scheme)

    def on_closed() -> None:
        if discard is not None:
            discard()
        if layered is not None:
            layered.close()

    async def secure(stream: ByteStream) -> ByteStream:
        from pyjms.transport.tls import accept_tls  # noqa: PLC0415 - not without TLS

        assert tls is not None
        secured = await accept_tls(stream, tls, remote, timeout)
        tcp.certificate = certificate_of(secured)
        return secured

    tcp = _AcceptedTransport(
        wire_format,
        tcp_options,
        stream=stream,
        secure=None if tls is None else secure,
        remote_address=remote,
        on_closed=on_closed,
    )
    tcp.certificate = certificate_of(stream)
    tcp.unsent_budget = unsent_budget
    if unfinished is not None:
        unfinished.fail = tcp.fail
        unfinished.pause, unfinished.resume = tcp.wait_for_memory, tcp.has_memory
        if layered is not None:
            layered.fail = tcp.fail
            unfinished.sibling, layered.sibling = layered, unfinished
    return tcp


class Checks(NamedTuple):
    """The times of checks of one direction: seconds until the first check, and between checks."""

    first: float
    period: float


NEVER: Final = Checks(float("inf"), float("inf"))
"""The direction is not checked."""


async def wait_for_silence(
    transport: TcpTransport[Any],
    keep_alive: Callable[[], object],
    *,
    writes: Checks,
    reads: Checks,
) -> None:
    """Wait until nothing was received between two checks. Cancellable.

    Args:
        transport: counts received bytes and sent commands.
        keep_alive: called when nothing was sent between two checks; sends a keep-alive.
        writes: the checks of what was sent.
        reads: the checks of what was received. At least one of the two is not `NEVER`.
    """
    received = sent = -1
    now = _clock.now()
    next_write, next_read = now + writes.first, now + reads.first
    while True:
        await _clock.sleep(max(0.0, min(next_write, next_read) - _clock.now()))
        now = _clock.now()
        if now >= next_write:
            if sent == transport.sent_commands and not transport.writing:
                keep_alive()
            sent = transport.sent_commands
            next_write = now + writes.period  # not from the due time: see the module's docstring
        if now >= next_read:
            if received == transport.received_bytes and not transport.reading_paused:
                return
            received = transport.received_bytes
            next_read = now + reads.period
