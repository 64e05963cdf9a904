"""The values of broker.yaml collected so far, with the origin of each.

The methods of `Draft` convert elements of activemq.xml according to tables of handlers and `Spec`s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Final, NamedTuple, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from pyjms.configuration import Document, Duration, Origin
from pyjms.transport.uri import did_you_mean
from pyjms_broker.attribute import Attribute, Unit
from pyjms_broker.conversion.xml_reader import Element, Findings
from pyjms_broker.settings.persistence import snake_case

__all__ = ["Draft", "Handler", "Lost", "Path", "Spec", "destination_of"]

# --- Rules (`Spec`) for converting the attributes of an element to keys of a section.

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


Path = tuple[str | int, ...]
Handler = Callable[["Draft", Element, Path], None]
"""Converts an element; the path is the path of the section that contains it."""

_DESTINATION_ATTRIBUTES: Final = ("physicalName", "topic", "queue", "destination")
_TOPIC: Final = ("physicalName", "topic")


class Draft:
    """A broker.yaml document under construction; `findings` has what is missing from it."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._values: dict[str, Any] = {}
        self._origins: dict[tuple[str | int, ...], Origin] = {}

    @property
    def document(self) -> Document:
        """The values with their origins in the XML."""
        return Document(self._values, self._origins)

    def put(self, path: Path, value: object, element: Element) -> None:
        """Set a value, and create the sections that contain it."""
        level: Any = self._values
        for part in path[:-1]:
            level = level.setdefault(part, {}) if isinstance(level, dict) else level[part]
        level[path[-1]] = value
        self._origins[path] = element.origin

    def append(self, path: Path, value: object, element: Element) -> Path:
        """Append a value to a list; return its path."""
        items = self.get(path)
        if items is None:
            self.put(path, items := [], element)
        items.append(value)
        added = (*path, len(items) - 1)
        self._origins[added] = element.origin
        return added

    def get(self, path: Path) -> Any:
        """Return the value at `path`; None if there is none."""
        level: Any = self._values
        for part in path:
            try:
                level = level[part]
            except (KeyError, IndexError, TypeError):
                return None
        return level

    def drop(self, path: Path) -> None:
        """Remove a value from a list."""
        *start, index = path
        assert isinstance(index, int)
        del self.get(tuple(start))[index]
        length = len(path)
        kept: dict[Path, Origin] = {}
        for known, origin in self._origins.items():
            position = known[length - 1] if known[: length - 1] == tuple(start) != known else None
            if not isinstance(position, int) or position < index:
                kept[known] = origin
            elif position > index:
                kept[(*start, position - 1, *known[length:])] = origin
        self._origins = kept

    def convert_attributes(self, element: Element, spec: Spec, path: Path) -> None:
        """Set the keys below `path` from attributes of `element`; report those without a key."""
        if spec.type is not None:
            self.put((*path, "type"), spec.type, element)
        for name, text in element.attributes.items():
            if name not in spec.handled:
                element.read_attributes.add(name)
                self._convert_attribute(element, spec, path, name, text)

    def _convert_attribute(
        self, element: Element, spec: Spec, path: Path, name: str, text: str
    ) -> None:
        findings = self.findings
        if name in spec.no_effect:
            findings.note(element, spec.no_effect[name], attribute=name)
            return
        if name in spec.lost:
            self.name_lost(element, spec.lost[name], name, text)
            return
        key = spec.key_of(name)
        setting = spec.setting_of(key)
        if setting is None:
            findings.unsupported(
                element,
                "ActiveMQ 5.17 has no such attribute, or this broker has no such setting",
                did_you_mean(name, spec.names),
                attribute=name,
            )
            return
        try:
            value = spec.value_of(name, text, setting)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            reason = str(details[0]["msg"]).removeprefix("Value error, ")
            findings.unsupported(element, f"{'.'.join(key)}: {reason}", attribute=name)
            return
        self.put((*path, *key), value, element)

    def name_lost(self, element: Element, lost: Lost, attribute: str, text: str) -> None:
        """Report an attribute without a counterpart; as a note if its value makes no difference."""
        if lost.same_as is not None and text.lower() == lost.same_as.lower():
            reason = f"this broker always behaves as with {text}"
            self.findings.note(element, reason, attribute=attribute)
        else:
            self.findings.unsupported(element, lost.reason, lost.hint, attribute=attribute)

    def convert_children(
        self, element: Element, handlers: Mapping[str, Handler | Lost], path: Path
    ) -> None:
        """Call the handler of each child; report children without a handler."""
        for child in element.read_children():
            handler = handlers.get(child.name)
            if handler is None:
                self.findings.unsupported(
                    child,
                    f"<{element.name}> has no such element in ActiveMQ 5.17, or this broker has no "
                    "such setting",
                    did_you_mean(child.name, handlers),
                )
            elif isinstance(handler, Lost):
                self.findings.unsupported(child, handler.reason, handler.hint)
            else:
                handler(self, child, path)

    def only_child(self, element: Element) -> Element | None:
        """Return the only child of a property such as `<persistenceAdapter>`; None if empty."""
        inside = list(element.read_children())
        for further in inside[1:]:
            self.findings.unsupported(further, f"<{element.name}> has one element, this is another")
        return inside[0] if inside else None

    def append_for_destination(self, element: Element, path: Path, spec: Spec) -> Path:
        """Append a section for an element with a destination; return the section's path."""
        here = self.append(path, {}, element)
        name = destination_of(element)
        if name is not None:
            self.put((*here, "destination"), name, element)
        self.convert_attributes(element, spec, here)
        return here

    def name_unread(self, element: Element) -> None:
        """Report everything in `element` that the conversion has not read."""
        if element.is_named:
            return
        unsupported = self.findings.unsupported
        for name in element.attributes.keys() - element.read_attributes:
            unsupported(
                element,
                "ActiveMQ 5.17 has no such attribute here, or it is unknown",
                attribute=name,
            )
        if element.text:
            unsupported(element, "its text has no meaning here")  # or is a secret
        for child in element.children:
            if child.is_read:
                self.name_unread(child)
            elif not child.is_named:
                unsupported(
                    child,
                    f"<{element.name}> has no such element in ActiveMQ 5.17, or it is unknown",
                )


def destination_of(element: Element) -> str | None:
    """Return the destination of `queue=`, `topic=` or `physicalName=` as written in broker.yaml."""
    for attribute in _DESTINATION_ATTRIBUTES:
        name = element.attributes.get(attribute)
        if name:
            element.read_attributes.add(attribute)
            is_topic = attribute == "topic" or (attribute, element.name) == _TOPIC
            return f"topic://{name}" if is_topic else name
    return None
