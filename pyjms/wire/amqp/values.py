"""The types of AMQP 1.0 that neither Python nor JMS distinguishes.

    AMQP                         Python
    null boolean                 None, bool
    byte short int long          Byte, Short, int, Long       (pyjms.jms.types but for int)
    ubyte ushort uint ulong      UByte, UShort, UInt, ULong
    float double char            Float, float, Char
    decimal32 64 128             Decimal32, Decimal64, Decimal128
    timestamp uuid               Timestamp, uuid.UUID
    binary string symbol         bytes, str, Symbol
    list map array               list, dict, Array
    described                    Described, or the class of `performatives` for its descriptor

They compare and hash like the Python types that they are derived from. This module is interpreted:
compiled classes cannot be derived from `int` and `str`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias

from pyjms.errors import LocalProtocolError

Value: TypeAlias = Any
"""A value of any of these types."""


class UByte(int):
    """An unsigned 8-bit integer."""

    __slots__ = ()


class UShort(int):
    """An unsigned 16-bit integer."""

    __slots__ = ()


class UInt(int):
    """An unsigned 32-bit integer."""

    __slots__ = ()


class ULong(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970."""

    __slots__ = ()


class Symbol(str):
    """A name of ASCII characters."""

    __slots__ = ()


class _Decimal(bytes):
    """A decimal number of IEEE 754, as its bytes (binary integer significand)."""

    __slots__ = ()
    BIAS: ClassVar[int]
    EXPONENT_BITS: ClassVar[int]

    def to_decimal(self) -> Decimal:
        """Return the number."""
        bits = len(self) * 8
        number = int.from_bytes(self, "big")
        sign = number >> (bits - 1)
        if number >> (bits - 5) & 0xF == 0xF:
            name = "NaN" if number >> (bits - 6) & 1 else "Infinity"
            return Decimal(f"{'-' if sign else ''}{name}")
        # if its first two bits are 1, the exponent begins behind them, and the significand with 100
        is_long = number >> (bits - 3) & 0b11 == 0b11
        width = bits - 1 - self.EXPONENT_BITS - (2 if is_long else 0)
        significand = number & ((1 << width) - 1) | (0b100 << width if is_long else 0)
        exponent = (number >> width & ((1 << self.EXPONENT_BITS) - 1)) - self.BIAS
        return Decimal((sign, tuple(map(int, str(significand))), exponent))


class Decimal32(_Decimal):
    """A decimal number of 4 bytes."""

    __slots__ = ()
    BIAS = 101
    EXPONENT_BITS = 8


class Decimal64(_Decimal):
    """A decimal number of 8 bytes."""

    __slots__ = ()
    BIAS = 398
    EXPONENT_BITS = 10


class Decimal128(_Decimal):
    """A decimal number of 16 bytes."""

    __slots__ = ()
    BIAS = 6176
    EXPONENT_BITS = 14


class Array(list[Value]):
    """Values of one type.

    Args:
        items: the values.
        code: the format code of all values on the wire; None: by the class of the first.
        descriptor: the descriptor of each value, which `items` has without it; None: none.
    """

    __slots__ = ("code", "descriptor")

    def __init__(
        self, items: Iterable[Value] = (), code: int | None = None, descriptor: Value = None
    ) -> None:
        super().__init__(items)
        self.code = code
        self.descriptor = descriptor


class Described:
    """A value with a descriptor, a Symbol or ULong as a rule, unknown to `performatives`."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: Value, value: Value) -> None:
        self.descriptor = descriptor
        self.value = value

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Described)
            and bool(self.descriptor == other.descriptor)
            and bool(self.value == other.value)
        )

    def __hash__(self) -> int:
        return hash((type(self), self.descriptor))


class Writers(dict[type, Callable[[bytearray, Value], None]]):
    """What appends a value, by the value's class."""

    def __missing__(self, cls: type) -> Callable[[bytearray, Value], None]:
        raise LocalProtocolError(f"A {cls.__name__} is no value of AMQP")
