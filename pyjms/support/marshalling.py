"""A message converter that delegates the payload's format to a marshaller. (spring-jms 5.3)

    converter = MarshallingMessageConverter(MsgspecMarshaller("msgpack"))

A marshaller converts objects to bytes and back, independently of messages.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from pyjms.errors import MessageConversionException
from pyjms.jms.api import Session
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.runtime.distribution import optional
from pyjms.support.converter import is_open
from pyjms.support.json_converter import MessageType, type_name


class Marshaller(Protocol):
    """Converts objects to bytes and back. Spring: Marshaller and Unmarshaller.

    Both methods are synchronous and must not block; tasks and threads call them concurrently. Their
    exceptions become MessageConversionExceptions.
    """

    def marshal(self, value: object) -> bytes:
        """Return `value` as bytes."""
        ...

    def unmarshal(self, data: bytes, target: object) -> Any:
        """Return the object in `data`, of type `target`; None: the type follows from the data."""
        ...


class MarshallingMessageConverter:
    """Writes and reads bodies with a marshaller. Spring: MarshallingMessageConverter.

    Tasks and threads may share it if they may share the marshaller.

    Args:
        marshaller: writes, and reads unless there is an `unmarshaller`.
        unmarshaller: reads; None: the marshaller reads.
        target_type: the kind of message to write; TEXT for formats that are UTF-8 text. Text and
            bytes messages can be read.
    """

    def __init__(
        self,
        marshaller: Marshaller,
        unmarshaller: Marshaller | None = None,
        *,
        target_type: MessageType = MessageType.BYTES,
    ) -> None:
        self.marshaller = marshaller
        self.unmarshaller: Marshaller = marshaller if unmarshaller is None else unmarshaller
        self.target_type: MessageType = MessageType(target_type)

    def to_message(self, payload: object, session: Session) -> Message:
        """Return `payload` as a message.

        Raises:
            MessageConversionException: the marshaller refuses it.
        """
        try:
            data = self.marshaller.marshal(payload)
            if self.target_type is MessageType.TEXT:
                return session.create_text_message(data.decode())
        except Exception as error:
            raise MessageConversionException(
                f"Could not marshal a value of type {type(payload).__qualname__}: "
                f"{type(error).__name__}: {error}",
                target=type(payload),
            ) from error
        return session.create_bytes_message(data)

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload as `target`.

        Raises:
            MessageConversionException: the message is neither a TextMessage nor a BytesMessage, or
                the unmarshaller refuses it.
        """
        if isinstance(message, TextMessage):
            data = (message.text or "").encode()
        elif isinstance(message, BytesMessage):
            data = bytes(message.data)
        else:
            raise MessageConversionException(
                f"Message [{message.message_id}] is a {type(message).__qualname__}: only "
                "TextMessages and BytesMessages can be unmarshalled",
                target=target,
            )
        try:
            return self.unmarshaller.unmarshal(data, None if is_open(target) else target)
        except Exception as error:  # its text is omitted, as it may quote the body
            raise MessageConversionException(
                f"Could not unmarshal message [{message.message_id}] to {type_name(target)}: "
                f"{type(error).__name__}",
                target=target,
            ) from error


class MsgspecMarshaller:
    """JSON or MessagePack by msgspec, for its Structs, dataclasses and standard types.

    Needs the extra `msgspec`.

    Raises:
        ConfigurationException: msgspec is not installed.
    """

    def __init__(self, data_format: Literal["json", "msgpack"] = "json") -> None:
        if data_format not in ("json", "msgpack"):
            raise ValueError(f"Invalid format {data_format!r}: use json or msgpack")
        self._format = optional(f"msgspec.{data_format}", "MsgspecMarshaller", "msgspec")

    def marshal(self, value: object) -> bytes:
        """Return `value` in the format."""
        data: bytes = self._format.encode(value)
        return data

    def unmarshal(self, data: bytes, target: object) -> Any:
        """Return the value in `data`, validated as `target`."""
        return self._format.decode(data, type=Any if target is None else target)
