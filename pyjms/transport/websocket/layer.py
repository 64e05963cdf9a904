"""WebSocket framing as a byte layer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.wire.limits import LARGE_FRAME

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.protocol import Event, Protocol

__all__ = ["FRAMES_LOG", "MAXIMUM_MESSAGE", "STOMP_SUBPROTOCOLS", "WebSocketLayer"]

STOMP_SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp", "stomp")
"""The subprotocols whose messages are sent as text if they are UTF-8."""

MAXIMUM_MESSAGE: Final = 1024 * 1024
"""The maximum bytes of a received WebSocket message; a command may span several messages."""
_OWN_MESSAGE: Final = 256 * 1024
"""The maximum bytes of a sent message."""
_MAXIMUM_OUTGOING: Final = 64 * 1024
"""Bytes of pongs that may wait: a peer that sends pings but does not read is disconnected."""
_LONGEST_CHARACTER: Final = 4
_CONTINUATION: Final = 0x80
"""The first two bits of a byte of UTF-8 that does not begin a character."""
_NORMAL_CLOSURE: Final = 1000

FRAMES_LOG = logging.getLogger(f"{__name__}.frames")
"""A disabled logger for `websockets`, whose debug lines quote frames and so message bodies."""
FRAMES_LOG.setLevel(logging.INFO)


class WebSocketLayer:
    """One connection's frames, after the handshake. `remote` names the peer in error messages.

    `unfinished(number, size)` is called with the number of a large incomplete message and its
    possible size; it raises if there is no room. Size 0: there is no such message.
    """

    def __init__(
        self,
        protocol: Protocol,
        remote: str,
        unfinished: Callable[[int, int], object] | None = None,
    ) -> None:
        from websockets.frames import Opcode  # noqa: PLC0415 - an extra

        self.error: Exception | None = None
        self._protocol = protocol
        self._remote = remote
        self._outgoing = bytearray()
        self._opcodes = Opcode
        self._text = False
        self.subprotocol: str | None = protocol.subprotocol
        self._begun = b""
        self._texts_allowed = self.subprotocol in STOMP_SUBPROTOCOLS
        self._unfinished = unfinished
        self._frames = 0
        self._partial = 0

    def receive(self, data: bytes) -> bytes:
        if self.error is not None:
            return b""
        protocol = self._protocol
        if data:
            protocol.receive_data(data)
        frames = protocol.events_received()
        content = self.contents(frames)
        if self._unfinished is not None:
            self._count(self._unfinished, len(frames), len(data))
        self._outgoing += b"".join(protocol.data_to_send())
        if protocol.parser_exc is not None:
            self.error = self._failure(f"not a valid WebSocket frame: {protocol.parser_exc}")
        elif len(self._outgoing) > _MAXIMUM_OUTGOING:
            self.error = self._failure("the peer sends pings but does not read the pongs")
        return content

    def _count(self, unfinished: Callable[[int, int], object], frames: int, size: int) -> None:
        """Count an incomplete message, whose bytes are kept until it is complete."""
        self._frames += frames
        was_large = self._partial > LARGE_FRAME
        self._partial = 0 if frames else self._partial + size
        if self._partial > LARGE_FRAME:
            try:
                unfinished(self._frames, MAXIMUM_MESSAGE)
            except JMSException as error:
                self.error = error
        elif was_large:
            unfinished(self._frames, 0)

    def contents(self, frames: Iterable[Event]) -> bytes:
        """Return the content of frames. A frame that is not acceptable sets `error`."""
        return b"".join([self._content(cast("Frame", frame)) for frame in frames])

    def _content(self, frame: Frame) -> bytes:
        opcodes = self._opcodes
        if frame.opcode is opcodes.TEXT and self._texts_allowed:
            return bytes(frame.data)
        if frame.opcode is opcodes.BINARY or (frame.opcode is opcodes.CONT and not self._text):
            return bytes(frame.data)
        if frame.opcode is opcodes.CLOSE:
            self.error = self.error or anyio.EndOfStream()
        elif frame.opcode is opcodes.TEXT:
            self._text = True
            self.error = self._failure("a text message, but the protocol uses binary messages")
        return b""

    def send(self, data: bytes | bytearray) -> bytes:
        if self._texts_allowed:
            self._send_texts(bytes(data))
        else:
            for start in range(0, len(data), _OWN_MESSAGE):
                self._protocol.send_binary(bytes(data[start : start + _OWN_MESSAGE]))
        return self.outgoing()

    def _send_texts(self, data: bytes) -> None:
        """Send text messages, or binary ones if `data` is not UTF-8; none ends within a character.

        The start of an incomplete character is kept until the next call; this holds back no frame,
        as STOMP frames end with a complete character.
        """
        data = self._begun + data
        end = len(data) - _begun_character(data)
        self._begun = data[end:]
        try:
            data[:end].decode()
        except UnicodeDecodeError:
            send = self._protocol.send_binary
        else:
            send = self._protocol.send_text
        start = 0
        while start < end:
            size = min(_OWN_MESSAGE, end - start)
            if start + size < end:
                size -= _begun_character(data[start : start + size])
            send(data[start : start + size])
            start += size

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    def outgoing(self) -> bytes:
        waiting, self._outgoing = bytes(self._outgoing), bytearray()
        return waiting + b"".join(self._protocol.data_to_send())

    @property
    def attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {}

    def close(self) -> bytes:
        if self._protocol.state.name == "OPEN":
            self._protocol.send_close(_NORMAL_CLOSURE)
        return self.outgoing()

    def _failure(self, reason: str) -> ConnectionFailedException:
        return ConnectionFailedException(f"{self._remote}: {reason}")


def _begun_character(data: bytes) -> int:
    """Return the number of bytes at the end that are the start of an incomplete UTF-8 character."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != _CONTINUATION:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return back if length > back else 0
    return 0
