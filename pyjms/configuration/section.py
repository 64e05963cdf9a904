"""The sections of application.yaml and broker.yaml, their descriptions, and values with a unit.

A description is the docstring below a field. The JSON schema, the commented examples and the help
need them; a start-up does not. pydantic's own option `use_attribute_docstrings` reads and parses
the source of each model when the class is created, which took a sixth of the start-up of an
application, so they are read here when a schema is asked for.

Durations (`500ms`, `30s`, `5m`, `1h`) are seconds once read, sizes (`64mb`) are bytes. Spring reads
a duration without a unit as milliseconds, Python libraries read it as seconds. So it is rejected,
except 0 and -1, which mean the same everywhere.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue


class DescribedModel(BaseModel):
    """A model whose JSON schema has the docstrings of its fields as descriptions."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Any, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_descriptions(cls).items():
            field = cls.model_fields[name]
            shown = properties.get(field.alias or name)
            if shown is not None and field.description is None:
                shown["description"] = text  # rather than that of the type
        return schema


class Section(DescribedModel):
    """A section: unknown keys are errors, values are read-only."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True
    )


def read_text(value: object) -> object:
    """Return a number that was written without quotes as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Text: TypeAlias = Annotated[str, BeforeValidator(read_text)]


@functools.cache
def field_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, inherited ones included, by field name.

    A class without readable source has none. Reads the source files.
    """
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind.__module__ in sys.modules:
            found.update(_classes_of(kind.__module__).get(kind.__qualname__, {}))
    return {name: text for name, text in found.items() if name in model.model_fields}


@functools.cache
def _classes_of(module: str) -> dict[str, dict[str, str]]:
    """Return the attribute docstrings of all classes of a module, by qualified class name."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # interactive, frozen, or without source files
        return {}
    return dict(_walk(ast.parse(source).body, ""))


def _walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"{prefix}{node.name}", dict(_docstrings_in(node.body))
            yield from _walk(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(node.body, f"{prefix}{node.name}.<locals>.")


def _docstrings_in(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node, after in itertools.pairwise(body):
        match node, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TEXT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)")
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")


def read_duration(value: object) -> float:
    """Return `value` in seconds; -1.0 for -1."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    text = str(value).strip()
    if match := _TEXT.fullmatch(text):
        return round(float(match[1]) * _UNITS[match[2]], 9)
    if not isinstance(value, bool) and _NUMBER.fullmatch(text):
        if float(text) in {0.0, -1.0}:
            return float(text)
        number = text.lstrip("+")
        raise ValueError(
            f"{number} has no unit: it is {number}ms to Spring and {number}s to Python; "
            f"add the unit"
        )
    raise ValueError(f"{text!r} is not a duration; write for instance 500ms, 30s, 5m or 1h")


def _duration(value: object) -> float:
    seconds = read_duration(value)
    if seconds < 0:
        raise ValueError("a duration cannot be negative here")
    return seconds


def _deadline(value: object) -> float | None:
    return None if value is None else _duration(value) or None


def _receive_timeout(value: object) -> float | None:
    if value is None:
        return None
    seconds = read_duration(value)
    return 0.0 if seconds < 0 else seconds or None


def _text(seconds: float) -> str:
    milliseconds = seconds * 1000
    if seconds < 1 and milliseconds == round(milliseconds) and seconds:
        return f"{milliseconds:g}ms"
    return f"{seconds:g}s"


def _deadline_text(seconds: float | None) -> str:
    return "0" if seconds is None else _text(seconds)


def _receive_timeout_text(seconds: float | None) -> str:
    return "0" if seconds is None else _text(seconds) if seconds else "-1"


def duration_schema(description: str) -> WithJsonSchema:
    """Return the JSON schema of a duration, with a description for editors."""
    return WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*(ms|s|m|h)$|^\$\{.*\}$"},
                {"enum": [0, -1]},
            ],
            "description": description,
        }
    )


Duration: TypeAlias = Annotated[
    float,
    BeforeValidator(_duration),
    PlainSerializer(_text, when_used="json"),
    duration_schema("a duration with its unit: 500ms, 30s, 5m, 1h; or 0"),
]
"""Seconds, 0 or more."""

Deadline: TypeAlias = Annotated[
    float | None,
    BeforeValidator(_deadline),
    PlainSerializer(_deadline_text, when_used="json"),
    duration_schema("a duration with its unit: 500ms, 30s, 5m, 1h; 0 waits for ever"),
]
"""Seconds to wait; None (written as 0): no limit."""

ReceiveTimeout: TypeAlias = Annotated[
    float | None,
    BeforeValidator(_receive_timeout),
    PlainSerializer(_receive_timeout_text, when_used="json"),
    duration_schema(
        "a duration with its unit: 500ms, 30s, 5m, 1h; 0 waits for ever, -1 does not wait"
    ),
]
"""Seconds to wait for a message; None (written as 0): no limit; 0.0 (written as -1): no wait."""


_FACTORS: Final = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]+)?)\s*(b|([kmgt])b?)?", re.IGNORECASE)


def read_size(value: object) -> int:
    """Return the bytes of a size."""
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ValueError(
            f"{str(value)!r:.100} is not a size; write bytes, or for instance 64mb or 1gb"
        )
    return int(float(match[1]) * _FACTORS[(match[3] or "").lower()])


Bytes: TypeAlias = Annotated[
    int,
    BeforeValidator(read_size),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]"}]}
    ),
]
"""A number of bytes, written without a unit or with kb, mb or gb (powers of 1024)."""


def _read_limit(value: object) -> int | str:
    text = str(value).strip()
    if not text.endswith("%"):
        return read_size(value)
    percent = _PERCENT.fullmatch(text)
    if percent is None or not 0 < float(percent[1]) <= 100:
        raise ValueError(f"{text!r} is not a percentage; write for instance 70%, 100% at most")
    return text


ByteLimit: TypeAlias = Annotated[
    int | str,
    BeforeValidator(_read_limit),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]"}]}
    ),
]
"""A number of bytes, or a string such as `70%` (of the memory or the disk)."""
