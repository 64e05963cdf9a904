"""Conversion of Java values to elements and back, with XStream's class names."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

from pyjms.errors import MessageFormatException
from pyjms.jms.numbers import float_text, parse_float, parse_float32, parse_integer
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms_broker.connector.stomp.transformation.elements import Element

__all__ = ["element_of", "value_of"]

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
    """Return the element of a value that a map message can have.

    Raises:
        MessageFormatException: its type is not supported.
    """
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
    """Return the value of an element.

    Raises:
        MessageFormatException: its class is unknown, or its text is not a value of the class.
    """
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
