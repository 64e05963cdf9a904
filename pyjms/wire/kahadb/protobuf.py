"""The part of Protocol Buffers that KahaDB uses: varints and length-delimited fields.

The readers accept any bytes: sizes are checked before anything is copied, numbers have at most ten
bytes, and fields with unknown numbers or other wire types are yielded for the caller to judge.
Signed numbers are two's complement in 64 bits, so a negative one has ten bytes.
Source: the "Encoding" page of protobuf; KahaDB has no groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyjms.errors import LocalProtocolError
from pyjms.wire.kahadb.errors import KahaDBFormatError

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH_DELIMITED",
    "VARINT",
    "encode_varint",
    "iter_fields",
    "read_varint",
    "to_signed",
]

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5

_FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_COUNTED: Final = (LENGTH_DELIMITED, VARINT)
_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_SMALL: Final = tuple(bytes((n,)) for n in range(128))


def encode_varint(value: int) -> bytes:
    """Return `value`, from -2**63 to 2**64-1, as a varint of one to ten bytes.

    Raises:
        LocalProtocolError: it does not fit 64 bits.
    """
    if 0 <= value < 128:
        return _SMALL[value]
    if not -_SIGN <= value <= _MASK:
        raise LocalProtocolError(f"{value} does not fit 64 bits")
    value &= _MASK
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the unsigned number at `position` and its end, which is at most `end`.

    Raises:
        KahaDBFormatError: it is truncated, or has more than ten bytes.
    """
    value = shift = 0
    at = position
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            # Only one bit of the tenth byte fits; Java drops the others.
            return value & _MASK, at
        shift += 7
        if shift == 70:
            raise KahaDBFormatError("A varint has more than ten bytes", position=position)
    raise KahaDBFormatError("A varint is truncated", position=position)


def to_signed(value: int) -> int:
    """Return the signed number with the 64 bits of `value`."""
    return value - (1 << 64) if value & _SIGN else value


def iter_fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the tag, value and end of each field of `data[position:end]`.

    A tag is the field's number times 8 plus its wire type. The value of a varint is the unsigned
    number; that of any other field is the position of its first byte.

    Raises:
        KahaDBFormatError: a field is truncated, has no number, or has a wire type that
            KahaDB does not use.
    """
    at = position
    while at < end:
        start = at
        # Nearly all tags and sizes have one byte, which is read without a call.
        tag = data[at]
        if tag < 128:
            at += 1
        else:
            tag, at = read_varint(data, at, end)
        wire_type = tag & 7
        if tag < 8:
            raise KahaDBFormatError("A field has no number", position=start)
        if wire_type in _COUNTED:
            if at < end and data[at] < 128:
                size = data[at]
                at += 1
            else:
                size, at = read_varint(data, at, end)
            if wire_type == VARINT:
                yield tag, size, at
                continue
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise KahaDBFormatError(
                f"Field {tag >> 3} has wire type {wire_type}, which KahaDB does not use",
                position=start,
            )
        if size > end - at:
            raise KahaDBFormatError(
                f"Field {tag >> 3} has {size} bytes, {end - at} are left", position=start
            )
        after = at + size
        yield tag, at, after
        at = after
