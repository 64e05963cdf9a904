"""Sizes, destinations and the base of all sections of broker.yaml."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination, named_kind, parse_destination

__all__ = ["Bytes", "DestinationName", "Section", "arguments_of", "check_by"]

_FACTORS: Final = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(b|([kmgt])b?)?", re.IGNORECASE)


class Section(BaseModel):
    """A group of settings; read-only, unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
    )


def _read_size(value: object) -> int:
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ValueError(f"{str(value)!r} is no size; write bytes, or for instance 64mb or 1gb")
    return int(float(match[1]) * _FACTORS[(match[3] or "").lower()])


def _read_destination(value: object) -> Destination:
    if isinstance(value, Destination):
        return value
    text = str(value)
    try:
        named_kind(text)  # refuses a misspelt prefix, which would make a queue of that name
        return parse_destination(text)
    except InvalidDestinationException as error:
        raise ValueError(str(error)) from None


Bytes: TypeAlias = Annotated[
    int,
    BeforeValidator(_read_size),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]"}]}
    ),
]
"""A number of bytes; written as such or with kb, mb, gb (of 1024)."""

DestinationName: TypeAlias = Annotated[
    Destination,
    BeforeValidator(_read_destination),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]
"""A name or pattern: `orders.>` or `queue://orders.>` is queues, `topic://news.*` topics."""


def arguments_of(settings: type[Any], section: Section) -> dict[str, Any]:
    """Return what `section` says of the fields of the dataclass `settings`."""
    names = {field.name for field in fields(settings)}
    return {name: getattr(section, name) for name in names & set(type(section).model_fields)}


def check_by(build: Callable[[], object]) -> None:
    """Have what is built check what it is given, so that the error names the line.

    Raises:
        ValueError: it was refused.
    """
    try:
        build()
    except ConfigurationException as error:
        raise ValueError(str(error)) from None
