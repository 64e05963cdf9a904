"""The types that a schema's DDL names, looked at without Spark: a slip of the pen is told early.

Only names are judged. What else may be wrong with a text Spark says, when a query starts.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

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
    """Return a sentence for each column without a type, or with one that Spark does not have."""
    reading = _Reading([token for token in _TOKEN.findall(text) if token])
    reading.whole()
    return reading.problems


class _Reading:
    """Reads columns, and goes on after a mistake."""

    def __init__(self, tokens: list[str]) -> None:
        self.problems: list[str] = []
        self._tokens = tokens
        self._position = 0

    def whole(self) -> None:
        """Read `a INT, b STRING`, or the same as `struct<a: int, b: string>`."""
        if [token.upper() for token in self._tokens[:2]] == ["STRUCT", "<"]:
            self._position = 2
        self._columns()

    def _columns(self) -> None:
        while self._seen() not in {_END, ">"}:
            column = self._take()
            if self._seen() == ":":
                self._take()
            self._type(column)
            if self._seen() == ",":
                self._take()

    def _type(self, column: str) -> None:
        """Read a type, and what follows it: sizes, NOT NULL, a comment."""
        word = self._seen()
        if not re.match(r"[\w`]", word):
            self.problems.append(f"{column} has no type; write for instance `{column} STRING`")
        elif word.strip("`").upper() not in _TYPES:
            self.problems.append(f"{word} of {column} is no type of Spark{_nearest(word)}")
        else:
            self._take()
            if self._seen() == "<":
                self._inside(word.upper(), column)
        self._pass_over_the_rest()

    def _inside(self, kind: str, column: str) -> None:
        self._take()
        if kind == "STRUCT":
            self._columns()
        else:
            self._type(column)
            if self._seen() == ",":
                self._take()
                self._type(column)
        if self._seen() == ">":
            self._take()

    def _pass_over_the_rest(self) -> None:
        brackets = 0
        while self._seen() != _END and (brackets or self._seen() not in {",", ">"}):
            brackets += {"(": 1, ")": -1}.get(self._take(), 0)

    def _seen(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _take(self) -> str:
        token = self._seen()
        self._position += 1
        return token


def _nearest(word: str) -> str:
    near = get_close_matches(word.upper(), _TYPES, n=1)
    return f"; did you mean {near[0]}?" if near else ""
