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

Writing. `oneway` encodes into the buffer of the writer (`pyjms.transport.writer`), which sends it
once per loop turn. Long values are queued separately without a copy.

Failure. All errors of the reader, the writer, the wire format and the listener are passed to
`fail`, which reports the first one to `listener.on_exception`, unless `stop()` was called before. A
protocol error of the peer is reported after the commands that preceded it.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from pyjms.errors import ConnectionFailedException, ProtocolViolation, RemoteProtocolError
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, Turn, end_tasks, spawn
from pyjms.runtime.fork import inherits, let_go_of_socket
from pyjms.runtime.logging import get_logger
from pyjms.transport.base import ClosedUnused, Transport
from pyjms.transport.layers import LayeredStream, receiver_through
from pyjms.transport.options import (
    TcpOptions,
    apply_options,
    peer_address,
    read_on_demand,
    set_of_stream,
    set_option,
)
from pyjms.transport.writer import CoalescingWriter, SocketWriter, UnsentBudget, writer_for
from pyjms.wire.format import SharingWireFormat, WireFormat
from pyjms.wire.limits import UnfinishedFrame

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext


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


logger: Final = get_logger(__name__)

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
        self.unsent_budget: UnsentBudget | None = None
        """The budget that counts long values waiting to be written; set it before `start()`."""
        self.options = options
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
        self._reader: SocketReader | None = None
        self._turn: Turn | None = None
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
        inherits(self)
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
        reader, writer, stream = self._reader_task, self._writer_task, self._stream
        try:
            await end_tasks(reader)
            if self._writer is not None and writer is not None:
                self._writer.finish()
                with _clock.timeout(CLOSE_TIMEOUT) as flushing:
                    await writer.wait()
                if flushing.cancelled_caught:
                    logger.warning(
                        "%s accepted no data while closing; discarded the rest", self._remote
                    )
        finally:
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

    def oneway(self, command: C) -> None:
        writer = self._writer
        if writer is None or self._stopped or self._error is not None:
            raise self._unusable()
        idle = not writer.buffer
        shared = self._encode(writer.buffer, command)
        self.sent_commands += 1
        if shared:
            writer.splice(shared)
        elif idle:
            writer.wake()

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def defer(self, function: Callable[[], object]) -> bool:
        return self._turn is not None and self._turn.defer(function)

    @property
    def queued_bytes(self) -> int | None:
        return None if self._writer is None else self._writer.queued

    @property
    def congested(self) -> bool:
        return self._writer is not None and self._writer.congested

    async def drained(self) -> None:
        if self._writer is not None:
            await self._writer.drained()

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
        for task in (self._reader_task, self._writer_task):
            if task is not None:
                task.cancel()
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
                reading = self._deliver()

    def _receive(self, data: bytes) -> bool:
        """Decode a chunk and deliver its commands; return whether to continue reading."""
        self.received_bytes += len(data)
        try:
            self._received.extend(self.wire_format.receive_data(data))
        except RemoteProtocolError as error:
            self._received.extend(error.completed)
            self._violation = error
        return self._deliver()

    def _deliver(self) -> bool:
        """Deliver the decoded commands; False: reading is paused, and the rest stays queued."""
        received = self._received
        deliver = self.listener.on_command
        while received:
            if self._resumed is not None:
                return False
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
            if self._deliver():
                reader.resume()
        except Exception as error:
            reader.end(error)

    def _as_failure(self, error: BaseException) -> Exception:
        if isinstance(error, ProtocolViolation | ConnectionFailedException):
            return error
        kind = ConnectionFailedException if self.received_bytes else ClosedUnused
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

    peer_certificate: Mapping[str, Any] | None = None


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
        tcp.peer_certificate = _certificate(secured)
        return secured

    tcp = _AcceptedTransport(
        wire_format,
        tcp_options,
        stream=stream,
        secure=None if tls is None else secure,
        remote_address=remote,
        on_closed=on_closed,
    )
    tcp.peer_certificate = _certificate(stream)
    tcp.unsent_budget = unsent_budget
    if unfinished is not None:
        unfinished.fail = tcp.fail
        unfinished.pause, unfinished.resume = tcp.wait_for_memory, tcp.has_memory
        if layered is not None:
            layered.fail = tcp.fail
            unfinished.sibling, layered.sibling = layered, unfinished
    return tcp


def _certificate(stream: ByteStream) -> Mapping[str, Any] | None:
    """Return the certificate that the client has presented, or None."""
    return stream.extra(TLSAttribute.peer_certificate, None) or None
