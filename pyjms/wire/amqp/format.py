"""The frames of AMQP 1.0 over one connection, on either side: bytes to items and back, no I/O.

A connection begins with a protocol header, and so does its second part if SASL comes first. A frame
is its size (u32), the offset of its body in words of 4 bytes, its type (0: AMQP, 1: SASL) and its
channel, then the performative and the payload. A violation becomes a `Fault`, the last item, so
that the peer can be told before the connection ends. (parts 2.2 and 2.3 of the standard)
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.amqp.performatives import (
    SASL_FRAMES,
    TRANSFER,
    Performative,
    SaslFrame,
    read_body,
    read_transfer,
    write_body,
)
from pyjms.wire.limits import LARGE_FRAME, UnfinishedFrame

AMQP: Final = 0
SASL: Final = 3
"""Protocol ids."""
MIN_MAX_FRAME_SIZE: Final = 512
"""The least limit of frames; a peer that says less is taken to say this."""
DECODE_ERROR: Final = "amqp:decode-error"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
MAX_SASL_FRAME_SIZE: Final = 65536
"""Of the frames before a connection is opened, whatever the limit is later."""

_HEADER: Final = struct.Struct(">4sBBBB")
_FRAME: Final = struct.Struct(">IBBH")
_FRAME_SIZE: Final = 8


class ProtocolHeader:
    """The first 8 bytes of a connection, or of its part behind SASL."""

    def __init__(self, protocol: int, major: int = 1, minor: int = 0, revision: int = 0) -> None:
        self.id: int = protocol
        self.version: tuple[int, int, int] = (major, minor, revision)

    def __repr__(self) -> str:
        return f"ProtocolHeader({self.id}, {self.version})"


class Frame:
    """A frame: a performative with its payload, a SASL frame, or an empty one (`body` None)."""

    def __init__(
        self, channel: int, body: Performative | SaslFrame | None, payload: bytes = b""
    ) -> None:
        self.channel: int = channel
        self.body: Performative | SaslFrame | None = body
        self.payload: bytes = payload

    def __repr__(self) -> str:
        return f"Frame({self.channel}, {self.body!r}, {len(self.payload)} bytes)"


class Fault:
    """The peer violated AMQP, and no items follow. `condition` is that of a Close."""

    def __init__(self, condition: str, reason: str) -> None:
        self.condition: str = condition
        self.reason: str = reason

    def __repr__(self) -> str:
        return f"Fault({self.condition!r}, {self.reason!r})"


Item: TypeAlias = ProtocolHeader | Frame | Fault | bytes
"""Bytes are only sent: frames that are encoded."""


class AmqpFormat:
    """The AMQP codec of one connection. Not thread-safe."""

    def __init__(
        self, max_frame_size: int, unfinished_frame: UnfinishedFrame | None = None
    ) -> None:
        """Create a codec.

        Args:
            max_frame_size: the limit of received frames in bytes, which Open says.
            unfinished_frame: counts large incomplete frames.
        """
        self._limit: int = max_frame_size
        self.unfinished: UnfinishedFrame | None = unfinished_frame
        self._buffer: bytearray = bytearray()
        self._needed: int = 0
        """The size that `_buffer` must have before another frame can be read."""
        self._frames: int = 0
        self._is_sasl: bool = False
        """Whether SASL frames are expected."""
        self._expects_header: bool = True
        self._failed: bool = False

    def receive_data(self, data: bytes) -> list[Item]:
        """Return the items that `data` completes; after a `Fault` there are none. Never raises."""
        items: list[Item] = []
        if self._failed:
            return items
        chunk: bytes = data
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return items
            chunk = bytes(self._buffer)
        try:
            at = self._parse(chunk, items)
            self._buffer = bytearray(chunk[at:]) if at < len(chunk) else bytearray()
            if self.unfinished is not None:
                size = self._needed if self._needed > LARGE_FRAME else 0
                self.unfinished.update(self._frames, size)
        except RemoteProtocolError as error:
            self.discard()
            items.append(Fault(error.error_code or DECODE_ERROR, error.reason))
        return items

    def discard(self) -> None:
        """Drop the incomplete frame, because nothing more is received."""
        self._failed = True
        self._buffer = bytearray()
        if self.unfinished is not None:
            self.unfinished.close()

    def _parse(self, data: bytes, items: list[Item]) -> int:
        """Read all whole items of `data`; return where they end."""
        at, available = 0, len(data)
        while True:
            self._needed = 0
            if available - at < _FRAME_SIZE:
                return at
            if self._expects_header:
                items.append(self._header(data, at))
                at += _FRAME_SIZE
                continue
            size, offset, kind, channel = _FRAME.unpack_from(data, at)
            limit = MAX_SASL_FRAME_SIZE if self._is_sasl else self._limit
            if not _FRAME_SIZE <= size <= limit:
                self._check_size(data, at, size, limit)
                continue
            if available - at < size:
                self._needed = size
                return at
            body_at = at + 4 * offset
            at += size
            if offset < 2 or body_at > at:
                raise RemoteProtocolError(f"a frame of {size} bytes has its body at {4 * offset}")
            self._frames += 1
            content = data[body_at:at]
            if content.startswith(TRANSFER) and not (kind or self._is_sasl):
                try:
                    transfer, end = read_transfer(content)
                except (LookupError, struct.error):
                    pass  # an unusual form, or damage
                else:
                    items.append(Frame(channel, transfer, content[end:]))
                    continue
            items.append(self._frame(content, kind, channel))

    def _header(self, data: bytes, at: int) -> ProtocolHeader:
        name, protocol, major, minor, revision = _HEADER.unpack_from(data, at)
        if name != b"AMQP":
            protocol = -1
        self._is_sasl = protocol == SASL
        self._expects_header = False
        return ProtocolHeader(protocol, major, minor, revision)

    def _check_size(self, data: bytes, at: int, size: int, limit: int) -> None:
        """Read a second header, as whose size `AMQP` is too large, or raise."""
        if self._is_sasl and data.startswith(b"AMQP", at):
            self._expects_header = True
        elif size < _FRAME_SIZE:
            raise RemoteProtocolError(f"Frame size value was invalid: {size}")
        else:
            raise RemoteProtocolError(
                f"Frame size exceeded max frame length: it is {size}, at most {limit}"
            )

    def _frame(self, content: bytes, kind: int, channel: int) -> Frame:
        if kind != self._is_sasl:
            raise RemoteProtocolError(
                f"a frame of type {kind} is none of {'SASL' if self._is_sasl else 'AMQP'}",
                error_code=FRAMING_ERROR,
            )
        if not content and not self._is_sasl:
            return Frame(channel, None)
        try:
            body, end = read_body(content)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"Could not decode AMQP frame: {error.reason}") from error
        if (type(body) in SASL_FRAMES) is not self._is_sasl:
            raise RemoteProtocolError(f"Could not decode AMQP frame: a {type(body).__name__} in it")
        return Frame(channel, body, content[end:])

    def encode_into(self, buffer: bytearray, command: Item) -> None:
        """Append an item to `buffer`.

        Raises:
            LocalProtocolError: a field is missing, or out of its range.
        """
        for position, value in self.encode_shared(buffer, command):
            buffer[position:position] = value

    def encode_shared(
        self, buffer: bytearray, command: Item
    ) -> list[tuple[int, bytes]] | tuple[()]:
        """Append an item; a long payload is left out, and returned with its position.

        Raises:
            LocalProtocolError: as for `encode_into`.
        """
        if isinstance(command, bytes):
            buffer += command
        elif isinstance(command, Frame):
            if command.body is None:
                buffer += _FRAME.pack(_FRAME_SIZE, 2, 0, command.channel)
                return ()
            body, payload = write_body(command.body), command.payload
            size = _FRAME_SIZE + len(body) + len(payload)
            kind = 1 if type(command.body) in SASL_FRAMES else 0
            buffer += _FRAME.pack(size, 2, kind, command.channel)
            buffer += body
            if len(payload) > LARGE_FRAME:
                return [(len(buffer), payload)]
            buffer += payload
        elif isinstance(command, ProtocolHeader):
            buffer += _HEADER.pack(b"AMQP", command.id, *command.version)
        else:
            raise LocalProtocolError(f"A {type(command).__name__} is not sent")
        return ()
