"""What happens to messages that no selector matches, and which exceptions name wrong accesses."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.errors import (
    IllegalStateException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import BytesMessage, Message
from tests.kit.clients.embedded import Client


@pytest.mark.fact("jms-api 8.9")
async def test_a_message_that_no_selector_matches_stays_in_a_queue_and_is_lost_in_a_topic(
    client: Client,
) -> None:
    session = await client.session()
    for destination in (Queue("q"), Topic("t")):
        consumer = await session.create_consumer(destination, "n = 1")
        await client.send(destination, "unmatched")
        assert await consumer.receive(0.5) is None
        await consumer.close()
        later = await session.create_consumer(destination)
        left = ["unmatched"] if destination.is_queue else []
        assert [client.text(m) for m in await client.receive_all(later)] == left


@pytest.mark.fact(
    "jms-api 13/MessageEOFException",
    "jms-api 13/MessageFormatException",
    "jms-api 13/MessageNotReadableException / MessageNotWriteableException",
)
async def test_wrong_accesses_to_a_body(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    message = session.create_bytes_message(b"1")
    with pytest.raises(MessageNotReadableException):
        message.read_byte()
    with pytest.raises(MessageFormatException):
        message.write_object(object())
    await producer.send(message)
    (received,) = await client.take("q")
    assert isinstance(received, BytesMessage)
    with pytest.raises(MessageNotWriteableException):
        received.write_byte(1)
    received.read_byte()
    with pytest.raises(MessageEOFException):
        received.read_byte()


@pytest.mark.fact("jms-api 14/createQueue")
async def test_a_queue_needs_a_name(client: Client) -> None:
    session = await client.session()
    with pytest.raises(TypeError, match="must be a str"):
        session.create_queue(None)  # type: ignore[arg-type]


@pytest.mark.fact(
    "jms-api 14/NOT precedence, priority ignored, lenient property names, MapMessage missing = 0, close from listener allowed, browser needs start"
)
async def test_what_every_activemq_does_differently(client: Client) -> None:
    connection = await client.connect(start=False)
    session = await connection.create_session()
    producer = await session.create_producer(Queue("q"))
    for number in (1, 9):
        message = session.create_map_message()
        message.properties["i"] = number
        message.properties["not an identifier-"] = number
        await producer.send(message, priority=number)
    unstarted = await session.create_browser(Queue("q"))
    assert [message async for message in unstarted] == []
    await unstarted.close()
    await connection.start()
    browsed: list[Any] = [message async for message in await session.create_browser(Queue("q"))]
    assert [message.priority for message in browsed] == [1, 9]
    assert [message.properties["not an identifier-"] for message in browsed] == [1, 9]
    assert browsed[0].get_int("missing") == browsed[0].get_double("missing") == 0
    for selector, found in (("NOT i = 9", []), ("NOT (i = 9)", [1])):
        selecting = await session.create_browser(Queue("q"), selector)
        assert [message.priority async for message in selecting] == found
    closed = anyio.Event()

    async def listener(_: Message) -> None:
        await session.close()
        closed.set()

    consumer = await session.create_consumer(Queue("q"))
    await consumer.set_message_listener(listener)
    await closed.wait()
    with pytest.raises(IllegalStateException):
        await session.create_consumer(Queue("q"))
