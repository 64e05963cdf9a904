"""Elements as JSON in Jettison's mapped convention: names are keys, repeated ones arrays.

    <entry><string>k</string><int>5</int></entry>     {"entry":{"string":"k","int":5}}
    <entry><string>k</string><string>v</string>       {"entry":{"string":["k","v"]}}

A text in Java's notation of a number or boolean becomes one in JSON. (activemq-edges ST14)
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pyjms.errors import MessageFormatException
from pyjms.jms.numbers import float_text, parse_float
from pyjms_broker.connector.stomp.transformation.elements import Counter, Element

__all__ = ["read", "write"]

_LONG: Final = re.compile(r"(?:0|-?[1-9][0-9]{0,18})\Z")
_DOUBLE: Final = re.compile(r"-?[0-9]{1,20}\.[0-9]{1,20}(?:E-?[0-9]{1,3})?\Z")
_MAXIMUM_LONG: Final = 2**63
_TEXT, _ATTRIBUTE = "$", "@"


def write(root: Element) -> str:
    """Return the JSON of an element."""
    return f"{{{_quoted(root.name)}:{_value(root)}}}"


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
    return "{" + ",".join(f"{_quoted(name)}:{value}" for name, value in fields.items()) + "}"


def _primitive(text: str, *, in_array: bool = False) -> str:
    if text in {"true", "false"}:
        return text
    if _LONG.match(text) and -_MAXIMUM_LONG <= int(text) < _MAXIMUM_LONG:
        return text
    if _DOUBLE.match(text) and float_text(parse_float(text)) == text:
        return text if "E" in text else text.rstrip("0").rstrip(".")
    return _quoted(text, slashes=in_array)


def _quoted(text: str, *, slashes: bool = False) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    quoted = quoted.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    if slashes:  # Jettison escapes slashes in arrays
        return quoted.replace("/", "\\/")
    return quoted.replace("</", "<\\/")


def read(text: str) -> Element:
    """Return the element of a JSON text.

    Raises:
        MessageFormatException: it is not an object with one member, or has too many members.
    """
    try:
        members = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_merged)
    except (ValueError, RecursionError) as error:
        raise MessageFormatException(f"The body is not JSON: {error}") from error
    if not isinstance(members, dict) or len(members) != 1:
        raise MessageFormatException("The body must be a JSON object with one member")
    ((name, value),) = members.items()
    return _element(name, value[0] if isinstance(value, list) and value else value, Counter(), 0)


def _merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
