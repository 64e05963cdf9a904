"""The file format of `pyjms broker export`: JSON lines, version 2.

The first line is `{"format": "pyjms-messages", "version": 2, ...}`. Each other line is an
object with one of these keys:

- `subscription`: a durable subscription of the `topic`: `client_id`, `name`, `selector`,
  `no_local`, and `destination` if it subscribes to a pattern. The subscriptions of a topic
  precede its messages.
- `message`: a message, with the fields below. For a topic's message from a store,
  `subscriptions` in the same object lists the `[client_id, name]` of the subscriptions that have
  not acknowledged it.
- `end`: the last line, with the number of `messages` and `subscriptions`. A file without it is
  incomplete.

Fields of a message; absent ones have their default:

- `kind`: `message` (no body), `text`, `bytes`, `map`, `stream`, `object` or `blob`.
- `destination`, `reply_to`, `original_destination`: `queue://...`, `topic://...`,
  `temp-queue://...`, `temp-topic://...`.
- `message_id`: as in JMSMessageID; `producer_id`; `broker_sequence_id`.
- `timestamp`, `expiration` (0: never), `broker_in_time`, `broker_out_time`, `arrival`:
  milliseconds since 1970.
- `persistent`, `priority`, `redelivery_counter`, `type`, `correlation_id`, `group_id`,
  `group_sequence`, `user_id`.
- `properties`: an object. Strings, booleans, null and integers of 32 bits are JSON values; others
  are `{"type": ..., "value": ...}` with the type byte, short, long, float, double (the value is a
  string), char, bytes (base64), map or list. Or `raw_properties`, base64, if they cannot be
  decoded.
- `text`: the body of a text message. If it cannot be written as text (compressed, damaged, or
  not in Java's shortest form), `body`. Version 1 had only `body`.
- `body`: base64 of the body as in OpenWire. Bytes and object messages: the bytes themselves. Text:
  its length in four bytes, then modified UTF-8. Map and stream: OpenWire's primitives. If
  `compressed`, it is deflated, as sent.

Unknown keys are ignored. All messages were committed; open transactions are not exported.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple

from pyjms.errors import ConfigurationException, JMSException, MessageFormatException
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import decode_map, decode_text, encode_map, encode_text
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import StoredSubscription

_INT: Final = range(-(1 << 31), 1 << 31)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise MessageFormatException(f"{value!r} is not a list")
    return value


def encode_bytes(data: bytes) -> str:
    """Return bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")


def decode_bytes(name: str, value: object) -> bytes:
    """Decode base64 text; `name` is the field, for error messages."""
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageFormatException(f"{name}: it is not base64") from error


def encode_properties(data: bytes) -> dict[str, object] | None:
    """Return marshalled properties for JSON; None if they cannot be decoded."""
    try:
        properties = decode_map(data)
    except JMSException:
        return None
    return {name: _encode_value(value) for name, value in properties.items()}


def _encode_value(value: object) -> object:
    kind = type(value)
    if value is None or kind is str or kind is bool or (kind is int and value in _INT):
        return value
    for name, (type_, encode, _) in _TYPES.items():
        if kind is type_:
            return {"type": name, "value": encode(value)}
    raise MessageFormatException(
        f"Properties of type {kind.__name__} cannot be written to a message file"
    )


def decode_properties(value: object) -> bytes:
    """Return the marshalled properties of a JSON object."""
    if not isinstance(value, dict):
        raise MessageFormatException("properties: not a JSON object")
    properties = {}
    for name, item in value.items():
        try:
            properties[name] = _decode_value(item)
        except (MessageFormatException, ValueError, TypeError) as error:
            raise MessageFormatException(f"properties: {name}: {error}") from error
    try:
        return encode_map(properties)
    except JMSException as error:
        raise MessageFormatException(f"properties: {error.reason}") from error


def _decode_value(value: object) -> object:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    known = _TYPES.get(str(value.get("type"))) if isinstance(value, dict) else None
    if known is None or not isinstance(value, dict):
        raise MessageFormatException(f"{value!r} is not a property value")
    return known[2](value.get("value"))


def _decode_mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MessageFormatException("it is not a JSON object")
    return {name: _decode_value(item) for name, item in value.items()}


_Encode = Callable[[Any], object]
_Decode = Callable[[Any], object]
_TYPES: Final[dict[str, tuple[type, _Encode, _Decode]]] = {
    "byte": (Byte, int, Byte),
    "short": (Short, int, Short),
    "long": (Long, int, Long),
    "int": (int, int, Long),
    "float": (Float, repr, Float),
    "double": (float, repr, float),
    "char": (Char, str, Char),
    "bytes": (bytes, encode_bytes, lambda value: decode_bytes("value", value)),
    "map": (
        dict,
        lambda value: {name: _encode_value(item) for name, item in value.items()},
        _decode_mapping,
    ),
    "list": (
        list,
        lambda value: [_encode_value(item) for item in value],
        lambda value: [_decode_value(item) for item in _list(value)],
    ),
}


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
    """Return the fields of a message for JSON."""
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
    """Return the message with these fields."""
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
    """Parse a destination; `name` is the field, for error messages."""
    if not isinstance(value, str) or "://" not in value:
        raise MessageFormatException(f"{name}: {value!r} is not a destination")
    try:
        return parse_destination(value)
    except JMSException as error:
        raise MessageFormatException(f"{name}: {error.reason}") from error


FORMAT: Final = "pyjms-messages"
VERSION: Final = 2
_READABLE_VERSIONS: Final = (1, 2)


@dataclass(slots=True)
class FileMessage:
    """A message in a file."""

    line: int
    message: ActiveMQMessage
    subscriptions: list[SubscriptionKey] | None = None
    """The subscriptions of the topic that have not acknowledged it; None: unknown."""


class FileSubscription(NamedTuple):
    """A durable subscription in a file."""

    line: int
    topic: Destination
    subscription: StoredSubscription


class BadLine(NamedTuple):
    """An invalid line and the reason."""

    line: int
    reason: str


class MessageFileWriter:
    """Writes a message file line by line; call `finish` at the end."""

    def __init__(self, file: IO[str], source: str) -> None:
        """Write the first line; `source` describes the origin of the messages."""
        self.messages = 0
        self.subscriptions = 0
        self._file = file
        self._line({"format": FORMAT, "version": VERSION, "source": source})

    def message(
        self, message: ActiveMQMessage, subscriptions: Iterable[SubscriptionKey] | None = None
    ) -> None:
        """Write a message."""
        line: dict[str, object] = {"message": encode_message(message)}
        if subscriptions is not None:
            line["subscriptions"] = [list(key) for key in subscriptions]
        self._line(line)
        self.messages += 1

    def subscription(self, topic: Destination, subscription: StoredSubscription) -> None:
        """Write a durable subscription of a topic."""
        described: dict[str, object] = {
            "client_id": subscription.key.client_id,
            "name": subscription.key.subscription_name,
            "topic": str(topic),
        }
        if subscription.destination != topic:
            described["destination"] = str(subscription.destination)
        if subscription.selector is not None:
            described["selector"] = subscription.selector
        if subscription.no_local:
            described["no_local"] = True
        self._line({"subscription": described})
        self.subscriptions += 1

    def finish(self) -> None:
        """Write the last line."""
        self._line({"end": {"messages": self.messages, "subscriptions": self.subscriptions}})

    def _line(self, value: Mapping[str, object]) -> None:
        # ASCII: text may contain unpaired surrogates, as in Java
        self._file.write(json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n")


class MessageFileReader:
    """Iterates over a file's lines, including invalid ones. `ended`: the end line was found."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        """Read the first line."""
        self.ended = False
        self._lines = iter(lines)
        first = _json_of(next(self._lines, b""))
        if not isinstance(first, dict) or first.get("format") != FORMAT:
            raise ConfigurationException(
                f"{name} is not a message file: its first line lacks the format {FORMAT}",
                hint="name a file that `pyjms broker export` has written",
            )
        if first.get("version") not in _READABLE_VERSIONS:
            raise ConfigurationException(
                f"{name} has version {first.get('version')} of the format, not {VERSION} or older",
                hint="read it with the version of pyjms that wrote it, or a newer one",
            )

    def __iter__(self) -> Iterator[FileMessage | FileSubscription | BadLine]:
        for number, line in enumerate(self._lines, 2):
            if not line.strip():
                continue
            if self.ended:
                yield BadLine(number, "the line follows the end line")
                continue
            try:
                found = self._read(number, line)
            except JMSException as error:
                yield BadLine(number, error.reason)
                continue
            if found is not None:
                yield found

    def _read(self, number: int, line: bytes) -> FileMessage | FileSubscription | None:
        value = _json_of(line)
        if not isinstance(value, dict):
            raise MessageFormatException("the line is not a JSON object")
        if "message" in value:
            keys = value.get("subscriptions")
            subscriptions = None if keys is None else [_key(pair) for pair in _list(keys)]
            return FileMessage(number, decode_message(value["message"]), subscriptions)
        if "subscription" in value:
            return _subscription(number, value["subscription"])
        if "end" in value:
            self.ended = True
            return None
        raise MessageFormatException("the line is neither a message, a subscription nor the end")


def _subscription(line: int, value: object) -> FileSubscription:
    if not isinstance(value, dict):
        raise MessageFormatException("subscription: it is not a JSON object")
    topic = decode_destination("topic", value.get("topic"))
    wanted = decode_destination("destination", value.get("destination", str(topic)))
    if not (topic.is_topic and wanted.is_topic):
        raise MessageFormatException(f"topic: {topic} or {wanted} is not a topic")
    selector = value.get("selector")
    if selector is not None and not isinstance(selector, str):
        raise MessageFormatException("selector: it is not a string")
    key = _key([value.get("client_id"), value.get("name")])
    no_local = value.get("no_local") is True
    return FileSubscription(line, topic, StoredSubscription(key, wanted, selector, no_local))


def _key(pair: object) -> SubscriptionKey:
    if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair)):
        raise MessageFormatException(f"{pair!r} is not a client id and a subscription name")
    return SubscriptionKey(*pair)


def _json_of(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
