"""What happens to messages that no selector matches, and which exceptions name wrong accesses."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from pyjms.jms.bodies import BytesMessage
from pyjms.jms.destination import Queue, Topic


@pytest.mark.fact("jms-api 8.9")
async def test_a_message_that_no_selector_matches_stays_in_a_queue_and_is_lost_in_a_topic(
    client: Any,
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
async def test_wrong_accesses_to_a_body(client: Any) -> None:
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
async def test_a_queue_needs_a_name(client: Any) -> None:
    session = await client.session()
    with pytest.raises(TypeError, match="must be a str"):
        session.create_queue(None)
