"""ActiveMQ's selector functions: REGEX, REPLACE, SPLIT, INLIST, MAKELIST.

NULL, or a value of the wrong type, gives NULL; ActiveMQ logs an error, and neither matches.
Patterns are those of `pyjms.selector.regex`, whose cost is bounded. A result longer than MAX_TEXT
is NULL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyjms.jms.conversions import type_of
from pyjms.selector.regex import Match, Pattern, compile_pattern
from pyjms.selector.tree import Literal, Node
from pyjms.selector.types import text_of

__all__ = ["FUNCTIONS", "MAX_TEXT", "Function", "check_call"]

MAX_TEXT: Final = 65_536
"""The longest result of REPLACE, in characters."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function, the number of its arguments, and the index of its pattern among them."""

    call: Callable[..., object]
    least: int
    most: int | None
    usage: str
    is_condition: bool = False
    pattern: int | None = None


def check_call(name: str, arguments: Sequence[Node]) -> str:
    """Return what is wrong with a call, or "" if nothing is."""
    function = FUNCTIONS[name]
    count = len(arguments)
    if count < function.least or (function.most is not None and count > function.most):
        return f"{name} does not take {count} arguments"
    if function.pattern is None:
        return ""
    pattern = arguments[function.pattern]
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        try:
            compile_pattern(pattern.value)
        except ValueError as error:
            return f"{name} has a bad pattern: {error}"
    return ""


def _regex(pattern: object, value: object) -> bool | None:
    """Return whether the pattern is found in the text of the value; FALSE for NULL."""
    if value is None:
        return False
    compiled = _pattern(pattern)
    if compiled is None:
        return None
    try:
        return compiled.search(text_of(value)) is not None
    except OverflowError:
        return None


def _replace(value: object, pattern: object, replacement: object) -> str | None:
    """Return the text with every match replaced; `$1` is a group, a backslash quotes."""
    compiled = _pattern(pattern)
    if compiled is None or not isinstance(value, str) or not isinstance(replacement, str):
        return None
    pieces: list[str] = []
    length = position = 0
    try:
        for match in compiled.find_all(value):
            pieces += value[position : match.start], _expand(replacement, match)
            length += len(pieces[-2]) + len(pieces[-1])
            if length > MAX_TEXT:
                return None
            position = match.end
    except (OverflowError, ValueError):
        return None
    return "".join((*pieces, value[position:]))


def _expand(replacement: str, match: Match) -> str:
    text = ""
    characters = iter(replacement)
    for character in characters:
        if character == "\\":
            text += next(characters, "")
        elif character == "$":
            text += match.group(int(next(characters, "")))
        else:
            text += character
    return text


def _split(value: object, pattern: object, limit: object = 0) -> list[object] | None:
    """Return the pieces between matches, at most `limit`; 0: all but empty ones at the end."""
    compiled = _pattern(pattern)
    if compiled is None or not isinstance(value, str) or type_of(limit) != "int":
        return None
    most = int(limit)  # type: ignore[call-overload]
    pieces: list[object] = []
    position = 0
    try:
        for match in compiled.find_all(value):
            if len(pieces) + 1 == most:
                break
            if match.end == 0 or match.start == match.end == len(value):
                continue
            pieces.append(value[position : match.start])
            position = match.end
    except OverflowError:
        return None
    if not pieces:
        return [value]
    pieces.append(value[position:])
    while most == 0 and pieces and pieces[-1] == "":
        pieces.pop()
    return pieces


def _in_list(values: object, value: object) -> bool | None:
    """Return whether the list contains the value, with the same type."""
    if not isinstance(values, list):
        return None
    return any(item == value and type_of(item) == type_of(value) for item in values)


def _make_list(*values: object) -> list[object]:
    return list(values)


def _pattern(pattern: object) -> Pattern | None:
    return _compiled(pattern) if isinstance(pattern, str) else None


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
