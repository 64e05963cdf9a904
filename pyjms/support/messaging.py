"""Generic messages with payload and headers, and their conversion to JMS messages and back.

Spring: `org.springframework.messaging.Message`, and the converter between it and JMS messages.
(spring-jms 4.2, 5.3, 5.4)
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from pyjms.errors import MessageConversionException
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.jms.types import Long
from pyjms.runtime import clock as _clock
from pyjms.support.converter import DefaultMessageConverter, MessageConverter
from pyjms.support.headers import SimpleJmsHeaderMapper

__all__ = ["GenericMessage", "MessagingMessageConverter"]

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
