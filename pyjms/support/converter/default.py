"""The default converter: text, bytes and mappings directly, the rest as JSON. (decisions D16)

Type ids in messages, and which of them may be resolved to Python types.

A message cannot cause an import that the application has not allowed: an id is resolved by a
mapping, by the type that the receiver requests, or by a trusted package.
(spring-jms 5.2.3; decisions D16)
"""

from __future__ import annotations

import importlib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union

from pyjms.jms.api import Session
from pyjms.jms.bodies import BytesMessage, TextMessage
from pyjms.jms.message import Message
from pyjms.support.converter.registry import content_type_of, find_converter
from pyjms.support.converter.simple import SimpleMessageConverter

if TYPE_CHECKING:
    from pyjms.support.converter.json import DefaultJson

__all__ = ["TYPE_ID_PROPERTY", "DefaultMessageConverter", "TypeIds", "is_open"]

TYPE_ID_PROPERTY: Final = "_type"
"""The property in which the default converter names the type of a JSON message."""

# Always allowed: their JSON contains nothing but data. The id is the bare name.
_PLAIN_TYPES: Final[dict[str, type]] = {
    kind.__name__: kind for kind in (bool, int, float, str, list, tuple, set, dict)
}


class TypeIds:
    """Maps types to ids, and ids to types.

    `mappings` maps ids to types; `trusted_packages` are names of modules from which any class may
    be loaded by its full name.
    """

    def __init__(
        self, mappings: Mapping[str, type] | None = None, trusted_packages: Iterable[str] = ()
    ) -> None:
        self._types = dict(mappings or {})
        self._ids = {kind: name for name, kind in self._types.items()}
        self._trusted = tuple(trusted_packages)

    def id_of(self, kind: type) -> str:
        """Return the mapped id of `kind`, else its full name."""
        mapped = self._ids.get(kind)
        if mapped is not None:
            return mapped
        if _PLAIN_TYPES.get(kind.__name__) is kind:
            return kind.__name__
        return f"{kind.__module__}.{kind.__qualname__}"

    def find(self, type_id: str, target: Any = None) -> Any:
        """Return the type of `type_id` if it is allowed and compatible with `target`; else None.

        An open target admits any allowed type; a class admits its subclasses, a union its members
        and their subclasses.
        """
        if is_open(target):
            return self._types.get(type_id) or _PLAIN_TYPES.get(type_id) or self._load(type_id)
        members = dict(_members(target))
        found = self._types.get(type_id)
        if found is None:
            family = (kind for member in members for kind in _family(member))
            found = next((kind for kind in family if self.id_of(kind) == type_id), None)
        if found is None:
            found = self._load(type_id)
        if found in members:
            return members[found]
        return found if any(member in getattr(found, "__mro__", ()) for member in members) else None

    def _load(self, type_id: str) -> type | None:
        parts = type_id.split(".")
        for end in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[:end])
            if not any(
                name == package or name.startswith(f"{package}.") for package in self._trusted
            ):
                return None
            try:
                found: object = importlib.import_module(name)
            except ModuleNotFoundError:
                continue  # the last part may be a class that contains the next
            for part in parts[end:]:
                found = getattr(found, part, None)
            return found if isinstance(found, type) else None
        return None


def is_open(target: Any) -> bool:
    """Return whether `target` leaves the choice of the type to the message."""
    return target is None or target is object or target is Any


def bare_type(target: Any) -> Any:
    """Return the class of a typing form: without Annotated and type arguments."""
    while typing.get_origin(target) is Annotated:
        target = typing.get_args(target)[0]
    return typing.get_origin(target) or target


def _members(target: Any) -> Iterator[tuple[type, Any]]:
    """Yield the classes of `target`, itself or the members of a union, with their typing forms."""
    bare = bare_type(target)
    if bare is Union or bare is types.UnionType:
        for member in typing.get_args(target):
            yield from _members(member)
    elif isinstance(bare, type):
        yield bare, target


def _family(root: type) -> Iterator[type]:
    yield root
    children: list[type] = type.__subclasses__(root)
    for child in children:
        yield from _family(child)


_PLAIN = (Message, str, bytes, bytearray, memoryview)


class DefaultMessageConverter:
    """Converts str and bytes to text and bytes messages, mappings to maps or JSON, others to JSON.

    A JSON message names its type in the property `_type`. A type that the receiver requests takes
    precedence: then the property only chooses among its subclasses or, for a union, its members. If
    the receiver requests no type, the named type is used if it is listed in `type_id_mappings` or
    belongs to `trusted_packages`; otherwise the payload is what the JSON contains: a dict, a list
    or a plain value. If the property `content_type` names a converter of an installed package, that
    converter reads the message. Nothing is ever unpickled. Thread-safe; no call blocks.

    Args:
        type_id_mappings: type id to type, for ids that are not Python names.
        trusted_packages: modules whose classes may be loaded by their full name.
        dict_format: the format of mappings: "map", a MapMessage, whose values must have JMS types,
            or "json", which allows dates, decimals, enumerations and nested values.
    """

    def __init__(
        self,
        *,
        type_id_mappings: Mapping[str, type] | None = None,
        trusted_packages: Iterable[str] = (),
        dict_format: Literal["json", "map"] = "map",
    ) -> None:
        if dict_format not in ("json", "map"):
            raise ValueError(f"dict_format is 'json' or 'map', not {dict_format!r}")
        self.dict_format = dict_format
        self._plain = _PLAIN if dict_format == "json" else (*_PLAIN, Mapping)
        self._simple = SimpleMessageConverter()
        self._type_id_mappings = dict(type_id_mappings or {})
        self._trusted_packages = tuple(trusted_packages)

    def to_message(self, payload: object, session: Session) -> Message:
        """Return `payload` as a message.

        Raises:
            MessageConversionException: it is None, or pydantic cannot write it.
            MessageFormatException: a value of a mapping has no JMS type.
        """
        if payload is None or isinstance(payload, self._plain):
            return self._simple.to_message(payload, session)
        return self._json.to_message(payload, session)

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload of `message` as `target`.

        Raises:
            MessageConversionException: the payload does not match `target`.
            ConfigurationException: a package's converter for its content type is broken.
        """
        wanted = bare_type(target)
        if isinstance(wanted, type) and issubclass(wanted, Message):
            return message
        content_type = content_type_of(message)
        if content_type is not None:
            converter = find_converter(content_type)
            if converter is not None:
                return converter.from_message(message, target)
        is_text = isinstance(message, TextMessage | BytesMessage)
        if is_text and TYPE_ID_PROPERTY in message.properties:
            return self._json.from_message(message, target)
        payload = self._simple.from_message(message)
        if is_open(target) or (target is wanted and type(payload) is wanted):
            return payload
        from pyjms.support.converter.json import converted  # noqa: PLC0415 - as `_json`

        return converted(payload, target, wanted, message)

    @cached_property
    def _json(self) -> DefaultJson:
        # imported here because applications of texts and bytes need no pydantic
        from pyjms.support.converter.json import DefaultJson  # noqa: PLC0415

        return DefaultJson(self._type_id_mappings, self._trusted_packages)
