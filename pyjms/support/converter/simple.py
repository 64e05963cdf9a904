"""The simple converter: a message type each for text, bytes and maps. (spring-jms 5.1)

Python objects never become ObjectMessages, which contain serialized Java objects. (decisions D16)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyjms.errors import MessageConversionException, MessageFormatException
from pyjms.jms.api import Session
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, TextMessage
from pyjms.jms.message import Message

__all__ = ["SimpleMessageConverter"]


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
