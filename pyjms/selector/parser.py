"""Parses selector text to a tree: lark's grammar, ActiveMQ's checks, and helpful errors.

The parser is LALR, so the recursion depth does not depend on the length of the text. lark is
imported when the first selector is parsed, because most programs have no selectors.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Final

from pyjms.errors import InvalidSelectorException
from pyjms.selector.builder import MAX_DEPTH, Builder, SelectorSyntaxError
from pyjms.selector.comments import blank_comments
from pyjms.selector.tree import Node

if TYPE_CHECKING:
    from lark import Lark

__all__ = ["CONVERT_STRINGS_PREFIX", "MAX_DEPTH", "MAX_LENGTH", "invalid", "parse"]

CONVERT_STRINGS_PREFIX: Final = "convert_string_expressions:"
"""ActiveMQ's prefix of selectors that compare strings with numbers, as STOMP needs."""

MAX_LENGTH: Final = 65_536
"""The maximum length of a selector, in characters."""

_QUOTED: Final = 200

_CHARACTER_HINTS: Final = {
    '"': "strings are in single quotes: 'red'",
    "'": "a string has no closing quote; a quote inside a string is written twice",
    "!": "not equal is <>",
    "&": "join conditions with AND",
    "|": "join conditions with OR",
    ";": "a selector is one condition, without ';'",
    ".": "names have letters, digits, _ and $ only",
}
_TOKEN_HINTS: Final = {
    "": "something is missing at the end: a value, a condition or ')'",
    "=": "equality is a single =, at least is >=, at most is <=",
    "*": "a value is expected here, or a comment lacks its end */",
    ")": "there is a ) without a (, or nothing before it",
}
_RESERVED: Final = frozenset(
    {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"}
)
_EXPECTED_HINTS: Final = (
    ("STRING", "a string in single quotes is expected; IN lists and LIKE take nothing else"),
    ("LIKE", "an operator, AND or OR is missing before it"),
)


def parse(text: str) -> Node:
    """Return the tree of the selector `text`, without its prefix.

    Raises:
        InvalidSelectorException: it is malformed, too long or nested too deeply.

    """
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415 - see above

    if len(text) > MAX_LENGTH:
        raise InvalidSelectorException(
            f"Invalid selector: it has {len(text)} characters, {MAX_LENGTH} are allowed",
            position=MAX_LENGTH,
            hint="split it over several consumers, or replace the listed values by one property",
        )
    condition = text.removeprefix(CONVERT_STRINGS_PREFIX)
    try:
        # the prefix is replaced by blanks, so that positions stay correct
        node: Node = _lark().parse(blank_comments(condition).rjust(len(text)))  # type: ignore[assignment]
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        found = text[position]
        hint = _CHARACTER_HINTS.get(found, "this character has no meaning in a selector")
        raise _invalid(text, f"unexpected {found!r}", position, hint) from None
    except UnexpectedToken as error:
        found = str(error.token)
        position = len(text) if not found else error.token.start_pos or 0
        reason = f"unexpected {found!r}" if found else "it ends too early"
        raise _invalid(text, reason, position, _token_hint(found, error.expected)) from None
    except SelectorSyntaxError as error:
        raise invalid(text, error) from None
    return node


def invalid(text: str, error: SelectorSyntaxError) -> InvalidSelectorException:
    """Return the exception that describes the problem of the selector `text`."""
    return _invalid(text, error.reason, error.position, error.hint)


def _token_hint(found: str, expected: set[str]) -> str:
    if found in _TOKEN_HINTS:
        return _TOKEN_HINTS[found]
    if found.upper() in _RESERVED and "IDENTIFIER" in expected:
        return f"a value is expected here; {found.upper()} is a reserved word, not a name"
    for terminal, hint in _EXPECTED_HINTS:
        if terminal in expected and (terminal != "STRING" or "IDENTIFIER" not in expected):
            return hint
    return "a value is expected here: a name, a number, a string or '('"


def _invalid(text: str, reason: str, position: int, hint: str) -> InvalidSelectorException:
    quoted = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
    return InvalidSelectorException(
        f"Invalid selector {quoted!r}: {reason} at position {position}",
        position=position,
        hint=hint,
    )


@functools.cache
def _lark() -> Lark:
    from lark import Lark  # noqa: PLC0415 - see above

    grammar = resources.files("pyjms.selector").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar, parser="lalr", lexer="basic", transformer=Builder(), maybe_placeholders=True
    )
