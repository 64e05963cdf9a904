"""Messages as JSON objects. `message_file` documents their fields."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.destination import Destination, parse_destination
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.primitives import decode_text, encode_text
from pyjms_broker.service.transfer.property_values import (
    decode_bytes,
    decode_properties,
    encode_bytes,
    encode_properties,
)

__all__ = ["decode_destination", "decode_message", "encode_message"]

_KINDS: Final[dict[str, type[commands.ActiveMQMessage]]] = {
    "message": commands.ActiveMQMessage,
    "text": commands.ActiveMQTextMessage,
    "bytes": commands.ActiveMQBytesMessage,
    "map": commands.ActiveMQMapMessage,
    "stream": commands.ActiveMQStreamMessage,
    "object": commands.ActiveMQObjectMessage,
    "blob": commands.ActiveMQBlobMessage,
}
_KIND_NAMES: Final = {kind.TYPE: name for name, kind in _KINDS.items()}
_INT: Final = range(-(1 << 31), 1 << 31)
_LONG: Final = range(-(1 << 63), 1 << 63)
_DEFAULT_PRIORITY: Final = 4


class _Field(NamedTuple):
    """A field whose JSON value equals its value in the message."""

    name: str
    kind: type
    default: object
    allowed: range | None = None


_PLAIN: Final = (
    _Field("persistent", bool, True),
    _Field("priority", int, _DEFAULT_PRIORITY, range(-128, 128)),
    _Field("timestamp", int, 0, _LONG),
    _Field("expiration", int, 0, _LONG),
    _Field("type", str, None),
    _Field("correlation_id", str, None),
    _Field("group_id", str, None),
    _Field("group_sequence", int, 0, _INT),
    _Field("user_id", str, None),
    _Field("redelivery_counter", int, 0, _INT),
    _Field("compressed", bool, False),
    _Field("arrival", int, 0, _LONG),
    _Field("broker_in_time", int, 0, _LONG),
    _Field("broker_out_time", int, 0, _LONG),
)
_DESTINATIONS: Final = ("destination", "reply_to", "original_destination")


def encode_message(message: commands.ActiveMQMessage) -> dict[str, object]:
    """Return the fields of a message for JSON.

    Raises:
        MessageFormatException: a value cannot be represented in the format.
    """
    fields: dict[str, object] = {"kind": _KIND_NAMES[message.TYPE]}
    for name in _DESTINATIONS:
        destination = getattr(message, name)
        if destination is not None:
            fields[name] = str(destination)
    message_id = message.message_id
    if message_id is not None:
        fields["message_id"] = str(message_id)
        if message_id.broker_sequence_id:
            fields["broker_sequence_id"] = message_id.broker_sequence_id
    if message.producer_id is not None:
        fields["producer_id"] = str(message.producer_id)
    for field in _PLAIN:
        value = getattr(message, field.name)
        if value != field.default:
            fields[field.name] = value
    if message.marshalled_properties:
        properties = encode_properties(message.marshalled_properties)
        if properties is None:
            fields["raw_properties"] = encode_bytes(message.marshalled_properties)
        else:
            fields["properties"] = properties
    if message.content is not None:
        text = _text_of(message, message.content)
        if text is None:
            fields["body"] = encode_bytes(message.content)
        else:
            fields["text"] = text
    return fields


def _text_of(message: commands.ActiveMQMessage, content: bytes) -> str | None:
    """Return a text message's body if it can be encoded again to exactly the same bytes."""
    if not isinstance(message, commands.ActiveMQTextMessage) or message.compressed:
        return None
    try:
        text = decode_text(content)
    except MessageFormatException:
        return None
    return text if text is not None and encode_text(text) == content else None


def decode_message(fields: object) -> commands.ActiveMQMessage:
    """Return the message with these fields.

    Raises:
        MessageFormatException: a field is missing or invalid; the error names it.
    """
    if not isinstance(fields, dict):
        raise MessageFormatException("message: it is not a JSON object")
    kind = _KINDS.get(str(fields.get("kind")))
    if kind is None:
        raise MessageFormatException(f"kind: {fields.get('kind')!r} is unknown")
    message = kind()
    for name in _DESTINATIONS:
        if fields.get(name) is not None:
            setattr(message, name, decode_destination(name, fields[name]))
    if message.destination is None:
        raise MessageFormatException("destination: the field is missing")
    for field in _PLAIN:
        value = fields.get(field.name, field.default)
        has_type = type(value) is field.kind or (value is None and field.default is None)
        # for anything but a number, `in` iterates over a range
        if not has_type or (field.allowed is not None and value not in field.allowed):
            raise MessageFormatException(f"{field.name}: {value!r} is invalid")
        setattr(message, field.name, value)
    _decode_ids(message, fields)
    if "properties" in fields:
        message.marshalled_properties = decode_properties(fields["properties"])
    elif "raw_properties" in fields:
        message.marshalled_properties = decode_bytes("raw_properties", fields["raw_properties"])
    text = fields.get("text")
    if text is not None:
        if not isinstance(text, str) or not isinstance(message, commands.ActiveMQTextMessage):
            raise MessageFormatException(
                "text: it is not a string, or the message is not of kind text"
            )
        message.content = encode_text(text)
    elif fields.get("body") is not None:
        message.content = decode_bytes("body", fields["body"])
    return message


def _decode_ids(message: commands.ActiveMQMessage, fields: dict[str, Any]) -> None:
    text, sequence = fields.get("message_id"), fields.get("broker_sequence_id", 0)
    if not isinstance(text, str) or not text:
        raise MessageFormatException("message_id: the field is missing")
    if type(sequence) is not int or sequence not in _LONG:
        raise MessageFormatException(f"broker_sequence_id: {sequence!r} is invalid")
    producer, _, number = text.rpartition(":")
    producer_id = _producer(producer)
    if producer_id is not None and number.isdecimal():
        message.message_id = commands.MessageId(None, producer_id, int(number), sequence)
    else:
        message.message_id = commands.MessageId(text, None, 0, sequence)
    known = fields.get("producer_id")
    if known is not None:
        message.producer_id = _producer(str(known))
        if message.producer_id is None:
            raise MessageFormatException(f"producer_id: {known!r} is invalid")


def _producer(text: str) -> commands.ProducerId | None:
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not all(p.lstrip("-").isdecimal() for p in parts[1:]):
        return None
    return commands.ProducerId(parts[0], int(parts[2]), int(parts[1]))


def decode_destination(name: str, value: object) -> Destination:
    """Parse a destination; `name` is the field, for error messages.

    Raises:
        MessageFormatException: it is not a destination.
    """
    if not isinstance(value, str) or "://" not in value:
        raise MessageFormatException(f"{name}: {value!r} is not a destination")
    try:
        return parse_destination(value)
    except JMSException as error:
        raise MessageFormatException(f"{name}: {error.reason}") from error
