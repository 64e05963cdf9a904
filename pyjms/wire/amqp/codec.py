"""The type system of AMQP 1.0: bytes to values and back. (part 1 of the standard)

A value is its constructor, one byte whose high half is the width of what follows, and the rest; the
constructor 0 is followed by a descriptor and the value that it describes. A described list whose
descriptor is known (`COMPOSITES`, filled by `performatives`) becomes an object of its class.

A peer cannot make the reader allocate much: a size is compared with the bytes that are there, a
count with its size, and all values of one reader are counted, since those of an array may have no
bytes at all. (MAX_VALUES, MAX_NESTING_DEPTH)

The reader works on the bytes of one frame or message: an IndexError of these, or a struct.error,
means that they end within a value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final
from uuid import UUID

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.amqp.values import (
    Array,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
    Writers,
)
from pyjms.wire.limits import MAX_NESTING_DEPTH, MAX_PROPERTY_VALUES

MAX_VALUES: Final = MAX_PROPERTY_VALUES
"""The number of values in one frame or message, including nested ones."""
MAX_WEAK_KEYS: Final = 64
"""The number of keys that are uuids or described: a peer can choose them with the same hash."""

NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT_0: Final = 0x43
ULONG_0: Final = 0x44
LIST_0: Final = 0x45
SMALL_UINT: Final = 0x52
SMALL_ULONG: Final = 0x53
UINT: Final = 0x70
_UUID: Final = 0x98
BINARY_8: Final = 0xA0
STRING_8: Final = 0xA1
SYMBOL_8: Final = 0xA3
LIST_8: Final = 0xC0
MAP_8: Final = 0xC1
LIST_32: Final = 0xD0
MAP_32: Final = 0xD1

U16: Final = struct.Struct(">H")
U32: Final = struct.Struct(">I")
U32_PAIR: Final = struct.Struct(">II")
U64: Final = struct.Struct(">Q")
I16: Final = struct.Struct(">h")
I32: Final = struct.Struct(">i")
I64: Final = struct.Struct(">q")
F32: Final = struct.Struct(">f")
F64: Final = struct.Struct(">d")

_FIXED: Final[dict[int, tuple[int, struct.Struct, Callable[[Value], Value]]]] = {
    0x50: (1, struct.Struct(">B"), UByte),
    0x51: (1, struct.Struct(">b"), Byte),
    0x54: (1, struct.Struct(">b"), int),
    0x55: (1, struct.Struct(">b"), Long),
    0x60: (2, U16, UShort),
    0x61: (2, I16, Short),
    0x70: (4, U32, UInt),
    0x71: (4, I32, int),
    0x72: (4, F32, Float),
    0x74: (4, struct.Struct(">4s"), Decimal32),
    0x80: (8, U64, ULong),
    0x81: (8, I64, Long),
    0x82: (8, F64, float),
    0x83: (8, I64, Timestamp),
    0x84: (8, struct.Struct(">8s"), Decimal64),
    0x94: (16, struct.Struct(">16s"), Decimal128),
}
"""By constructor: the number of bytes, their format and the class; rarer ones are in `_other`."""
_NONE: Final = object()
_CONSTANTS: Final[dict[int, Value]] = {
    NULL: None, TRUE: True, FALSE: False, UINT_0: UInt(0), ULONG_0: ULong(0),
}  # fmt: skip
"""By constructor: the values without bytes."""
_NAMED_SYMBOLS: Final[dict[bytes, Symbol]] = {}
_MAX_SYMBOLS: Final = 1000
_MAX_SYMBOL: Final = 100

COMPOSITES: Final[dict[Value, Callable[[list[Value]], Value]]] = {}
"""By descriptor, code or name: what makes an object of the values of a list."""


class Reader:
    """Reads values from bytes.

    The methods raise RemoteProtocolError, IndexError or struct.error; `failure` makes one of them.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data: bytes = data
        self.at: int = at
        self.end: int = len(data)
        self.depth: int = 0
        self.values: int = 0
        """The number of values in lists, maps and arrays so far."""
        self.weak_keys: int = 0
        """The number of keys that are uuids or described so far."""

    def value(self) -> Value:
        """Read a value."""
        code = self.data[self.at]
        self.at += 1
        return self.read(code) if code else self.read_described()

    def read(self, code: int) -> Value:
        """Read what follows the constructor `code`."""
        at = self.at
        if 0xA0 <= code < 0xC0:
            if code < 0xB0:
                end = at + 1 + self.data[at]
                at += 1
            else:
                end = at + 4 + U32.unpack_from(self.data, at)[0]
                at += 4
            if end > self.end:
                raise IndexError
            self.at = end
            if code & 0x0F == 1:
                return self.data[at:end].decode()
            if code & 0x0F == 3:
                return _symbol(self.data[at:end])
            if code & 0x0F == 0:
                return self.data[at:end]
            raise RemoteProtocolError(f"the constructor {code:#x} does not exist")
        constant = _CONSTANTS.get(code, _NONE)
        if constant is not _NONE:
            return constant
        if code == SMALL_ULONG:
            self.at = at + 1
            return ULong(self.data[at])
        if code == SMALL_UINT:
            self.at = at + 1
            return UInt(self.data[at])
        fixed = _FIXED.get(code)
        if fixed is not None:
            self.at = at + fixed[0]
            return fixed[2](fixed[1].unpack_from(self.data, at)[0])
        return self._other(code)

    def _other(self, code: int) -> Value:
        if code == LIST_0:
            return []
        if code in {LIST_8, LIST_32}:
            return self.items(code)
        if code in {MAP_8, MAP_32}:
            return self.pairs(code)
        if code in {0xE0, 0xF0}:
            return self._array(code)
        return self._rare(code)

    def _rare(self, code: int) -> Value:
        at = self.at
        if code == 0x56:
            self.at = at + 1
            if self.data[at] > 1:
                raise RemoteProtocolError("a boolean is neither 0 nor 1")
            return bool(self.data[at])
        if code == 0x73:
            self.at = at + 4
            (number,) = U32.unpack_from(self.data, at)
            if number > 0x10FFFF:
                raise RemoteProtocolError(f"a char is {number:#x}, which is no character")
            return Char(chr(number))
        if code == _UUID:
            self.at = at + 16
            if self.at > self.end:
                raise IndexError
            return UUID(bytes=self.data[at : at + 16])
        raise RemoteProtocolError(f"the constructor {code:#x} does not exist")

    def read_described(self) -> Value:
        """Read what follows the constructor 0: a descriptor and a value."""
        self._enter()
        descriptor = self.value()
        build = None
        if type(descriptor) is ULong or type(descriptor) is Symbol:
            build = COMPOSITES.get(descriptor)
        code = self.data[self.at]
        if build is not None and code in {LIST_0, LIST_8, LIST_32}:
            self.at += 1
            value = build([] if code == LIST_0 else self.items(code))
        else:
            value = Described(descriptor, self.value())
        self.depth -= 1
        return value

    def items(self, code: int) -> list[Value]:
        """Read what follows the constructor of a list that has a size."""
        count, end = self._start(code == LIST_8)
        data = self.data
        items: list[Value] = []
        for _ in range(count):
            at = self.at
            each = data[at]
            if each == NULL:
                self.at = at + 1
                items.append(None)
            elif each == STRING_8:
                start = at + 2
                self.at = at = start + data[at + 1]
                if at > self.end:
                    raise IndexError
                items.append(data[start:at].decode())
            else:
                self.at = at + 1
                items.append(self.read(each) if each else self.read_described())
        self._finish(end)
        return items

    def pairs(self, code: int) -> dict[Value, Value]:
        """Read what follows the constructor of a map."""
        count, end = self._start(code == MAP_8)
        if count & 1:
            raise RemoteProtocolError(f"a map has {count} keys and values, an odd number")
        data = self.data
        pairs: dict[Value, Value] = {}
        for _ in range(count >> 1):
            each = data[self.at]
            self.at += 1
            key = self.read(each) if each else self.read_described()
            if each == _UUID or not each:
                self._count_weak_key()
            each = data[self.at]
            self.at += 1
            value = self.read(each) if each else self.read_described()
            try:
                pairs[key] = value
            except TypeError as error:
                raise RemoteProtocolError("a map has a list, a map or the like as key") from error
        self._finish(end)
        return pairs

    def _count_weak_key(self) -> None:
        self.weak_keys += 1
        if self.weak_keys > MAX_WEAK_KEYS:
            raise RemoteProtocolError(
                f"maps have more than {MAX_WEAK_KEYS} keys that are uuids or described"
            )

    def _array(self, code: int) -> Array:
        count, end = self._start(code == 0xE0, minimum=0)
        descriptor = None
        element = self.data[self.at]
        self.at += 1
        if not element:
            descriptor = self.value()
            element = self.data[self.at]
            self.at += 1
        if element >> 4 > 4 and count > end - self.at:
            raise RemoteProtocolError(f"an array of {end - self.at} bytes has {count} elements")
        array = Array((), element, descriptor)
        for _ in range(count):
            array.append(self.read(element))
        self._finish(end)
        return array

    def _start(self, is_short: bool, minimum: int = 1) -> tuple[int, int]:
        """Read size and count; each value has at least `minimum` bytes."""
        if is_short:
            size, count = self.data[self.at], self.data[self.at + 1]
            width = 1
        else:
            size, count = U32_PAIR.unpack_from(self.data, self.at)
            width = 4
        end = self.at + width + size
        self.at += 2 * width
        if end > self.end:
            raise IndexError
        if count * minimum > size - width:
            raise RemoteProtocolError(f"a compound value of {size} bytes has {count} elements")
        self.values += count
        if self.values > MAX_VALUES:
            raise RemoteProtocolError(f"there are more than {MAX_VALUES} values")
        self.depth += 1
        if self.depth > MAX_NESTING_DEPTH:
            self._refuse_depth()
        return count, end

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING_DEPTH:
            self._refuse_depth()

    def _refuse_depth(self) -> None:
        raise RemoteProtocolError(f"values are nested more than {MAX_NESTING_DEPTH} deep")

    def _finish(self, end: int) -> None:
        self.depth -= 1
        if self.at != end:
            raise RemoteProtocolError("the size of a compound value is not that of its elements")

    def skip(self) -> None:
        """Go behind a value, of whose content nothing but its size is checked."""
        code = self.data[self.at]
        self.at += 1
        if not code:
            self._enter()
            self.skip()
            self.skip()
            self.depth -= 1
            return
        kind = code >> 4
        if kind in {0xA, 0xC, 0xE}:
            self.at += 1 + self.data[self.at]
        elif kind in {0xB, 0xD, 0xF}:
            self.at += 4 + int(U32.unpack_from(self.data, self.at)[0])
        elif kind < 4:
            raise RemoteProtocolError(f"the constructor {code:#x} does not exist")
        else:
            self.at += _WIDTHS[kind]
        if self.at > self.end:
            raise IndexError

    def failure(self, error: Exception) -> RemoteProtocolError:
        """Return what a method has raised as an error with its position."""
        if isinstance(error, RemoteProtocolError):
            reason = error.reason
        elif isinstance(error, UnicodeDecodeError):
            reason = "a string is not UTF-8, or a symbol not ASCII"
        else:
            reason = "the data ends within a value"
        failure = RemoteProtocolError(f"{reason}, at byte {self.at}", position=self.at)
        failure.__cause__ = error
        return failure


_WIDTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
READ_ERRORS: Final = (RemoteProtocolError, IndexError, struct.error, UnicodeDecodeError)
"""What the methods of `Reader` raise."""


def _symbol(data: bytes) -> Symbol:
    symbol = _NAMED_SYMBOLS.get(data)
    if symbol is None:
        symbol = Symbol(data.decode("ascii"))
        if len(data) <= _MAX_SYMBOL:  # clients use few names, and the same ones
            if len(_NAMED_SYMBOLS) >= _MAX_SYMBOLS:
                _NAMED_SYMBOLS.clear()
            _NAMED_SYMBOLS[data] = symbol
    return symbol


def decode_value(data: bytes, at: int = 0) -> tuple[Value, int]:
    """Return the value that begins at `at`, and where it ends.

    Raises:
        RemoteProtocolError: `data` is no value; `position` is where.
    """
    reader = Reader(data, at)
    try:
        return reader.value(), reader.at
    except READ_ERRORS as error:
        raise reader.failure(error) from error


def encode_value(buffer: bytearray, value: Value) -> None:
    """Append a value.

    Raises:
        LocalProtocolError: it has no type in AMQP, or is out of its type's range.
    """
    try:
        write_value(buffer, value)
    except WRITE_ERRORS as error:
        raise write_failure(error) from error


def write_value(buffer: bytearray, value: Value) -> None:
    """Append a value; raises `WRITE_ERRORS`."""
    WRITERS[type(value)](buffer, value)


WRITE_ERRORS: Final = (
    LocalProtocolError, struct.error, ValueError, TypeError, AttributeError, RecursionError,
)  # fmt: skip
"""What `write_value` raises: out of range, not ASCII, of another type than its field, too deep."""


def write_failure(error: Exception) -> LocalProtocolError:
    """Return what a writer has raised as an error."""
    if isinstance(error, LocalProtocolError):
        return error
    failure = LocalProtocolError(f"A value cannot be written as AMQP: {error}")
    failure.__cause__ = error
    return failure


def _write_null(buffer: bytearray, _: None) -> None:
    buffer.append(NULL)


def write_boolean(buffer: bytearray, value: bool) -> None:
    """Append a boolean."""
    buffer.append(TRUE if value else FALSE)


def write_ubyte(buffer: bytearray, value: int) -> None:
    """Append a ubyte."""
    buffer.append(0x50)
    buffer.append(value)


def write_ushort(buffer: bytearray, value: int) -> None:
    """Append a ushort."""
    buffer += b"\x60" + U16.pack(value)


def write_uint(buffer: bytearray, value: int) -> None:
    """Append a uint."""
    if 0 < value < 256:
        buffer.append(SMALL_UINT)
        buffer.append(value)
    elif value:
        buffer.append(UINT)
        buffer += U32.pack(value)
    else:
        buffer.append(UINT_0)


def write_ulong(buffer: bytearray, value: int) -> None:
    """Append a ulong."""
    if 0 < value < 256:
        buffer.append(SMALL_ULONG)
        buffer.append(value)
    elif value:
        buffer.append(0x80)
        buffer += U64.pack(value)
    else:
        buffer.append(ULONG_0)


def _write_byte(buffer: bytearray, value: int) -> None:
    buffer += struct.pack(">Bb", 0x51, value)


def _write_short(buffer: bytearray, value: int) -> None:
    buffer += b"\x61" + I16.pack(value)


def _write_int(buffer: bytearray, value: int) -> None:
    if -128 <= value < 128:
        buffer.append(0x54)
        buffer.append(value & 0xFF)
    elif -0x80000000 <= value <= 0x7FFFFFFF:
        buffer.append(0x71)
        buffer += I32.pack(value)
    else:
        buffer.append(0x81)
        buffer += I64.pack(value)


def _write_long(buffer: bytearray, value: int) -> None:
    if -128 <= value < 128:
        buffer.append(0x55)
        buffer.append(value & 0xFF)
    else:
        buffer.append(0x81)
        buffer += I64.pack(value)


def _write_float(buffer: bytearray, value: float) -> None:
    buffer += b"\x72" + F32.pack(value)


def _write_double(buffer: bytearray, value: float) -> None:
    buffer += b"\x82" + F64.pack(value)


def _write_char(buffer: bytearray, value: str) -> None:
    buffer += b"\x73" + U32.pack(ord(value))


def write_timestamp(buffer: bytearray, value: int) -> None:
    """Append a timestamp."""
    buffer.append(0x83)
    buffer += I64.pack(value)


def _write_uuid(buffer: bytearray, value: UUID) -> None:
    buffer += b"\x98" + value.bytes


def _write_decimal(code: int) -> Callable[[bytearray, bytes], None]:
    width = _WIDTHS[code >> 4]

    def write(buffer: bytearray, value: bytes) -> None:
        if len(value) != width:
            raise LocalProtocolError(f"A decimal number has {len(value)} bytes, not {width}")
        buffer.append(code)
        buffer += value

    return write


def write_binary(buffer: bytearray, value: bytes) -> None:
    """Append a binary."""
    size = len(value)
    if size < 256:
        buffer.append(BINARY_8)
        buffer.append(size)
    else:
        buffer.append(0xB0)
        buffer += U32.pack(size)
    buffer += value


def write_string(buffer: bytearray, value: str) -> None:
    """Append a string."""
    data = value.encode()
    size = len(data)
    if size < 256:
        buffer.append(STRING_8)
        buffer.append(size)
    else:
        buffer.append(0xB1)
        buffer += U32.pack(size)
    buffer += data


def write_symbol(buffer: bytearray, value: str) -> None:
    """Append a symbol."""
    data = value.encode("ascii")
    size = len(data)
    if size < 256:
        buffer.append(SYMBOL_8)
        buffer.append(size)
    else:
        buffer.append(0xB3)
        buffer += U32.pack(size)
    buffer += data


def write_compound(buffer: bytearray, body: bytearray, count: int, code: int) -> None:
    """Append a list, map or array whose long constructor is `code`, with its values in `body`."""
    size = len(body)
    if size < 255 and count < 256:
        buffer.append(code - 0x10)
        buffer.append(size + 1)
        buffer.append(count)
    else:
        buffer.append(code)
        buffer += U32_PAIR.pack(size + 4, count)
    buffer += body


def write_list(buffer: bytearray, value: list[Value]) -> None:
    """Append a list."""
    if not value:
        buffer.append(LIST_0)
        return
    body = bytearray()
    for each in value:
        WRITERS[type(each)](body, each)
    write_compound(buffer, body, len(value), LIST_32)


def write_map(buffer: bytearray, value: dict[Value, Value]) -> None:
    """Append a map."""
    body = bytearray()
    for key, each in value.items():
        WRITERS[type(key)](body, key)
        WRITERS[type(each)](body, each)
    write_compound(buffer, body, 2 * len(value), MAP_32)


def write_symbol_map(buffer: bytearray, value: dict[Value, Value]) -> None:
    """Append a map, whose keys of text are symbols."""
    body = bytearray()
    for key, each in value.items():
        if isinstance(key, str):
            write_symbol(body, key)
        else:
            WRITERS[type(key)](body, key)
        WRITERS[type(each)](body, each)
    write_compound(buffer, body, 2 * len(value), MAP_32)


def _write_described(buffer: bytearray, value: Described) -> None:
    buffer.append(0)
    write_value(buffer, value.descriptor)
    write_value(buffer, value.value)


_ELEMENTS: Final[dict[type, int]] = {
    bool: 0x56, UByte: 0x50, UShort: 0x60, UInt: 0x70, ULong: 0x80, Byte: 0x51, Short: 0x61,
    int: 0x71, Long: 0x81, Float: 0x72, float: 0x82, Char: 0x73, Timestamp: 0x83, UUID: 0x98,
    Decimal32: 0x74, Decimal64: 0x84, Decimal128: 0x94, bytes: 0xB0, str: 0xB1, Symbol: 0xB3,
    list: LIST_32, dict: MAP_32, Array: 0xF0, type(None): NULL,
}  # fmt: skip
"""By class: the constructor of the elements of an array that has not said another."""


def write_array(buffer: bytearray, value: Array) -> None:
    """Append an array."""
    code = value.code
    if code is None:
        code = _ELEMENTS.get(type(value[0]), NULL) if value else NULL
    body = bytearray()
    if value.descriptor is not None:
        body.append(0)
        write_value(body, value.descriptor)
    body.append(code)
    for each in value:
        _write_element(body, code, each)
    write_compound(buffer, body, len(value), 0xF0)


def _write_element(body: bytearray, code: int, value: Value) -> None:
    """Append a value without its constructor, as the constructor `code` has it."""
    kind = code >> 4
    fixed = _FIXED.get(code)
    if fixed is not None:
        body += fixed[1].pack(value)
    elif kind == 4 or code in {SMALL_UINT, SMALL_ULONG, 0x56}:
        if kind != 4:
            body.append(value)
        elif value != {NULL: None, TRUE: True, LIST_0: []}.get(code, 0):
            raise LocalProtocolError(f"An array of constructor {code:#x} has another value")
    elif code == 0x73:
        body += U32.pack(ord(value))
    elif code == 0x98:
        body += value.bytes
    elif kind in {0xA, 0xB}:
        data = value if isinstance(value, bytes) else value.encode()
        body += (U32.pack(len(data)) if kind == 0xB else bytes((len(data),))) + data
    else:
        element = bytearray()
        write_value(element, value)
        if element[0] == LIST_0:
            element = bytearray((LIST_8, 1, 0))
        if element[0] == code:
            body += element[1:]
        elif element[0] == code - 0x10:
            body += U32_PAIR.pack(element[1] + 3, element[2]) + element[3:]
        else:
            raise LocalProtocolError(f"An array of constructor {code:#x} has another value")


WRITERS: Final = Writers(
    {
        type(None): _write_null,
        bool: write_boolean,
        str: write_string,
        int: _write_int,
        Long: _write_long,
        float: _write_double,
        bytes: write_binary,
        Symbol: write_symbol,
        Byte: _write_byte,
        Short: _write_short,
        Float: _write_float,
        Char: _write_char,
        UByte: write_ubyte,
        UShort: write_ushort,
        UInt: write_uint,
        ULong: write_ulong,
        Timestamp: write_timestamp,
        UUID: _write_uuid,
        Decimal32: _write_decimal(0x74),
        Decimal64: _write_decimal(0x84),
        Decimal128: _write_decimal(0x94),
        list: write_list,
        dict: write_map,
        Array: write_array,
        Described: _write_described,
    }
)
"""By class; `performatives` adds its own."""
