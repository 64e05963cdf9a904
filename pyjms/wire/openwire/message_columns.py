"""Messages as columns: lists of values, built straight from the bytes, without objects or rows.

Theory of operation: `add` reads the form in which nearly all messages are stored (loose, uncached,
versions 11 and 12) and returns DECLINED for any other: rare fields, ids of another shape, damage.
The caller then decodes the message with `reader` and calls `add_message`. Both end in `_append`, so
that properties and bodies are converted in one place. A column that is not wanted has no list, and
nothing is decoded for it. Ids and destinations repeat, so their texts are looked up by their bytes;
successive messages begin with the same bytes up to their sequence number.

Properties are three lists, as Arrow's maps are: for each message the start of its own, or None, and
the names and texts of all. (openwire-encoding 2, 7, 8; spark-pipeline 3.4)
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Collection
from typing import Any, Final

from pyjms.errors import InvalidDestinationException, MessageFormatException, ProtocolViolation
from pyjms.jms.conversions import value_text
from pyjms.jms.mutf8 import decode_mutf8, decode_mutf8_lenient
from pyjms.jms.scheduled import JMS_DELIVERY_TIME
from pyjms.wire.limits import inflate, inflate_sized
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.kinds import I32, I64, I64_PAIR, U16
from pyjms.wire.openwire.primitives import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    NULL,
    STRING,
    decode_map,
    decode_text,
    decode_values,
)
from pyjms.wire.openwire.schema import (
    DESTINATIONS,
    MESSAGES,
    MIDDLE,
    MIDDLE_SIZE,
    PERSISTENT_EXPIRATION_PRIORITY,
    PERSISTENT_EXPIRATION_PRIORITY_SIZE,
    TAIL,
    TAIL_SIZE,
)

COLUMNS: Final = (
    "seq", "message_id", "destination", "timestamp", "expiration", "delivery_mode", "priority",
    "redelivered", "delivery_count", "correlation_id", "type", "reply_to", "group_id", "group_seq",
    "properties", "body_kind", "text", "bytes",
)  # fmt: skip
"""The names of all columns. Times are in microseconds since 1970; None: not set."""
DAMAGED: Final = "damaged"
"""The `body_kind` of a message that cannot be read."""

DECLINED: Final = 0
ADDED: Final = 1
LEFT_OUT: Final = 2

BLOB: Final = ActiveMQBlobMessage.TYPE
BYTES_KIND: Final = ActiveMQBytesMessage.TYPE
MAP_KIND: Final = ActiveMQMapMessage.TYPE
OBJECT_KIND: Final = ActiveMQObjectMessage.TYPE
STREAM_KIND: Final = ActiveMQStreamMessage.TYPE
TEXT_KIND: Final = ActiveMQTextMessage.TYPE
BODY_KINDS: Final = {
    BYTES_KIND: "bytes",
    MAP_KIND: "map",
    OBJECT_KIND: "object",
    STREAM_KIND: "stream",
    TEXT_KIND: "text",
}
_NO_BODY: Final[tuple[str | None, bytes | None]] = (None, None)
_EMPTY: Final[dict[int, tuple[str | None, bytes | None]]] = {
    BYTES_KIND: (None, b""),
    MAP_KIND: ("{}", None),
    STREAM_KIND: ("[]", None),
}
_SIMPLE_KINDS: Final = frozenset(MESSAGES) - {BLOB}
_PERSISTENT: Final = 2
_NON_PERSISTENT: Final = 1
_LATEST: Final = (2**63 - 1) // 1000
_MEMO_VALUES: Final = 1024
_MEMO_KEY: Final = 320
_LONGEST_PREFIX: Final = 1024
_DOUBLE: Final = struct.Struct(">d")
# The flag, type and first flag of nested ids.
_PRODUCER_ID: Final = bytes((1, ProducerId.TYPE, 1))
_MESSAGE_ID: Final = bytes((1, MessageId.TYPE, 0))
_LOCAL_TRANSACTION_ID: Final = bytes((1, LocalTransactionId.TYPE))
_CONNECTION_ID: Final = bytes((1, ConnectionId.TYPE, 1))
# What follows the redelivery counter: brokerPath, arrival; and behind userID, see `_counter_at`.
_BEFORE_USER: Final = 9
_AFTER_USER: Final = 20

Damage = Callable[[str, str | None, ProtocolViolation], None]
"""Reports a message's id, its destination, and why it cannot be read."""


class MessageColumns:
    """The columns of messages that were added, in their order. Not thread-safe."""

    __slots__ = (
        "_body_kind", "_bytes", "_correlation_id", "_delivery_count", "_delivery_mode",
        "_destination", "_destinations", "_expiration", "_group_id", "_group_seq", "_ids",
        "_message_id", "_names", "_on_damage", "_prefix", "_prefix_destination", "_prefix_id",
        "_priority", "_properties", "_redelivered", "_reply_to", "_seq", "_text", "_timestamp",
        "_type", "_wants_body", "count", "earliest", "found_correlation_id", "found_group_id",
        "found_reply_to", "found_type", "latest", "lists", "names", "texts",
    )  # fmt: skip

    def __init__(
        self, wanted: Collection[str], on_damage: Damage | None = None,
        earliest: int | None = None, latest: int | None = None,
        destinations: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        """Build these columns. Damage is reported to `on_damage`; None: it is raised.

        Only of messages with a timestamp (microseconds) from `earliest` to `latest`, and to these
        destinations, by the messages' own names; None: all.
        """
        self.earliest: int | None = earliest
        self.latest: int | None = latest
        self._on_damage = on_damage
        self._destinations = destinations
        self.lists: dict[str, list[Any]] = {name: [] for name in COLUMNS if name in wanted}
        self.names: list[str] = []
        """The names of all properties."""
        self.texts: list[str | None] = []
        """Their values, as JMS converts them to texts."""
        self.count: int = 0
        self._ids: dict[bytes, str] = {}
        self._names: dict[bytes, str] = {}
        self._prefix = b""
        self._prefix_id = ""
        self._prefix_destination = ""
        self.found_correlation_id: str | None = None
        self.found_group_id: str | None = None
        self.found_reply_to: str | None = None
        self.found_type: str | None = None
        self._bind()

    def take(self) -> tuple[dict[str, list[Any]], list[str], list[str | None]]:
        """Return the lists, the properties' names and texts, and begin with empty ones."""
        taken = self.lists, self.names, self.texts
        self.lists = {name: [] for name in self.lists}
        self.names, self.texts, self.count = [], [], 0
        self._bind()
        return taken

    def _bind(self) -> None:
        """Find the list of each column, which is None if it is not wanted."""
        lists = self.lists
        self._seq: list[Any] | None = lists.get("seq")
        self._message_id: list[Any] | None = lists.get("message_id")
        self._destination: list[Any] | None = lists.get("destination")
        self._timestamp: list[Any] | None = lists.get("timestamp")
        self._expiration: list[Any] | None = lists.get("expiration")
        self._delivery_mode: list[Any] | None = lists.get("delivery_mode")
        self._priority: list[Any] | None = lists.get("priority")
        self._redelivered: list[Any] | None = lists.get("redelivered")
        self._delivery_count: list[Any] | None = lists.get("delivery_count")
        self._correlation_id: list[Any] | None = lists.get("correlation_id")
        self._type: list[Any] | None = lists.get("type")
        self._reply_to: list[Any] | None = lists.get("reply_to")
        self._group_id: list[Any] | None = lists.get("group_id")
        self._group_seq: list[Any] | None = lists.get("group_seq")
        self._properties: list[Any] | None = lists.get("properties")
        self._body_kind: list[Any] | None = lists.get("body_kind")
        self._text: list[Any] | None = lists.get("text")
        self._bytes: list[Any] | None = lists.get("bytes")
        self._wants_body: bool = self._text is not None or self._bytes is not None

    def add(self, data: bytes, start: int, end: int, kind: int, seq: int | None) -> int:
        """Add the message of type `kind` with the fields `data[start:end]`, without size and type.

        Returns ADDED, LEFT_OUT (by a filter), or DECLINED: use `add_message`. `end` must be inside
        of `data`.

        Raises:
            MessageFormatException: properties or body are damaged, and there is no `on_damage`.
        """
        try:
            return self._add(data, start, end, kind, seq)
        except (IndexError, struct.error, UnicodeDecodeError, InvalidDestinationException):
            return DECLINED

    def _add(self, data: bytes, start: int, end: int, kind: int, seq: int | None) -> int:
        at = start + 5  # behind commandId and responseRequired
        if self._prefix and data.startswith(self._prefix, at):
            at += len(self._prefix)
        else:
            at = self._read_ids(data, at)
        (
            sequence, _, has_original_transaction_id, has_group_id, group_seq, has_correlation_id,
            persistent, expiration, priority, has_reply_to, timestamp, has_type,
        ) = MIDDLE.unpack_from(data, at)  # fmt: skip
        correlation_id = type_ = reply_to = group_id = None
        if (
            has_original_transaction_id or has_group_id or has_correlation_id or has_reply_to
            or has_type
        ):  # fmt: skip
            at, group_seq, persistent, expiration, priority, timestamp = self._read_headers(
                data, at + 16
            )
            correlation_id, type_ = self.found_correlation_id, self.found_type
            reply_to, group_id = self.found_reply_to, self.found_group_id
        else:
            at += MIDDLE_SIZE
        content_at = properties_at = at = at + 1
        length = properties_length = 0
        if data[at - 1]:
            (length,) = I32.unpack_from(data, at)
            content_at = at + 4
            if not 0 <= length <= end - content_at:
                return DECLINED
            at = content_at + length + 1
        else:
            at += 1
        if data[at - 1]:
            (properties_length,) = I32.unpack_from(data, at)
            properties_at = at + 4
            if not 0 <= properties_length <= end - properties_at:
                return DECLINED
            at = properties_at + properties_length
        compressed, counter = _read_tail(data, at, end)
        if counter < 0 or kind not in _SIMPLE_KINDS:
            return DECLINED
        time = timestamp * 1000 if 0 < timestamp <= _LATEST else None
        if not self.accepts(self._prefix_destination, time):
            return LEFT_OUT
        message_id = f"{self._prefix_id}:{sequence}"
        content = data[content_at : content_at + length] if self._wants_body else b""
        properties = b""
        if self._properties is not None:
            properties = data[properties_at : properties_at + properties_length]
        self._append(
            seq, message_id, self._prefix_destination, time, expiration, bool(persistent), priority,
            counter, correlation_id, type_, reply_to, group_id, group_seq, properties, kind,
            content, compressed,
        )  # fmt: skip
        return ADDED

    def add_message(self, message: ActiveMQMessage, seq: int | None, counter: int) -> bool:
        """Add a decoded message; `counter` is its redelivery counter. False: a filter left it out.

        Raises:
            MessageFormatException: properties or body are damaged, and there is no `on_damage`.
        """
        destination, reply_to = message.destination, message.reply_to
        name = None if destination is None else destination.qualified_name
        timestamp = message.timestamp
        time = timestamp * 1000 if 0 < timestamp <= _LATEST else None
        if not self.accepts(name, time):
            return False
        self._append(
            seq, str(message.message_id), name, time, message.expiration, message.persistent,
            message.priority, counter, message.correlation_id, message.type,
            None if reply_to is None else reply_to.qualified_name, message.group_id,
            message.group_sequence, message.marshalled_properties or b"", message.TYPE,
            message.content or b"", message.compressed,
        )  # fmt: skip
        return True

    def add_nulls(self, message_id: str | None, destination: str | None) -> None:
        """Add a message of which only this is known."""
        for values in self.lists.values():
            values.append(None)
        if self._message_id is not None:
            self._message_id[-1] = message_id
        if self._destination is not None:
            self._destination[-1] = destination
        self.count += 1

    def accepts(self, destination: str | None, time: int | None) -> bool:
        """Return whether the filters accept a message."""
        if self._destinations is not None and destination not in self._destinations:
            return False
        if self.earliest is not None and (time is None or time < self.earliest):
            return False
        return self.latest is None or (time is not None and time <= self.latest)

    def _append(
        self, seq: int | None, message_id: str, destination: str | None, time: int | None,
        expiration: int, persistent: bool, priority: int, counter: int, correlation_id: str | None,
        type_: str | None, reply_to: str | None, group_id: str | None, group_seq: int,
        properties: bytes, kind: int, content: bytes, compressed: bool,
    ) -> None:  # fmt: skip
        body_kind = BODY_KINDS.get(kind, "none")
        text: str | None = None
        data: bytes | None = None
        found: dict[str, str | None] | None = None
        try:
            if self._wants_body:
                text, data = decode_body(kind, content, compressed)
            if self._properties is not None:
                found = self._decode_properties(properties)
        except ProtocolViolation as error:
            if self._on_damage is None:
                raise MessageFormatException(f"Damaged message: {error}") from error
            self._on_damage(message_id, destination, error)
            body_kind, text, data, found = DAMAGED, None, bytes(content), None
        self.count += 1
        if self._seq is not None:
            self._seq.append(seq)
        if self._message_id is not None:
            self._message_id.append(message_id)
        if self._destination is not None:
            self._destination.append(destination)
        if self._timestamp is not None:
            self._timestamp.append(time)
        if self._expiration is not None:
            known = 0 < expiration <= _LATEST
            self._expiration.append(expiration * 1000 if known else None)
        if self._delivery_mode is not None:
            self._delivery_mode.append(_PERSISTENT if persistent else _NON_PERSISTENT)
        if self._priority is not None:  # a signed byte in Java
            self._priority.append(priority if priority < 128 else priority - 256)
        if self._redelivered is not None:
            self._redelivered.append(counter > 0)
        if self._delivery_count is not None:
            self._delivery_count.append(counter + 1)
        if self._correlation_id is not None:
            self._correlation_id.append(correlation_id)
        if self._type is not None:
            self._type.append(type_)
        if self._reply_to is not None:
            self._reply_to.append(reply_to)
        if self._group_id is not None:
            self._group_id.append(group_id)
        if self._group_seq is not None:
            self._group_seq.append(group_seq if group_id is not None else None)
        if self._properties is not None:
            if found is None:
                self._properties.append(None)
            else:
                self._properties.append(len(self.names))
                if found:
                    self.names.extend(found)
                    self.texts.extend(found.values())
        if self._body_kind is not None:
            self._body_kind.append(body_kind)
        if self._text is not None:
            self._text.append(text)
        if self._bytes is not None:
            self._bytes.append(data)

    def _read_ids(self, data: bytes, start: int) -> int:
        """Read from producerId to messageId's producer; return where its sequence number is."""
        at = _end_of_producer(data, start)
        self._producer_text(data[start:at])  # which must be valid, but is no column
        after = _end_of_destination(data, at)
        destination = self._destination_text(data[at:after])
        at = after
        if data[at]:
            at = _end_of_transaction(data, at)
        else:
            at += 1
        if data[at]:
            after = _end_of_destination(data, at)
            self._destination_text(data[at:after])
            at = after
        else:
            at += 1
        if not data.startswith(_MESSAGE_ID, at):
            raise IndexError
        at += 3
        after = _end_of_producer(data, at)
        key = data[at:after]
        self._prefix_id = self._producer_text(key)
        self._prefix_destination = destination
        self._prefix = data[start:after] if after - start <= _LONGEST_PREFIX else b""
        return after

    def _read_headers(self, data: bytes, at: int) -> tuple[int, int, int, int, int, int]:
        """Read from originalTransactionId to type, one by one.

        Returns their end, groupSequence, persistent, expiration, priority and timestamp; the
        others are in `found_group_id` and so on.
        """
        at = _end_of_transaction(data, at) if data[at] else at + 1
        end = _end_of_string(data, at)
        self.found_group_id = _string(data, at, end)
        (group_seq,) = I32.unpack_from(data, end)
        at = end + 4
        end = _end_of_string(data, at)
        self.found_correlation_id = _string(data, at, end)
        persistent, expiration, priority = PERSISTENT_EXPIRATION_PRIORITY.unpack_from(data, end)
        at = end + PERSISTENT_EXPIRATION_PRIORITY_SIZE
        self.found_reply_to = None
        if data[at]:
            end = _end_of_destination(data, at)
            self.found_reply_to = self._destination_text(data[at:end])
            at = end
        else:
            at += 1
        (timestamp,) = I64.unpack_from(data, at)
        at += 8
        end = _end_of_string(data, at)
        self.found_type = _string(data, at, end)
        return end, group_seq, persistent, expiration, priority, timestamp

    def _destination_text(self, key: bytes) -> str:
        """Return the qualified name of the destination with these bytes."""
        found = self._ids.get(key)
        if found is None:
            found = DESTINATIONS[key[1]](decode_mutf8(key[5:])).qualified_name
            self._keep(key, found)
        return found

    def _producer_text(self, key: bytes) -> str:
        """Return a message id up to its sequence number, from the bytes of its producer's id."""
        found = self._ids.get(key)
        if found is None:
            value, session = I64_PAIR.unpack_from(key, len(key) - 16)
            found = f"{decode_mutf8(key[5:-16])}:{session}:{value}"
            self._keep(key, found)
        return found

    def _keep(self, key: bytes, text: str) -> None:
        if len(key) <= _MEMO_KEY:
            if len(self._ids) >= _MEMO_VALUES:
                self._ids.clear()
            self._ids[key] = text

    def _decode_properties(self, data: bytes) -> dict[str, str | None]:
        """Return properties as texts; the order and the errors are those of `decode_map`."""
        if not data:
            return {}
        try:
            found = self._simple_properties(data)
        except (IndexError, struct.error, UnicodeDecodeError):
            found = None
        if found is None:
            found = {name: _property_text(value) for name, value in decode_map(data).items()}
        found.pop(JMS_DELIVERY_TIME, None)
        return found

    def _simple_properties(self, data: bytes) -> dict[str, str | None] | None:
        """Return properties of the usual types; None: there are others, or damage."""
        end = len(data)
        names = self._names
        found: dict[str, str | None] = {}
        (count,) = I32.unpack_from(data, 0)
        if count < 0:
            return None
        at = 4
        for _ in range(count):
            start = at + 2
            at = start + (data[at] << 8 | data[at + 1])
            key = data[start:at]
            name = names.get(key)
            if name is None:
                name = self._property_name(key)
            code = data[at]
            at += 1
            if code == STRING:
                start = at + 2
                at = start + (data[at] << 8 | data[at + 1])
                if at > end:
                    return None
                found[name] = decode_mutf8_lenient(data[start:at])
            elif code == INT:
                found[name] = str(I32.unpack_from(data, at)[0])
                at += 4
            elif code == LONG:
                found[name] = str(I64.unpack_from(data, at)[0])
                at += 8
            elif code == DOUBLE:
                found[name] = value_text(_DOUBLE.unpack_from(data, at)[0])
                at += 8
            elif code == BOOLEAN:
                found[name] = "true" if data[at] else "false"
                at += 1
            elif code == NULL:
                found[name] = None
            else:
                return None
        return found

    def _property_name(self, key: bytes) -> str:
        name = decode_mutf8_lenient(key)
        if len(self._names) >= _MEMO_VALUES:
            self._names.clear()
        if len(key) <= _MEMO_KEY:
            self._names[key] = name
        return name


def decode_body(kind: int, content: bytes, compressed: bool) -> tuple[str | None, bytes | None]:
    """Return the text of a body, or its bytes; maps and streams are JSON.

    Raises:
        RemoteProtocolError: it is damaged, or inflates beyond the limit.
    """
    if not content:
        return _EMPTY.get(kind, _NO_BODY)
    if kind not in BODY_KINDS:
        return _NO_BODY
    if compressed:
        content = inflate_sized(content) if kind == BYTES_KIND else inflate(content)
    if kind == TEXT_KIND:
        return decode_text(content), None
    if kind == MAP_KIND:
        return _json(decode_map(content)), None
    if kind == STREAM_KIND:
        return _json(decode_values(content)), None
    return None, bytes(content)


def _json(value: object) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return list(value)
    return str(value)


def _property_text(value: object) -> str | None:
    """Return a property converted to text as JMS converts it to a String."""
    if value is None or isinstance(value, str):
        return value
    return value_text(value)


def _read_tail(data: bytes, at: int, end: int) -> tuple[bool, int]:
    """Return whether the body is compressed, and the redelivery counter; -1: rare fields."""
    if end - at == TAIL_SIZE:
        (
            data_structure, target, compressed, counter, path, _, user, _, _, cluster, _, _, _,
        ) = TAIL.unpack_from(data, at)  # fmt: skip
        if not (data_structure or target or path or user or cluster) and counter >= 0:
            return bool(compressed), counter
        return False, -1
    (counter,) = I32.unpack_from(data, at + 3)
    user_at = at + 7 + _BEFORE_USER
    after = _end_of_string(data, user_at)
    if data[at] or data[at + 1] or data[at + 7] or after + _AFTER_USER != end or data[after + 2]:
        return False, -1
    _string(data, user_at, after)
    return bool(data[at + 2]), counter


def _end_of_string(data: bytes, at: int) -> int:
    """Return where a nullable string ends."""
    if not data[at]:
        return at + 1
    end: int = at + 3 + U16.unpack_from(data, at + 1)[0]
    return end


def _string(data: bytes, at: int, end: int) -> str | None:
    return decode_mutf8(data[at + 3 : end]) if data[at] else None


def _end_of_producer(data: bytes, at: int) -> int:
    """Return where a nested ProducerId ends.

    Raises:
        IndexError: it has another shape, as below.
    """
    if not data.startswith(_PRODUCER_ID, at):
        raise IndexError
    end: int = at + 21 + U16.unpack_from(data, at + 3)[0]
    return end


def _end_of_destination(data: bytes, at: int) -> int:
    if data[at] != 1 or not 100 <= data[at + 1] <= 103 or data[at + 2] != 1:
        raise IndexError
    end: int = at + 5 + U16.unpack_from(data, at + 3)[0]
    return end


def _end_of_transaction(data: bytes, at: int) -> int:
    """Return where the nested id of a local transaction ends."""
    if not data.startswith(_LOCAL_TRANSACTION_ID, at):
        raise IndexError
    connection = at + 10
    if not data.startswith(_CONNECTION_ID, connection):
        raise IndexError
    end: int = connection + 5 + U16.unpack_from(data, connection + 3)[0]
    decode_mutf8(data[connection + 5 : end])
    return end
