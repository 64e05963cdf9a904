"""ActiveMQ's selector functions: REGEX, REPLACE, SPLIT, INLIST, MAKELIST.

For NULL or a value of the wrong type, the result is NULL; ActiveMQ logs an error, and neither
selects the message. The first argument of each function is the budget of the evaluation, to which
it charges its cost. A result longer than MAX_TEXT is NULL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyjms.jms.conversions import type_of
from pyjms.selector.budget import Budget, SelectorLimitException
from pyjms.selector.regex import Pattern, compile_pattern
from pyjms.selector.types import text_of

__all__ = ["FUNCTIONS", "MAX_TEXT", "Function", "check_call"]

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
    """Return the parts of a replacement: texts and numbers of groups.

    Raises:
        ValueError: a `$` is not followed by a digit.

    """
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
    return _compiled(pattern)


@functools.lru_cache(maxsize=128)
def _compiled(pattern: str) -> Pattern | None:
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
