"""The type tree of a message body, made from a pydantic model or from Spark's DDL.

A scalar is read as text and then converted, so that both JSON forms of a number (2 and "2") are
numbers. Needs no Spark. (spark-pipeline 6.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from pydantic import BaseModel


Schema: TypeAlias = "type[BaseModel] | str"
"""A pydantic model, or columns in Spark's DDL."""

ARRAY_ITEM: Final = "[]"
"""What a path calls the items of a list, and the values of a map."""


@dataclass(frozen=True)
class Check:
    """A condition on a value: a name that `conversion` implements, and its bound."""

    name: str
    bound: Any


@dataclass(frozen=True)
class Scalar:
    """A single value, of a Spark type that texts are cast to."""

    ddl: str
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Native:
    """A type that Spark's JSON reader reads by itself."""

    ddl: str


@dataclass(frozen=True)
class Array:
    """A list."""

    item: Type
    item_required: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Map:
    """A JSON object with arbitrary keys."""

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
    """The value for a missing key or null, as JSON."""


@dataclass(frozen=True)
class Struct:
    """A JSON object with these keys."""

    fields: tuple[Field, ...]
    is_closed: bool = False
    """Whether other keys are an error; supported for the outermost object only."""


Type: TypeAlias = Scalar | Native | Array | Map | Struct


def raw_ddl(kind: Type) -> str:
    """Return the Spark type for the JSON reader, in which all scalars are strings."""
    return _ddl(kind, is_raw=True)


def type_ddl(kind: Type) -> str:
    """Return the Spark type of the column that a pipeline's function gets."""
    return _ddl(kind, is_raw=False)


def quote_name(name: str) -> str:
    """Return a column's name quoted for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def _ddl(kind: Type, *, is_raw: bool) -> str:
    """Return a type in Spark's notation; a raw struct has the keys of the body."""
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
                f"{quote_name(f.key if is_raw else f.name)}:{_ddl(f.type, is_raw=is_raw)}"
                for f in fields
            )
            return f"struct<{','.join(parts)}>"
