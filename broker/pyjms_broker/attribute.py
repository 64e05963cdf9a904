"""The documentation of attributes in attribute tables.

A table is a dataclass, whose fields are declared with `attribute`, or with `flag`, `count` or
`duration`, which give what all attributes of these kinds have in common:

    @dataclass(frozen=True, kw_only=True)
    class JournalSettings:
        cleanup_interval: float = duration(30.0, "Time between cleanups.")
        checksum: bool = flag("Whether batches carry a checksum.", default=True)

It can be a base class of a settings model, which then has the same names, defaults and
descriptions:

    class JournalSection(Section, JournalSettings): ...

An attribute that needs `dataclasses.field` is `Annotated` with an `Attribute` instead, which is
what `attribute` makes of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum, auto
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_args, get_type_hints

_T = TypeVar("_T")


class Unit(Enum):
    """The unit of a value in configuration files."""

    BYTES = auto()
    """`64mb`; a number of bytes."""
    LIMIT = auto()
    """`64mb` or `70%`; a number of bytes, or the percentage as a string."""
    SECONDS = auto()
    """`30s`; seconds, but milliseconds in URIs."""
    PATH = auto()


@dataclass(frozen=True)
class Attribute:
    """The documentation of one attribute.

    Args:
        description: one line, used in config/broker.yaml and the JSON Schema.
        uri_name: ActiveMQ's name in broker URIs; None: the field's name in camel case.
        unit: the unit in configuration files; None: a plain value.
        minimum: the lowest value allowed in configuration files.
        maximum: the highest value allowed in configuration files.
    """

    description: str
    uri_name: str | None = None
    unit: Unit | None = None
    minimum: int | None = None
    maximum: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Validate values in settings models that have a table as their base class."""
        return handler.generate_schema(self._validated_type(source))

    def _validated_type(self, kind: Any) -> Any:
        # imported here, so that a broker without a configuration file starts without pydantic
        from pydantic import Field  # noqa: PLC0415

        from pyjms.configuration.section import ByteLimit, Bytes, Duration  # noqa: PLC0415

        readers: dict[Unit, Any] = {
            Unit.BYTES: Bytes,
            Unit.LIMIT: ByteLimit,
            Unit.SECONDS: Duration,
            Unit.PATH: Path,
        }
        read_as = None if self.unit is None else readers[self.unit]
        if read_as is not None:
            kind = read_as | None if NoneType in get_args(kind) else read_as
        if self.minimum is None and self.maximum is None:
            return kind
        return Annotated[kind, Field(ge=self.minimum, le=self.maximum)]

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Describe the attribute in the JSON Schema."""
        return {**handler(core_schema), "description": self.description}


class _Declaration:
    """A placeholder that replaces itself with the default when its class is created."""

    def __init__(self, default: object, documentation: Attribute) -> None:
        self._default = default
        self._documentation = documentation

    def __set_name__(self, owner: type[Any], name: str) -> None:
        kinds = owner.__annotations__
        kinds[name] = Annotated[kinds[name], self._documentation]
        setattr(owner, name, self._default)


def attribute(
    default: _T,
    description: str,
    uri_name: str | None = None,
    unit: Unit | None = None,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
) -> _T:
    """Declare a field of a table: its default, and the arguments of `Attribute`."""
    documentation = Attribute(description, uri_name, unit, minimum, maximum)
    return cast("_T", _Declaration(default, documentation))


def flag(description: str, uri_name: str | None = None, *, default: bool = False) -> bool:
    """Declare a field that is true or false."""
    return attribute(default, description, uri_name)


def count(
    default: _T,
    description: str,
    uri_name: str | None = None,
    *,
    minimum: int = 0,
    maximum: int | None = None,
) -> _T:
    """Declare a field with a number of things, which is not negative."""
    return attribute(default, description, uri_name, minimum=minimum, maximum=maximum)


def duration(default: _T, description: str, uri_name: str | None = None) -> _T:
    """Declare a field with a time in seconds."""
    return attribute(default, description, uri_name, Unit.SECONDS)


def attributes_of(table: type[Any]) -> dict[str, tuple[Any, Attribute]]:
    """Return the attributes of a table in order: name to type and documentation."""
    hints = get_type_hints(table, include_extras=True)
    found: dict[str, tuple[Any, Attribute]] = {}
    for name in (each.name for each in fields(table)):
        for extra in getattr(hints[name], "__metadata__", ()):
            if isinstance(extra, Attribute):
                found[name] = (hints[name].__origin__, extra)
    return found


def documentation_of(table: type[Any]) -> dict[str, Attribute]:
    """Return the documentation of a table's attributes; other fields may have unknown types."""
    return {
        name: extra
        for base in reversed(table.__mro__)
        for name, kind in vars(base).get("__annotations__", {}).items()
        for extra in getattr(kind, "__metadata__", ())
        if isinstance(extra, Attribute)
    }
