"""The element tree between values and their XML or JSON, as in XStream.

Values have XStream's class names. XML is indented like its PrettyPrintWriter, and parsed without
entities. JSON follows Jettison's mapped convention: names are keys, repeated ones arrays.

    <entry><string>k</string><int>5</int></entry>     {"entry":{"string":"k","int":5}}
    <entry><string>k</string><string>v</string>       {"entry":{"string":["k","v"]}}

A text in Java's notation of a number or boolean becomes one in JSON. (activemq-edges ST14)
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

from pyjms.errors import MessageFormatException
from pyjms.jms.conversions import float_text, parse_float, parse_float32, parse_integer
from pyjms.jms.types import Byte, Char, Float, Long, Short

MAXIMUM_DEPTH: Final = 64
_MAXIMUM_ELEMENTS: Final = 32_000


@dataclass(slots=True)
class Element:
    """A name with a text or children; with neither, it is empty."""

    name: str
    text: str | None = None
    children: list[Element] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)


class Counter:
    """Limits the elements of one body, because a small text may have many elements."""

    def __init__(self) -> None:
        self._elements = 0

    def add(self, depth: int) -> None:
        """Count an element at `depth`."""
        self._elements += 1
        if self._elements > _MAXIMUM_ELEMENTS or depth > MAXIMUM_DEPTH:
            raise MessageFormatException(
                f"A body has at most {_MAXIMUM_ELEMENTS} elements, nested at most {MAXIMUM_DEPTH} "
                "deep"
            )


_PAIR: Final = 2
_INT_BITS: Final = 31

_WRITERS: Final[tuple[tuple[type, str, Callable[[Any], str]], ...]] = (
    (bool, "boolean", lambda value: "true" if value else "false"),
    (Byte, "byte", str),
    (Short, "short", str),
    (Long, "long", str),
    (Float, "float", lambda value: float_text(value, single=True)),
    (float, "double", float_text),
    (Char, "char", str),
    (str, "string", str),
    (bytes, "byte-array", lambda value: base64.b64encode(value).decode()),
)
"""Types with XStream's names; the first that fits is used."""


def element_of(value: object) -> Element:
    """Return the element of a value that a map message can have."""
    if value is None:
        return Element("null")
    if isinstance(value, dict):
        entries = [
            Element("entry", None, [element_of(key), element_of(item)])
            for key, item in value.items()
        ]
        return Element("map", None, entries)
    if isinstance(value, list):
        return Element("list", None, [element_of(item) for item in value])
    for kind, name, text in _WRITERS:
        if isinstance(value, kind):
            return Element(name, text(value))
    if isinstance(value, int):
        return Element("int" if -(2**_INT_BITS) <= value < 2**_INT_BITS else "long", str(value))
    raise MessageFormatException(f"A {type(value).__name__} cannot be transformed")


def _integer(bits: int, kind: Callable[[int], int] = int) -> Callable[[str], object]:
    limit = 2 ** (bits - 1)
    return lambda text: kind(parse_integer(text.strip(), -limit, limit - 1))


def _char(text: str) -> object:
    if len(text) != 1:
        raise ValueError("it must be one character")
    return Char(text)


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "string": str,
    "int": _integer(32),
    "long": _integer(64, Long),
    "short": _integer(16, Short),
    "byte": _integer(8, Byte),
    "float": lambda text: Float(parse_float32(text)),
    "double": parse_float,
    "boolean": lambda text: text.strip().lower() == "true",
    "char": _char,
    "byte-array": lambda text: base64.b64decode(text, validate=False),
    "null": lambda _: None,
}
_LISTS: Final = frozenset({"list", "linked-list", "vector", "java.util.Arrays_-ArrayList"})
_MAPS: Final = frozenset({"map", "linked-hash-map", "tree-map", "properties"})


def value_of(element: Element) -> object:
    """Return the value of an element."""
    name = element.name
    reader = _READERS.get(name)
    if reader is not None:
        try:
            return reader(element.text or "")
        except (ValueError, OverflowError, binascii.Error) as error:
            raise MessageFormatException(
                f"{(element.text or '')[:100]!r} is not a value of {name}: {error}"
            ) from error
    if name in _LISTS:
        return [value_of(child) for child in element.children]
    if name in _MAPS:
        return dict(_entry(child) for child in element.children)
    raise MessageFormatException(
        f"{name[:100]} is not a class that can be received here: there are map, list and "
        f"{', '.join(_READERS)}"
    )


def _entry(element: Element) -> tuple[str, object]:
    if element.name != "entry" or len(element.children) != _PAIR:
        raise MessageFormatException("A map has elements entry, each with a key and a value")
    key, value = (value_of(child) for child in element.children)
    if not isinstance(key, str):
        raise MessageFormatException("The keys of a map must be strings")
    return key, value


_SPECIAL: Final = re.compile("[&<>\"'\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]")
_NAMED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}


def write_xml(root: Element) -> str:
    """Return the XML of an element."""
    lines: list[str] = []
    _write(root, "", lines)
    return "\n".join(lines)


def _write(element: Element, indent: str, lines: list[str]) -> None:
    given = "".join(f' {name}="{_escape(text)}"' for name, text in element.attributes.items())
    begin = f"{indent}<{element.name}{given}"
    if element.children:
        lines.append(f"{begin}>")
        for child in element.children:
            _write(child, f"{indent}  ", lines)
        lines.append(f"{indent}</{element.name}>")
    elif element.text is None:
        lines.append(f"{begin}/>")
    else:
        lines.append(f"{begin}>{_escape(element.text)}</{element.name}>")


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda m: _NAMED.get(m.group(), f"&#x{ord(m.group()):x};"), text)


def read_xml(text: str) -> Element:
    """Return the element of an XML text."""
    return _Reader().read(text)


class _Reader:
    def __init__(self) -> None:
        self._top = Element("")
        self._open = [self._top]
        self._texts: list[list[str]] = [[]]
        self._counter = Counter()

    def read(self, text: str) -> Element:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = _refuse_declaration
        try:
            parser.Parse(text.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            raise MessageFormatException(f"The body is not XML: {error}") from error
        return self._top.children[0]

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        element = Element(name, attributes=attributes)
        self._open[-1].children.append(element)
        self._open.append(element)
        self._texts.append([])
        self._counter.add(len(self._open))

    def _end(self, _: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def _characters(self, text: str) -> None:
        self._texts[-1].append(text)


def _refuse_declaration(*_: object) -> None:
    raise MessageFormatException("The XML of a body cannot declare a document type")


_LONG: Final = re.compile(r"(?:0|-?[1-9][0-9]{0,18})\Z")
_DOUBLE: Final = re.compile(r"-?[0-9]{1,20}\.[0-9]{1,20}(?:E-?[0-9]{1,3})?\Z")
_MAXIMUM_LONG: Final = 2**63
_TEXT, _ATTRIBUTE = "$", "@"


def write_json(root: Element) -> str:
    """Return the JSON of an element."""
    return f"{{{_quote(root.name)}:{_value(root)}}}"


def _value(element: Element, *, in_array: bool = False) -> str:
    if not element.children and not element.attributes:
        return _primitive(element.text or "", in_array=in_array)
    fields = {f"{_ATTRIBUTE}{n}": _primitive(t) for n, t in element.attributes.items()}
    groups: dict[str, list[Element]] = {}
    for child in element.children:
        groups.setdefault(child.name, []).append(child)
    for name, group in groups.items():
        if len(group) == 1:
            fields[name] = _value(group[0])
        else:
            fields[name] = f"[{','.join(_value(child, in_array=True) for child in group)}]"
    if element.text and not element.children:
        fields[_TEXT] = _primitive(element.text)
    return "{" + ",".join(f"{_quote(name)}:{value}" for name, value in fields.items()) + "}"


def _primitive(text: str, *, in_array: bool = False) -> str:
    if text in {"true", "false"}:
        return text
    if _LONG.match(text) and -_MAXIMUM_LONG <= int(text) < _MAXIMUM_LONG:
        return text
    if _DOUBLE.match(text) and float_text(parse_float(text)) == text:
        return text if "E" in text else text.rstrip("0").rstrip(".")
    return _quote(text, slashes=in_array)


def _quote(text: str, *, slashes: bool = False) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    quoted = quoted.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    if slashes:  # Jettison escapes slashes in arrays
        return quoted.replace("/", "\\/")
    return quoted.replace("</", "<\\/")


def read_json(text: str) -> Element:
    """Return the element of a JSON text."""
    try:
        members = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_merge)
    except (ValueError, RecursionError) as error:
        raise MessageFormatException(f"The body is not JSON: {error}") from error
    if not isinstance(members, dict) or len(members) != 1:
        raise MessageFormatException("The body must be a JSON object with one member")
    ((name, value),) = members.items()
    return _element(name, value[0] if isinstance(value, list) and value else value, Counter(), 0)


def _merge(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object in which the values of a repeated name form an array."""
    merged: dict[str, Any] = {}
    for name, value in pairs:
        if name not in merged:
            merged[name] = value
        elif isinstance(merged[name], list):
            merged[name].append(value)
        else:
            merged[name] = [merged[name], value]
    return merged


def _element(name: str, value: Any, counter: Counter, depth: int) -> Element:
    counter.add(depth)
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise MessageFormatException(f"The member {name!r:.100} is an array of arrays")
        if isinstance(value, bool):
            value = "true" if value else "false"
        return Element(name, value or "")
    element = Element(name, "")
    for key, item in value.items():
        if key.startswith(_ATTRIBUTE) and isinstance(item, str):
            element.attributes[key[1:]] = item
        elif key == _TEXT and isinstance(item, str):
            element.text = item
        else:
            items = item if isinstance(item, list) else [item]
            element.children += [_element(key, each, counter, depth + 1) for each in items]
    return element
