"""STOMP 1.0 to 1.2 over one connection, on either side: bytes to frames and back, without I/O.

A frame's headers have the escapes of its version. The broker's side determines the version itself,
from the client's CONNECT frame, since further frames may have arrived with it. Before that, frames
of at most 64 KiB are accepted. The parser splits the stream within limits:

    state      left by                             next
    command    a line that is not empty            headers
    headers    an empty line                       body
    body       content-length bytes and a NUL,     command
               or the first NUL

Ends of line between frames are heart-beats and are dropped. Every byte is searched once, however
the data is split. A violation becomes a frame with a `fault`, the last one, so that the peer can be
told the reason before its connection is closed. Headers are read as leniently as by ActiveMQ, whose
clients rely on it. (activemq-edges ST1, ST3, ST16, ST17)
"""

from __future__ import annotations

import re
from typing import Final

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.limits import LARGE_FRAME, MAX_FRAME_SIZE, MAX_NEGOTIATION_SIZE, UnfinishedFrame

V1_0: Final = "1.0"
V1_1: Final = "1.1"
V1_2: Final = "1.2"
VERSIONS: Final = (V1_2, V1_1, V1_0)
"""The supported versions, the preferred one first."""

_ESCAPES: Final[dict[str, dict[str, str]]] = {
    V1_0: {"\n": "\\n"},  # where it has none, a line break would end the header
    V1_1: {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    V1_2: {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}
_TABLES: Final = {version: str.maketrans(table) for version, table in _ESCAPES.items()}
_UNESCAPES: Final = {v: {e: c for c, e in table.items()} for v, table in _ESCAPES.items()}
_UNESCAPES[V1_0] = _UNESCAPES[V1_1]  # as ActiveMQ does
_SEQUENCE: Final = re.compile(r"\\.")
_UNESCAPED: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})
"""Commands whose headers are never escaped, because the version is not negotiated yet.

ActiveMQ undoes escapes of CONNECT, which breaks logins such as `CORP\\nina`.
"""
_WITH_BODY: Final = frozenset({"SEND", "MESSAGE", "ERROR"})
"""Commands whose content-length counts; others may echo that of a MESSAGE. (activemq-edges ST16)"""


class Frame:
    """A frame, or a `fault`: the peer violated STOMP, and no frames follow.

    If a header is repeated, the first value counts.
    """

    __slots__ = ("body", "command", "fault", "headers")

    def __init__(
        self,
        command: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        fault: str | None = None,
    ) -> None:
        self.command: str = command
        self.headers: dict[str, str] = {} if headers is None else headers
        self.body: bytes = body
        self.fault: str | None = fault

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Frame)
            and (self.command, self.headers, self.body, self.fault)
            == (other.command, other.headers, other.body, other.fault)
        )  # fmt: skip

    __hash__: Final = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Frame({self.command!r}, {len(self.headers)} headers, {len(self.body)} bytes)"


HEART_BEAT: Final = Frame("")
"""Written as an end of line; never received, as ends of line between frames are dropped."""


def negotiated_version(accept_version: str | None) -> str | None:
    """Return the best version that a client accepts, or None.

    A client that names no version uses 1.0.
    """
    if accept_version is None:
        return V1_0
    accepted = {version.strip() for version in accept_version.split(",")}
    return next((version for version in VERSIONS if version in accepted), None)


def escaping_version(command: str, version: str) -> str:
    """Return the version whose escaping rules apply to a frame."""
    return V1_0 if command in _UNESCAPED else version


def can_be_header(name: str, value: str, version: str) -> bool:
    """Return whether `version` can express this header.

    A NUL is never allowed, because many clients take it as the frame's end. 1.0 cannot express a
    colon in a name.
    """
    if "\0" in name or "\0" in value or not name:
        return False
    return version != V1_0 or ":" not in name


def encode_header(name: str, value: str, version: str) -> str:
    """Return the line of a header, without its end.

    Raises:
        LocalProtocolError: `version` cannot express it.
    """
    if not can_be_header(name, value, version):
        raise LocalProtocolError(f"STOMP {version} cannot express the header {name!r:.100}")
    table = _TABLES[version]
    return f"{name.translate(table)}:{value.translate(table)}"


def decode_header(line: str, version: str, *, escaped: bool) -> tuple[str, str]:
    """Return name and value of a header line; undefined escapes are left as they are.

    1.0 allows spaces around both. A line without a colon is a name with an empty value.

    Raises:
        RemoteProtocolError: the name is empty.
    """
    name, _, value = line.partition(":")
    if version == V1_0:
        name, value = name.strip(), value.strip()
    if not name:
        raise RemoteProtocolError(f"Unable to parse header line [{line[:100]}]")
    if escaped and "\\" in line:
        known = _UNESCAPES[version]

        def character(match: re.Match[str]) -> str:
            return known.get(match[0], match[0])

        return _SEQUENCE.sub(character, name), _SEQUENCE.sub(character, value)
    return name, value


MAX_COMMAND_LENGTH: Final = 1024
MAX_HEADER_LENGTH: Final = 10240
"""The maximum bytes of a header line, escaped."""
MAX_HEADERS: Final = 1000

_BLANK: Final = re.compile(rb"[\r\n\0 \t]*")
"""What may be between frames: blank lines, and a NUL more than needed. (activemq-edges ST17)"""
_LENGTH: Final = re.compile(r"\+?[0-9]{1,10}\Z")


class StompFormat:
    """The STOMP codec of one connection. Not thread-safe."""

    def __init__(
        self,
        max_frame_size: int = MAX_FRAME_SIZE,
        unfinished_frame: UnfinishedFrame | None = None,
        *,
        version: str | None = None,
        max_data_length: int | None = None,
    ) -> None:
        """Create a codec.

        Args:
            max_frame_size: the maximum bytes of a received frame, including headers.
            max_data_length: the maximum bytes of its body, if that is less.
            unfinished_frame: counts large incomplete frames.
            version: the negotiated version; None: it follows from the first CONNECT frame received.
        """
        self.version: str | None = version
        """The negotiated version, or None."""
        self._limit = max_frame_size
        self._body_limit = max_data_length
        self.unfinished = unfinished_frame
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

    def receive_data(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes; after a `fault` there are none.

        Never raises.
        """
        frames: list[Frame] = []
        if self._failed:
            return frames
        self._buffer += data
        try:
            while (frame := self._parse()) is not None:
                frames.append(frame)
                if self.version is None and frame.command in {"CONNECT", "STOMP"}:
                    self.version = negotiated_version(frame.headers.get("accept-version"))
            self._wait_for_more()
        except RemoteProtocolError as error:
            self.discard()
            frames.append(Frame("", fault=error.reason))
        return frames

    def discard(self) -> None:
        """Drop the incomplete frame, because nothing more is received."""
        self._failed = True
        self._buffer = bytearray()
        if self.unfinished is not None:
            self.unfinished.close()

    def encode_into(self, buffer: bytearray, command: Frame) -> None:
        """Append a frame to `buffer`, with its NUL and an end of line.

        A frame whose body contains a NUL gets a content-length if it has none.

        Raises:
            LocalProtocolError: the version cannot express a header, or the command is not a line.
        """
        for position, value in self.encode_shared(buffer, command):
            buffer[position:position] = value

    def encode_shared(
        self, buffer: bytearray, command: Frame
    ) -> list[tuple[int, bytes]] | tuple[()]:
        """Append a frame to `buffer`; a long body is omitted, and returned with its position.

        Raises:
            LocalProtocolError: as for `encode_into`.
        """
        if command is HEART_BEAT:
            buffer += b"\n"
            return ()
        name = command.command
        if not name or not name.isalnum():
            raise LocalProtocolError(f"{name!r:.100} is not a command of STOMP")
        version = escaping_version(name, self.version or V1_0)
        lines = [name, *(encode_header(k, v, version) for k, v in command.headers.items())]
        if b"\0" in command.body and "content-length" not in command.headers:
            lines.append(f"content-length:{len(command.body)}")
        # a Java string may contain a lone surrogate, which UTF-8 cannot express
        buffer += "\n".join(lines).encode("utf-8", "replace")
        buffer += b"\n\n"
        if len(command.body) > LARGE_FRAME:
            shared = [(len(buffer), command.body)]
            buffer += b"\0\n"
            return shared
        buffer += command.body
        buffer += b"\0\n"
        return ()

    def _parse(self) -> Frame | None:
        if self._command is None and not self._parse_command():
            return None
        if not self._in_body and not self._parse_headers():
            return None
        return self._parse_body()

    def _parse_command(self) -> bool:
        blank = _BLANK.match(self._buffer, self._at)
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
        escaped = self._command not in _UNESCAPED
        version = escaping_version(self._command, self.version or V1_0)
        while True:
            line = self._line(MAX_HEADER_LENGTH, "The maximum header length was exceeded")
            if line is None:
                return False
            if version != V1_1:
                line = line.removesuffix("\r")
            if line in {"", "\r"}:
                break
            self._header_count += 1
            if self._header_count > MAX_HEADERS:
                raise RemoteProtocolError("The maximum number of headers was exceeded")
            name, value = decode_header(line, version, escaped=escaped)
            self._headers.setdefault(name, value)
        self._body_length = self._content_length() if self._command in _WITH_BODY else None
        self._in_body = True
        return True

    def _content_length(self) -> int | None:
        text = self._headers.get("content-length")
        if text is None:
            return None
        if not _LENGTH.match(text.strip()):
            raise RemoteProtocolError("Specified content-length is not a valid integer")
        length = int(text)
        self._check_body_size(length)
        return length

    def _parse_body(self) -> Frame | None:
        buffer = self._buffer
        if self._body_length is None:
            end = buffer.find(b"\0", self._searched)
            self._check_body_size((len(buffer) if end < 0 else end) - self._at)
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

    def _check_body_size(self, size: int) -> None:
        if self._body_limit is not None and size > self._body_limit:
            raise RemoteProtocolError(
                f"The maximum data length of {self._body_limit} bytes was exceeded"
            )
        self._check_size(self._at - self._begin + size)

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
        if self.unfinished is not None:
            self.unfinished.update(self._frames, self._expected_size())

    def _expected_size(self) -> int:
        """Return the size of the incomplete frame; if unknown, a power of two above its bytes."""
        if self._in_body and self._body_length is not None:
            return self._at + self._body_length
        size = len(self._buffer)
        return 0 if size <= LARGE_FRAME else 1 << size.bit_length()
