"""The file that `pyjms broker export` writes: JSON lines. The format, version 2.

The first line is `{"format": "pyjms-messages", "version": 1, ...}`. Each other line is an
object with one of these keys:

- `subscription`: a durable subscription of the `topic`: `client_id`, `name`, `selector`,
  `no_local`, and `destination`, what it subscribed to where that is a pattern. Those of a
  topic come before its messages.
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
- `text`: the body of a text message. Where it cannot be written as text (compressed, damaged, or
  not in Java's shortest form), `body`. Version 1 had only `body`.
- `body`: base64 of the body as OpenWire has it. Bytes, objects: the bytes themselves. Text:
  its length in four bytes, then modified UTF-8. Map, stream: OpenWire's primitives. With
  `compressed` it is deflated, as the sender did.

Unknown keys are ignored. Only transactions are left out: what is here was committed.
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
    """A message of a file."""

    line: int
    message: ActiveMQMessage
    subscriptions: list[SubscriptionKey] | None = None
    """Of a topic's: who has not acknowledged it; None: the file does not know."""


class FileSubscription(NamedTuple):
    """A durable subscription of a file."""

    line: int
    topic: Destination
    subscription: StoredSubscription


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
                yield BadLine(number, "it comes after the end")
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
            raise MessageFormatException("it is no JSON object")
        if "message" in value:
            keys = value.get("subscriptions")
            subscriptions = None if keys is None else [_key(pair) for pair in _list(keys)]
            return FileMessage(number, decode_message(value["message"]), subscriptions)
        if "subscription" in value:
            return _subscription(number, value["subscription"])
        if "end" in value:
            self.ended = True
            return None
        raise MessageFormatException("it is no message, no subscription and no end")


def _subscription(line: int, value: object) -> FileSubscription:
    if not isinstance(value, dict):
        raise MessageFormatException("the subscription is no JSON object")
    topic = decode_destination("topic", value.get("topic"))
    wanted = decode_destination("destination", value.get("destination", str(topic)))
    if not (topic.is_topic and wanted.is_topic):
        raise MessageFormatException(f"topic: {topic} or {wanted} is none")
    selector = value.get("selector")
    if selector is not None and not isinstance(selector, str):
        raise MessageFormatException(f"selector: {selector!r} is none")
    key = _key([value.get("client_id"), value.get("name")])
    no_local = value.get("no_local") is True
    return FileSubscription(line, topic, StoredSubscription(key, wanted, selector, no_local))


def _key(pair: object) -> SubscriptionKey:
    if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair)):
        raise MessageFormatException(f"{pair!r} is no client id and subscription name")
    return SubscriptionKey(*pair)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise MessageFormatException(f"{value!r} is no list")
    return value


def _json_of(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
