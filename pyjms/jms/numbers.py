"""Numbers in text as Java formats and parses them. (java.lang valueOf and toString)"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal

from pyjms.jms.types import Float

__all__ = ["float32", "float_text", "parse_float", "parse_float32", "parse_integer", "value_text"]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_SPECIAL = re.compile(r"([+-]?)(NaN|Infinity)")

# Java formats doubles of this range without an exponent.
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7


def parse_integer(text: str, low: int, high: int) -> int:
    """Parse an integer as Integer.valueOf does.

    Raises:
        ValueError: it is not an integer, or not between `low` and `high`.
    """
    if not _INTEGER.fullmatch(text) or not low <= (value := int(text)) <= high:
        raise ValueError(f"{text!r} is not an integer from {low} to {high}")
    return value


def parse_float(text: str) -> float:
    """Parse a double as Double.valueOf does.

    Raises:
        ValueError: it is not a number.
    """
    bare = text.strip()
    if special := _SPECIAL.fullmatch(bare):
        return -math.inf if special[0] == "-Infinity" else float(special[2])
    if bare[-1:] in "fFdD":
        bare = bare[:-1]
    if _DECIMAL.fullmatch(bare):
        return float(bare)
    if _HEXADECIMAL.fullmatch(bare):
        return float.fromhex(bare)
    raise ValueError(f"{text!r} is not a number")


def parse_float32(text: str) -> float:
    """Parse a 32-bit float; it is returned as the double with the same value.

    Raises:
        ValueError: it is not a number.
    """
    return float32(parse_float(text))


def float32(value: float) -> float:
    """Return `value` rounded to 32 bits; infinite if it is too large, as in Java."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def float_text(value: float, *, single: bool = False) -> str:
    """Return Double.toString(value), or Float.toString with `single`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    digits = Decimal(_shortest32(value) if single else repr(float(value)))
    if _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        text = format(digits, "f")
        return text if "." in text else f"{text}.0"
    sign, mantissa, _ = digits.normalize().as_tuple()
    fraction = "".join(map(str, mantissa[1:])) or "0"
    return f"{'-' if sign else ''}{mantissa[0]}.{fraction}E{digits.adjusted()}"


def _shortest32(value: float) -> str:
    for precision in range(1, 9):
        text = f"{value:.{precision}g}"
        if float32(float(text)) == value:
            return text
    return f"{value:.9g}"


def value_text(value: object) -> str:
    """Return a boolean, number or text as Java's toString does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value, single=isinstance(value, Float))
    return str(value)
