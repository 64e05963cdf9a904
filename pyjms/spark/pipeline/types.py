"""What a body holds, as a tree: of a pydantic model or of Spark's DDL, read the same way.

A scalar is read as text and then converted, so that both JSON forms of a number are numbers.
Needs no Spark. (spark-pipeline 6.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

__all__ = [
    "ARRAY_ITEM",
    "Array",
    "Check",
    "Field",
    "Map",
    "Native",
    "Scalar",
    "Struct",
    "Type",
    "quoted",
    "raw_ddl",
    "type_ddl",
]

ARRAY_ITEM: Final = "[]"
"""How a path names the items of a list, and the values of a map."""


@dataclass(frozen=True)
class Check:
    """A condition on a value: the name of one that `parsing` knows, and its bound."""

    name: str
    bound: Any


@dataclass(frozen=True)
class Scalar:
    """One value, of a Spark type that texts are cast to."""

    ddl: str
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Native:
    """A type that Spark's JSON reader reads as it is; a column of its own has its own reading."""

    ddl: str


@dataclass(frozen=True)
class Array:
    """A list."""

    item: Type
    item_required: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Map:
    """A JSON object with any keys."""

    value: Type
    value_required: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Field:
    """One key of a JSON object, and the column that it becomes."""

    name: str
    key: str
    type: Type
    required: bool
    default: str | None = None
    """What stands for a missing value or null, as JSON."""


@dataclass(frozen=True)
class Struct:
    """A JSON object with these keys."""

    fields: tuple[Field, ...]
    is_closed: bool = False
    """Whether other keys are an error; the outermost only."""


Type: TypeAlias = Scalar | Native | Array | Map | Struct


def raw_ddl(kind: Type) -> str:
    """Return the Spark type that the JSON reader is given: all scalars are strings."""
    return _ddl(kind, is_raw=True)


def type_ddl(kind: Type) -> str:
    """Return the Spark type that a pipeline's function gets."""
    return _ddl(kind, is_raw=False)


def quoted(name: str) -> str:
    """Return a column's name as Spark's SQL takes any."""
    return "`" + name.replace("`", "``") + "`"


def _ddl(kind: Type, *, is_raw: bool) -> str:
    """Return a type as Spark writes it; a raw struct has the body's own keys."""
    match kind:
        case Scalar(ddl):
            return "string" if is_raw else ddl
        case Native(ddl):
            return ddl
        case Array(item):
            return f"array<{_ddl(item, is_raw=is_raw)}>"
        case Map(value):
            return f"map<string,{_ddl(value, is_raw=is_raw)}>"
        case Struct(fields):
            parts = (
                f"{quoted(f.key if is_raw else f.name)}:{_ddl(f.type, is_raw=is_raw)}"
                for f in fields
            )
            return f"struct<{','.join(parts)}>"
