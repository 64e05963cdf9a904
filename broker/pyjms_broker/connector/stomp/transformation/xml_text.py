"""Elements as XML, indented like XStream's PrettyPrintWriter, and parsed without entities."""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from pyjms.errors import MessageFormatException
from pyjms_broker.connector.stomp.transformation.elements import Counter, Element

__all__ = ["read", "write"]

_SPECIAL: Final = re.compile("[&<>\"'\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]")
_NAMED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}


def write(root: Element) -> str:
    """Return the XML of an element."""
    lines: list[str] = []
    _write(root, "", lines)
    return "\n".join(lines)


def _write(element: Element, indent: str, lines: list[str]) -> None:
    given = "".join(f' {name}="{_escaped(text)}"' for name, text in element.attributes.items())
    begin = f"{indent}<{element.name}{given}"
    if element.children:
        lines.append(f"{begin}>")
        for child in element.children:
            _write(child, f"{indent}  ", lines)
        lines.append(f"{indent}</{element.name}>")
    elif element.text is None:
        lines.append(f"{begin}/>")
    else:
        lines.append(f"{begin}>{_escaped(element.text)}</{element.name}>")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda m: _NAMED.get(m.group(), f"&#x{ord(m.group()):x};"), text)


def read(text: str) -> Element:
    """Return the element of an XML text.

    Raises:
        MessageFormatException: it is not XML, it declares a document type, or it has too many
            elements.
    """
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
