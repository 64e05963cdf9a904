"""Commands to records' payloads and back.

A payload is the command's code, the size of its fields as a varint, and the fields. Fields are
written in the order of their numbers, as ActiveMQ does: what ActiveMQ wrote comes back byte for
byte. Fields that nobody knows are skipped and so lost; who moves records copies their payloads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from pyjms.errors import LocalProtocolError
from pyjms.wire.kahadb.commands import (
    COMMANDS,
    FieldKind,
    KahaCommand,
    KahaDestination,
    KahaField,
    KahaLocalTransactionId,
    KahaLocation,
    KahaStructure,
    KahaTransactionInfo,
    KahaXATransactionId,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.protobuf import (
    LENGTH_DELIMITED,
    VARINT,
    encode_varint,
    iter_fields,
    read_varint,
    to_signed,
)

__all__ = ["decode_command", "encode_command"]

_CACHED_DESTINATIONS: Final = 1024
_LONGEST_CACHED: Final = 512
_RANGES: Final = {FieldKind.INT32: 1 << 31, FieldKind.INT64: 1 << 63}


class _Layout:
    """What encoding and decoding a class needs, worked out once."""

    def __init__(self, structure: type[KahaStructure]) -> None:
        self.structure = structure
        self.writes = tuple((f, encode_varint(_tag(f))) for f in structure.FIELDS)
        self.reads = {_tag(f): f for f in structure.FIELDS}
        self.required = frozenset(f.name for f in structure.FIELDS if f.required)
        self.absent = {f.name: None for f in structure.FIELDS if not f.required}


def _tag(field: KahaField) -> int:
    simple = field.kind in (FieldKind.INT32, FieldKind.INT64, FieldKind.BOOL)
    return field.number << 3 | (VARINT if simple else LENGTH_DELIMITED)


_LAYOUTS: Final[dict[type[KahaStructure], _Layout]] = {
    structure: _Layout(structure)
    for structure in (
        *COMMANDS.values(),
        *(KahaDestination, KahaLocation, KahaTransactionInfo),
        *(KahaLocalTransactionId, KahaXATransactionId),
    )
}


def encode_command(command: KahaCommand) -> bytes:
    """Return the payload of the record that says `command`.

    Raises:
        LocalProtocolError: a field is missing, of a wrong type or out of range.
    """
    body = _encode(command)
    return b"".join((bytes((command.CODE,)), encode_varint(len(body)), body))


def decode_command(data: bytes, start: int = 0, end: int | None = None) -> KahaCommand:
    """Return what the payload `data[start:end]` says.

    Raises:
        KahaDBFormatError: its code is unknown, it is damaged, or a required field is missing.
    """
    end = len(data) if end is None else end
    if start >= end:
        raise KahaDBFormatError("An empty record", position=start)
    command = COMMANDS.get(data[start])
    if command is None:
        raise KahaDBFormatError(f"Unknown command {data[start]}", position=start)
    size, at = read_varint(data, start + 1, end)
    if size != end - at:
        raise KahaDBFormatError(f"{size} bytes of fields where {end - at} are", position=start)
    decoded = _decode(command, data, at, end)
    assert isinstance(decoded, KahaCommand)
    return decoded


def _encode(value: KahaStructure) -> bytes:
    parts: list[bytes] = []
    for field, tag in _LAYOUTS[type(value)].writes:
        item = getattr(value, field.name)
        if item is None:
            if field.required:
                raise LocalProtocolError(f"{type(value).__name__}.{field.name} is missing")
            continue
        try:
            encoded = _encode_value(field, item)
        except (TypeError, AttributeError, KeyError, UnicodeEncodeError) as e:
            raise LocalProtocolError(
                f"{type(value).__name__}.{field.name} cannot be written: {type(e).__name__}"
            ) from e
        parts.append(tag)
        parts.append(encoded)
    return b"".join(parts)


def _encode_value(field: KahaField, item: Any) -> bytes:
    kind = field.kind
    if kind == FieldKind.STRING:
        data = str.encode(item)
    elif kind == FieldKind.BYTES:
        data = bytes(memoryview(item))
    elif kind == FieldKind.STRUCTURE:
        if type(item) is not field.structure:
            raise TypeError
        data = _encode_destination(item) if type(item) is KahaDestination else _encode(item)
    elif kind == FieldKind.BOOL:
        return b"\1" if item else b"\0"
    else:
        limit = _RANGES[kind]
        if not -limit <= item < limit:
            raise LocalProtocolError(f"{field.name} of {item} is out of range")
        return encode_varint(item)
    return encode_varint(len(data)) + data


@lru_cache(_CACHED_DESTINATIONS)
def _encode_destination(destination: KahaDestination) -> bytes:
    return _encode(destination)


def _decode(structure: type[KahaStructure], data: bytes, at: int, end: int) -> KahaStructure:
    layout = _LAYOUTS[structure]
    values: dict[str, Any] = dict(layout.absent)
    for number, wire_type, value, after in iter_fields(data, at, end):
        field = layout.reads.get(number << 3 | wire_type)
        if field is not None:
            values[field.name] = _decode_value(field, data, value, after)
    missing = layout.required - values.keys()
    if missing:
        raise KahaDBFormatError(
            f"{structure.__name__} without {', '.join(sorted(missing))}", position=at
        )
    return structure(**values)


def _decode_value(field: KahaField, data: bytes, value: int, after: int) -> Any:
    kind = field.kind
    if kind == FieldKind.STRING:
        try:
            return str(data[value:after], "utf-8")
        except UnicodeDecodeError as e:
            raise KahaDBFormatError(f"{field.name} is no UTF-8", position=value) from e
    if kind == FieldKind.BYTES:
        return bytes(data[value:after])
    if kind == FieldKind.STRUCTURE:
        assert field.structure is not None
        if field.structure is KahaDestination and after - value <= _LONGEST_CACHED:
            return _decode_destination(bytes(data[value:after]))
        return _decode(field.structure, data, value, after)
    if kind == FieldKind.BOOL:
        return value != 0
    if kind == FieldKind.INT32:
        value &= 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value
    return to_signed(value)


@lru_cache(_CACHED_DESTINATIONS)
def _decode_destination(data: bytes) -> KahaStructure:
    return _decode(KahaDestination, data, 0, len(data))
