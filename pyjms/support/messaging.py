"""Generic messages with payload and headers, and their mapping to JMS messages and back.

Spring: `org.springframework.messaging.Message`, and the converter between it and JMS messages. The
mapping of headers never raises: one that JMS cannot represent is omitted, and logged at DEBUG.
(spring-jms 4.2, 5.3, 5.4)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from pyjms.errors import JMSException, MessageConversionException
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.jms.types import Long
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.support.converter import CONTENT_TYPE_PROPERTY, DefaultMessageConverter, MessageConverter

logger: Final = get_logger(__name__)


class JmsHeaders:
    """The names of JMS headers in handlers and templates. Spring: JmsHeaders."""

    PREFIX: Final = "jms_"
    CORRELATION_ID: Final = "jms_correlationId"
    DELIVERY_MODE: Final = "jms_deliveryMode"
    DESTINATION: Final = "jms_destination"
    EXPIRATION: Final = "jms_expiration"
    MESSAGE_ID: Final = "jms_messageId"
    PRIORITY: Final = "jms_priority"
    REDELIVERED: Final = "jms_redelivered"
    REPLY_TO: Final = "jms_replyTo"
    TIMESTAMP: Final = "jms_timestamp"
    TYPE: Final = "jms_type"


MESSAGE_ATTRIBUTES: Final[dict[str, str]] = {
    "correlation_id": JmsHeaders.CORRELATION_ID,
    "delivery_mode": JmsHeaders.DELIVERY_MODE,
    "destination": JmsHeaders.DESTINATION,
    "expiration": JmsHeaders.EXPIRATION,
    "message_id": JmsHeaders.MESSAGE_ID,
    "priority": JmsHeaders.PRIORITY,
    "redelivered": JmsHeaders.REDELIVERED,
    "reply_to": JmsHeaders.REPLY_TO,
}
"""The name of each JMS header, by the name that messages and templates use."""

CONTENT_TYPE: Final = "contentType"

# Inbound: always present, or only if set.
_ALWAYS: Final[dict[str, Callable[[Message], object]]] = {
    JmsHeaders.DELIVERY_MODE: lambda m: m.delivery_mode,
    JmsHeaders.EXPIRATION: lambda m: Long(m.expiration),
    JmsHeaders.PRIORITY: lambda m: m.priority,
    JmsHeaders.REDELIVERED: lambda m: m.redelivered,
    JmsHeaders.TIMESTAMP: lambda m: Long(m.timestamp),
}
_WHEN_SET: Final[dict[str, Callable[[Message], object]]] = {
    JmsHeaders.CORRELATION_ID: lambda m: m.correlation_id,
    JmsHeaders.DESTINATION: lambda m: m.destination,
    JmsHeaders.MESSAGE_ID: lambda m: m.message_id,
    JmsHeaders.REPLY_TO: lambda m: m.reply_to,
    JmsHeaders.TYPE: lambda m: m.type,
}

_SENT_TYPES: Final = (bool, int, float, str, bytes)


class SimpleJmsHeaderMapper:
    """Maps headers to JMS headers and properties, and back. Spring: SimpleJmsHeaderMapper.

    No call blocks; tasks and threads may share it.

    Args:
        inbound_prefix: prepended to the names of received properties.
        outbound_prefix: prepended to the names of properties that are sent.
    """

    def __init__(self, *, inbound_prefix: str = "", outbound_prefix: str = "") -> None:
        self.inbound_prefix = inbound_prefix
        self.outbound_prefix = outbound_prefix

    def from_headers(self, headers: Mapping[str, object], message: Message) -> None:
        """Set the headers that JMS can represent on `message`, as headers or properties."""
        correlation_id = headers.get(JmsHeaders.CORRELATION_ID)
        if isinstance(correlation_id, str | int | float) and not isinstance(correlation_id, bool):
            message.correlation_id = str(correlation_id)
        reply_to = headers.get(JmsHeaders.REPLY_TO)
        if isinstance(reply_to, Destination):
            message.reply_to = reply_to
        kind = headers.get(JmsHeaders.TYPE)
        if isinstance(kind, str):
            message.type = kind
        for name, value in headers.items():
            if not name.startswith(JmsHeaders.PREFIX) and isinstance(value, _SENT_TYPES):
                self._set_property(message, name, value)

    def to_headers(self, message: Message) -> dict[str, Any]:
        """Return the headers and properties of `message`, with an `id` and a `timestamp`.

        As on every Spring message, `id` is a new UUID and `timestamp` the current time in
        milliseconds since 1970, unless a property has that name.
        """
        headers: dict[str, Any] = {"id": uuid.uuid4(), "timestamp": Long(_clock.time_ms())}
        for name, value in message.properties.items():
            headers[self._header_name(name)] = value
        for name, read in _ALWAYS.items():
            headers[name] = read(message)
        for name, read in _WHEN_SET.items():
            value = read(message)
            if value is not None:
                headers[name] = value
        return headers

    def _set_property(self, message: Message, name: str, value: object) -> None:
        try:
            message.properties[self._property_name(name)] = value
        except (JMSException, ValueError) as error:
            logger.debug("Header %s cannot be sent as a JMS property: %s", name, error)

    def _property_name(self, name: str) -> str:
        return CONTENT_TYPE_PROPERTY if name == CONTENT_TYPE else _with(self.outbound_prefix, name)

    def _header_name(self, name: str) -> str:
        return CONTENT_TYPE if name == CONTENT_TYPE_PROPERTY else _with(self.inbound_prefix, name)


def _with(prefix: str, name: str) -> str:
    return name if name.startswith(prefix) else prefix + name


T_co = TypeVar("T_co", covariant=True)


class GenericMessage(Generic[T_co]):
    """A payload and its headers, independent of JMS. Spring: GenericMessage.

    Header names are those of `JmsHeaders` (`jms_correlationId`) or names of properties. As in
    Spring there is always an `id`, a UUID that is not sent, and a `timestamp` in milliseconds since
    1970, which is sent as a property. Neither payload nor headers can be replaced.

    Args:
        payload: the object that a message converter converts to a JMS message, or read from one.
        headers: copied; `id` and `timestamp` are added unless they are given.
    """

    __slots__ = ("_headers", "_payload")

    def __init__(self, payload: T_co, headers: Mapping[str, object] | None = None) -> None:
        self._payload = payload
        self._headers: dict[str, Any] = {"id": uuid.uuid4(), "timestamp": Long(_clock.time_ms())}
        self._headers.update(headers or {})

    @property
    def payload(self) -> T_co:
        """The content."""
        return self._payload

    @property
    def headers(self) -> dict[str, Any]:
        """A copy of the headers."""
        return dict(self._headers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GenericMessage):
            return NotImplemented
        return bool(self._payload == other.payload and self._headers == other.headers)

    __hash__: Final = None  # type: ignore[assignment]  # payloads need not be hashable

    def __repr__(self) -> str:
        # the payload may be confidential, and a message may be logged
        return f"GenericMessage({type(self._payload).__name__}, headers={sorted(self._headers)})"


class MessagingMessageConverter:
    """Converts generic messages to JMS messages and back. Spring: MessagingMessageConverter.

    No call blocks; tasks and threads may share it if they may share its parts.

    Args:
        payload_converter: None: a DefaultMessageConverter.
        header_mapper: None: a SimpleJmsHeaderMapper.
    """

    def __init__(
        self,
        payload_converter: MessageConverter | None = None,
        header_mapper: SimpleJmsHeaderMapper | None = None,
    ) -> None:
        self.payload_converter: MessageConverter = payload_converter or DefaultMessageConverter()
        self.header_mapper: SimpleJmsHeaderMapper = header_mapper or SimpleJmsHeaderMapper()

    def to_message(self, payload: object, session: Session) -> Message:
        """Return a message of `session` for a generic message.

        Raises:
            ValueError: `payload` is not a GenericMessage.
            MessageConversionException: its payload cannot be converted.
        """
        if not isinstance(payload, GenericMessage):
            raise ValueError(  # noqa: TRY004 - Java's IllegalArgument is ValueError here
                f"Could not convert {type(payload).__name__}: only GenericMessage is supported; "
                "wrap the payload in one"
            )
        message = self.payload_converter.to_message(payload.payload, session)
        self.header_mapper.from_headers(payload.headers, message)
        return message

    def from_message(self, message: Message, target: object = None) -> GenericMessage[Any]:
        """Return the generic message for `message`, with its payload converted to `target`.

        If the payload converter returns a generic message, its headers are kept and those of
        `message` are added.

        Raises:
            MessageConversionException: the message has no body, or it cannot be read as `target`.
        """
        payload = self.payload_converter.from_message(message, target)
        if payload is None:
            raise MessageConversionException(
                "The message has no body", target=target, hint="send a payload that is not None"
            )
        headers = self.header_mapper.to_headers(message)
        if isinstance(payload, GenericMessage):
            return GenericMessage(payload.payload, {**headers, **payload.headers})
        return GenericMessage(payload, headers)
