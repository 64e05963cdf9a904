"""STOMP's frames and versions, and the header escapes of each version. (activemq-edges ST1, ST3)"""

from __future__ import annotations

import re
from typing import Final

from pyjms.errors import LocalProtocolError, RemoteProtocolError

__all__ = [
    "HEART_BEAT",
    "V1_0",
    "V1_1",
    "V1_2",
    "VERSIONS",
    "Frame",
    "can_be_header",
    "decode_header",
    "encode_header",
    "negotiated_version",
]

V1_0: Final = "1.0"
V1_1: Final = "1.1"
V1_2: Final = "1.2"
VERSIONS: Final = (V1_2, V1_1, V1_0)
"""The supported versions, the preferred one first."""

_ESCAPES: Final[dict[str, dict[str, str]]] = {
    V1_0: {},
    V1_1: {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    V1_2: {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}
_TABLES: Final = {version: str.maketrans(table) for version, table in _ESCAPES.items()}
_UNESCAPES: Final = {v: {e: c for c, e in table.items()} for v, table in _ESCAPES.items()}
_SEQUENCE: Final = re.compile(r"\\(.|\Z)", re.DOTALL)
_UNESCAPED: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})
"""Commands whose headers are never escaped, because the version is not negotiated yet."""


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

    A client that names no version uses 1.0. (activemq-edges ST1)
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

    1.0 has no escapes. A NUL is never allowed, because many clients take it as the frame's end.
    """
    if "\0" in name or "\0" in value or not name:
        return False
    return version != V1_0 or not ("\n" in name or "\n" in value or ":" in name)


def encode_header(name: str, value: str, version: str) -> str:
    """Return the line of a header, without its end.

    Raises:
        LocalProtocolError: `version` cannot express it.
    """
    if not can_be_header(name, value, version):
        raise LocalProtocolError(f"STOMP {version} cannot express the header {name!r:.100}")
    table = _TABLES[version]
    if not table:
        return f"{name}:{value}"
    return f"{name.translate(table)}:{value.translate(table)}"


def decode_header(line: str, version: str) -> tuple[str, str]:
    """Return name and value of a header line.

    1.0 allows spaces around both, and a carriage return at the end.

    Raises:
        RemoteProtocolError: there is no colon, the name is empty, or an escape is unknown.
    """
    name, colon, value = line.partition(":")
    if version == V1_0:
        name, value = name.strip(), value.strip()
    if not colon or not name:
        raise RemoteProtocolError(f"Unable to parse header line [{line[:100]}]")
    if "\\" in line and version != V1_0:
        return _unescape(name, version), _unescape(value, version)
    return name, value


def _unescape(text: str, version: str) -> str:
    known = _UNESCAPES[version]

    def character(match: re.Match[str]) -> str:
        sequence = match.group()
        if sequence not in known:
            raise RemoteProtocolError(f"Undefined escape sequence [{sequence}] in a header")
        return known[sequence]

    return _SEQUENCE.sub(character, text)
