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

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Final, NamedTuple

from pyjms.errors import ConfigurationException, JMSException, MessageFormatException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.service.transfer.message_fields import (
    decode_destination,
    decode_message,
    encode_message,
)
from pyjms_broker.store.api import StoredSubscription

__all__ = [
    "FORMAT",
    "VERSION",
    "BadLine",
    "FileMessage",
    "FileSubscription",
    "MessageFileReader",
    "MessageFileWriter",
]

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
        """Write a message.

        Raises:
            MessageFormatException: a value cannot be represented in the format.
        """
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
        """Read the first line.

        Raises:
            ConfigurationException: the file has another format or a newer version.
        """
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


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise MessageFormatException(f"{value!r} is not a list")
    return value


def _json_of(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
