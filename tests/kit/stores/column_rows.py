"""Columns of messages as rows, and the rows that the decoder of objects makes of the same bytes."""

from __future__ import annotations

import base64
import json
import random
import zlib
from typing import Any

from pyjms.client.messages import CommandSource
from pyjms.errors import JMSException
from pyjms.jms.conversions import value_text
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    BrokerId,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    TransactionId,
    XATransactionId,
)
from pyjms.wire.openwire.message_columns import COLUMNS, DAMAGED, MessageColumns
from pyjms.wire.openwire.primitives import encode_map, encode_text, encode_values

Row = dict[str, Any]
_LATEST = (2**63 - 1) // 1000
_BODIES: dict[int, tuple[str, str]] = {
    ActiveMQTextMessage.TYPE: ("text", "text"),
    ActiveMQBytesMessage.TYPE: ("bytes", "bytes"),
    ActiveMQObjectMessage.TYPE: ("object", "bytes"),
    ActiveMQMapMessage.TYPE: ("map", "json"),
    ActiveMQStreamMessage.TYPE: ("stream", "json"),
}


def rows_of(columns: MessageColumns) -> list[Row]:
    """Return the rows of columns, which are empty then."""
    count = columns.count
    lists, names, texts = columns.take()
    rows: list[Row] = [{name: values[n] for name, values in lists.items()} for n in range(count)]
    end = len(names)
    for row in reversed(rows):
        start = row.get("properties")
        if start is not None:
            row["properties"] = dict(zip(names[start:end], texts[start:end], strict=True))
            end = start
    return rows


def object_row(message: ActiveMQMessage, seq: int | None, counter: int) -> Row:
    """Return the row of a decoded message.

    Raises:
        MessageFormatException: its properties or its body are damaged.
    """
    source = CommandSource(message)
    kind, column = _BODIES.get(message.TYPE, ("none", ""))
    body: Any = source.decode_body() if column else None
    properties = {
        name: value if value is None or isinstance(value, str) else value_text(value)
        for name, value in source.decode_properties().items()
    }
    bodies = {
        "text": body if column == "text" else _json(body) if column == "json" else None,
        "bytes": body if column == "bytes" else None,
    }
    return {
        **_headers(message, seq, counter),
        "properties": properties,
        "body_kind": kind,
        **bodies,
    }


def damaged_row(message: ActiveMQMessage, seq: int | None, counter: int) -> Row:
    """Return the row of a message whose properties or body cannot be read."""
    rest = {"properties": None, "body_kind": DAMAGED, "text": None}
    content = bytes(message.content or b"")
    return {**_headers(message, seq, counter), **rest, "bytes": content}


def tolerant_row(message: ActiveMQMessage, seq: int | None, counter: int) -> Row:
    """Return the row of a decoded message, whether it is damaged or not."""
    try:
        return object_row(message, seq, counter)
    except JMSException:
        return damaged_row(message, seq, counter)


def _headers(message: ActiveMQMessage, seq: int | None, counter: int) -> Row:
    def name_of(destination: Destination | None) -> str | None:
        return None if destination is None else str(destination)

    def time_of(milliseconds: int) -> int | None:
        return milliseconds * 1000 if 0 < milliseconds <= _LATEST else None

    priority = message.priority
    values = (
        seq, str(message.message_id), name_of(message.destination), time_of(message.timestamp),
        time_of(message.expiration), 2 if message.persistent else 1,
        priority - 256 if priority > 127 else priority, counter > 0, counter + 1,
        message.correlation_id, message.type, name_of(message.reply_to), message.group_id,
        None if message.group_id is None else message.group_sequence,
    )  # fmt: skip
    return dict(zip(COLUMNS[: len(values)], values, strict=True))


def _json(value: object) -> str:
    def plain(item: object) -> str:
        return base64.b64encode(item).decode() if isinstance(item, bytes) else str(item)

    return json.dumps(value, default=plain, ensure_ascii=False)


TEXTS = ("", "a", "order-17", "é\0\U0001f600", "x" * 300, "cut \ud83d")
VALUES: tuple[object, ...] = (
    None, True, False, Byte(-1), Char("c"), Short(7), 5, -(2**31), Long(2**40), 1.5, 1e9, 0.1,
    -0.0, 1e-5, Float(0.5), "v", "é", b"\0x", {"k": [1, "x"]}, ["a", None],
)  # fmt: skip
NAMES = ("number", "origin", "delay", "late", "é", "JMSDeliveryTime", "JMSXGroupID")
DESTINATIONS = (Queue("q"), Topic("VirtualTopic.t"), TemporaryQueue("t:1"), TemporaryTopic("t:2"))
IDS = ("ID:host-1-2-3:1", "c", "é")


def random_message(chance: random.Random) -> ActiveMQMessage:
    """Return a message of any type whose fields are set or not, mostly as clients set them."""
    kind, content = _random_body(chance)
    message = kind()
    message.content = content
    rare = chance.random() < 0.2
    producer = ProducerId(chance.choice(IDS), chance.randrange(3), chance.randrange(3))
    message.producer_id = producer
    message.destination = chance.choice(DESTINATIONS)
    message.message_id = MessageId(None, producer, chance.randrange(2**40))
    message.transaction_id = _random_transaction(chance)
    message.timestamp = chance.choice((0, -1, 1_700_000_000_000, 2**63 - 1))
    message.expiration = chance.choice((0, 1_800_000_000_000, 2**62))
    message.persistent = chance.random() < 0.5
    message.priority = chance.choice((4, 0, 9, 127))
    message.redelivery_counter = chance.choice((0, 0, 3))
    message.compressed = bool(content) and chance.random() < 0.2
    if message.compressed and content:
        sized = len(content).to_bytes(4, "big") if kind is ActiveMQBytesMessage else b""
        message.content = sized + zlib.compress(content)
    if chance.random() < 0.7:
        some = {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.randrange(5))}
        message.marshalled_properties = encode_map(some)
    for name in ("correlation_id", "type", "group_id", "user_id"):
        if chance.random() < 0.3:
            setattr(message, name, chance.choice(TEXTS))
    if chance.random() < 0.3:
        message.reply_to = chance.choice(DESTINATIONS)
        message.group_sequence = chance.randrange(-3, 9)
    if rare:
        _set_rare_fields(chance, message, producer)
    return message


def _random_body(chance: random.Random) -> tuple[type[ActiveMQMessage], bytes | None]:
    values = [chance.choice(VALUES[:16]) for _ in range(chance.randrange(4))]
    text = encode_text(chance.choice((*TEXTS, None)))
    kinds: tuple[tuple[type[ActiveMQMessage], bytes], ...] = (
        (ActiveMQTextMessage, text),
        (ActiveMQTextMessage, text),
        (ActiveMQBytesMessage, b"\0\1\2"),
        (ActiveMQObjectMessage, b"\xac\xed"),
        (ActiveMQMapMessage, encode_map({f"k{n}": value for n, value in enumerate(values)})),
        (ActiveMQStreamMessage, encode_values(values)),
        (ActiveMQMessage, b""),
        (ActiveMQBlobMessage, b""),
    )
    kind, content = chance.choice(kinds)
    return kind, chance.choice((content, content, content, None))


def _random_transaction(chance: random.Random) -> TransactionId | None:
    if chance.random() < 0.7:
        return None
    local = LocalTransactionId(chance.randrange(9), ConnectionId(chance.choice(IDS)))
    return chance.choice((local, local, XATransactionId(1, b"g", b"b")))


def _set_rare_fields(chance: random.Random, message: ActiveMQMessage, producer: ProducerId) -> None:
    rare: dict[str, object] = {
        "message_id": chance.choice((None, MessageId("ID:foreign:1"), MessageId(None, None, 5))),
        "producer_id": chance.choice((None, ProducerId(None, 1, 1), producer)),
        "destination": None,
        "original_destination": Topic("VirtualTopic.x"),
        "original_transaction_id": LocalTransactionId(3, None),
        "broker_path": [BrokerId("b")],
        "cluster": [BrokerId("b")],
        "redelivery_counter": -2,
    }
    name = chance.choice(tuple(rare))
    setattr(message, name, rare[name])
