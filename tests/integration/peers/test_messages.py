"""All types of values, over each encoding that the two ends can agree on."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.enums import DeliveryMode
from pyjms.errors import ConnectionFailedException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.types import Byte, Char, Float, Long, Short
from tests.kit.servers.peers import Peer

WORDS = "grüß dich, 世界 \U0001f600 \0 €"
LONG_TEXT = WORDS * 4000
SERIALIZED = bytes.fromhex("aced000574000568656c6c6f")
VALUES: dict[str, Any] = {
    "boolean": True,
    "byte": Byte(-128),
    "short": Short(-32768),
    "int": -(2**31),
    "long": Long(-(2**63)),
    "float": Float(1.5),
    "double": 0.1,
    "string": WORDS,
    "null": None,
}
NESTED: dict[str, Any] = {"list": [1, "two", [True]], "map": {"a": 1, "b": {"c": 2.5}}}
BODY_VALUES: dict[str, Any] = {**VALUES, "char": Char("€"), "bytes": b"\0\1\xff"}

WIRE = [
    "",
    *(
        f"wireFormat.tightEncodingEnabled={tight}&wireFormat.cacheEnabled={cache}"
        for tight in ("true", "false")
        for cache in ("true", "false")
    ),
    "wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true&wireFormat.cacheSize=100",
    "wireFormat.version=1",
    "wireFormat.version=6&wireFormat.tightEncodingEnabled=true",
    "wireFormat.version=11",
    "wireFormat.stackTraceEnabled=false&wireFormat.maxInactivityDuration=0",
    "jms.useCompression=true",
    "jms.useCompression=true&wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true",
]


def make(session: Any, data: bytes, nested: dict[str, Any]) -> list[Message]:
    raw = session.create_bytes_message()
    raw.write_boolean(True)
    raw.write_byte(-1)
    raw.write_short(-2)
    raw.write_char("€")
    raw.write_int(-3)
    raw.write_long(-4)
    raw.write_float(1.5)
    raw.write_double(0.1)
    raw.write_utf(WORDS)
    raw.write_bytes(data)
    mapped = session.create_map_message()
    for name, value in {**BODY_VALUES, **nested}.items():
        mapped.set_object(name, value)
    stream = session.create_stream_message()
    for value in BODY_VALUES.values():
        stream.write_object(value)
    return [
        session.create_message(),
        session.create_text_message(WORDS),
        session.create_text_message(LONG_TEXT),
        raw,
        mapped,
        stream,
        session.create_object_message(SERIALIZED),
    ]


@pytest.mark.parametrize("options", WIRE)
async def test_every_type_in_every_kind_of_message(
    connect: Any, name: str, peer: Peer, options: str
) -> None:
    nested = {} if peer.differs("nested_properties") else NESTED
    data = bytes(range(256)) * 300
    if "version=6" in options and peer.differs("version_6"):
        with pytest.raises(ConnectionFailedException, match="More flags are read"):
            await connect(options)
        return
    connection = await connect(options)
    session = await connection.create_session()
    producer = await session.create_producer(Queue(name))
    consumer = await session.create_consumer(Queue(name))
    sent = make(session, data, nested)
    for message in sent:
        message.correlation_id, message.type = f"c {WORDS}", "kind"
        message.reply_to = Topic("answers")
        for key, value in {**VALUES, **nested}.items():
            message.properties[key] = value
        message.properties["JMSXGroupID"] = "group"
        message.properties["JMSXGroupSeq"] = 5
        await producer.send(message, priority=9, time_to_live=60)
    received = [await consumer.receive(5) for _ in sent]
    for before, after in zip(sent, received, strict=True):
        check_headers(before, after, name)
        properties = {key: after.properties[key] for key in (*VALUES, *nested)}
        assert properties == {**VALUES, **nested}
        assert [type(properties[key]) for key in VALUES] == [type(v) for v in VALUES.values()]
    check_bodies(received, data, nested)


def check_headers(before: Message, after: Message, name: str) -> None:
    assert type(after) is type(before)
    assert (after.message_id, after.timestamp) == (before.message_id, before.timestamp)
    assert after.expiration == before.timestamp + 60_000
    assert (after.priority, after.delivery_mode) == (9, DeliveryMode.PERSISTENT)
    assert (after.correlation_id, after.type) == (f"c {WORDS}", "kind")
    assert (after.group_id, after.group_sequence) == ("group", 5)
    assert (after.reply_to, after.destination) == (Topic("answers"), Queue(name))
    assert (after.redelivered, after.delivery_count) == (False, 1)


def check_bodies(received: list[Any], data: bytes, nested: dict[str, Any]) -> None:
    _, text, long_text, raw, mapped, stream, serialized = received
    assert isinstance(text, TextMessage)
    assert text.text == WORDS
    assert long_text.text == LONG_TEXT
    assert isinstance(raw, BytesMessage)
    assert (raw.read_boolean(), raw.read_byte(), raw.read_short()) == (True, -1, -2)
    assert (raw.read_char(), raw.read_int(), raw.read_long()) == ("€", -3, -4)
    assert (raw.read_float(), raw.read_double(), raw.read_utf()) == (1.5, 0.1, WORDS)
    assert raw.read_bytes() == data
    assert isinstance(mapped, MapMessage)
    assert dict(mapped.items()) == {**BODY_VALUES, **nested}
    assert [type(mapped[k]) for k in BODY_VALUES] == [type(v) for v in BODY_VALUES.values()]
    assert isinstance(stream, StreamMessage)
    values = [stream.read_object() for _ in BODY_VALUES]
    assert values == list(BODY_VALUES.values())
    assert [type(v) for v in values] == [type(v) for v in BODY_VALUES.values()]
    assert isinstance(serialized, ObjectMessage)
    assert serialized.data == SERIALIZED


async def test_empty_bodies(connect: Any, name: str) -> None:
    session = await (await connect()).create_session()
    producer = await session.create_producer(Queue(name))
    consumer = await session.create_consumer(Queue(name))
    sent = [
        session.create_text_message(),
        session.create_text_message(""),
        session.create_bytes_message(),
        session.create_map_message(),
        session.create_stream_message(),
        session.create_object_message(),
    ]
    for message in sent:
        await producer.send(message)
    none, empty, raw, mapped, stream, serialized = [await consumer.receive(5) for _ in sent]
    assert (none.text, empty.text) == (None, "")
    assert not raw.data
    assert dict(mapped.items()) == {}
    assert stream.values == []
    assert serialized.data is None


@pytest.mark.parametrize("options", ["", "jms.useCompression=true"])
async def test_a_large_message(connect: Any, name: str, options: str) -> None:
    data = bytes(range(256)) * 20_000
    session = await (await connect(options)).create_session()
    producer = await session.create_producer(Queue(name))
    await producer.send(session.create_bytes_message(data))
    consumer = await session.create_consumer(Queue(name))
    assert (await consumer.receive(10)).data == data


async def test_a_producer_may_leave_out_ids_and_time_stamps(connect: Any, name: str) -> None:
    session = await (await connect()).create_session()
    producer = await session.create_producer(Queue(name))
    producer.disable_message_timestamp = True
    await producer.send(session.create_text_message("x"), delivery_mode=DeliveryMode.NON_PERSISTENT)
    received = await (await session.create_consumer(Queue(name))).receive(5)
    assert received.timestamp == 0
    assert received.delivery_mode == DeliveryMode.NON_PERSISTENT
