"""Parse untrusted XML: no entities, no external files, bounded size and depth.

Each element records its file and line for the findings: settings that are lost, or expressed
differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.parsers import expat

from pyjms.configuration.document import Origin
from pyjms.errors import ConfigurationException

_MAX_BYTES: Final = 4 << 20
_MAX_DEPTH: Final = 64
_SEPARATOR: Final = "|"
_IGNORED: Final = (
    "http://www.w3.org/2001/XMLSchema-instance|",
    "http://www.w3.org/XML/1998/namespace|",
)
"""Namespaces of attributes about the XML itself."""


@dataclass(eq=False)
class Element:
    """An element; its name has no namespace, those of attributes only if they have another one."""

    name: str
    namespace: str
    attributes: dict[str, str]
    origin: Origin
    children: list[Element] = field(default_factory=list)
    text: str = ""
    """The text between the tags, without surrounding whitespace."""
    is_read: bool = False
    """Whether the conversion has read the element itself."""
    is_named: bool = False
    """Whether a finding covers the whole element and its contents."""
    read_attributes: set[str] = field(default_factory=set)
    """Attributes that the conversion has read, or that have a finding."""

    def take(self, attribute: str) -> str | None:
        """Return an attribute, and mark it as read; None if the element does not have it."""
        self.read_attributes.add(attribute)
        return self.attributes.get(attribute)

    @property
    def is_plain_text(self) -> bool:
        """Whether the element contains only text."""
        return bool(self.text) and not self.attributes and not self.children

    def child(self, name: str) -> Element | None:
        """Return the first child of that name."""
        return next((each for each in self.children if each.name == name), None)


def read_xml(path: Path) -> Element:
    """Return the root element of a file; blocking."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: the name has a NUL or half a surrogate
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationException(
            f"{path} cannot be read: {reason}", hint="check the path"
        ) from error
    return parse_xml(data, str(path))


def parse_xml(data: bytes, source: str) -> Element:
    """Return the root element of a document; `source` is its name in messages."""
    if len(data) > _MAX_BYTES:
        raise ConfigurationException(f"{source} is larger than {_MAX_BYTES >> 20} MiB")
    builder = _Builder(source)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ConfigurationException(
            f"{source}:{error.lineno}: it is not well-formed XML: {expat.ErrorString(error.code)}",
            source=source,
            line=error.lineno,
        ) from error
    except (LookupError, ValueError) as error:  # of Python, about the declared encoding
        raise ConfigurationException(
            f"{source}: its encoding cannot be read: {error}",
            source=source,
            hint="save it as UTF-8, and declare that",
        ) from error
    builder.check_attributes(data)
    assert builder.root is not None  # expat rejects a document without an element
    return builder.root


class _Builder:
    """Builds the tree from expat's events, and rejects dangerous constructs."""

    def __init__(self, source: str) -> None:
        self.root: Element | None = None
        self._source = source
        self._open: list[Element] = []
        self._doctype_end = 0
        self.parser = parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = parser.SkippedEntityHandler = self._entity

    def _refusal(self, reason: str, hint: str) -> ConfigurationException:
        line = self.parser.CurrentLineNumber
        return ConfigurationException(
            f"{self._source}:{line}: {reason}", source=self._source, line=line, hint=hint
        )

    def _doctype(self, _name: str, _system: object, _public: object, has_subset: int) -> None:
        if has_subset:
            raise self._refusal(
                "declarations in the DOCTYPE are not read", "remove what is in its [brackets]"
            )
        self._doctype_end = self.parser.CurrentByteIndex

    def check_attributes(self, data: bytes) -> None:
        """Refuse entities in attributes: expat leaves them out if a DTD may declare them."""
        end = self._doctype_end
        start = data.rfind(b"<!DOCTYPE", 0, end)
        if start < 0:
            return
        try:
            expat.ParserCreate().Parse(data[:start] + data[end + 1 :], True)
        except expat.ExpatError as error:
            line = error.lineno + data.count(b"\n", start, end)
            raise ConfigurationException(
                f"{self._source}:{line}: an entity is not expanded",
                source=self._source,
                line=line,
                hint="write its text in its place",
            ) from error

    def _entity(self, name: str, *_: object) -> None:
        raise self._refusal(f"the entity {name} is not expanded", "write its text in its place")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise self._refusal(f"elements are nested more than {_MAX_DEPTH} deep", "")
        namespace, _, local = name.rpartition(_SEPARATOR)
        element = Element(
            local,
            namespace,
            {k: v.strip() for k, v in attributes.items() if not k.startswith(_IGNORED)},
            Origin(self._source, self.parser.CurrentLineNumber),
        )
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _name: str) -> None:
        element = self._open.pop()
        element.text = element.text.strip()

    def _text(self, text: str) -> None:
        self._open[-1].text += text


@dataclass(frozen=True)
class Finding:
    """An element or attribute of the XML that has no exact counterpart in broker.yaml."""

    origin: Origin
    subject: str
    """The element, with the attribute if there is one: `<transportConnector uri>`."""
    reason: str
    hint: str = ""
    is_unsupported: bool = True
    """Whether a setting is lost; False for a note: the broker behaves the same without it."""

    def __str__(self) -> str:
        kind = "not converted" if self.is_unsupported else "note"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.origin}: {self.subject}: {kind}: {self.reason}{hint}"


class Findings:
    """The findings of one conversion, in the order of the files and lines."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    @property
    def all(self) -> tuple[Finding, ...]:
        """All findings, by file and line."""
        return tuple(sorted(self._found, key=lambda each: (each.origin.source, each.origin.line)))

    def report(self, element: Element, reason: str, hint: str = "", *, attribute: str = "") -> None:
        """Add a finding about a lost element or attribute."""
        self._add(element, attribute, reason, hint, is_unsupported=True)

    def note(self, element: Element, reason: str, hint: str = "", *, attribute: str = "") -> None:
        """Add a note about an element or attribute that is not needed, or expressed differently."""
        self._add(element, attribute, reason, hint, is_unsupported=False)

    def _add(
        self, element: Element, attribute: str, reason: str, hint: str, *, is_unsupported: bool
    ) -> None:
        if attribute:
            element.read_attributes.add(attribute)
        else:
            element.is_named = True
        subject = f"<{element.name} {attribute}>" if attribute else f"<{element.name}>"
        self._found[Finding(element.origin, subject, reason, hint, is_unsupported)] = None
