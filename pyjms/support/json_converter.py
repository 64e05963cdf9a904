"""JSON in a text or bytes message, with the type id in a property. (spring-jms 5.2)

Values are serialized and validated by pydantic: models, dataclasses, TypedDicts, dates, and
everything that `TypeAdapter` supports.

A message cannot cause an import that the application has not allowed: a type id is resolved by a
mapping, by the type that the receiver requests, or by a trusted package. (decisions D16)
"""

from __future__ import annotations

import importlib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, Union

import pydantic
import pydantic_core
from pydantic_core import ErrorDetails

from pyjms.errors import MessageConversionException
from pyjms.jms.api import Session
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.support.converter import TYPE_ID_PROPERTY, SimpleMessageConverter, bare_type, is_open


class MessageType(Enum):
    """The kind of message that a converter writes. Spring: MessageType."""

    BYTES = "bytes"
    TEXT = "text"


class JsonMessageConverter:
    """Writes payloads as JSON, and reads them as the requested type or the message's type id.

    Tasks and threads may share it; no call blocks. Spring: MappingJackson2MessageConverter,
    JacksonJsonMessageConverter.

    Args:
        target_type: the kind of message to write.
        type_id_property_name: the property with the type's id; None: no id is written, and
            reading requires a target.
        type_id_mappings: type id to type, for ids that are not Python names, such as Java's.
        trusted_packages: modules whose classes may be loaded by their full name.
        encoding: the encoding of BytesMessages.
        encoding_property_name: the property with the encoding of a BytesMessage.
    """

    def __init__(
        self,
        *,
        target_type: MessageType = MessageType.BYTES,
        type_id_property_name: str | None = None,
        type_id_mappings: Mapping[str, type] | None = None,
        trusted_packages: Iterable[str] = (),
        encoding: str = "UTF-8",
        encoding_property_name: str | None = None,
    ) -> None:
        self.target_type: MessageType = MessageType(target_type)
        self.type_id_property_name = type_id_property_name
        self.encoding = encoding
        self.encoding_property_name = encoding_property_name
        self._type_ids = TypeIds(type_id_mappings, trusted_packages)

    def to_message(self, payload: object, session: Session) -> Message:
        """Return a message with `payload` as JSON.

        Raises:
            MessageConversionException: pydantic cannot serialize it.
        """
        try:
            data = pydantic_core.to_json(payload)
        except (pydantic_core.PydanticSerializationError, ValueError, TypeError) as error:
            raise MessageConversionException(
                f"Could not write a value of type {type(payload).__qualname__} as JSON: {error}",
                target=type(payload),
                hint="send a value that pydantic can write: a model, dataclass, dict or list",
            ) from error
        message = self._message(data, session)
        if self.type_id_property_name is not None:
            message.properties[self.type_id_property_name] = self._type_ids.id_of(type(payload))
        return message

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload as `target`, or as the type that the message names.

        The message's type id applies if `target` is open (None, `object`, `Any`), and chooses among
        the subclasses or union members of `target`; otherwise `target` takes precedence.

        Raises:
            MessageConversionException: no type is requested and the message's type id is missing,
                unknown or not trusted; or the JSON is malformed or does not match the type.
            ValueError: the message is neither a TextMessage nor a BytesMessage.
        """
        data = self._json(message)
        kind = self._type_of(message, target)
        return _validate(data, kind, message)

    def has_type_id(self, message: Message) -> bool:
        """Return whether `message` has a type id."""
        name = self.type_id_property_name
        return name is not None and name in message.properties

    def named_type(self, message: Message, target: object) -> Any:
        """Return the type of the type id of `message` if it is allowed, else None.

        If `target` is open, any known type is allowed; else only `target`'s subclasses or members.
        """
        return self._type_ids.find(self._type_id(message), target)

    def _message(self, data: bytes, session: Session) -> Message:
        if self.target_type is MessageType.TEXT:
            return session.create_text_message(data.decode())
        recode = self.encoding.upper() != "UTF-8"
        message = session.create_bytes_message(
            data.decode().encode(self.encoding) if recode else data
        )
        if self.encoding_property_name is not None:
            message.properties[self.encoding_property_name] = self.encoding
        return message

    def _json(self, message: Message) -> str | bytes:
        if isinstance(message, TextMessage):
            return message.text or ""
        if not isinstance(message, BytesMessage):
            raise ValueError(  # noqa: TRY004 - Spring's IllegalArgumentException
                f"Unsupported message type [{type(message).__qualname__}]. JsonMessageConverter "
                "by default only supports TextMessages and BytesMessages."
            )
        encoding = self.encoding
        if self.encoding_property_name is not None:
            encoding = message.properties.get_string(self.encoding_property_name) or encoding
        try:
            return message.data.decode(encoding)
        except (LookupError, UnicodeDecodeError) as error:
            raise MessageConversionException(
                f"Could not read message [{message.message_id}] as {encoding}: {error}",
                content_type="application/json",
            ) from error

    def _type_of(self, message: Message, target: object) -> Any:
        if not self.has_type_id(message):
            if not is_open(target):
                return target
            raise MessageConversionException(
                f"Could not find type id property [{self.type_id_property_name}] on message "
                f"[{message.message_id}] from destination [{message.destination}]",
                hint="request a type, or have the sender set the property",
            )
        kind = self.named_type(message, target)
        if kind is not None:
            return kind
        if not is_open(target):
            return target
        raise MessageConversionException(
            f"Type id [{self._type_id(message)}] of message [{message.message_id}] is unknown or "
            "not trusted",
            target=target,
            hint="list it in type_id_mappings or trusted_packages, or request a type",
        )

    def _type_id(self, message: Message) -> str:
        return message.properties.get_string(self.type_id_property_name or "") or ""


def _validate(data: str | bytes, kind: Any, message: Message) -> Any:
    try:
        return type_adapter(kind).validate_json(data)
    except pydantic.ValidationError as error:
        # The text of pydantic's error includes the input, and a body must not appear in an error.
        raise MessageConversionException(
            f"Could not convert message [{message.message_id}] to {type_name(kind)}: "
            f"{describe_problems(error, kind)}",
            content_type="application/json",
            target=kind,
        ) from None


def describe_problems(error: pydantic.ValidationError, kind: object) -> str:
    """Return the first five of pydantic's problems in one line, without the values.

    Of a union, `kind`, only those of the member that the value fits best, if there is one.
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)
    if found[0]["type"] == "json_invalid":
        return f"the body is not valid JSON: {found[0]['msg'].removeprefix('Invalid JSON: ')}"
    if bare_type(kind) in (Union, types.UnionType):
        found = _of_nearest_member(found, _tags_of(kind))
    shown = [f"{'.'.join(map(str, e['loc'])) or 'payload'}: {e['msg']}" for e in found[:5]]
    return "; ".join(shown) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")


def _of_nearest_member(found: list[ErrorDetails], tags: set[str]) -> list[ErrorDetails]:
    """Return the problems of the member of a union that was meant; all if that is unclear.

    It is the one whose tags are right, and that lacks least. If all are of another kind, only that
    is returned. The location of a problem begins with the member's name.
    """

    def is_of_other_kind(problem: ErrorDetails) -> bool:
        location = problem["loc"]
        is_of_tag = len(location) == 2 and location[1] in tags
        return len(location) < 2 or (is_of_tag and problem["type"] == "literal_error")

    members: dict[object, list[ErrorDetails]] = {}
    for problem in found:
        members.setdefault(problem["loc"][0] if problem["loc"] else "", []).append(problem)

    def misfit(problems: list[ErrorDetails]) -> tuple[bool, int, int]:
        missing = sum(each["type"] == "missing" for each in problems)
        return any(map(is_of_other_kind, problems)), missing, len(problems)

    ranked = sorted(members.values(), key=misfit)
    if misfit(ranked[0])[0]:
        return [each for each in found if is_of_other_kind(each)]
    if len(ranked) < 2 or misfit(ranked[0])[:2] == misfit(ranked[1])[:2]:
        return found
    return ranked[0]


def _tags_of(kind: object) -> set[str]:
    """Return the names that are a Literal in several members of a union, which tell them apart."""
    names: list[str] = []
    for member, _ in _members(kind):
        with suppress(NameError, TypeError):  # annotations that cannot be read
            hints = typing.get_type_hints(member)
            names += [name for name, hint in hints.items() if bare_type(hint) is Literal]
    return {name for name in names if names.count(name) > 1}


def type_name(kind: Any) -> str:
    """Return the name of a type, also of a union or an alias, for messages."""
    return getattr(kind, "__qualname__", None) or str(kind)


@lru_cache(maxsize=1024)
def type_adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    """Return pydantic's adapter for `kind`; they are cached, as creating one is slow."""
    try:
        return pydantic.TypeAdapter(kind)
    except pydantic.errors.PydanticUserError as error:
        raise MessageConversionException(
            f"Nothing can be read as {type_name(kind)}: pydantic has no schema for it",
            target=kind,
            hint="use a pydantic model, a dataclass or a standard type",
        ) from error


class DefaultJson(JsonMessageConverter):
    """Writes text messages with the type id in the property `_type`, and reads them."""

    def __init__(self, mappings: Mapping[str, type], trusted_packages: Iterable[str]) -> None:
        super().__init__(
            target_type=MessageType.TEXT,
            type_id_property_name=TYPE_ID_PROPERTY,
            type_id_mappings=mappings,
            trusted_packages=trusted_packages,
        )
        self._simple = SimpleMessageConverter()

    def from_message(self, message: Message, target: object = None) -> Any:
        if is_open(target) and self.named_type(message, target) is None:
            return super().from_message(message, pydantic.JsonValue)
        if target is str or target is bytes:
            try:
                return super().from_message(message, target)
            except MessageConversionException:
                # JSON that is not a string: for a str target the JSON itself is returned
                return convert(self._simple.from_message(message), target, target, message)
        return super().from_message(message, target)


def convert(payload: object, target: Any, wanted: Any, message: Message) -> Any:
    """Return the payload of `message` as `target`, whose type without annotations is `wanted`."""
    adapter = type_adapter(target)
    malformed: pydantic.ValidationError | None = None
    try:
        if isinstance(payload, str | bytes) and wanted is not str and wanted is not bytes:
            try:
                return adapter.validate_json(payload)
            except pydantic.ValidationError as error:
                if not isinstance(payload, str) or error.errors()[0]["type"] != "json_invalid":
                    raise
                malformed = error  # a date, for example, need not be JSON
        return adapter.validate_python(payload)
    except pydantic.ValidationError as error:
        if malformed is not None and _needs_json(str(payload), error):
            error = malformed
        raise MessageConversionException(
            f"Could not convert the payload of message [{message.message_id}] to "
            f"{type_name(target)}: {describe_problems(error, target)}",
            target=target,
        ) from None


def _needs_json(text: str, error: pydantic.ValidationError) -> bool:
    """Return whether a text looks like JSON, or was to become what no other text can become."""
    return text.lstrip()[:1] in ("{", "[", '"') or all(
        each["type"].endswith("_type") for each in error.errors()
    )


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
