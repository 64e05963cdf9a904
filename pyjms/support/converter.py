"""Message converters: payloads to messages and back. (spring-jms 5; decisions D16)

The default converter handles text, bytes and mappings directly and the rest as JSON, whose part
(`pyjms.support.json_converter`) the first such payload imports: applications of texts and bytes
need no pydantic. Python objects never become ObjectMessages, which contain serialized Java objects.

An installed package adds a converter for a content type with an entry point in the group
`pyjms.converters`: its name is the content type, its object a converter, or a class or function
without arguments that returns one.

    [project.entry-points."pyjms.converters"]
    "application/cbor" = "pyjms_cbor:CborMessageConverter"

A message's content type is in its property `content_type` (the header `contentType` in handlers).
Installed packages are scanned when the first such message arrives, a converter is loaded when its
content type is first used, and one instance serves the whole process.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, runtime_checkable

from pyjms.errors import ConfigurationException, MessageConversionException, MessageFormatException
from pyjms.jms.api import Session
from pyjms.jms.message import BytesMessage, MapMessage, Message, ObjectMessage, TextMessage
from pyjms.runtime.distribution import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pyjms.support.json_converter import DefaultJson

GROUP: Final = "pyjms.converters"

CONTENT_TYPE_PROPERTY: Final = "content_type"

TYPE_ID_PROPERTY: Final = "_type"
"""The property in which the default converter names the type of a JSON message."""


@runtime_checkable
class MessageConverter(Protocol):
    """Converts payloads to messages, and messages to payloads. Spring: MessageConverter.

    Both methods are synchronous and must not block; tasks and threads may call them concurrently.
    `pyjms.testing.contract.converter` has tests for implementations.
    """

    def to_message(self, payload: object, session: Session) -> Message:
        """Return a message of `session` for `payload`.

        Raises:
            MessageConversionException: the converter does not support it.
        """
        ...

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload of `message`, of type `target` if it is given.

        `target` is a type or typing form (`list[Order]`); None, `object` and `Any` leave the
        choice to the message.

        Raises:
            MessageConversionException: the message cannot be read, or not converted to `target`.
        """
        ...


class SimpleMessageConverter:
    """Converts str to TextMessage, bytes to BytesMessage, mappings to MapMessage, and back.

    A message as payload is passed through. Messages without body and StreamMessages are returned as
    payloads themselves; an ObjectMessage is read as bytes. Tasks and threads may share it; no call
    blocks. Spring: SimpleMessageConverter.
    """

    def to_message(self, payload: object, session: Session) -> Message:
        """Return `payload` as a message of the matching kind.

        Raises:
            MessageConversionException: it has another type, or is a mapping whose keys are not str.
            MessageFormatException: a value of the mapping has no JMS type.
        """
        if isinstance(payload, Message):
            return payload
        if isinstance(payload, str):
            return session.create_text_message(payload)
        if isinstance(payload, bytes | bytearray | memoryview):
            return session.create_bytes_message(bytes(payload))
        if isinstance(payload, Mapping):
            return _map_message(payload, session)
        raise MessageConversionException(
            f"Cannot convert object of type [{type(payload).__qualname__}] to JMS message. "
            "Supported message payloads are: str, bytes, Mapping[str, ...].",
            target=type(payload),
            hint=""
            if payload is not None
            else 'send an empty text "", or a message: lambda session: session.create_message()',
        )

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload; `target` is ignored."""
        del target
        for kind, extract in _EXTRACTORS.items():
            if isinstance(message, kind):
                return extract(message)
        return message


def _map_message(payload: Mapping[Any, Any], session: Session) -> Message:
    message = session.create_map_message()
    for name, value in payload.items():
        if not isinstance(name, str):
            raise MessageConversionException(
                "Cannot convert non-str key of type "
                f"[{type(name).__qualname__}] to the name of a MapMessage's value",
                hint="the keys of a mapping must be str",
            )
        try:
            message[name] = value
        except MessageFormatException as error:
            reason = error.reason.removeprefix(f"Value {name!r:.100}: ")
            raise MessageFormatException(
                f"A MapMessage cannot hold the value of {name!r}: {reason}",
                hint="send the mapping as JSON: jms.converter.dict_format: json, or "
                'DefaultMessageConverter(dict_format="json"); or convert the value, for instance '
                "to a str",
            ) from error
    return message


_EXTRACTORS: Final[dict[type[Message], Callable[[Any], object]]] = {
    TextMessage: lambda message: message.text,
    BytesMessage: lambda message: message.data,
    MapMessage: lambda message: dict(message.items()),
    ObjectMessage: lambda message: message.data,
}


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
        from pyjms.support.json_converter import convert  # noqa: PLC0415 - as `_json`

        return convert(payload, target, wanted, message)

    @cached_property
    def _json(self) -> DefaultJson:
        # imported here because applications of texts and bytes need no pydantic
        from pyjms.support.json_converter import DefaultJson  # noqa: PLC0415

        return DefaultJson(self._type_id_mappings, self._trusted_packages)


class ContentTypeDelegatingMessageConverter:
    """Writes with the converter of one content type; reads with that of the message's type.

    The content type of a message is its property `content_type`. Converters come from
    `converters`, then from installed packages (entry points `pyjms.converters`). Messages without
    a content type, or with one that has no converter, are left to `default`. Tasks and threads may
    share it if they may share its converters. Spring AMQP: ContentTypeDelegatingMessageConverter.

    Args:
        content_type: what to write, such as "application/cbor"; None: leave it to `default`.
        converters: converters by content type.
        default: the converter for everything else; None: a DefaultMessageConverter.

    Raises:
        ConfigurationException: the entry point for `content_type` is broken.
        MessageConversionException: there is no converter for `content_type`.
    """

    def __init__(
        self,
        *,
        content_type: str | None = None,
        converters: Mapping[str, MessageConverter] | None = None,
        default: MessageConverter | None = None,
    ) -> None:
        self._converters = {normalize_content_type(k): v for k, v in (converters or {}).items()}
        self._default: MessageConverter = default or DefaultMessageConverter()
        self.content_type = content_type
        self._writer = self._default
        if content_type is not None:
            own = self._converters.get(normalize_content_type(content_type))
            self._writer = own or require_converter(content_type)

    def to_message(self, payload: object, session: Session) -> Message:
        """Return `payload` as a message with the property `content_type`. Does not block.

        Raises:
            MessageConversionException: the converter does not support the payload.
        """
        message = self._writer.to_message(payload, session)
        if self.content_type is not None and message is not payload:
            message.properties[CONTENT_TYPE_PROPERTY] = self.content_type
        return message

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload of `message`, as `target` if one is given. Does not block.

        Raises:
            MessageConversionException: it cannot be read, or not converted to `target`.
            ConfigurationException: the entry point for its content type is broken.
        """
        content_type = content_type_of(message)
        if content_type is None:
            return self._default.from_message(message, target)
        return self._reader(content_type).from_message(message, target)

    def _reader(self, content_type: str) -> MessageConverter:
        own = self._converters.get(content_type)
        return own or find_converter(content_type) or self._default


_CONTENT_TYPE: Final = re.compile(r"[a-z0-9][\w.+-]*/[a-z0-9][\w.+-]*", re.ASCII)


def content_type_of(message: Message) -> str | None:
    """Return the content type of `message` or None, in lower case and without parameters."""
    value = message.properties.get(CONTENT_TYPE_PROPERTY)
    return normalize_content_type(value) if isinstance(value, str) else None


def normalize_content_type(content_type: str) -> str:
    """Return a content type in lower case and without parameters such as `; charset=UTF-8`."""
    return content_type.partition(";")[0].strip().lower()


def installed_content_types() -> list[str]:
    """Return the content types for which installed packages have converters, sorted."""
    return sorted(_entry_points_by_type())


def find_converter(content_type: str) -> MessageConverter | None:
    """Return the installed converter for a content type; None if there is none."""
    return _load(content_type) if content_type in _entry_points_by_type() else None


def require_converter(content_type: str) -> MessageConverter:
    """Return the installed converter for a content type."""
    converter = find_converter(normalize_content_type(content_type))
    if converter is None:
        known = ", ".join(installed_content_types()) or "none"
        raise MessageConversionException(
            f"There is no message converter for the content type {content_type!r}",
            content_type=content_type,
            hint=f"install a package with an entry point {GROUP!r} for it; installed: {known}",
        )
    return converter


def forget_installed() -> None:
    """Scan the installed packages again at the next use."""
    _entry_points_by_type.cache_clear()
    _load.cache_clear()


@functools.cache
def _entry_points_by_type() -> dict[str, list[EntryPoint]]:
    """Return the entry points of the group by content type."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name.lower(), []).append(point)
    return found


@functools.cache
def _load(content_type: str) -> MessageConverter:
    points = _entry_points_by_type()[content_type]
    if len(points) > 1:
        raise ConfigurationException(
            f"There are {len(points)} message converters for the content type {content_type!r}: "
            + ", ".join(map(_describe, points)),
            hint="uninstall all but one of these packages",
        )
    point = points[0]
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise _unusable(point, f"{point.name!r} is not a content type such as 'application/cbor'")
    try:
        converter = point.load()
        if isinstance(converter, type) or not isinstance(converter, MessageConverter):
            converter = converter()
    except Exception as error:
        raise _unusable(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(converter, MessageConverter):
        raise _unusable(
            point, f"a {type(converter).__name__} lacks the methods to_message and from_message"
        )
    return converter


def _unusable(point: EntryPoint, reason: str) -> ConfigurationException:
    return ConfigurationException(
        f"The message converter {_describe(point)} cannot be used: {reason}",
        hint="fix the package, or uninstall it",
    )


def _describe(point: EntryPoint) -> str:
    package = "" if point.dist is None else f" of {point.dist.name} {point.dist.version}"
    return f"{point.value}{package} (entry point {GROUP!r}, {point.name!r})"


def is_open(target: Any) -> bool:
    """Return whether `target` leaves the choice of the type to the message."""
    return target is None or target is object or target is Any


def bare_type(target: Any) -> Any:
    """Return the class of a typing form: without Annotated and type arguments."""
    while typing.get_origin(target) is Annotated:
        target = typing.get_args(target)[0]
    return typing.get_origin(target) or target
