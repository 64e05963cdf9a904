"""OpenWire over one connection: frames in and out, before and after negotiation.

A frame is a size (4 bytes, unless negotiation omits it), a type code and the fields of that type.
The encoding of the fields depends on the result of the negotiation:

    state        entered by                    reading and writing
    initial      construction                  loose, no cache, frames of at most 64 KiB
    negotiated   the peer's WireFormatInfo     as agreed, from the next frame on
    broken       a RemoteProtocolError         every call of receive_data raises again

Two codecs read and write the same bytes:

- `reader` and `writer` process the layout of any type in any version, field by field, loose or
  tight, with or without the cache (`cache`). They are the reference, and produce the error texts.
- `fast_reader` and `fast_writer` handle the commands of the message path in the form that two ends
  of this implementation negotiate: loose, uncached, version 12. They decline unusual forms, which
  the general codec then handles. They are several times as fast; property tests compare the two.

Loose and uncached is the preferred form because a message's body can then be kept and sent as the
received bytes (`raw`). Only RemoteProtocolError escapes from `receive_data` and only
LocalProtocolError from `encode`. The format has no role: client and broker use the same class.
(openwire-encoding 1 and 6; decisions D4, D5)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.limits import MAX_NEGOTIATION_SIZE, UnfinishedFrame
from pyjms.wire.openwire.cache import ReadCache, WriteCache
from pyjms.wire.openwire.commands import Command, KeepAliveInfo, WireFormatInfo
from pyjms.wire.openwire.fast_reader import FastReader
from pyjms.wire.openwire.fast_writer import FastWriter
from pyjms.wire.openwire.kinds import I32
from pyjms.wire.openwire.reader import LooseReader, Reader, TightReader, TruncatedFrameError
from pyjms.wire.openwire.schema import CURRENT_VERSION, Structure
from pyjms.wire.openwire.settings import NegotiatedSettings, WireFormatSettings
from pyjms.wire.openwire.writer import LooseWriter, TightWriter, Writer

__all__ = ["OpenWireFormat"]

_SIZE_BYTES: Final = 4


class ReceiveBuffer:
    """Bytes that are not a complete frame yet."""

    __slots__ = ("_at", "_data", "joined", "partial")

    def __init__(self) -> None:
        self.partial: bytearray = bytearray()
        """The beginning of a frame, starting with its size."""
        self._data = b""  # the bytes after it
        self._at = 0
        self.joined: int = 0
        """The number of frames that arrived in several chunks of data."""

    def __len__(self) -> int:
        return len(self.partial) + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add bytes at the end."""
        if self._at < len(self._data):
            data = self._data[self._at :] + data
        self._data = data
        self._at = 0

    def next_frame(self, limit: int) -> bytes | None:
        """Return the next frame without its size, or None if it is not complete yet.

        Raises:
            RemoteProtocolError: its size is negative or more than `limit`.
        """
        if self.partial:
            return self._complete(limit)
        data, at = self._data, self._at
        left = len(data) - at
        if not left:
            return None
        if left >= _SIZE_BYTES:
            start = at + _SIZE_BYTES
            size = int.from_bytes(data[at:start], "big", signed=True)
            if size < 1 or size > limit:
                raise _invalid(size, limit)
            end = start + size
            if end <= len(data):
                self._at = end
                return data[start:end]
        self._move(left)
        return None

    @property
    def unfinished(self) -> int:
        """The size of the incomplete frame; 0 if there is none, or its size is incomplete."""
        if len(self.partial) < _SIZE_BYTES:
            return 0
        return int.from_bytes(self.partial[:_SIZE_BYTES], "big")

    def let_go(self) -> int:
        """Forget the bytes after the last frame; return how many bytes before them were taken."""
        taken, self._at, self._data = self._at, 0, b""
        return taken

    def take_all(self) -> bytes:
        """Return all buffered bytes and clear the buffer: the following frames have no sizes."""
        rest = bytes(self.partial) + self._data[self._at :]
        self.partial.clear()
        self._data = b""
        self._at = 0
        return rest

    def _complete(self, limit: int) -> bytes | None:
        partial = self.partial
        self._move(_SIZE_BYTES - len(partial))
        if len(partial) < _SIZE_BYTES:
            return None
        whole = _SIZE_BYTES + self._size(partial[:_SIZE_BYTES], limit)
        self._move(whole - len(partial))
        if len(partial) < whole:
            return None
        with memoryview(partial) as view:  # a slice would be a second copy of what may be large
            frame = bytes(view[_SIZE_BYTES:])
        partial.clear()
        self.joined += 1
        return frame

    def _move(self, count: int) -> None:
        """Move up to `count` bytes from the data to the partial frame."""
        if count > 0:
            data, at = self._data, self._at
            end = min(at + count, len(data))
            self.partial += data if end - at == len(data) else data[at:end]
            self._at = end

    @staticmethod
    def _size(head: bytes | bytearray, limit: int) -> int:
        size = int.from_bytes(head, "big", signed=True)
        if size < 1 or size > limit:
            raise _invalid(size, limit)
        return size


def _invalid(size: int, limit: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"Invalid frame size {size}; 1 to {limit} bytes are allowed")


_TLS = "the scheme of a client's URL must match the port: ssl:// if it uses TLS, otherwise tcp://"
_OTHER_PORT = "this port is for OpenWire: clients of other protocols need another port"
_FIRST_BYTES: tuple[tuple[bytes, str, str], ...] = (
    (b"\x16\x03", "The peer uses TLS, and this side does not", _TLS),
    (b"\x15\x03", "The peer expects TLS, which this side does not use", _TLS),
    (b"GET ", "The peer speaks HTTP", _OTHER_PORT),
    (b"POST ", "The peer speaks HTTP", _OTHER_PORT),
    (b"HTTP/", "The peer speaks HTTP", "check that it is the broker's port for OpenWire"),
    (b"CONNECT", "The peer speaks STOMP", _OTHER_PORT),
    (b"STOMP", "The peer speaks STOMP", _OTHER_PORT),
    (b"AMQP", "The peer speaks AMQP", _OTHER_PORT),
)


def foreign_protocol(data: bytes) -> RemoteProtocolError | None:
    """Return the error for a peer whose first bytes are `data`; None: no known protocol."""
    for first, reason, hint in _FIRST_BYTES:
        if data.startswith(first):
            return RemoteProtocolError(reason, hint=hint)
    return None


_LARGEST_FRAME: Final = 0x7FFFFFFF


class OpenWireFormat:
    """The OpenWire codec of one connection. Not thread-safe.

    Send `local_info()` first, and nothing else before `negotiated` is set, which happens when
    the peer's WireFormatInfo is received.
    """

    def __init__(
        self,
        settings: WireFormatSettings | None = None,
        unfinished_frame: UnfinishedFrame | None = None,
        *,
        keeps_raw: bool = True,
    ) -> None:
        """Create a format; large incomplete frames are counted in `unfinished_frame`.

        Without `keeps_raw`, received messages of the usual form have no `raw`: a client does not
        send them on, and each is a copy.
        """
        self.settings: WireFormatSettings = settings or WireFormatSettings()
        self.negotiated: NegotiatedSettings | None = None
        self._version = self.settings.version
        self._tight = False
        self._stack_trace = self.settings.stack_trace_enabled
        self._size_prefix = True
        self._max_frame_size = MAX_NEGOTIATION_SIZE
        self._max_sent_size = _LARGEST_FRAME
        self._read_cache: ReadCache | None = None
        self._write_cache: WriteCache | None = None
        self._shared: list[tuple[int, bytes]] = []
        self._fast_reader: FastReader | None = None
        self._fast_writer: FastWriter | None = None
        self._buffer = ReceiveBuffer()
        self._unfinished = unfinished_frame
        self._keeps_raw = keeps_raw
        self.on_keep_alive: Callable[[KeepAliveInfo], object] | None = None
        """Handles keep-alives, which `receive_data` does not return then."""
        self._unframed = b""
        self._unframed_needed = 0
        self._violation: RemoteProtocolError | None = None

    @property
    def encodes_runs(self) -> bool:
        """Whether `encode_run` can be used, as agreed on with the peer."""
        return self._fast_writer is not None

    @property
    def max_frame_size(self) -> int:
        """Bytes of the largest frame that the peer may send."""
        return self._max_frame_size

    def local_info(self) -> WireFormatInfo:
        """Return this side's first command."""
        return self.settings.info()

    def negotiate(self, info: WireFormatInfo) -> NegotiatedSettings:
        """Compute the common settings and apply them from the next frame on.

        `receive_data` calls it for the peer's WireFormatInfo; call it only if the info arrived in
        another way.

        Raises:
            RemoteProtocolError: the peer does not speak OpenWire, or has negotiated before.
        """
        if self.negotiated is not None:
            raise RemoteProtocolError("The peer sent a second WireFormatInfo")
        agreed = self.settings.negotiate(info)
        self.negotiated = agreed
        self._version = agreed.version
        self._tight = agreed.tight_encoding_enabled
        self._stack_trace = agreed.stack_trace_enabled
        self._size_prefix = not agreed.size_prefix_disabled
        self._max_sent_size = min(agreed.max_frame_size, _LARGEST_FRAME)
        limited = self.settings.max_frame_size_enabled
        self._max_frame_size = self._max_sent_size if limited else _LARGEST_FRAME
        if agreed.cache_enabled:
            self._read_cache = ReadCache(agreed.cache_size)
            self._write_cache = WriteCache(agreed.cache_size)
        elif not self._tight and agreed.version == CURRENT_VERSION and self._size_prefix:
            self._fast_reader = FastReader(keeps_raw=self._keeps_raw)
            self._fast_writer = FastWriter(self._shared)
        return agreed

    def encode(self, command: Command) -> bytes:
        """Return the whole frame of `command`.

        Raises:
            LocalProtocolError: a field is missing, of a wrong type or too long; or the frame
                is larger than the peer accepts. The connection remains usable.
        """
        buffer = bytearray()
        self.encode_into(buffer, command)
        return bytes(buffer)

    def encode_into(self, buffer: bytearray, command: Command) -> None:
        """Append the whole frame of `command` to `buffer`, which an error leaves unchanged."""
        for position, value in reversed(self.encode_shared(buffer, command)):
            buffer[position:position] = value

    def encode_shared(
        self, buffer: bytearray, command: Command
    ) -> list[tuple[int, bytes]] | tuple[()]:
        """Append the frame of `command` to `buffer` without its long values, and return these.

        Each value has its position in `buffer`. An error leaves `buffer` unchanged.
        """
        start = len(buffer)
        head = 4 if self._size_prefix else 0
        buffer += b"\0\0\0\0"[:head]
        try:
            fast = self._fast_writer
            if fast is None or not fast.write_frame(buffer, command):
                self._write_frame(buffer, command)
        except LocalProtocolError:
            self._undo_frame(buffer, start)
            raise
        except (struct.error, AttributeError, TypeError, ValueError, OverflowError) as e:
            self._undo_frame(buffer, start)
            raise LocalProtocolError(f"{type(command).__name__} cannot be written: {e}") from e
        size = len(buffer) - start - head
        if self._shared:
            size += sum(len(value) for _, value in self._shared)
        if size > self._max_sent_size:
            self._undo_frame(buffer, start)
            self._forget_frame()
            raise LocalProtocolError(
                f"Frame of {size} bytes is larger than the {self._max_sent_size} agreed on",
                hint="raise wireFormat.maxFrameSize on both sides",
            )
        if head:
            I32.pack_into(buffer, start, size)
        if not self._shared:
            return ()
        shared = self._shared.copy()
        self._shared.clear()
        return shared

    def encode_run(self, buffer: bytearray, commands: Sequence[Command], most: int) -> int:
        """Append the frames of the first of these dispatches; return how many.

        It ends before a command that needs `encode_shared`, which may raise, and once `buffer` has
        more than `most` bytes.
        """
        fast, largest = self._fast_writer, self._max_sent_size
        return 0 if fast is None else fast.write_dispatches(buffer, commands, most, largest)

    def _write_frame(self, buffer: bytearray, command: Command) -> None:
        writer = self._writer()
        frame = writer.frame(command)
        moved = len(buffer) + len(frame) - len(writer.out)
        self._shared += [(moved + position, value) for position, value in writer.shared]
        buffer += frame

    def _undo_frame(self, buffer: bytearray, start: int) -> None:
        del buffer[start:]
        self._shared.clear()

    def receive_data(self, data: bytes) -> list[Command]:
        """Return the commands that `data` completes; chunks may be split anywhere.

        The peer's WireFormatInfo is among them; it has already been applied.

        Raises:
            RemoteProtocolError: the peer violated the protocol. `completed` of the error contains
                the commands in `data` before the violation; every later call raises again.
        """
        if self._violation is not None:
            self._violation.completed = ()
            raise self._violation
        commands: list[Command] = []
        at = 0
        try:
            if self._fast_reader is None or self._buffer.partial:
                at = self._receive_buffered(data, commands)
            fast = self._fast_reader
            while fast is not None:  # most frames are whole and need no buffer
                at = fast.read_frames(data, at, self._max_frame_size, commands)
                start = at + _SIZE_BYTES
                size = int.from_bytes(data[at:start], "big", signed=True)
                end = start + size
                if not 0 < size <= self._max_frame_size or end > len(data):
                    if at < len(data):
                        self._receive_buffered(data[at:], commands)
                    break
                command = self._read_frame(data[start:end])
                if command is not None:
                    commands.append(command)
                at = end
        except RemoteProtocolError as e:
            foreign = foreign_protocol(data) if self.negotiated is None else None
            self._violation = foreign or e
            self._violation.completed = tuple(commands)
            raise self._violation from (e if foreign else e.__cause__)
        return commands

    @property
    def incomplete_frame(self) -> int:
        """The size of the frame that has arrived in part; 0 if there is none."""
        return self._buffer.unfinished

    def discard(self) -> None:
        """Drop the incomplete frame, because nothing more is received."""
        self._buffer = ReceiveBuffer()
        if self._unfinished is not None:
            self._unfinished.close()

    def _receive_buffered(self, data: bytes, commands: list[Command]) -> int:
        """Append the commands of the buffer and `data`; return how many bytes of `data` were used.

        If the fast reader can be used, that is the end of the frame that had begun before.
        """
        buffer = self._buffer
        buffer.feed(data)
        used = len(data)
        while self._size_prefix:
            frame = buffer.next_frame(self._max_frame_size)
            if frame is not None:
                fast = self._fast_reader
                command = (fast and fast.read_frame(frame)) or self._read_frame(frame)
                if command is not None:
                    commands.append(command)
                if self._fast_reader is None:
                    continue
                used = buffer.let_go()
            if self._unfinished is not None:
                self._unfinished.update(buffer.joined, buffer.unfinished)
            return used
        self._receive_unframed(commands)
        return used

    def _read_frame(self, frame: bytes) -> Command | None:
        """Return the command of a frame; None: it was a keep-alive, and was handled."""
        reader = self._reader(frame)
        command = reader.read_frame()
        if reader.pos != len(frame):
            raise RemoteProtocolError(
                f"{len(frame) - reader.pos} bytes after the end of a frame",
                position=reader.pos,
            )
        accepted = self._accept(command)
        return None if self._is_handled(accepted) else accepted

    def _is_handled(self, command: Command) -> bool:
        """Pass a keep-alive to `on_keep_alive`, if that is set; return whether it was one."""
        if type(command) is not KeepAliveInfo or self.on_keep_alive is None:
            return False
        self.on_keep_alive(command)
        return True

    def _receive_unframed(self, commands: list[Command]) -> None:
        """Read commands without a size prefix: a command ends with its last field."""
        self._unframed += self._buffer.take_all()
        while len(self._unframed) > max(self._unframed_needed - 1, 0):
            reader = self._reader(self._unframed)
            try:
                command = self._accept(reader.read_frame())
            except TruncatedFrameError as e:
                if e.needed > self._max_frame_size:
                    raise
                self._unframed_needed = e.needed
                return
            if not self._is_handled(command):
                commands.append(command)
            self._unframed = self._unframed[reader.pos :]
            self._unframed_needed = 0

    def _accept(self, command: Structure | None) -> Command:
        if not isinstance(command, Command):
            what = "null" if command is None else type(command).__name__
            raise RemoteProtocolError(f"A frame holds {what}, which is not a command", position=0)
        if isinstance(command, WireFormatInfo):
            self.negotiate(command)
        elif self.negotiated is None:
            raise RemoteProtocolError(
                f"{type(command).__name__} came before WireFormatInfo", position=0
            )
        return command

    def _reader(self, frame: bytes) -> Reader:
        cls = TightReader if self._tight else LooseReader
        return cls(frame, self._version, self._stack_trace, self._read_cache)

    def _writer(self) -> Writer:
        cls = TightWriter if self._tight else LooseWriter
        return cls(self._version, self._stack_trace, self._write_cache, is_sharing=True)

    def _forget_frame(self) -> None:
        if self._write_cache is not None:
            self._write_cache.undo_frame()
