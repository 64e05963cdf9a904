"""Java's modified UTF-8 (`pyjms.jms.mutf8`) as the wire reads it: bad bytes are a peer's fault."""

from __future__ import annotations

from pyjms.errors import RemoteProtocolError
from pyjms.jms import mutf8
from pyjms.jms.mutf8 import encode_mutf8

__all__ = ["decode_mutf8", "decode_mutf8_lenient", "encode_mutf8", "utf16_length"]


def decode_mutf8(data: bytes) -> str:
    """Return the text of modified UTF-8 bytes.

    Raises:
        RemoteProtocolError: the bytes are not modified UTF-8; `position` counts from `data`.
    """
    if data.isascii():
        return str(data, "ascii")
    try:
        return mutf8.decode_mutf8(data)
    except UnicodeDecodeError as e:
        raise _damaged(e) from e


def decode_mutf8_lenient(data: bytes) -> str:
    """Return the text of modified or standard UTF-8, as map values may be either.

    Raises:
        RemoteProtocolError: the bytes are neither.
    """
    if data.isascii():
        return str(data, "ascii")
    try:
        return mutf8.decode_mutf8_lenient(data)
    except UnicodeDecodeError as e:
        raise _damaged(e) from e


def utf16_length(text: str) -> int:
    """Return the length of `text` as Java counts it."""
    if text.isascii() or max(text) <= "\uffff":
        return len(text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def _damaged(error: UnicodeDecodeError) -> RemoteProtocolError:
    return RemoteProtocolError(f"Not modified UTF-8: {error.reason}", position=error.start)
