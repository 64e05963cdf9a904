"""Rules (`Spec`) for converting the attributes of an element to keys of a section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Final, NamedTuple, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from pyjms._yaml import Duration
from pyjms_broker.attribute import Attribute, Unit
from pyjms_broker.settings.kahadb_attributes import snake_case

__all__ = ["Lost", "Spec"]

_INTEGER: Final = re.compile(r"-?[0-9]+")
_DURATION: Final = get_args(Duration)[1:]


class Lost(NamedTuple):
    """An attribute or element that has no counterpart."""

    reason: str
    hint: str = ""
    same_as: str | None = None
    """The value that matches this broker's behaviour; None if there is none."""


@dataclass(frozen=True)
class Spec:
    """The conversion rules for the attributes of an element.

    An attribute in none of the tables becomes the key with its name in snake_case, if `model` has
    that key.
    """

    model: type[BaseModel] | None = None
    type: str | None = None
    """The section's `type`."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Attribute to key (dots separate sections), where the key is not the name in snake_case."""
    values: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Attribute to a mapping from its values to those of broker.yaml, where they differ."""
    no_effect: Mapping[str, str] = field(default_factory=dict)
    """Attributes that this broker does not need, with the reason."""
    lost: Mapping[str, Lost] = field(default_factory=dict)
    """Attributes that cannot be converted."""
    handled: frozenset[str] = frozenset()
    """Attributes that are converted by code."""

    @property
    def names(self) -> list[str]:
        """The attributes in the tables, except those that only have different values."""
        return [*self.keys, *self.no_effect, *self.lost]

    def key_of(self, name: str) -> tuple[str, ...]:
        """Return the path of an attribute's key in the section."""
        return tuple(self.keys.get(name, snake_case(name)).split("."))

    def setting_of(self, key: tuple[str, ...]) -> FieldInfo | None:
        """Return the setting of a key; None if there is none."""
        return None if self.model is None else _field(self.model, key)

    def value_of(self, name: str, text: str, setting: FieldInfo) -> object:
        """Return the value of an attribute as written in broker.yaml.

        Raises:
            ValidationError: the value is invalid for the setting.
        """
        value = self.values.get(name, {}).get(text, text)
        if value is text:
            value = _converted(text, setting)
        _adapter(setting).validate_python(value)
        return value


def _field(model: type[BaseModel], key: tuple[str, ...]) -> FieldInfo | None:
    found = model.model_fields.get(key[0])
    if found is None or len(key) == 1:
        return found
    inner = found.annotation
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return _field(inner, key[1:])
    return None


def _adapter(setting: FieldInfo) -> TypeAdapter[Any]:
    kind: Any = setting.annotation
    return TypeAdapter(Annotated[kind, *setting.metadata] if setting.metadata else kind)


def _converted(text: str, setting: FieldInfo) -> object:
    """Return the value as written in broker.yaml: durations with a unit, numbers as numbers."""
    kinds = get_args(setting.annotation) or (setting.annotation,)
    if _is_duration(setting):
        return _duration(text)
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if str in kinds and int not in kinds:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if any(isinstance(kind, type) and issubclass(kind, Enum) for kind in kinds):
        return text.lower()
    return text


def _is_duration(setting: FieldInfo) -> bool:
    return any(
        (isinstance(extra, Attribute) and extra.unit is Unit.SECONDS) or extra in _DURATION
        for extra in setting.metadata
    )


def _duration(text: str) -> object:
    if not _INTEGER.fullmatch(text):
        return text
    milliseconds = int(text)
    if milliseconds <= 0:
        return milliseconds
    for factor, unit in ((3_600_000, "h"), (60_000, "m"), (1_000, "s")):
        if milliseconds % factor == 0:
            return f"{milliseconds // factor}{unit}"
    return f"{milliseconds}ms"
