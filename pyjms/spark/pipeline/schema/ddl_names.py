"""Checking the type names in a schema's DDL without Spark, so that typos are found early.

Only names are checked; Spark reports everything else when a query starts.
"""

from __future__ import annotations

import re
from typing import Final

from pyjms.errors import nearest_name

__all__ = ["ddl_problems"]

_TYPES: Final = frozenset(
    """
    ARRAY BIGINT BINARY BOOLEAN BYTE CHAR CHARACTER DATE DEC DECIMAL DOUBLE FLOAT GEOGRAPHY GEOMETRY
    INT INTEGER INTERVAL LONG MAP NUMERIC REAL SHORT SMALLINT STRING STRUCT TIME TIMESTAMP
    TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT VARCHAR VARIANT VOID
    """.split()  # noqa: SIM905 - to be read
)
"""The first words of types in Spark 4.2 and 4.3 (SqlBaseParser.g4: type)."""
_TOKEN: Final = re.compile(
    r"\s+|--[^\n]*|/\*.*?\*/|(\w+|`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.)",
    re.DOTALL,
)
_END: Final = ""


def ddl_problems(text: str) -> list[str]:
    """Return a message for each column without a type, or with an unknown one."""
    parser = _Parser([token for token in _TOKEN.findall(text) if token])
    parser.parse()
    return parser.problems


class _Parser:
    """Parses columns, and continues after a mistake."""

    def __init__(self, tokens: list[str]) -> None:
        self.problems: list[str] = []
        self._tokens = tokens
        self._position = 0

    def parse(self) -> None:
        """Parse `a INT, b STRING`, or the same as `struct<a: int, b: string>`."""
        if [token.upper() for token in self._tokens[:2]] == ["STRUCT", "<"]:
            self._position = 2
        self._columns()

    def _columns(self) -> None:
        while self._peek() not in {_END, ">"}:
            column = self._next()
            if self._peek() == ":":
                self._next()
            self._type(column)
            if self._peek() == ",":
                self._next()

    def _type(self, column: str) -> None:
        """Parse a type and what follows it: sizes, NOT NULL, a comment."""
        word = self._peek()
        if not re.match(r"[\w`]", word):
            self.problems.append(f"{column} has no type; write for example `{column} STRING`")
        elif word.strip("`").upper() not in _TYPES:
            self.problems.append(f"{word} of {column} is not a type of Spark{_nearest(word)}")
        else:
            self._next()
            if self._peek() == "<":
                self._nested(word.upper(), column)
        self._skip_rest()

    def _nested(self, kind: str, column: str) -> None:
        self._next()
        if kind == "STRUCT":
            self._columns()
        else:
            self._type(column)
            if self._peek() == ",":
                self._next()
                self._type(column)
        if self._peek() == ">":
            self._next()

    def _skip_rest(self) -> None:
        brackets = 0
        while self._peek() != _END and (brackets or self._peek() not in {",", ">"}):
            brackets += {"(": 1, ")": -1}.get(self._next(), 0)

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token


def _nearest(word: str) -> str:
    near = nearest_name(word.upper(), _TYPES)
    return f"; did you mean {near}?" if near else ""
