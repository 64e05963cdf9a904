"""Splits a stream of bytes into STOMP frames, within limits. (activemq-edges ST3)

    state      left by                             next
    command    a line that is not empty            headers
    headers    an empty line                       body
    body       content-length bytes and a NUL,     command
               or the first NUL

Ends of line between frames are heart-beats and are dropped. Every byte is searched once, however
the data is split. A violation becomes a frame with a `fault`, the last one, so that the peer can be
told the reason before its connection is closed.
"""

from __future__ import annotations

import re
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.wire.limits import LARGE_FRAME, MAX_FRAME_SIZE, MAX_NEGOTIATION_SIZE
from pyjms.wire.openwire.frame_budget import UnfinishedFrame
from pyjms.wire.stomp.frames import V1_0, V1_1, Frame, decode_header, escaping_version

__all__ = ["MAX_COMMAND_LENGTH", "MAX_HEADERS", "MAX_HEADER_LENGTH", "StompParser"]

MAX_COMMAND_LENGTH: Final = 1024
MAX_HEADER_LENGTH: Final = 10240
"""The maximum bytes of a header line, escaped."""
MAX_HEADERS: Final = 1000

_ENDS_OF_LINES: Final = re.compile(rb"[\r\n]*")
_LENGTH: Final = re.compile(r"[0-9]{1,10}\Z")


class StompParser:
    """The parser of one connection. Set `version` when it is negotiated. Not thread-safe."""

    def __init__(
        self,
        max_frame_size: int = MAX_FRAME_SIZE,
        unfinished: UnfinishedFrame | None = None,
    ) -> None:
        """Create a parser; large incomplete frames are counted in `unfinished`."""
        self.version: str | None = None
        self._limit = max_frame_size
        self._unfinished = unfinished
        self._buffer = bytearray()
        self._begin = 0  # the start of the frame
        self._at = 0  # the end of the parsed bytes
        self._searched = 0
        self._command: str | None = None
        self._headers: dict[str, str] = {}
        self._header_count = 0
        self._body_length: int | None = None
        self._in_body = False
        self._frames = 0
        self._failed = False

    def feed(self, data: bytes) -> None:
        """Add bytes at the end."""
        if not self._failed:
            self._buffer += data

    def next_frame(self) -> Frame | None:
        """Return the next frame, or None if it is not complete yet."""
        if self._failed:
            return None
        try:
            frame = self._parse()
            if frame is None:
                self._wait_for_more()
        except RemoteProtocolError as error:
            self._failed = True
            self.discard()
            return Frame("", fault=error.reason)
        return frame

    def discard(self) -> None:
        """Drop the incomplete frame, because nothing more is received."""
        self._failed = True
        self._buffer = bytearray()
        if self._unfinished is not None:
            self._unfinished.close()

    def _parse(self) -> Frame | None:
        if self._command is None and not self._parse_command():
            return None
        if not self._in_body and not self._parse_headers():
            return None
        return self._parse_body()

    def _parse_command(self) -> bool:
        blank = _ENDS_OF_LINES.match(self._buffer, self._at)
        assert blank is not None
        self._begin = self._at = blank.end()
        self._searched = max(self._searched, self._at)
        line = self._line(MAX_COMMAND_LENGTH, "The maximum command length was exceeded")
        if line is None:
            return False
        self._command = line.strip()
        return True

    def _parse_headers(self) -> bool:
        assert self._command is not None
        version = escaping_version(self._command, self.version or V1_0)
        while True:
            line = self._line(MAX_HEADER_LENGTH, "The maximum header length was exceeded")
            if line is None:
                return False
            if version != V1_1:
                line = line.removesuffix("\r")
            if not line:
                break
            self._header_count += 1
            if self._header_count > MAX_HEADERS:
                raise RemoteProtocolError("The maximum number of headers was exceeded")
            name, value = decode_header(line, version)
            self._headers.setdefault(name, value)
        self._body_length = self._content_length()
        self._in_body = True
        return True

    def _content_length(self) -> int | None:
        text = self._headers.get("content-length")
        if text is None:
            return None
        if not _LENGTH.match(text.strip()):
            raise RemoteProtocolError("Specified content-length is not a valid integer")
        length = int(text)
        self._check_size(self._at - self._begin + length)
        return length

    def _parse_body(self) -> Frame | None:
        buffer = self._buffer
        if self._body_length is None:
            end = buffer.find(b"\0", self._searched)
            self._check_size((len(buffer) if end < 0 else end) - self._begin)
            if end < 0:
                self._searched = len(buffer)
                return None
        else:
            end = self._at + self._body_length
            if end >= len(buffer):
                return None
            if buffer[end]:
                raise RemoteProtocolError(
                    "content-length bytes were read and there was no trailing null byte"
                )
        assert self._command is not None
        frame = Frame(self._command, self._headers, bytes(buffer[self._at : end]))
        self._at = self._searched = end + 1
        self._command, self._headers = None, {}
        self._header_count, self._in_body = 0, False
        self._frames += 1
        return frame

    def _line(self, limit: int, reason: str) -> str | None:
        end = self._buffer.find(b"\n", self._searched, self._at + limit + 1)
        if end < 0:
            if len(self._buffer) - self._at > limit:
                raise RemoteProtocolError(reason)
            self._searched = len(self._buffer)
            return None
        line = self._buffer[self._at : end]
        self._at = self._searched = end + 1
        if b"\0" in line:
            raise RemoteProtocolError("A NUL byte before the end of the headers")
        self._check_size(self._at - self._begin)
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("A header is not UTF-8") from error

    def _check_size(self, size: int) -> None:
        limit = self._limit
        if self.version is None:
            limit = min(limit, MAX_NEGOTIATION_SIZE)
        if size > limit:
            raise RemoteProtocolError(f"The maximum frame size of {limit} bytes was exceeded")

    def _wait_for_more(self) -> None:
        """Drop the parsed bytes, and count the incomplete frame if it is large."""
        begin = self._begin if self._command is not None else self._at
        del self._buffer[:begin]
        self._begin -= begin
        self._at -= begin
        self._searched -= begin
        if self._unfinished is not None:
            self._unfinished.update(self._frames, self._expected_size())

    def _expected_size(self) -> int:
        """Return the size of the incomplete frame; if unknown, a power of two above its bytes."""
        if self._in_body and self._body_length is not None:
            return self._at + self._body_length
        size = len(self._buffer)
        return 0 if size <= LARGE_FRAME else 1 << size.bit_length()
