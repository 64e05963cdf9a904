"""Typed values: property maps, and the bodies of map, stream and text messages.

Python types correspond to the type codes one to one (`pyjms.jms.types` has those that Python
lacks), so decoded values are encoded with the same codes again. Encoding raises LocalProtocolError,
decoding RemoteProtocolError with the position in `data`; no other exception escapes. Bytes after a
complete value are ignored, as in ActiveMQ. (openwire-encoding 7 and 8)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.mutf8 import decode_mutf8, decode_mutf8_lenient, encode_mutf8, utf16_length
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.limits import MAX_NESTING_DEPTH, MAX_STRING_SIZE, MAX_VALUES

__all__ = [
    "decode_map",
    "decode_text",
    "decode_values",
    "encode_map",
    "encode_text",
    "encode_values",
]

_T = TypeVar("_T")

NULL: Final = 0
BOOLEAN: Final = 1
BYTE: Final = 2
CHAR: Final = 3
SHORT: Final = 4
INT: Final = 5
LONG: Final = 6
DOUBLE: Final = 7
FLOAT: Final = 8
STRING: Final = 9
BYTES: Final = 10
MAP: Final = 11
LIST: Final = 12
BIG_STRING: Final = 13

# The reference writes strings of this many UTF-16 units, or more, as BIG_STRING.
_BIG_STRING_UNITS: Final = 8191
# The shortest map entry: the byte count of an empty key, the code of a null value.
_SMALLEST_ENTRY: Final = 3

_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")

# The struct of a fixed-size value, and the function that converts to its Python type.
_READERS: Final[dict[int, tuple[struct.Struct, Callable[[Any], object]]]] = {
    BOOLEAN: (struct.Struct(">?"), bool),
    BYTE: (struct.Struct(">b"), Byte),
    CHAR: (struct.Struct(">H"), lambda unit: Char(chr(unit))),
    SHORT: (struct.Struct(">h"), Short),
    INT: (struct.Struct(">i"), int),
    LONG: (struct.Struct(">q"), Long),
    DOUBLE: (struct.Struct(">d"), float),
    FLOAT: (struct.Struct(">f"), Float),
}

_WRITERS: Final[dict[type, struct.Struct]] = {
    bool: struct.Struct(">B?"),
    Byte: struct.Struct(">Bb"),
    Short: struct.Struct(">Bh"),
    Long: struct.Struct(">Bq"),
    float: struct.Struct(">Bd"),
    Float: struct.Struct(">Bf"),
}
_CODES: Final[dict[type, int]] = {
    bool: BOOLEAN,
    Byte: BYTE,
    Short: SHORT,
    Long: LONG,
    float: DOUBLE,
    Float: FLOAT,
}


def encode_map(values: Mapping[str, object]) -> bytes:
    """Return `values` as a primitive map: message properties, the body of a MapMessage.

    Top-level strings with characters above U+FFFF are written in standard UTF-8, the only form
    that a Java receiver reads correctly there. All other strings are modified UTF-8.
    """
    out = bytearray()
    _write_map(out, values, 0)
    return bytes(out)


def decode_map(data: bytes, max_values: int = MAX_VALUES) -> dict[str, object]:
    """Return the content of a map of at most `max_values`, nested ones included; null: empty."""
    return _guard(data, _read_map, max_values)


def encode_values(values: Iterable[object]) -> bytes:
    """Return `values` in sequence: the body of a StreamMessage."""
    out = bytearray()
    for value in values:
        if isinstance(value, Mapping | list | tuple):
            raise LocalProtocolError(f"A stream cannot hold a {type(value).__name__}")
        _write_value(out, value, 1)
    return bytes(out)


def decode_values(data: bytes, max_values: int = MAX_VALUES) -> list[object]:
    """Return the values of a StreamMessage's body."""
    return _guard(data, _read_stream, max_values)


def encode_text(text: str | None) -> bytes:
    """Return the body of a TextMessage (None is a count of -1; clients send no body instead)."""
    if text is None:
        return b"\xff\xff\xff\xff"
    data = encode_mutf8(text)
    return _I32.pack(len(data)) + data


def decode_text(data: bytes) -> str | None:
    """Return the text of a TextMessage's body."""
    text = data[4:]
    if text.isascii() and len(text) == int.from_bytes(data[:4], "big", signed=True):
        return str(text, "ascii")  # most texts, at a fifth of the cost
    return _guard(data, _read_text)


def _write_map(out: bytearray, values: Mapping[str, object], depth: int) -> None:
    out += _I32.pack(len(values))
    for key, value in values.items():
        name = encode_mutf8(key)
        if len(name) > MAX_STRING_SIZE:
            raise LocalProtocolError(f"Name of {len(name)} bytes is longer than {MAX_STRING_SIZE}")
        out += _U16.pack(len(name))
        out += name
        _write_value(out, value, depth)


def _write_value(out: bytearray, value: object, depth: int) -> None:
    kind = type(value)
    if kind is str:
        _write_string(out, str(value), standard=depth == 0)
        return
    writer = _WRITERS.get(kind)
    if writer is not None:
        try:
            out += writer.pack(_CODES[kind], value)
        except (struct.error, OverflowError) as e:
            raise LocalProtocolError(f"{value!r} is out of range for {kind.__name__}") from e
    elif value is None:
        out.append(NULL)
    elif isinstance(value, int):
        _write_int(out, value)
    elif isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        out.append(BYTES)
        out += _I32.pack(len(data))
        out += data
    else:
        _write_other(out, value, depth)


def _write_int(out: bytearray, value: int) -> None:
    if -0x80000000 <= value <= 0x7FFFFFFF:
        out.append(INT)
        out += value.to_bytes(4, "big", signed=True)
    elif -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        out.append(LONG)
        out += value.to_bytes(8, "big", signed=True)
    else:
        raise LocalProtocolError(f"{value} needs more than 64 bits")


def _write_string(out: bytearray, value: str, *, standard: bool) -> None:
    data = _standard_utf8(value) if standard else encode_mutf8(value)
    # fewer bytes than the limit imply fewer units; otherwise the units must be counted
    if len(data) < _BIG_STRING_UNITS or utf16_length(value) < _BIG_STRING_UNITS:
        out.append(STRING)
        out += _U16.pack(len(data))
    else:
        out.append(BIG_STRING)
        out += _I32.pack(len(data))
    out += data


def _standard_utf8(value: str) -> bytes:
    if value.isascii() or max(value) <= "\uffff":
        return encode_mutf8(value)
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate exists in modified UTF-8 only
        return encode_mutf8(value)


def _write_other(out: bytearray, value: object, depth: int) -> None:
    if isinstance(value, Char):
        _write_char(out, value)
    elif isinstance(value, str):
        _write_string(out, value, standard=depth == 0)
    elif isinstance(value, float):
        out.append(DOUBLE)
        out += struct.pack(">d", value)
    elif isinstance(value, Mapping | list | tuple):
        if depth >= MAX_NESTING_DEPTH:
            raise LocalProtocolError(f"Values nest deeper than {MAX_NESTING_DEPTH}")
        if isinstance(value, Mapping):
            out.append(MAP)
            _write_map(out, value, depth + 1)
        else:
            out.append(LIST)
            out += _I32.pack(len(value))
            for item in value:
                _write_value(out, item, depth + 1)
    else:
        raise LocalProtocolError(f"A {type(value).__name__} has no OpenWire type")


def _write_char(out: bytearray, value: str) -> None:
    if len(value) != 1 or value > "\uffff":
        raise LocalProtocolError(f"{value!r} is not a single UTF-16 unit")
    out.append(CHAR)
    out += _U16.pack(ord(value))


class _Reader:
    """Reads values one after another."""

    __slots__ = ("data", "left", "max_values", "pos")

    def __init__(self, data: bytes, max_values: int) -> None:
        self.data = data
        self.pos = 0
        self.left = self.max_values = max_values

    def i32(self) -> int:
        value: int = _I32.unpack_from(self.data, self.pos)[0]
        self.pos += 4
        return value

    def read_bytes(self, count: int) -> bytes:
        start = self.pos
        end = start + count
        if count < 0 or end > len(self.data):
            raise RemoteProtocolError(
                f"Count {count} at {start} is more than the {len(self.data) - start} bytes left",
                position=start,
            )
        self.pos = end
        return self.data[start:end]

    def short_bytes(self) -> bytes:
        count: int = _U16.unpack_from(self.data, self.pos)[0]
        self.pos += 2
        return self.read_bytes(count)

    def map(self, depth: int) -> dict[str, object] | None:
        count = self.i32()
        if count == -1:
            return None
        self._check(count, _SMALLEST_ENTRY, depth)
        values: dict[str, object] = {}
        for _ in range(count):
            key = decode_mutf8_lenient(self.short_bytes())
            values[key] = self.value(depth, decode_mutf8_lenient)
        return values

    def value(self, depth: int, text: Callable[[bytes], str]) -> object:
        code = self.data[self.pos]
        self.pos += 1
        if code == STRING:
            return text(self.short_bytes())
        fixed = _READERS.get(code)
        if fixed is not None:
            value = fixed[0].unpack_from(self.data, self.pos)[0]
            self.pos += fixed[0].size
            return fixed[1](value)
        if code == NULL:
            return None
        if code == BYTES:
            return self.read_bytes(self.i32())
        if code == BIG_STRING:
            return text(self.read_bytes(self.i32()))
        if code == MAP:
            return self.map(depth + 1)
        if code == LIST:
            return self.list(depth + 1, text)
        raise RemoteProtocolError(f"Unknown value type {code}", position=self.pos - 1)

    def list(self, depth: int, text: Callable[[bytes], str]) -> object:
        count = self.i32()
        self._check(count, 1, depth)
        return [self.value(depth, text) for _ in range(count)]

    def _check(self, count: int, smallest: int, depth: int) -> None:
        if depth > MAX_NESTING_DEPTH:
            raise RemoteProtocolError(
                f"Values nest deeper than {MAX_NESTING_DEPTH}", position=self.pos
            )
        if count < 0 or count * smallest > len(self.data) - self.pos:
            raise RemoteProtocolError(
                f"Count {count} is more than the {len(self.data) - self.pos} bytes left can hold",
                position=self.pos,
            )
        self.left -= count
        if self.left < 0:
            raise self.too_many()

    def too_many(self) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"There are more than the {self.max_values} values allowed", position=self.pos
        )


def _read_map(reader: _Reader) -> dict[str, object]:
    return reader.map(0) or {}


def _read_stream(reader: _Reader) -> list[object]:
    values = []
    while reader.pos < len(reader.data):
        if reader.data[reader.pos] in (MAP, LIST):
            raise RemoteProtocolError("A stream cannot hold a map or a list", position=reader.pos)
        values.append(reader.value(0, decode_mutf8))
        if len(values) > reader.max_values:
            raise reader.too_many()
    return values


def _read_text(reader: _Reader) -> str | None:
    count = reader.i32()
    return None if count == -1 else decode_mutf8(reader.read_bytes(count))


def _guard(data: bytes, read: Callable[[_Reader], _T], max_values: int = MAX_VALUES) -> _T:
    reader = _Reader(data, max_values)
    try:
        return read(reader)
    except (struct.error, IndexError) as e:
        raise RemoteProtocolError(
            f"Value is cut short after {len(data)} bytes", position=reader.pos
        ) from e
    except UnicodeDecodeError as e:
        raise RemoteProtocolError(
            f"Not modified UTF-8: {e.reason}", position=reader.pos - len(e.object) + e.start
        ) from e
