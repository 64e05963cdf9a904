"""Destinations and groups in broker.yaml, and sections that an object is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Generic, Self, TypeAlias, TypeVar, get_args

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from pyjms.configuration.section import Section
from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination, named_kind, parse_destination
from pyjms_broker.security.users import group_names

_Built = TypeVar("_Built")


class BuiltSection(Section, Generic[_Built]):
    """A section whose values are the arguments of an object.

    The class statement names the constructor, which gets the keys except `type` as arguments; by
    default it is the table of attributes among the base classes:

        class TimedSettings(BuiltSection[Policy], made_by=TimedPolicy): ...
        class JournalSection(BuiltSection[JournalSettings], JournalSettings): ...

    If that is declared as a dataclass, it gets only the keys that are its fields. Sections among
    the values are built, too. The values are checked by building the object.
    """

    made_by: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, made_by: Callable[..., Any] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        tables = (base for base in cls.__bases__ if not issubclass(base, Section))
        found = next(tables, None) if made_by is None else made_by
        if found not in (None, Generic):
            cls.made_by = found

    def build(self) -> _Built:
        """Create the object."""
        made_by: Any = type(self).made_by
        # a class that only extends a dataclass has other arguments than that one's fields
        if isinstance(made_by, type) and "__dataclass_fields__" in vars(made_by):
            arguments = arguments_of(made_by, self)
        else:
            names = type(self).model_fields.keys() - {"type"}
            arguments = {name: getattr(self, name) for name in names}
        built: _Built = made_by(**{name: _build_value(value) for name, value in arguments.items()})
        return built

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self


def _build_value(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_build_value, value))
    return value.build() if isinstance(value, BuiltSection) else value


def _read_destination(value: object) -> Destination:
    if isinstance(value, Destination):
        return value
    text = str(value)
    try:
        named_kind(text)  # refuses a misspelt prefix, which would become part of a queue's name
        return parse_destination(text)
    except InvalidDestinationException as error:
        raise ValueError(str(error)) from None


DestinationName: TypeAlias = Annotated[
    Destination,
    BeforeValidator(_read_destination),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]
"""A name or pattern: `orders.>` or `queue://orders.>` is queues, `topic://news.*` topics."""


def arguments_of(settings: type[Any], section: Section) -> dict[str, Any]:
    """Return the fields of the dataclass `settings` with their values in `section`."""
    names = {field.name for field in fields(settings)}
    return {name: getattr(section, name) for name in names & set(type(section).model_fields)}


def types_of(sections: Any) -> tuple[str, ...]:
    """Return the values of `type` in a union of sections."""
    return tuple(
        str(get_args(section.model_fields["type"].annotation)[0]) for section in get_args(sections)
    )


def check_by(build: Callable[[], object]) -> None:
    """Check arguments by building the object, so that the error gets file and line."""
    try:
        build()
    except ConfigurationException as error:
        raise ValueError(str(error)) from None


def _read_groups(value: object) -> object:
    if isinstance(value, str):
        return group_names(value)
    return frozenset(value) if isinstance(value, list | tuple) else value


Groups: TypeAlias = Annotated[
    frozenset[str],
    BeforeValidator(_read_groups),
    PlainSerializer(lambda names: ",".join(sorted(names)), return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""Names of groups: `admins,users` or a list."""
