"""Encode commands as the payloads of records, and decode them.

A payload is the command's code, the size of its fields as a varint, and the fields in the encoding
of Protocol Buffers ("Encoding" page), of which KahaDB uses varints and length-delimited fields.
Fields are written in the order of their numbers, as by ActiveMQ, so that decoding and encoding a
payload of ActiveMQ reproduces it byte for byte. Unknown fields are skipped and thereby lost; code
that moves records copies their payloads instead.

The readers accept any bytes: sizes are checked before anything is copied, numbers have at most ten
bytes. Signed numbers are two's complement in 64 bits, so a negative one has ten bytes. Reading
raises KahaDBFormatError, writing LocalProtocolError.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from pyjms.errors import LocalProtocolError
from pyjms.wire.kahadb import commands
from pyjms.wire.kahadb import commands as structures
from pyjms.wire.kahadb.errors import KahaDBFormatError

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5

_FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_COUNTED: Final = (LENGTH_DELIMITED, VARINT)
_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_SMALL: Final = tuple(bytes((n,)) for n in range(128))


def encode_varint(value: int) -> bytes:
    """Return `value`, from -2**63 to 2**64-1, as a varint of one to ten bytes."""
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
    """Return the unsigned number at `position` and its end, which is at most `end`."""
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


_CACHED_DESTINATIONS: Final = 1024
_CACHED_TRANSACTIONS: Final = 64  # that are open at the same time
_LONGEST_CACHED: Final = 512
_RANGES: Final = {structures.INT32: 1 << 31, structures.INT64: 1 << 63}
_VARINTS: Final = frozenset((structures.INT32, structures.INT64, structures.BOOL))


class _Layout:
    """The tables for encoding and decoding one class, computed once."""

    __slots__ = ("absent", "reads", "required", "writes")

    def __init__(self, structure: type[structures.KahaStructure]) -> None:
        fields = structures.fields_of(structure)
        self.writes = tuple((f, encode_varint(_tag(f))) for f in fields)
        self.reads = {_tag(f): f for f in fields}
        self.required = frozenset(f.name for f in fields if f.required)
        self.absent = {f.name: None for f in fields if not f.required}


def _tag(field: structures.KahaField) -> int:
    return field.number << 3 | (VARINT if field.kind in _VARINTS else LENGTH_DELIMITED)


_LAYOUTS: Final[dict[type[structures.KahaStructure], _Layout]] = {
    structure: _Layout(structure)
    for structure in (
        *commands.COMMANDS.values(),
        *(structures.KahaDestination, structures.KahaLocation, structures.KahaTransactionInfo),
        *(structures.KahaLocalTransactionId, structures.KahaXATransactionId),
    )
}


def encode_command(command: structures.KahaCommand) -> bytes:
    """Return the payload of a record with this command."""
    body = _encode(command)
    return b"".join((bytes((command.CODE,)), encode_varint(len(body)), body))


def decode_command(data: bytes, start: int = 0, end: int | None = None) -> structures.KahaCommand:
    """Return the command in the payload `data[start:end]`."""
    end = len(data) if end is None else end
    if start >= end:
        raise KahaDBFormatError("The record is empty", position=start)
    command = commands.COMMANDS.get(data[start])
    if command is None:
        raise KahaDBFormatError(f"Unknown command {data[start]}", position=start)
    size, at = read_varint(data, start + 1, end)
    if size != end - at:
        raise KahaDBFormatError(
            f"The command declares {size} bytes of fields, the record has {end - at}",
            position=start,
        )
    decoded = _decode(command, data, at, end)
    assert isinstance(decoded, structures.KahaCommand)
    return decoded


def _encode(value: structures.KahaStructure) -> bytes:
    parts: list[bytes] = []
    for field, tag in _LAYOUTS[type(value)].writes:
        item = getattr(value, field.name)
        if item is None:
            if field.required:
                raise LocalProtocolError(f"{type(value).__name__}.{field.name} is missing")
            continue
        try:
            encoded = _encode_value(field, item)
        except (TypeError, AttributeError, UnicodeEncodeError) as e:
            raise LocalProtocolError(
                f"{type(value).__name__}.{field.name} cannot be encoded: {type(e).__name__}"
            ) from e
        parts.append(tag)
        if field.kind not in _VARINTS:
            parts.append(encode_varint(len(encoded)))
        parts.append(encoded)
    return b"".join(parts)


def _encode_value(field: structures.KahaField, item: Any) -> bytes:
    kind = field.kind
    if kind is structures.STRING:
        return str.encode(item)
    if kind is structures.BYTES:
        return item if type(item) is bytes else bytes(memoryview(item))
    if kind is structures.STRUCTURE:
        if type(item) is not field.structure:
            raise TypeError
        return (
            _encode_destination(item) if type(item) is structures.KahaDestination else _encode(item)
        )
    if kind is structures.BOOL:
        return b"\1" if item else b"\0"
    limit = _RANGES[kind]
    if not -limit <= item < limit:
        raise LocalProtocolError(f"{field.name} of {item} is out of range")
    return encode_varint(item)


@lru_cache(_CACHED_DESTINATIONS)
def _encode_destination(destination: structures.KahaDestination) -> bytes:
    return _encode(destination)


def _decode(
    structure: type[structures.KahaStructure], data: bytes, at: int, end: int
) -> structures.KahaStructure:
    layout = _LAYOUTS[structure]
    reads = layout.reads
    values: dict[str, Any] = layout.absent.copy()
    for tag, value, after in iter_fields(data, at, end):
        field = reads.get(tag)
        if field is not None:
            values[field.name] = _decode_value(field, data, value, after)
    if not layout.required <= values.keys():
        missing = ", ".join(sorted(layout.required.difference(values)))
        raise KahaDBFormatError(f"{structure.__name__} lacks {missing}", position=at)
    return structure(**values)


def _decode_value(field: structures.KahaField, data: bytes, value: int, after: int) -> Any:
    kind = field.kind
    if kind is structures.STRING:
        try:
            return str(data[value:after], "utf-8")
        except UnicodeDecodeError as e:
            raise KahaDBFormatError(f"{field.name} is not valid UTF-8", position=value) from e
    if kind is structures.BYTES:
        return bytes(data[value:after])
    if kind is structures.STRUCTURE:
        assert field.structure is not None
        if after - value <= _LONGEST_CACHED:
            if field.structure is structures.KahaDestination:
                return _decode_destination(bytes(data[value:after]))
            if field.structure is structures.KahaTransactionInfo:
                return _decode_transaction(bytes(data[value:after]))
        return _decode(field.structure, data, value, after)
    if kind is structures.BOOL:
        return value != 0
    if kind is structures.INT32:
        value &= 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value
    return to_signed(value)


@lru_cache(_CACHED_DESTINATIONS)
def _decode_destination(data: bytes) -> structures.KahaStructure:
    return _decode(structures.KahaDestination, data, 0, len(data))


@lru_cache(_CACHED_TRANSACTIONS)
def _decode_transaction(data: bytes) -> structures.KahaStructure:
    """Return the transaction of a record, the same object for successive records of its own."""
    return _decode(structures.KahaTransactionInfo, data, 0, len(data))
