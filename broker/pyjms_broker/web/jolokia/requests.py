"""Parsing of Jolokia requests, from a path (GET) or from JSON (POST)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyjms_broker.management.errors import InvalidArgumentException, MalformedObjectNameException
from pyjms_broker.management.object_name import ObjectName

__all__ = ["JolokiaRequest", "canonical", "from_json", "from_path", "split_path"]

_PARTS: Final = re.compile(r"((?:[^!/]|!.)*)(/|$)", re.DOTALL)
_ESCAPED: Final = re.compile(r"!(.)", re.DOTALL)
_LISTED: Final = 200
"""The maximum number of characters of a client's text in an error."""


@dataclass(slots=True)
class JolokiaRequest:
    """One request; fields that its type does not have are None or empty."""

    type: str
    name: ObjectName | None = None
    attributes: Sequence[str] = ()
    """Names of attributes; empty: all."""
    is_list: bool = False
    """Whether the attributes are a list, so that the value is a mapping even for one."""
    operation: str | None = None
    arguments: Sequence[object] = ()
    value: object = None
    path: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    def option(self, name: str, default: int) -> int:
        """Return a numeric option, such as `maxDepth`.

        Raises:
            InvalidArgumentException: it is not a number.
        """
        given = self.options.get(name, default)
        try:
            if isinstance(given, int | str):
                return int(given)
        except ValueError:
            pass
        raise InvalidArgumentException(f"{name} is not a number: {str(given)[:_LISTED]!r}")

    def flag(self, name: str) -> bool:
        """Return a boolean option, such as `ignoreErrors`."""
        return str(self.options.get(name, "")).lower() == "true"

    def echo(self) -> dict[str, object]:
        """Return the copy of the request that the response contains."""
        content: dict[str, object] = {"type": self.type}
        if self.name is not None:
            content["mbean"] = canonical(self.name)
        if self.attributes:
            one = len(self.attributes) == 1
            content["attribute"] = self.attributes[0] if one else list(self.attributes)
        if self.type == "exec":
            content["operation"] = self.operation
            if self.arguments:
                content["arguments"] = list(self.arguments)
        if self.type == "write":
            content["value"] = self.value
        if self.path:
            content["path"] = "/".join(_escape(part) for part in self.path)
        return content


def canonical(name: ObjectName) -> str:
    """Return a name with its keys in alphabetical order."""
    keys = [f"{key}={value}" for key, value in sorted(name.keys.items())]
    return f"{name.domain}:{','.join([*keys, '*'] if name.is_open else keys)}"


def split_path(path: str) -> list[str]:
    """Return the parts of a path between `/`; `!` escapes `/` and itself."""
    return [_ESCAPED.sub(r"\1", part) for part, _ in _PARTS.findall(path) if part]


def _escape(part: str) -> str:
    return part.replace("!", "!!").replace("/", "!/")


def from_path(path: str, options: Mapping[str, object]) -> JolokiaRequest:
    """Parse the request of a GET: `read/NAME/ATTRIBUTE`, `exec/NAME/OPERATION/ARGUMENT`.

    Raises:
        InvalidArgumentException: the request is invalid.
        MalformedObjectNameException: the object name is invalid.
    """
    kind, *parts = split_path(path) or ["version"]
    request = JolokiaRequest(_known(kind), options=options)
    if request.type in _NAMED:
        if not parts:
            raise InvalidArgumentException("Objectname can not be null")
        request.name = _name(parts.pop(0))
    _FROM_PATH[request.type](request, parts)
    return request


def _read_parts(request: JolokiaRequest, parts: list[str]) -> None:
    if parts:
        request.attributes = tuple(name for name in parts.pop(0).split(",") if name)
        request.is_list = len(request.attributes) > 1
    request.path = parts


def _write_parts(request: JolokiaRequest, parts: list[str]) -> None:
    if len(parts) < 2:
        raise InvalidArgumentException(
            "A write needs an attribute and a value", hint="write/NAME/ATTRIBUTE/VALUE"
        )
    request.attributes, request.value, request.path = parts[:1], _argument(parts[1]), parts[2:]


def _exec_parts(request: JolokiaRequest, parts: list[str]) -> None:
    request.operation = parts[0] if parts else None
    request.arguments = [_argument(part) for part in parts[1:]]


def _argument(text: str) -> object:
    return {"[null]": None, '""': ""}.get(text, text)


def _path_parts(request: JolokiaRequest, parts: list[str]) -> None:
    request.path = parts


def _no_parts(request: JolokiaRequest, parts: list[str]) -> None:
    """Ignore the remaining parts, as Jolokia does."""


_FROM_PATH: Final[dict[str, Callable[[JolokiaRequest, list[str]], None]]] = {
    "read": _read_parts,
    "write": _write_parts,
    "exec": _exec_parts,
    "search": _no_parts,
    "list": _path_parts,
    "version": _no_parts,
}
_NAMED: Final = frozenset({"read", "write", "exec", "search"})


def from_json(content: object, options: Mapping[str, object]) -> JolokiaRequest:
    """Parse one request of a POST.

    Raises:
        InvalidArgumentException: the request is invalid.
        MalformedObjectNameException: the object name is invalid.
    """
    if not isinstance(content, dict):
        raise InvalidArgumentException(
            "Not a request within the list of requests. "
            f"Expected map, but found: {str(content)[:_LISTED]}"
        )
    kind = content.get("type")
    if kind is None:
        raise InvalidArgumentException("No type given")
    more = content.get("config")
    request = JolokiaRequest(
        _known(str(kind).lower()),
        options={**options, **more} if isinstance(more, dict) else options,
        value=content.get("value"),
    )
    if request.type in _NAMED:
        name = content.get("mbean")
        if not isinstance(name, str):
            raise InvalidArgumentException("Objectname can not be null")
        request.name = _name(name)
    _read_json_attributes(request, content.get("attribute"))
    operation, arguments = content.get("operation"), content.get("arguments")
    request.operation = operation if isinstance(operation, str) else None
    if arguments is not None:
        request.arguments = arguments if isinstance(arguments, list) else [arguments]
    request.path = _json_path(content.get("path"))
    return request


def _read_json_attributes(request: JolokiaRequest, given: Any) -> None:
    if isinstance(given, list):
        request.attributes = tuple(str(each) for each in given)
        request.is_list = bool(given)
    elif given is not None:
        request.attributes = (str(given),)


def _json_path(given: object) -> Sequence[str]:
    if isinstance(given, list):
        return [str(each) for each in given]
    return split_path(given) if isinstance(given, str) else ()


def _known(kind: str) -> str:
    if kind not in _FROM_PATH:
        raise InvalidArgumentException(
            f"No type with name '{kind[:_LISTED]}' exists", hint=f"there is {', '.join(_FROM_PATH)}"
        )
    return kind


def _name(text: str) -> ObjectName:
    try:
        return ObjectName(text)
    except MalformedObjectNameException as error:
        raise InvalidArgumentException(
            f"Invalid object name. {error.reason}", hint=error.hint
        ) from error
