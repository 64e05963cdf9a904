"""The Java client and ours talk to each other, through our broker and through ActiveMQ."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.template.template import JmsTemplate
from tests.kit.servers.java_client import Java, JavaError

pytestmark = pytest.mark.activemq

WORDS = "grüß dich 😀 \0 €"
LATIN = "grüß dich €"
KINDS = ["message", "text", "bytes", "map", "stream", "object"]
PROPERTIES: dict[str, Any] = {
    "boolean": True,
    "byte": Byte(-128),
    "short": Short(-32768),
    "int": -(2**31),
    "long": Long(-(2**63)),
    "float": Float(1.5),
    "double": 0.1,
    "null": None,
}
JAVA_PROPERTIES = {
    "boolean": ["Boolean", "true"],
    "byte": ["Byte", "-128"],
    "short": ["Short", "-32768"],
    "int": ["Integer", "-2147483648"],
    "long": ["Long", "-9223372036854775808"],
    "float": ["Float", "1.5"],
    "double": ["Double", "0.1"],
    "null": None,
    "String": ["String", LATIN],
    "JMSXGroupID": ["String", "group"],
    "JMSXGroupSeq": ["Integer", "3"],
}
VALUES: dict[str, Any] = {
    "a-boolean": True,
    "b-byte": Byte(127),
    "c-short": Short(32767),
    "d-char": Char("€"),
    "e-int": 2**31 - 1,
    "f-long": Long(2**63 - 1),
    "g-float": Float(1.5),
    "h-double": 0.1,
    "i-String": WORDS,
    "j-bytes": b"\1\2\3",
    "k-null": None,
}
JAVA_VALUES = [
    ["Boolean", "true"],
    ["Byte", "127"],
    ["Short", "32767"],
    ["Character", "€"],
    ["Integer", "2147483647"],
    ["Long", "9223372036854775807"],
    ["Float", "1.5"],
    ["Double", "0.1"],
    ["String", LATIN],
    ["bytes", "010203"],
    None,
]
RAW = (
    "01fffffe20acfffffffdfffffffffffffffc3fc000003fb999999999999a"
    "00196772c3bcc39f206469636820eda0bdedb88020c08020e282ac010203"
)
AN_OBJECT = bytes.fromhex("aced000574") + b"\0\x09an object"
RESET = b"y"  # ActiveMQ's client ends the stream with it
OPTIONS = ["", "wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true", "compressed"]


@pytest.fixture(params=OPTIONS)
async def ours(request: pytest.FixtureRequest, java: Java) -> AsyncIterator[ActiveMQConnection]:
    """A connection of our client at the broker where the Java client is."""
    compressed = request.param == "compressed"
    url = f"{java.url}?{'' if compressed else request.param}"
    async with await ConnectionFactory(url, use_compression=compressed).create_connection() as made:
        await made.start()
        yield made


async def test_java_sends_every_kind_to_us(java: Any, ours: Any, name: str) -> None:
    java("send-kinds", name)
    session = await ours.create_session()
    consumer = await session.create_consumer(Queue(name))
    received: dict[str, Any] = {}
    for _ in KINDS:
        message = await consumer.receive(5)
        received[message.correlation_id.removeprefix("c-")] = message
    assert sorted(received) == sorted(KINDS)
    for kind, message in received.items():
        assert message.type == f"type-{kind}"
        assert message.reply_to == (Topic if kind == "text" else Queue)("replies")
        assert message.priority == 7
        assert message.expiration - message.timestamp == 600_000
        persistent = message.delivery_mode == DeliveryMode.PERSISTENT
        assert persistent is (kind != "bytes")
        assert (message.group_id, message.group_sequence) == ("group", 3)
        read = {key: message.properties[key] for key in PROPERTIES}
        assert read == PROPERTIES
        assert [type(v) for v in read.values()] == [type(v) for v in PROPERTIES.values()]
        assert message.properties["String"] == WORDS
    assert received["text"].text == WORDS
    assert received["bytes"].data.hex() == RAW
    assert dict(received["map"].items()) == VALUES
    stream = [received["stream"].read_object() for _ in VALUES]
    assert stream == list(VALUES.values())
    assert [type(value) for value in stream] == [type(value) for value in VALUES.values()]
    assert received["object"].data == AN_OBJECT + RESET


async def test_we_send_every_kind_to_java(java: Java, ours: ActiveMQConnection, name: str) -> None:
    session = await ours.create_session()
    producer = await session.create_producer(Queue(name))
    values = {**VALUES, "i-String": LATIN}
    mapped = session.create_map_message()
    stream = session.create_stream_message()
    for key, value in values.items():
        mapped.set_object(key, value)
        stream.write_object(value)
    messages = {
        "message": session.create_message(),
        "text": session.create_text_message(WORDS),
        "bytes": session.create_bytes_message(bytes.fromhex(RAW)),
        "map": mapped,
        "stream": stream,
        "object": session.create_object_message(AN_OBJECT),
    }
    for kind, message in messages.items():
        message.correlation_id, message.type = f"c-{kind}", f"type-{kind}"
        message.reply_to = Topic("replies") if kind == "text" else Queue("replies")
        for key, value in {**PROPERTIES, "String": LATIN}.items():
            message.properties[key] = value
        message.properties["JMSXGroupID"] = "group"
        message.properties["JMSXGroupSeq"] = 3
        await producer.send(message, priority=7, time_to_live=600)
    bodies = {
        "message": None,
        "text": WORDS,
        "bytes": RAW,
        "map": dict(zip(VALUES, JAVA_VALUES, strict=True)),
        "stream": JAVA_VALUES,
        "object": ["String", "an object"],
    }
    received = java("receive", name, len(messages))
    for (kind, sent), found in zip(messages.items(), received, strict=True):
        assert found == {
            "body": [kind, bodies[kind]],
            "properties": JAVA_PROPERTIES,
            "id": sent.message_id,
            "correlation": f"c-{kind}",
            "type": f"type-{kind}",
            "replyTo": "topic://replies" if kind == "text" else "queue://replies",
            "destination": f"queue://{name}",
            "original": None,
            "priority": 7,
            "persistent": True,
            "lives": 600_000,
            "redelivered": False,
        }


A_LIST = (
    bytes.fromhex("aced0005737200")
    + b"\x13java.util.ArrayList"
    + bytes.fromhex("7881d21d99c7619d03000149000473697a6578700000000177040000000174000161")
    + b"x"
)
"""Java's serialized form of a java.util.ArrayList with the string "a"."""


@pytest.mark.fact("activemq-edges N14")
async def test_java_makes_objects_of_trusted_packages_only_and_we_make_none(
    java: Java, name: str
) -> None:
    async with await ConnectionFactory(
        f"{java.url}?jms.trustAllPackages=false"
    ).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(Queue(name))
        for _ in range(3):
            await producer.send(session.create_object_message(A_LIST))
        consumer = await session.create_consumer(Queue(f"{name}?consumer.prefetchSize=1"))
        received: Any = await consumer.receive(5)
        assert received.data == A_LIST
    with pytest.raises(JavaError, match=r"Forbidden class java\.util\.ArrayList!"):
        java("receive", name, 1)
    (found,) = java("receive", name, 1, options="jms.trustAllPackages=true")
    assert found["body"][0] == "object"
    with pytest.raises(JavaError, match="Invalid connect parameters"):  # not in the URL
        java("receive", name, 1, options="jms.trustedPackages=java.util")


async def test_our_requests_are_answered_by_java(java: Java, name: str) -> None:
    java.begin("serve-replies", name)
    template = JmsTemplate(ConnectionFactory(java.url), receive_timeout=5.0)
    reply: Any = await template.send_and_receive(name, lambda s: s.create_text_message("ours"))
    assert reply.text == "re: ours"
    assert reply.correlation_id.startswith("ID:")
    assert await anyio.to_thread.run_sync(java.end) == ["ours"]


async def test_requests_of_java_are_answered_by_our_container(java: Java, name: str) -> None:
    async def answer(message: Any, session: Any) -> None:
        reply = session.create_text_message(f"re: {message.text}")
        reply.correlation_id = message.message_id
        producer = await session.create_producer(message.reply_to)
        await producer.send(reply)
        await producer.close()

    container = DefaultMessageListenerContainer(
        ConnectionFactory(java.url),
        message_listener=answer,
        destination_name=name,
        session_transacted=True,
        receive_timeout=0.2,
    )
    await container.start()
    java.begin("ask", name, "java")
    assert await anyio.to_thread.run_sync(java.end) == ["re: java", True]
    await container.shutdown()


async def test_what_we_rolled_back_java_sees_as_redelivered(java: Java, name: str) -> None:
    async with await ConnectionFactory(java.url).create_connection() as connection:
        await connection.start()
        session = await connection.create_session(transacted=True)
        producer = await session.create_producer(Queue(name))
        await producer.send(session.create_text_message("x"))
        await session.commit()
        consumer = await session.create_consumer(Queue(name))
        assert await consumer.receive(5) is not None
    assert java("deliveries", name, 1) == ["x#2*"]
