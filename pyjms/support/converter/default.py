"""The default converter: text, bytes and mappings directly, the rest as JSON. (decisions D16)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pyjms.jms.api import Session
from pyjms.jms.bodies import BytesMessage, TextMessage
from pyjms.jms.message import Message
from pyjms.support.converter.registry import content_type_of, find_converter
from pyjms.support.converter.simple import SimpleMessageConverter
from pyjms.support.converter.type_ids import TYPE_ID_PROPERTY, bare_type, is_open

if TYPE_CHECKING:
    from pyjms.support.converter.default_json import DefaultJson

__all__ = ["DefaultMessageConverter"]

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
        from pyjms.support.converter.default_json import converted  # noqa: PLC0415 - as `_json`

        return converted(payload, target, wanted, message)

    @cached_property
    def _json(self) -> DefaultJson:
        # imported here because applications of texts and bytes need no pydantic
        from pyjms.support.converter.default_json import DefaultJson  # noqa: PLC0415

        return DefaultJson(self._type_id_mappings, self._trusted_packages)
