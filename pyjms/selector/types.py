"""Comparison and arithmetic of selector values, with SQL's NULL and Java's types.

TRUE, FALSE and UNKNOWN are True, False and None; NULL is None as well. Numbers of different types
are promoted, a bool is not a number, and a string is never a number unless the selector asks for
conversion. Where SQL and ActiveMQ differ, ActiveMQ wins. (jms-api 8.4 to 8.7)

Known differences from ActiveMQ: minus zero equals zero; floats calculate as doubles; an
impossible calculation (`yes * 2`) is UNKNOWN, where ActiveMQ logs an error and does not match.
"""

from __future__ import annotations

import math
from typing import Final

from pyjms.jms.conversions import INTEGER_RANGES, type_of
from pyjms.jms.numbers import parse_float, parse_integer, value_text
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.selector.tree import Operator

__all__ = ["ACCEPTED", "calculate", "compare", "convert", "kind_of", "negate", "text_of"]

ACCEPTED: Final[dict[str, frozenset[int]]] = {
    "=": frozenset({0}),
    "<": frozenset({-1}),
    "<=": frozenset({-1, 0}),
    ">": frozenset({1}),
    ">=": frozenset({0, 1}),
}
"""The results of `compare` for which a comparison is TRUE."""

_KINDS: Final[dict[type, str]] = {
    bool: "boolean",
    Char: "char",
    str: "string",
    **dict.fromkeys((int, float, Byte, Short, Long, Float), "number"),
}

_SIZES: Final = {False: 2**31, True: 2**63}


def kind_of(value: object) -> str:
    """Return boolean, char, string or number, or the name of any other type."""
    kind = type(value)
    return _KINDS.get(kind) or kind.__name__


def compare(left: object, right: object) -> int | None:
    """Return -1, 0 or 1 for two values that are not NULL; None if they cannot be compared.

    NaN equals itself and is above every other number, as Double.compareTo has it.
    """
    if (kind := kind_of(left)) != kind_of(right):
        return None
    if kind == "number":
        return _compare_numbers(left, right)  # type: ignore[arg-type]
    if left == right:
        return 0
    if kind in {"boolean", "char", "string"}:
        return -1 if left < right else 1  # type: ignore[operator]
    return None


def _compare_numbers(left: float, right: float) -> int:
    if not (isinstance(left, int) and isinstance(right, int)):
        left, right = float(left), float(right)
    if left == right:
        return 0
    if left < right:
        return -1
    if left > right:
        return 1
    return math.isnan(left) - math.isnan(right)


def convert(left: object, right: object) -> tuple[object, object]:
    """Return both values, a string converted to the type of the other one if possible.

    ActiveMQ does it for selectors with the prefix `convert_string_expressions:`. The text must be
    exactly of the other's type: '2.5' and an int are left as they are.
    """
    if isinstance(left, str) != isinstance(right, str):
        if isinstance(left, str):
            return _read(left, right), right
        return left, _read(right, left)
    return left, right


def _read(text: object, other: object) -> object:
    kind = type_of(other)
    try:
        if kind == "boolean":
            return str(text).lower() == "true"
        if kind in {"double", "float"}:
            return parse_float(str(text))
        if bounds := INTEGER_RANGES.get(kind):
            return parse_integer(str(text), *bounds)
    except ValueError:
        return text
    return text


def negate(value: object) -> object:
    """Return minus `value`; NULL if it is not a number."""
    if kind_of(value) != "number":
        return None
    return -value if isinstance(value, float) else _integer(-value, value, value)  # type: ignore[operator]


def calculate(operator: Operator, left: object, right: object) -> object:
    """Return the result; NULL if a value is NULL or not a number. String `+` any value joins."""
    if left is None or right is None:
        return None
    if operator == "+" and kind_of(left) == "string":
        text = text_of(right)
        return None if text is None else f"{left}{text}"
    if kind_of(left) != "number" or kind_of(right) != "number":
        return None
    return _calculate(operator, left, right)  # type: ignore[arg-type]


def _calculate(operator: Operator, left: float, right: float) -> object:
    if operator == "/":
        return _divide(float(left), float(right))
    if operator == "%":
        return _remainder(left, right)
    if not (isinstance(left, int) and isinstance(right, int)):
        left, right = float(left), float(right)
    result = left + right if operator == "+" else left - right if operator == "-" else left * right
    return result if isinstance(result, float) else _integer(result, left, right)


def _integer(result: int, left: object, right: object) -> int:
    """Wrap around at the operands' size, as Java does."""
    long = "long" in {type_of(left), type_of(right)}
    size = _SIZES[long]
    wrapped = (result + size) % (2 * size) - size
    return Long(wrapped) if long else wrapped


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(left: float, right: float) -> object:
    if not right:
        return math.nan
    if not (isinstance(left, int) and isinstance(right, int)):
        return math.nan if math.isinf(left) else math.fmod(left, right)
    rest = abs(left) % abs(right)
    return _integer(-rest if left < 0 else rest, left, right)


def text_of(value: object) -> str | None:
    """Return the value as text, as Java's toString does; None for lists and maps."""
    if isinstance(value, (list, dict)):
        return None
    return value_text(value)
