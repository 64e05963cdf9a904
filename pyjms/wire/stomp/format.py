"""STOMP over one connection, on either side: bytes to frames and back.

The broker's side determines the version itself, from the client's CONNECT frame, since further
frames may have arrived with it. Before that, frames of at most 64 KiB are accepted.
(activemq-edges ST1, ST3)
"""

from __future__ import annotations

from pyjms.errors import LocalProtocolError
from pyjms.wire.limits import LARGE_FRAME, MAX_FRAME_SIZE
from pyjms.wire.openwire.frame_budget import UnfinishedFrame
from pyjms.wire.stomp.frames import (
    HEART_BEAT,
    V1_0,
    Frame,
    encode_header,
    escaping_version,
    negotiated_version,
)
from pyjms.wire.stomp.parser import StompParser

__all__ = ["StompFormat"]


class StompFormat:
    """The STOMP codec of one connection. Not thread-safe."""

    def __init__(
        self,
        max_frame_size: int = MAX_FRAME_SIZE,
        unfinished_frame: UnfinishedFrame | None = None,
        *,
        version: str | None = None,
    ) -> None:
        """Create a codec.

        Args:
            max_frame_size: the maximum bytes of a received frame, including headers.
            unfinished_frame: counts large incomplete frames.
            version: the negotiated version; None: it follows from the first CONNECT frame received.
        """
        self._parser = StompParser(max_frame_size, unfinished_frame)
        self._parser.version = version

    @property
    def version(self) -> str | None:
        """The negotiated version, or None."""
        return self._parser.version

    def receive_data(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes; after a `fault` there are none.

        Never raises.
        """
        parser = self._parser
        parser.feed(data)
        frames: list[Frame] = []
        while (frame := parser.next_frame()) is not None:
            frames.append(frame)
            if parser.version is None and frame.command in {"CONNECT", "STOMP"}:
                parser.version = negotiated_version(frame.headers.get("accept-version"))
        return frames

    def discard(self) -> None:
        """Drop the incomplete frame, because nothing more is received."""
        self._parser.discard()

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
