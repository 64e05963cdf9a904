"""The operations on selector values: comparison, arithmetic, and ActiveMQ's functions.

TRUE, FALSE and UNKNOWN are True, False and None; NULL is None as well. Numbers of different types
are promoted as in Java, a bool is not a number, and a string is never a number unless the selector
asks for conversion. Where SQL and ActiveMQ differ, ActiveMQ wins. (jms-api 8.4 to 8.7)

The functions are REGEX, REPLACE, SPLIT, INLIST and MAKELIST. For NULL or a value of the wrong type,
the result is NULL. The first argument of each is the budget of the evaluation, to which it charges
its cost. A result longer than MAX_TEXT is NULL.

Known differences from ActiveMQ: minus zero equals zero; floats calculate as doubles; an
impossible calculation (`yes * 2`) or call is UNKNOWN, where ActiveMQ logs an error and does not
match.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pyjms.jms.conversions import INTEGER_RANGES, parse_float, parse_integer, type_of, value_text
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.selector.budget import Budget, SelectorLimitException
from pyjms.selector.regex import Pattern, compile_pattern

Operator = Literal["+", "-", "*", "/", "%"]

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


MAX_TEXT: Final = 65_536
"""The maximum length of the result of REPLACE, in characters."""
_STEPS_PER_PATTERN_CHARACTER: Final = 4
_ITEMS_PER_STEP: Final = 8
_CHARACTERS_PER_READ: Final = 64
"""The number of characters compared in the time that reading one takes elsewhere."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function, the number of its arguments, and the index of its pattern among them.

    The function takes a `Budget` before its arguments. A pattern may be a text or compiled.
    """

    call: Callable[..., object]
    least: int
    most: int | None
    usage: str
    is_condition: bool = False
    pattern: int | None = None


def check_call(name: str, arguments: Sequence[object]) -> str:
    """Return the problem with the number of arguments of a call; "": there is none."""
    function = FUNCTIONS[name]
    count = len(arguments)
    if count < function.least or (function.most is not None and count > function.most):
        return f"{name} does not take {count} arguments"
    return ""


def _regex(budget: Budget, pattern: object, value: object) -> bool | None:
    """Return whether the pattern is found in the text of the value; FALSE for NULL."""
    if value is None:
        return False
    compiled = _pattern(budget, pattern)
    text = text_of(value)
    if compiled is None or text is None:
        return None
    return compiled.search(text, budget) is not None


def _replace(budget: Budget, value: object, pattern: object, replacement: object) -> str | None:
    """Return the text with all matches replaced; `$1` is a group, a backslash escapes."""
    compiled = _pattern(budget, pattern)
    if compiled is None or not isinstance(value, str) or not isinstance(replacement, str):
        return None
    budget.spend(len(replacement) // _ITEMS_PER_STEP)
    pieces: list[str] = []
    length = position = 0
    try:
        parts = _parts(replacement)
        for match in compiled.find_all(value, budget):
            pieces.append(value[position : match.start])
            length += len(pieces[-1])
            budget.spend(len(parts) // _ITEMS_PER_STEP)
            for part in parts:
                piece = match.group(part) if isinstance(part, int) else part
                length += len(piece)
                if length > MAX_TEXT:
                    return None
                pieces.append(piece)
            position = match.end
    except ValueError as error:
        if isinstance(error, SelectorLimitException):
            raise
        return None
    budget.read(length + len(value) - position)
    return "".join((*pieces, value[position:]))


def _parts(replacement: str) -> list[str | int]:
    """Return the parts of a replacement: texts and numbers of groups."""
    parts: list[str | int] = [""]
    characters = iter(replacement)
    for character in characters:
        if character == "$":
            parts += int(next(characters, "")), ""
        else:
            parts[-1] += next(characters, "") if character == "\\" else character  # type: ignore[operator]
    return [part for part in parts if part != ""]


def _split(
    budget: Budget, value: object, pattern: object, limit: object = 0
) -> list[object] | None:
    """Return the pieces between matches, at most `limit`; 0: all but empty ones at the end."""
    compiled = _pattern(budget, pattern)
    if compiled is None or not isinstance(value, str) or type_of(limit) != "int":
        return None
    most = int(limit)  # type: ignore[call-overload]
    pieces: list[object] = []
    position = 0
    for match in compiled.find_all(value, budget):
        if len(pieces) + 1 == most:
            break
        if match.end == 0 or match.start == match.end == len(value):
            continue
        pieces.append(value[position : match.start])
        position = match.end
    budget.read(len(value))
    if not pieces:
        return [value]
    pieces.append(value[position:])
    while most == 0 and pieces and pieces[-1] == "":
        pieces.pop()
    return pieces


def _in_list(budget: Budget, values: object, value: object) -> bool | None:
    """Return whether the list contains the value, with the same type."""
    if not isinstance(values, list):
        return None
    budget.spend(1 + len(values) // _ITEMS_PER_STEP)
    weight = budget.weigh(value)
    if isinstance(value, (list, dict)):
        budget.spend(len(values) * weight)
    else:
        budget.read(len(values) * weight // _CHARACTERS_PER_READ)
    return any(item == value and type_of(item) == type_of(value) for item in values)


def _make_list(_budget: Budget, *values: object) -> list[object]:
    return list(values)


def _pattern(budget: Budget, pattern: object) -> Pattern | None:
    if isinstance(pattern, Pattern):
        return pattern
    if not isinstance(pattern, str):
        return None
    budget.spend(len(pattern) * _STEPS_PER_PATTERN_CHARACTER)
    return _compile(pattern)


@functools.lru_cache(maxsize=128)
def _compile(pattern: str) -> Pattern | None:
    try:
        return compile_pattern(pattern)
    except ValueError:
        return None


FUNCTIONS: Final[dict[str, Function]] = {
    "REGEX": Function(_regex, 2, 2, "REGEX('pattern', value)", is_condition=True, pattern=0),
    "REPLACE": Function(_replace, 3, 3, "REPLACE(text, 'pattern', 'replacement')", pattern=1),
    "SPLIT": Function(_split, 2, 3, "SPLIT(text, 'pattern' [, limit])", pattern=1),
    "INLIST": Function(_in_list, 2, 2, "INLIST(list, value)", is_condition=True),
    "MAKELIST": Function(_make_list, 1, None, "MAKELIST(value, ...)"),
}
