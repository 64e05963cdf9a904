"""Java's modified UTF-8: NUL in two bytes, characters above U+FFFF as two surrogates.

Whole strings are converted by Python's codecs; there is no loop over characters. Lone surrogates
are legal and not changed. (java.io.DataInput; openwire-encoding 2.1)
"""

from __future__ import annotations


def encode_mutf8(text: str) -> bytes:
    """Return `text` in modified UTF-8, without a count; lone surrogates are legal."""
    if text.isascii():
        data = text.encode("ascii")
    elif max(text) > "\uffff":
        data = _split_astral(text).encode("utf-8", "surrogatepass")
    else:
        data = text.encode("utf-8", "surrogatepass")
    return data.replace(b"\0", b"\xc0\x80") if b"\0" in data else data


def decode_mutf8(data: bytes) -> str:
    """Return the text of modified UTF-8 bytes.

    Raises:
        UnicodeDecodeError: it is not modified UTF-8; `start` says where.
    """
    if data.isascii():
        return str(data, "ascii")
    if max(data) >= 0xF0:
        at = data.index(max(data))
        raise UnicodeDecodeError("modified utf-8", data, at, at + 1, "a 4-byte sequence")
    return decode_mutf8_lenient(data)


def decode_mutf8_lenient(data: bytes) -> str:
    """Return the text of modified or standard UTF-8; map values may be either.

    Raises:
        UnicodeDecodeError: the bytes are neither; `start` says where.
    """
    if data.isascii():
        return str(data, "ascii")
    if b"\xc0\x80" in data:
        data = data.replace(b"\xc0\x80", b"\0")
    text = data.decode("utf-8", "surrogatepass")
    # 0xED leads the 3-byte form of a surrogate; a pair of them is one character.
    return _join_surrogates(text) if b"\xed" in data else text


def utf16_length(text: str) -> int:
    """Return the length of `text` as Java counts it, in UTF-16 code units."""
    if text.isascii() or max(text) <= "\uffff":
        return len(text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _split_astral(text: str) -> str:
    """Widen each UTF-16 unit to 32 bits, so that surrogates become separate characters."""
    units = text.encode("utf-16-be", "surrogatepass")
    wide = bytearray(2 * len(units))
    wide[2::4] = units[0::2]
    wide[3::4] = units[1::2]
    return wide.decode("utf-32-be", "surrogatepass")
