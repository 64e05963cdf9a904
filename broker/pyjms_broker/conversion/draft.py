"""The rules that say what becomes of an element of activemq.xml, and the broker.yaml they fill.

A *handler* is a function `(draft, element, path)`; `path` is the path of the section that the
element belongs to. The tables in `broker`, `persistence`, `policies` and `plugins` are made of
these:

    section("web", SPEC)        the element is the section `web`
    item("policies", SPEC)      the element is appended to the list `policies`
    same_section(SPEC)          the element's attributes are keys of the section that contains it
    word("locker", "lease")     the element stands for a value
    children({"a": handler})    the element only contains others
    inside({"a": handler})      the element is a property, which contains one other

A `Spec` says what becomes of the element's attributes and children. A `Lost` in place of a handler
says why there is none; what a table does not mention becomes a finding, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from pyjms.configuration.document import Document, Origin
from pyjms.configuration.section import Duration
from pyjms.transport.uri import did_you_mean
from pyjms_broker.attribute import Attribute, Unit
from pyjms_broker.conversion.xml_reader import Element, Findings
from pyjms_broker.settings.persistence import snake_case

Path: TypeAlias = tuple[str | int, ...]
Handler: TypeAlias = Callable[["Draft", Element, Path], None]

_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,30}")
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "on", "yes", "1"), True),
    **dict.fromkeys(("false", "off", "no", "0"), False),
}
"""Spring's texts of booleans."""
_DURATION: Final = get_args(Duration)[1:]
_DESTINATION_ATTRIBUTES: Final = ("physicalName", "topic", "queue", "destination")
_TOPIC: Final = ("physicalName", "topic")


class Lost(NamedTuple):
    """An attribute or element that has no counterpart."""

    reason: str
    hint: str = ""
    same_as: str | None = None
    """The value that matches this broker's behaviour; None if there is none."""


Rule: TypeAlias = Handler | Lost


@dataclass(frozen=True)
class Spec:
    """The conversion rules for the attributes and children of an element.

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
    children: Mapping[str, Rule] = field(default_factory=dict)
    has_destination: bool = False
    """Whether attributes name the destination that an item is for; broker.yaml may do without."""
    needs_destination: bool = False
    """Whether an item without such an attribute is left out."""

    @property
    def names(self) -> list[str]:
        """The attributes in the tables, except those that only have different values."""
        return [*self.keys, *self.no_effect, *self.lost]

    def key_of(self, name: str) -> tuple[str, ...]:
        """Return the path of an attribute's key in the section."""
        return tuple(self.keys.get(name, snake_case(name)).split("."))

    def setting_of(self, key: tuple[str, ...]) -> FieldInfo | None:
        """Return the setting of a key; None if there is none."""
        model, found = self.model, None
        for part in key:
            found = None if model is None else model.model_fields.get(part)
            kind = None if found is None else found.annotation
            model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        return found

    def value_of(self, name: str, text: str, setting: FieldInfo) -> object:
        """Return the value of an attribute as written in broker.yaml."""
        value = self.values.get(name, {}).get(text, text)
        if value is text:
            value = _value_of(text, setting)
        kind: Any = setting.annotation
        TypeAdapter(
            Annotated[kind, *setting.metadata] if setting.metadata else kind
        ).validate_python(value)
        return value


def _value_of(text: str, setting: FieldInfo) -> object:
    """Return the value as written in broker.yaml: durations with a unit, numbers as numbers."""
    kinds = get_args(setting.annotation) or (setting.annotation,)
    if any(
        (isinstance(extra, Attribute) and extra.unit is Unit.SECONDS) or extra in _DURATION
        for extra in setting.metadata
    ):
        return _duration(text)
    if bool in kinds:
        return _BOOLEANS.get(text.lower(), text)
    if (int in kinds or float in kinds) and _INTEGER.fullmatch(text):
        return int(text)
    if any(isinstance(kind, type) and issubclass(kind, Enum) for kind in kinds):
        return text.lower()
    return text  # also where it looks like a number: passwords, names


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


class Draft:
    """A broker.yaml document under construction; `findings` has what is missing from it."""

    def __init__(self, findings: Findings, broker: Element, directory: FilePath) -> None:
        self.findings = findings
        self.broker = broker
        self.directory = directory
        self._origins: dict[Path, Origin] = {(): broker.origin}
        self.document: Document = Document({}, self._origins)
        """The values with their origins in the XML."""

    def put(self, path: Path, value: object, element: Element) -> None:
        """Set a value, and create the sections that contain it."""
        level: Any = self.document.values
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

    def remove_last(self, path: Path) -> None:
        """Remove the last value of a list."""
        items = self.get(path)
        items.pop()
        removed = (*path, len(items))
        for known in [each for each in self._origins if each[: len(removed)] == removed]:
            del self._origins[known]

    def get(self, path: Path) -> Any:
        """Return the value at `path`; None if there is none."""
        level: Any = self.document.values
        for part in path:
            try:
                level = level[part]
            except (KeyError, IndexError, TypeError):
                return None
        return level

    def convert(self, element: Element, spec: Spec, path: Path) -> None:
        """Convert attributes and children of `element` to keys of the section at `path`."""
        if spec.type is not None:
            self.put((*path, "type"), spec.type, element)
        for name, text in element.attributes.items():
            if name not in element.read_attributes:
                element.read_attributes.add(name)
                self._convert_attribute(element, spec, path, name, text)
        self.convert_children(element, spec.children, path)

    def _convert_attribute(
        self, element: Element, spec: Spec, path: Path, name: str, text: str
    ) -> None:
        findings = self.findings
        if name in spec.no_effect:
            findings.note(element, spec.no_effect[name], attribute=name)
            return
        lost = spec.lost.get(name)
        if lost is not None:
            if lost.same_as is not None and text.lower() == lost.same_as.lower():
                reason = f"this broker always behaves as with {text}"
                findings.note(element, reason, attribute=name)
            else:
                findings.report(element, lost.reason, lost.hint, attribute=name)
            return
        key = spec.key_of(name)
        setting = spec.setting_of(key)
        if setting is None:
            findings.report(
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
            findings.report(element, f"{'.'.join(key)}: {reason}", attribute=name)
            return
        self.put((*path, *key), value, element)

    def convert_children(
        self, element: Element, rules: Mapping[str, Rule], path: Path, *, only_one: bool = False
    ) -> None:
        """Convert the children by the rules for their names, or that for `*`; report others."""
        for index, child in enumerate(element.children):
            child.is_read = True
            rule = rules.get(child.name) or rules.get("*")
            if only_one and index:
                rule = Lost(f"<{element.name}> has one element, this is another")
            if rule is None:
                rule = Lost(
                    f"<{element.name}> has no such element in ActiveMQ 5.17, or this broker has no "
                    "such setting",
                    did_you_mean(child.name, rules),
                )
            if isinstance(rule, Lost):
                self.findings.report(child, rule.reason, rule.hint)
            else:
                rule(self, child, path)

    def report_unread(self, element: Element) -> None:
        """Report everything in `element` that the conversion has not read."""
        if element.is_named:
            return
        report = self.findings.report
        for name in element.attributes.keys() - element.read_attributes:
            report(
                element,
                "ActiveMQ 5.17 has no such attribute here, or it is unknown",
                attribute=name,
            )
        if element.text:
            report(element, "its text has no meaning here")  # or is a secret
        for child in element.children:
            if child.is_read:
                self.report_unread(child)
            elif not child.is_named:
                report(
                    child,
                    f"<{element.name}> has no such element in ActiveMQ 5.17, or it is unknown",
                )


def section(key: str, spec: Spec) -> Handler:
    """Convert the element to a section."""

    def convert(draft: Draft, element: Element, path: Path) -> None:
        here = (*path, key)
        draft.put(here, {}, element)
        draft.convert(element, spec, here)

    return convert


def item(key: str, spec: Spec) -> Handler:
    """Convert the element to a section in a list, for the destination that its attributes name."""

    def convert(draft: Draft, element: Element, path: Path) -> None:
        name = destination_of(element) if spec.has_destination or spec.needs_destination else None
        if name is None and spec.needs_destination:
            draft.findings.report(element, "it names no queue or topic")
            return
        here = draft.append((*path, key), {}, element)
        if name is not None:
            draft.put((*here, "destination"), name, element)
        draft.convert(element, spec, here)

    return convert


def same_section(spec: Spec) -> Handler:
    """Convert the attributes to keys of the section that contains the element."""
    return lambda draft, element, path: draft.convert(element, spec, path)


def word(key: str, value: object, spec: Spec = Spec(), note: str = "") -> Handler:
    """Convert the element to a value, and its attributes to keys beside that."""

    def convert(draft: Draft, element: Element, path: Path) -> None:
        draft.put((*path, key), value, element)
        if note:
            draft.findings.note(element, note)
        draft.convert(element, spec, path)

    return convert


def children(rules: Mapping[str, Rule] | Handler) -> Handler:
    """Convert the elements in the element, by their names, or all by one handler."""
    known = {"*": rules} if callable(rules) else rules
    return lambda draft, element, path: draft.convert_children(element, known, path)


def inside(rules: Mapping[str, Rule] | Handler) -> Handler:
    """Convert the only element in the element, by its name, or any by one handler."""
    known = {"*": rules} if callable(rules) else rules
    return lambda draft, element, path: draft.convert_children(element, known, path, only_one=True)


def destinations(key: str) -> Handler:
    """Convert the elements in the element, `<queue physicalName="a"/>`, to a list of names."""

    def convert(draft: Draft, element: Element, path: Path) -> None:
        name = destination_of(element)
        if name is None:
            draft.findings.report(element, "it names no queue or topic")
        else:
            draft.append((*path, key), name, element)

    return children({"queue": convert, "topic": convert})


def destination_at(key: str) -> Handler:
    """Convert an element that names a destination to the name."""

    def convert(draft: Draft, element: Element, path: Path) -> None:
        name = destination_of(element)
        if name is not None:
            draft.put((*path, key), name, element)

    return convert


def destination_of(element: Element) -> str | None:
    """Return the destination of `queue=`, `topic=` or `physicalName=` as written in broker.yaml."""
    for attribute in _DESTINATION_ATTRIBUTES:
        name = element.attributes.get(attribute)
        if name:
            element.read_attributes.add(attribute)
            is_topic = attribute == "topic" or (attribute, element.name) == _TOPIC
            return f"topic://{name}" if is_topic else name
    return None
