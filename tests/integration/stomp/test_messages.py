"""Messages between STOMP and JMS clients, through the real broker."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms.jms.message import BytesMessage, TextMessage
from tests.kit.stomp.client import StompBroker

ORDERS = "/queue/orders"


@pytest.mark.fact("activemq-edges ST5")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_a_jms_client_receives_a_text(stomp: StompBroker, version: str) -> None:
    client = await stomp.client(version)
    headers = {
        "destination": ORDERS,
        "correlation-id": "c-1",
        "expires": 4_000_000_000_000,
        "priority": 7,
        "type": "order",
        "persistent": "true",
        "timestamp": 1234,
        "JMSXGroupID": "g",
        "color": "red",
        "JMSXUserID": "stripped",
        "redelivered": "true",
    }
    await client.done("SEND", headers, "gr\u00fcn \U0001f600")
    async with stomp.jms() as session:
        consumer = await session.create_consumer(Queue("orders"))
        message = await consumer.receive(5)
    assert isinstance(message, TextMessage)
    assert message.text == "gr\u00fcn \U0001f600"
    assert (message.correlation_id, message.type, message.priority) == ("c-1", "order", 7)
    assert (message.expiration, message.timestamp) == (4_000_000_000_000, 1234)
    assert (message.group_id, message.delivery_mode.name) == ("g", "PERSISTENT")
    assert not message.redelivered
    assert dict(message.properties) == {"color": "red", "JMSXGroupID": "g", "JMSXGroupSeq": 0}
    assert message.user_id is None


@pytest.mark.fact("activemq-edges ST5")
async def test_defaults_are_not_persistent_priority_4_and_now(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.done("SEND", {"destination": ORDERS}, "x")
    async with stomp.jms() as session:
        message = await (await session.create_consumer(Queue("orders"))).receive(5)
    assert message is not None
    assert message.delivery_mode.name == "NON_PERSISTENT"
    assert message.priority == 4
    assert message.timestamp > 1_000_000_000_000


@pytest.mark.fact("activemq-edges ST5")
@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"content-length": 3}, BytesMessage),
        ({}, TextMessage),
        ({"content-length": 3, "amq-msg-type": "text"}, TextMessage),
        ({"amq-msg-type": "bytes"}, BytesMessage),
    ],
    ids=["length", "none", "named-text", "named-bytes"],
)
async def test_content_length_makes_bytes(
    stomp: StompBroker, headers: dict[str, object], kind: type
) -> None:
    client = await stomp.client()
    await client.done("SEND", {"destination": ORDERS, **headers}, b"abc")
    async with stomp.jms() as session:
        message = await (await session.create_consumer(Queue("orders"))).receive(5)
    assert type(message) is kind


@pytest.mark.fact("activemq-edges ST6")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_a_stomp_client_receives_from_jms(stomp: StompBroker, version: str) -> None:
    client = await stomp.client(version)
    await client.subscribe(ORDERS)
    async with stomp.jms() as session:
        message = session.create_text_message("gr\u00fcn")
        message.correlation_id, message.type = "c", "t"
        message.reply_to = Queue("answers")
        message.properties["count"] = 3
        message.properties["late"] = True
        producer = await session.create_producer(Queue("orders"))
        await producer.send(message, priority=6)
    frame = await client.receive("MESSAGE")
    assert frame.body.decode() == "gr\u00fcn"
    expected = {
        "destination": ORDERS,
        "subscription": "s",
        "correlation-id": "c",
        "type": "t",
        "reply-to": "/queue/answers",
        "count": "3",
        "late": "true",
        "priority": "6",
        "persistent": "true",
        "expires": "0",
        "message-id": message.message_id,
    }
    assert {name: frame.headers.get(name) for name in expected} == expected
    assert int(frame.headers["timestamp"]) > 0
    assert not {"redelivered", "content-length", "ack"} & frame.headers.keys()


@pytest.mark.fact("activemq-edges ST6")
@pytest.mark.parametrize("compressed", [False, True])
async def test_bytes_come_with_their_length(stomp: StompBroker, compressed: bool) -> None:
    client = await stomp.client()
    await client.subscribe(ORDERS)
    body = bytes(range(256))
    async with stomp.jms(f"jms.useCompression={compressed}") as session:
        message = session.create_bytes_message()
        message.write_bytes(body)
        await (await session.create_producer(Queue("orders"))).send(message)
    frame = await client.receive("MESSAGE")
    assert frame.headers["content-length"] == "256"
    assert frame.body == body


async def test_a_text_that_contains_nul_arrives_whole(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.subscribe(ORDERS)
    async with stomp.jms() as session:
        producer = await session.create_producer(Queue("orders"))
        await producer.send(session.create_text_message("a\0MESSAGE\n\nforged\0b"))
        await producer.send(session.create_text_message("next"))
    assert (await client.receive("MESSAGE")).body == b"a\0MESSAGE\n\nforged\0b"
    assert (await client.receive("MESSAGE")).body == b"next"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_properties_cannot_forge_headers(stomp: StompBroker, version: str) -> None:
    client = await stomp.client(version)
    await client.subscribe(ORDERS)
    async with stomp.jms() as session:
        message = session.create_text_message("x")
        message.properties["note"] = "a\nforged:yes\n\nbody"
        message.properties["zero"] = "a\0b"
        message.properties["plain"] = "p"
        await (await session.create_producer(Queue("orders"))).send(message)
    frame = await client.receive("MESSAGE")
    assert frame.body == b"x"
    assert "forged" not in frame.headers
    assert "zero" not in frame.headers
    assert frame.headers["plain"] == "p"
    assert frame.headers["note"] == "a\nforged:yes\n\nbody"


@pytest.mark.fact("activemq-edges ST6")
async def test_other_bodies_arrive_empty(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.subscribe(ORDERS)
    async with stomp.jms() as session:
        message = session.create_map_message()
        message.set_object("k", 1)
        await (await session.create_producer(Queue("orders"))).send(message)
    assert (await client.receive("MESSAGE")).body == b""


@pytest.mark.fact("activemq-edges ST4")
async def test_a_temporary_queue_carries_answers(stomp: StompBroker) -> None:
    asking, answering = await stomp.client(), await stomp.client()
    await asking.subscribe("/temp-queue/answers")
    await answering.subscribe(ORDERS)
    await asking.send("SEND", {"destination": ORDERS, "reply-to": "/temp-queue/answers"}, "?")
    request = await answering.receive("MESSAGE")
    reply_to = request.headers["reply-to"]
    assert reply_to.startswith("/remote-temp-queue/ID:")
    await answering.done("SEND", {"destination": reply_to}, "!")
    answer = await asking.receive("MESSAGE")
    assert answer.headers["destination"] == "/temp-queue/answers"
    assert answer.body == b"!"


async def test_a_jms_client_answers_to_a_temporary_queue(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.subscribe("/temp-queue/answers")
    await client.done("SEND", {"destination": ORDERS, "reply-to": "/temp-queue/answers"}, "?")
    async with stomp.jms() as session:
        request = await (await session.create_consumer(Queue("orders"))).receive(5)
        assert request is not None
        assert isinstance(request.reply_to, TemporaryQueue)
        producer = await session.create_producer(request.reply_to)
        await producer.send(session.create_text_message("!"))
        assert (await client.receive("MESSAGE")).body == b"!"


@pytest.mark.fact("activemq-edges ST4")
async def test_names_of_destinations(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.done("SEND", {"destination": "/queue/a,/queue/b"}, "both")
    await client.done("SEND", {"destination": "c", "reply-to": "somewhere"}, "bare")
    counts = [stomp.broker.queue_statistics(name).messages for name in "abc"]
    assert counts == [1, 1, 1]
    await client.subscribe("/queue/c")
    assert (await client.receive("MESSAGE")).headers["reply-to"] == "somewhere"
    await client.subscribe("/queue/>", id="all")
    assert {(await client.receive("MESSAGE")).headers["destination"] for _ in range(2)} == {
        "/queue/a",
        "/queue/b",
    }


async def test_a_scheduled_message_waits(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.done("SEND", {"destination": ORDERS, "AMQ_SCHEDULED_DELAY": 300_000}, "later")
    assert stomp.broker.queue_statistics("orders").messages == 0
