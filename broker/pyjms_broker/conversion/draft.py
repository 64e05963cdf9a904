"""The values of broker.yaml collected so far, with the origin of each.

The methods of `Draft` convert elements of activemq.xml according to tables of handlers and `Spec`s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from pyjms._yaml import Document, Origin
from pyjms.transport.uri import did_you_mean
from pyjms_broker.conversion.findings import Findings
from pyjms_broker.conversion.sections import Lost, Spec
from pyjms_broker.conversion.xml_reader import Element

__all__ = ["Draft", "Handler", "Path", "destination_of"]

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
