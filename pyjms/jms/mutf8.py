"""Java's modified UTF-8, for the strings inside BytesMessages (the wire floor has its own room).

NUL is C0 80 and a character above U+FFFF two surrogates of three bytes. Whole strings at
a time, never byte by byte. (java.io.DataOutput.writeUTF; ENCODING 2.1)
"""

from __future__ import annotations

import re

__all__ = ["decode_mutf8", "encode_mutf8"]

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def encode_mutf8(text: str) -> bytes:
    """Return `text` in modified UTF-8; lone surrogates are legal."""
    if text.isascii():
        data = text.encode("ascii")
    else:
        data = _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass")
    return data.replace(b"\x00", b"\xc0\x80") if b"\x00" in data else data


def decode_mutf8(data: bytes) -> str:
    """Return the text that `data` is the modified UTF-8 of.

    Raises:
        ValueError: it is not modified UTF-8.
    """
    if data.isascii():
        return data.decode("ascii")
    if max(data) >= 0xF0:
        raise ValueError("modified UTF-8 has no sequences of four bytes")
    text = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    if b"\xed" in data:  # leads every surrogate; two of them may be one character
        text = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return text


def _surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))
