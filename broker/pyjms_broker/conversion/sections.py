"""Attributes of an element become keys of a section, as a `Spec` says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Final, NamedTuple, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from pyjms._yaml import Duration
from pyjms.transport.uri import did_you_mean
from pyjms_broker.attribute import Attribute, Unit
from pyjms_broker.conversion.draft import Draft, Path
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.settings.kahadb_attributes import snake_case

__all__ = [
    "Handler",
    "Lost",
    "Spec",
    "append_for_destination",
    "convert_attributes",
    "convert_children",
    "destination_of",
    "name_lost",
    "name_unread",
    "only_child",
]

_INTEGER: Final = re.compile(r"-?[0-9]+")
_DESTINATION_ATTRIBUTES: Final = ("physicalName", "topic", "queue", "destination")
_TOPIC: Final = ("physicalName", "topic")
_DURATION: Final = get_args(Duration)[1:]


class Lost(NamedTuple):
    """An attribute or element that has no counterpart."""

    reason: str
    hint: str = ""
    same_as: str | None = None
    """The value with which this broker does the same; None: there is none."""


@dataclass(frozen=True)
class Spec:
    """What becomes of the attributes of an element.

    An attribute that no table names becomes the key of its name in snake_case, if `model` has it.
    """

    model: type[BaseModel] | None = None
    type: str | None = None
    """The section's `type`."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Attribute to key, with dots for sections, where the name alone does not say it."""
    values: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Attribute to value to what broker.yaml has instead, where they differ."""
    no_effect: Mapping[str, str] = field(default_factory=dict)
    """Attributes that make no difference here, and why."""
    lost: Mapping[str, Lost] = field(default_factory=dict)
    """Attributes that cannot be converted."""
    handled: frozenset[str] = frozenset()
    """Attributes that code reads."""


Handler = Callable[[Draft, Element, Path], None]
"""Converts an element; the path is that of the section which contains it."""


def convert_attributes(draft: Draft, element: Element, spec: Spec, path: Path) -> None:
    """Set the keys below `path` from the attributes of `element`; name those that have none."""
    if spec.type is not None:
        draft.put((*path, "type"), spec.type, element)
    for name, text in element.attributes.items():
        if name not in spec.handled:
            element.read_attributes.add(name)
            _convert_attribute(draft, element, spec, path, name, text)


def _convert_attribute(
    draft: Draft, element: Element, spec: Spec, path: Path, name: str, text: str
) -> None:
    findings = draft.findings
    if name in spec.no_effect:
        findings.note(element, spec.no_effect[name], attribute=name)
        return
    if name in spec.lost:
        name_lost(draft, element, spec.lost[name], name, text)
        return
    key = tuple(spec.keys.get(name, snake_case(name)).split("."))
    setting = None if spec.model is None else _field(spec.model, key)
    if setting is None:
        findings.unsupported(
            element,
            "ActiveMQ 5.17 has no such attribute, or this broker has no such setting",
            did_you_mean(name, _attribute_names(spec)),
            attribute=name,
        )
        return
    try:
        value = spec.values.get(name, {}).get(text, text)
        if value is text:
            value = _converted(text, setting)
        _adapter(setting).validate_python(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        reason = str(details[0]["msg"]).removeprefix("Value error, ")
        findings.unsupported(element, f"{'.'.join(key)}: {reason}", attribute=name)
        return
    draft.put((*path, *key), value, element)


def name_lost(draft: Draft, element: Element, lost: Lost, attribute: str, text: str) -> None:
    """Name an attribute without a counterpart; one with this broker's behaviour is a note."""
    if lost.same_as is not None and text.lower() == lost.same_as.lower():
        reason = f"this broker always behaves as with {text}"
        draft.findings.note(element, reason, attribute=attribute)
    else:
        draft.findings.unsupported(element, lost.reason, lost.hint, attribute=attribute)


def convert_children(
    draft: Draft, element: Element, handlers: Mapping[str, Handler | Lost], path: Path
) -> None:
    """Call the handler of each child; name those that have none."""
    for child in element.read_children():
        handler = handlers.get(child.name)
        if handler is None:
            draft.findings.unsupported(
                child,
                f"<{element.name}> has no such element in ActiveMQ 5.17, or this broker has no "
                "such setting",
                did_you_mean(child.name, handlers),
            )
        elif isinstance(handler, Lost):
            draft.findings.unsupported(child, handler.reason, handler.hint)
        else:
            handler(draft, child, path)


def only_child(draft: Draft, element: Element) -> Element | None:
    """Return the element inside a property such as `<persistenceAdapter>`; None if it is empty."""
    inside = list(element.read_children())
    for further in inside[1:]:
        draft.findings.unsupported(further, f"<{element.name}> has one element, this is another")
    return inside[0] if inside else None


def append_for_destination(draft: Draft, element: Element, path: Path, spec: Spec) -> Path:
    """Append a section for an element that names a destination; return the section's path."""
    here = draft.append(path, {}, element)
    name = destination_of(element)
    if name is not None:
        draft.put((*here, "destination"), name, element)
    convert_attributes(draft, element, spec, here)
    return here


def destination_of(element: Element) -> str | None:
    """Return the name or pattern of `queue=`, `topic=` or `physicalName=` in broker.yaml's form."""
    for attribute in _DESTINATION_ATTRIBUTES:
        name = element.attributes.get(attribute)
        if name:
            element.read_attributes.add(attribute)
            is_topic = attribute == "topic" or (attribute, element.name) == _TOPIC
            return f"topic://{name}" if is_topic else name
    return None


def name_unread(draft: Draft, element: Element) -> None:
    """Name everything in `element` that no part of the conversion has looked at."""
    if element.is_named:
        return
    for name in element.attributes.keys() - element.read_attributes:
        draft.findings.unsupported(
            element, "ActiveMQ 5.17 has no such attribute here, or it is unknown", attribute=name
        )
    if element.text:
        draft.findings.unsupported(element, "its text has no meaning here")  # or is a secret
    for child in element.children:
        if child.is_read:
            name_unread(draft, child)
        elif not child.is_named:
            draft.findings.unsupported(
                child, f"<{element.name}> has no such element in ActiveMQ 5.17, or it is unknown"
            )


def _field(model: type[BaseModel], key: tuple[str, ...]) -> FieldInfo | None:
    found = model.model_fields.get(key[0])
    if found is None or len(key) == 1:
        return found
    inner = found.annotation
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return _field(inner, key[1:])
    return None


def _attribute_names(spec: Spec) -> list[str]:
    return [*spec.keys, *spec.no_effect, *spec.lost]


def _adapter(setting: FieldInfo) -> TypeAdapter[Any]:
    kind: Any = setting.annotation
    return TypeAdapter(Annotated[kind, *setting.metadata] if setting.metadata else kind)


def _converted(text: str, setting: FieldInfo) -> object:
    """Return the value as broker.yaml writes it: milliseconds with their unit, numbers as such."""
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
