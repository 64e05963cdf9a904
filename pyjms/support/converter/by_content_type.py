"""A converter that delegates by content type. (spring-jms 5; docs/extending.md)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.support.converter.base import MessageConverter
from pyjms.support.converter.default import DefaultMessageConverter
from pyjms.support.converter.registry import (
    content_type_of,
    find_converter,
    normalized,
    require_converter,
)
from pyjms.support.headers import CONTENT_TYPE_PROPERTY

__all__ = ["ContentTypeDelegatingMessageConverter"]


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
        self._converters = {normalized(k): v for k, v in (converters or {}).items()}
        self._default: MessageConverter = default or DefaultMessageConverter()
        self.content_type = content_type
        self._writer = self._default
        if content_type is not None:
            own = self._converters.get(normalized(content_type))
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
