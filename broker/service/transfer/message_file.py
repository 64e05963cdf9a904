"""The file that `pyjms broker export` writes: JSON lines. The format, version 1.

The first line is `{"format": "pyjms-messages", "version": 1, ...}`. Each other line is an
object with one of these keys:

- `subscription`: a durable subscription: `client_id`, `name`, `destination`, `selector`,
  `no_local`. Those of a topic come before its messages.
- `message`: a message, its fields below. Beside it `subscriptions`, for a topic's message
  from a store: the `[client_id, name]` of who has not acknowledged it.
- `end`: the last line: how many `messages` and `subscriptions` there are. A file without it
  was cut off.

Fields of a message; those that are absent have their usual value:

- `kind`: `message` (no body), `text`, `bytes`, `map`, `stream`, `object` or `blob`.
- `destination`, `reply_to`, `original_destination`: `queue://...`, `topic://...`,
  `temp-queue://...`, `temp-topic://...`.
- `message_id`: as JMSMessageID; `producer_id`; `broker_sequence_id`.
- `timestamp`, `expiration` (0: never), `broker_in_time`, `broker_out_time`, `arrival`:
  milliseconds since 1970.
- `persistent`, `priority`, `redelivery_counter`, `type`, `correlation_id`, `group_id`,
  `group_sequence`, `user_id`.
- `properties`: by name. Strings, booleans, null and whole numbers that fit an int are
  themselves; the rest is `{"type": ..., "value": ...}` with byte, short, long, float, double
  (the value is text), char, bytes (base64), map or list. Or `raw_properties`, base64, where
  they cannot be decoded.
- `body`: base64 of the body as OpenWire has it. Bytes, objects: the bytes themselves. Text:
  its length in four bytes, then modified UTF-8. Map, stream: OpenWire's primitives. With
  `compressed` it is deflated, as the sender did.

Unknown keys are ignored. Only transactions are left out: what is here was committed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple

from broker.store.api import StoredSubscription, SubscriptionKey
from pyjms.errors import ConfigurationException, JMSException, MessageFormatException
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.primitives import decode_map, encode_map

__all__ = [
    "FORMAT",
    "VERSION",
    "BadLine",
    "FileMessage",
    "MessageFileReader",
    "MessageFileWriter",
    "decode_message",
    "encode_message",
]

FORMAT: Final = "pyjms-messages"
VERSION: Final = 1

_KINDS: Final[dict[str, type[ActiveMQMessage]]] = {
    "message": ActiveMQMessage,
    "text": ActiveMQTextMessage,
    "bytes": ActiveMQBytesMessage,
    "map": ActiveMQMapMessage,
    "stream": ActiveMQStreamMessage,
    "object": ActiveMQObjectMessage,
    "blob": ActiveMQBlobMessage,
}
_KIND_NAMES: Final = {kind.TYPE: name for name, kind in _KINDS.items()}
_INT: Final = range(-(1 << 31), 1 << 31)
_LONG: Final = range(-(1 << 63), 1 << 63)
_DEFAULT_PRIORITY: Final = 4


class _Field(NamedTuple):
    """A field that is written as it is."""

    name: str
    kind: type
    usual: object
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


@dataclass(slots=True)
class FileMessage:
    """A message of a file."""

    line: int
    message: ActiveMQMessage
    subscriptions: list[SubscriptionKey] | None = None
    """Of a topic's: who has not acknowledged it; None: the file does not know."""


class BadLine(NamedTuple):
    """A line that cannot be used, and why."""

    line: int
    reason: str


class MessageFileWriter:
    """Writes lines; `finish` the last one."""

    def __init__(self, file: IO[str], source: str) -> None:
        """Write the first line; `source` says for people where the messages are from."""
        self.messages = 0
        self.subscriptions = 0
        self._file = file
        self._line({"format": FORMAT, "version": VERSION, "source": source})

    def message(
        self, message: ActiveMQMessage, subscriptions: Iterable[SubscriptionKey] | None = None
    ) -> None:
        """Write a message.

        Raises:
            MessageFormatException: it holds what the format has no place for.
        """
        line: dict[str, object] = {"message": encode_message(message)}
        if subscriptions is not None:
            line["subscriptions"] = [list(key) for key in subscriptions]
        self._line(line)
        self.messages += 1

    def subscription(self, subscription: StoredSubscription) -> None:
        """Write a durable subscription."""
        described: dict[str, object] = {
            "client_id": subscription.key.client_id,
            "name": subscription.key.subscription_name,
            "destination": str(subscription.destination),
        }
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
        # ASCII, for text may have half a surrogate pair, as in Java.
        self._file.write(json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n")


class MessageFileReader:
    """Goes through a file's lines, the bad ones too. `ended` says if the last one was there."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        """Read the first line.

        Raises:
            ConfigurationException: the file is another program's, or of a newer version.
        """
        self.ended = False
        self._lines = iter(lines)
        first = _json_of(next(self._lines, b""))
        if not isinstance(first, dict) or first.get("format") != FORMAT:
            raise ConfigurationException(f"{name} is no export of messages: its first line says no")
        if first.get("version") != VERSION:
            raise ConfigurationException(
                f"{name} has version {first.get('version')} of the format, not {VERSION}"
            )

    def __iter__(self) -> Iterator[FileMessage | StoredSubscription | BadLine]:
        for number, line in enumerate(self._lines, 2):
            if not line.strip():
                continue
            if self.ended:
                yield BadLine(number, "it comes after the end")
                continue
            try:
                found = self._read(number, line)
            except JMSException as error:
                yield BadLine(number, error.reason)
                continue
            if found is not None:
                yield found

    def _read(self, number: int, line: bytes) -> FileMessage | StoredSubscription | None:
        value = _json_of(line)
        if not isinstance(value, dict):
            raise MessageFormatException("it is no JSON object")
        if "message" in value:
            keys = value.get("subscriptions")
            subscriptions = None if keys is None else [_key(pair) for pair in _list(keys)]
            return FileMessage(number, decode_message(value["message"]), subscriptions)
        if "subscription" in value:
            return _subscription(value["subscription"])
        if "end" in value:
            self.ended = True
            return None
        raise MessageFormatException("it is no message, no subscription and no end")


def encode_message(message: ActiveMQMessage) -> dict[str, object]:
    """Return the fields of a message, for JSON.

    Raises:
        MessageFormatException: it holds what the format has no place for.
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
        if value != field.usual:
            fields[field.name] = value
    if message.marshalled_properties:
        _encode_properties(fields, message.marshalled_properties)
    if message.content is not None:
        fields["body"] = _base64(message.content)
    return fields


def decode_message(fields: object) -> ActiveMQMessage:
    """Return the message that these fields are.

    Raises:
        MessageFormatException: a field is missing or wrong; it says which.
    """
    if not isinstance(fields, dict):
        raise MessageFormatException("the message is no JSON object")
    kind = _KINDS.get(str(fields.get("kind")))
    if kind is None:
        raise MessageFormatException(f"kind: {fields.get('kind')!r} is unknown")
    message = kind()
    for name in _DESTINATIONS:
        if fields.get(name) is not None:
            setattr(message, name, _destination(name, fields[name]))
    if message.destination is None:
        raise MessageFormatException("destination: is missing")
    for field in _PLAIN:
        value = fields.get(field.name, field.usual)
        right = value is None or type(value) is field.kind
        if not right or (field.allowed is not None and value not in field.allowed):
            raise MessageFormatException(f"{field.name}: {value!r} is no value for it")
        setattr(message, field.name, value)
    _decode_ids(message, fields)
    if "properties" in fields:
        message.marshalled_properties = _decode_properties(fields["properties"])
    elif "raw_properties" in fields:
        message.marshalled_properties = _bytes("raw_properties", fields["raw_properties"])
    if fields.get("body") is not None:
        message.content = _bytes("body", fields["body"])
    return message


def _decode_ids(message: ActiveMQMessage, fields: dict[str, Any]) -> None:
    text, sequence = fields.get("message_id"), fields.get("broker_sequence_id", 0)
    if not isinstance(text, str) or not text:
        raise MessageFormatException("message_id: is missing")
    if type(sequence) is not int or sequence not in _LONG:
        raise MessageFormatException(f"broker_sequence_id: {sequence!r} is no value for it")
    producer, _, number = text.rpartition(":")
    producer_id = _producer(producer)
    if producer_id is not None and number.isdecimal():
        message.message_id = MessageId(None, producer_id, int(number), sequence)
    else:
        message.message_id = MessageId(text, None, 0, sequence)
    known = fields.get("producer_id")
    if known is not None:
        message.producer_id = _producer(str(known))
        if message.producer_id is None:
            raise MessageFormatException(f"producer_id: {known!r} is none")


def _producer(text: str) -> ProducerId | None:
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not all(p.lstrip("-").isdecimal() for p in parts[1:]):
        return None
    return ProducerId(parts[0], int(parts[2]), int(parts[1]))


def _subscription(value: object) -> StoredSubscription:
    if not isinstance(value, dict):
        raise MessageFormatException("the subscription is no JSON object")
    destination = _destination("destination", value.get("destination"))
    selector = value.get("selector")
    if selector is not None and not isinstance(selector, str):
        raise MessageFormatException(f"selector: {selector!r} is none")
    if not destination.is_topic:
        raise MessageFormatException(f"destination: {destination} is no topic")
    key = _key([value.get("client_id"), value.get("name")])
    return StoredSubscription(key, destination, selector, value.get("no_local") is True)


def _key(pair: object) -> SubscriptionKey:
    if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair)):
        raise MessageFormatException(f"{pair!r} is no client id and subscription name")
    return SubscriptionKey(*pair)


def _destination(name: str, value: object) -> Destination:
    if not isinstance(value, str) or "://" not in value:
        raise MessageFormatException(f"{name}: {value!r} is no destination")
    try:
        return parse_destination(value)
    except JMSException as error:
        raise MessageFormatException(f"{name}: {error.reason}") from error


# -- properties


def _encode_properties(fields: dict[str, object], data: bytes) -> None:
    try:
        properties = decode_map(data)
    except JMSException:
        fields["raw_properties"] = _base64(data)
        return
    fields["properties"] = {name: _encode_value(value) for name, value in properties.items()}


def _encode_value(value: object) -> object:
    kind = type(value)
    if value is None or kind is str or kind is bool or (kind is int and value in _INT):
        return value
    for name, (type_, encode, _) in _TYPES.items():
        if kind is type_:
            return {"type": name, "value": encode(value)}
    raise MessageFormatException(f"A property of type {kind.__name__} has no place in the file")


def _decode_properties(value: object) -> bytes:
    if not isinstance(value, dict):
        raise MessageFormatException("properties: they are no JSON object")
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
    if value is None or isinstance(value, str | bool | int):
        return value
    known = _TYPES.get(str(value.get("type"))) if isinstance(value, dict) else None
    if known is None or not isinstance(value, dict):
        raise MessageFormatException(f"{value!r} is no value")
    return known[2](value.get("value"))


def _decode_list(value: object) -> list[object]:
    return [_decode_value(item) for item in _list(value)]


def _decode_mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MessageFormatException("it is no JSON object")
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
    "bytes": (bytes, lambda value: _base64(value), lambda value: _bytes("value", value)),
    "map": (
        dict,
        lambda value: {name: _encode_value(item) for name, item in value.items()},
        _decode_mapping,
    ),
    "list": (list, lambda value: [_encode_value(item) for item in value], _decode_list),
}


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise MessageFormatException(f"{value!r} is no list")
    return value


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(name: str, value: object) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageFormatException(f"{name}: it is no base64") from error


def _json_of(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
