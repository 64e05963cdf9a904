"""The template, its converters and the caching factory on the bundled broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory, SingleConnectionFactory
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException, InvalidSelectorException
from pyjms.jms.destination import Queue
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate


@dataclass
class Order:
    id: int
    lines: list[str]


async def texts(template: JmsTemplate, name: str) -> list[str | None]:
    async def read(session: Any, browser: Any) -> list[str | None]:
        return [message.text async for message in browser]

    return await template.browse(name, read)


async def test_payloads_of_every_kind(template: JmsTemplate) -> None:
    payloads = ["text", "", b"\0bytes", {"a": 1, "b": [True, {"c": 2.5}]}, Order(1, ["x"]), [1, 2]]
    for payload in payloads:
        await template.convert_and_send("q", payload)
    kinds: list[Any] = [str, str, bytes, dict, Order, list[int]]
    assert [await template.receive_and_convert("q", kind) for kind in kinds] == payloads
    assert await template.receive_and_convert("q") is None


async def test_qos_as_spring_has_it(template: JmsTemplate, oracle: dict[str, Any]) -> None:
    recorded = oracle["template-qos"]
    template.delivery_mode, template.priority = DeliveryMode.NON_PERSISTENT, 9
    template.time_to_live = 60.0

    async def sent(payload: object = "x") -> Message:
        await template.convert_and_send("q", payload)
        message = await template.receive("q")
        assert message is not None
        return message

    def headers(message: Message) -> dict[str, Any]:
        left = message.expiration - message.timestamp if message.expiration else "0"
        return {"JMSDeliveryMode": message.delivery_mode, "JMSPriority": message.priority,
                "JMSExpiration": "now + about 60000" if left == 60000 else left}  # fmt: skip

    assert headers(await sent()) == recorded["values set, explicitQosEnabled=false"]
    template.explicit_qos_enabled = True
    assert headers(await sent()) == recorded["values set, explicitQosEnabled=true"]
    template.message_id_enabled = template.message_timestamp_enabled = False
    without = await sent()
    expected = recorded["message id and timestamp disabled, ttl 60000 (ActiveMQ 5.x)"]
    assert {"hasMessageId": without.message_id is not None, "timestamp": without.timestamp,
            "expiration": without.expiration} == expected  # fmt: skip
    template.message_id_enabled = template.message_timestamp_enabled = True
    template.explicit_qos_enabled = False
    own = TextMessage("own")
    own.priority, own.delivery_mode, own.expiration = 9, DeliveryMode.NON_PERSISTENT, 5
    title = "priority, mode and expiration set on the message itself are overwritten"
    assert headers(await sent(own)) == recorded[title]
    template.receive_timeout = 0
    assert await template.receive("q") is recorded["RECEIVE_TIMEOUT_NO_WAIT"]["result"] is None
    assert await template.send_and_receive("q", lambda s: s.create_text_message("?")) is None
    await template.receive("q")
    for text in ("a", "b"):
        await template.convert_and_send(
            "q", text, post_processor=partial(_with_property, text=text)
        )
    chosen = await template.receive_selected_and_convert("q", "name = 'b'")
    assert chosen == recorded["receiveSelectedAndConvert"] == "b"
    assert len(await texts(template, "q")) == recorded["browse"] == 1
    assert len(await texts(template, "q")) == recorded["browse does not remove"] == 1
    with pytest.raises(InvalidSelectorException):
        await template.receive_selected("q", "a ==")
    with pytest.raises(IllegalStateException):
        await template.receive()


def _with_property(message: Message, text: str) -> Message:
    message.properties["name"] = text
    return message


@pytest.mark.parametrize("response_queue", [None, "replies"])
async def test_request_and_reply(
    factory: ConnectionFactory, template: JmsTemplate, response_queue: str | None
) -> None:
    service = JmsTemplate(factory)

    async def serve() -> None:
        for _ in range(3):
            request = await service.receive("ask")
            assert isinstance(request, TextMessage)
            assert request.reply_to is not None
            reply = TextMessage(f"re: {request.text}")
            reply.correlation_id = request.correlation_id or request.message_id
            await service.convert_and_send(request.reply_to, reply)

    answers = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        for number in range(3):

            def create(session: Any, number: int = number) -> Message:
                message: Message = session.create_text_message(str(number))
                return message

            reply = await template.send_and_receive("ask", create, response_queue=response_queue)
            assert isinstance(reply, TextMessage)
            answers.append(reply.text)
    assert answers == ["re: 0", "re: 1", "re: 2"]


def caching_without_consumers(factory: ConnectionFactory) -> CachingConnectionFactory:
    return CachingConnectionFactory(factory, cache_consumers=False)


@pytest.mark.parametrize("make", [SingleConnectionFactory, caching_without_consumers])
async def test_factories_that_share(factory: ConnectionFactory, make: Any) -> None:
    async with make(factory) as shared:
        template = JmsTemplate(shared, receive_timeout=1.0)
        transacted = JmsTemplate(shared, receive_timeout=1.0, session_transacted=True)
        client = JmsTemplate(
            shared, receive_timeout=1.0, session_acknowledge_mode=AcknowledgeMode.CLIENT
        )
        for sender in (template, transacted, client):
            for receiver in (transacted, client, template):
                await sender.convert_and_send("q", "x")
                assert await receiver.receive_and_convert("q") == "x"
        template.receive_timeout = 0
        await template.send_and_receive("q", lambda s: s.create_text_message("?"))
        await template.receive("q")
    assert await JmsTemplate(factory, receive_timeout=0.1).receive("q") is None


@pytest.mark.fact("spring-jms 3.2.6")
async def test_a_cached_consumer_fetches_messages_without_a_listener(
    factory: ConnectionFactory, template: JmsTemplate
) -> None:
    for cache_consumers, left in ((True, None), (False, "two")):
        async with CachingConnectionFactory(factory, cache_consumers=cache_consumers) as caching:
            for text in ("one", "two"):
                await template.convert_and_send("q", text)
            connection = await caching.create_connection()
            await connection.start()
            session = await connection.create_session()
            consumer = await session.create_consumer(Queue("q"))
            message = await consumer.receive(1.0)
            assert isinstance(message, TextMessage)
            assert message.text == "one"
            await consumer.close()
            assert await template.receive_and_convert("q") == left
        if left is None:  # the end of the cache gives it back
            assert await template.receive_and_convert("q") == "two"


async def test_a_cached_transacted_session_that_is_left_open(factory: ConnectionFactory) -> None:
    async with CachingConnectionFactory(factory) as caching:
        connection = await caching.create_connection()
        session = await connection.create_session(transacted=True)
        producer = await session.create_producer(session.create_queue("q"))
        await producer.send(session.create_text_message("lost"))
        await session.close()
        session = await connection.create_session(transacted=True)
        producer = await session.create_producer(session.create_queue("q"))
        await producer.send(session.create_text_message("kept"))
        await session.commit()
        await session.close()
        assert await texts(JmsTemplate(caching), "q") == ["kept"]


@pytest.mark.fact(
    "jms-api 5/JMSDestination", "jms-api 5/JMSDeliveryMode", "jms-api 5/JMSExpiration",
    "jms-api 5/JMSPriority", "jms-api 5/JMSMessageID", "jms-api 5/JMSTimestamp",
    "jms-api 5/JMSCorrelationID", "jms-api 5/JMSReplyTo", "jms-api 5/JMSType",
    "jms-api 5/JMSRedelivered",
)  # fmt: skip
async def test_header_fields(factory: ConnectionFactory) -> None:
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session(transacted=True)
        queue, replies = session.create_queue("q"), session.create_queue("replies")
        producer = await session.create_producer(queue)
        producer.time_to_live = 60.0
        message = session.create_text_message("x")
        message.destination, message.delivery_mode = replies, DeliveryMode.NON_PERSISTENT
        message.expiration, message.priority, message.timestamp = 1, 9, 1
        message.message_id = "mine"
        message.redelivered = True
        message.correlation_id_bytes = "é".encode()
        assert message.correlation_id == "é"
        message.reply_to, message.type = replies, "t"
        await producer.send(message)
        plain = session.create_text_message("y")
        await producer.send(plain, priority=9, time_to_live=0.0)
        await session.commit()
        assert message.destination == queue
        assert (message.delivery_mode, message.priority) == (DeliveryMode.PERSISTENT, 4)
        assert abs(message.timestamp - _clock.time_ms()) < 60_000
        assert message.expiration == message.timestamp + 60_000
        assert (message.message_id or "").startswith("ID:")
        assert message.message_id != plain.message_id
        consumer = await session.create_consumer(queue)
        for expected in ((False, 1), (True, 2)):
            first, second = await consumer.receive(5.0), await consumer.receive(5.0)
            assert first is not None
            assert second is not None
            for name in ("message_id", "destination", "delivery_mode", "priority", "timestamp",
                         "expiration", "correlation_id", "reply_to", "type"):  # fmt: skip
                assert getattr(first, name) == getattr(message, name), name
            assert first.correlation_id_bytes == "é".encode()
            assert (second.priority, second.expiration) == (9, 0)
            assert (second.reply_to, second.correlation_id, second.type) == (None, None, None)
            assert second.correlation_id_bytes is None
            assert (first.redelivered, first.delivery_count) == expected
            first.type = "receivers may set any header"
            await session.rollback()
        assert second is not None
        assert "JMSDeliveryTime" not in second.properties


@pytest.mark.fact("jms-api 6.7")
async def test_the_sender_may_change_its_message_after_the_send(factory: ConnectionFactory) -> None:
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        queue = session.create_queue("q")
        producer, consumer = (
            await session.create_producer(queue),
            await session.create_consumer(queue),
        )
        message = session.create_text_message("sent")
        message.properties["p"] = "sent"
        await producer.send(message)
        message.text = "changed"
        message.properties["p"] = "changed"
        got = await consumer.receive(1.0)
        assert isinstance(got, TextMessage)
        assert (got.text, got.properties["p"]) == ("sent", "sent")
        writes: tuple[Callable[[], object], ...] = (
            lambda: setattr(got, "text", "x"),
            lambda: got.properties.set_int("p", 1),
        )
        for write in writes:
            with pytest.raises(Exception, match="read-only"):
                write()
        got.clear_properties()
        got.properties["p"] = 1
    unsafe = ConnectionFactory(f"{factory.uri}", copy_message_on_send=False)
    async with await unsafe.create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer(queue)
        message = session.create_text_message("shared")
        await producer.send(message)
        with pytest.raises(Exception, match="read-only"):
            message.text = "changed"
        with pytest.raises(Exception, match="read-only"):
            message.properties["p"] = 1


async def test_bodies_of_every_kind(factory: ConnectionFactory) -> None:
    for compressed in (False, True):
        sender = JmsTemplate(ConnectionFactory(f"{factory.uri}", use_compression=compressed))
        receiver = JmsTemplate(factory, receive_timeout=1.0)
        bodies: tuple[tuple[Message, Callable[[Any], object]], ...] = (
            (TextMessage("é\0\U0001f600" * 100), lambda m: m.text),
            (BytesMessage(bytes(range(256)) * 8), lambda m: m.data),
            (MapMessage({"a": 1, "b": b"x"}), dict),
            (StreamMessage([1, "a", b"x", None]), lambda m: m.values),
            (ObjectMessage(b"\xac\xed\0\5t\0\1x"), lambda m: m.data),
            (Message(), lambda m: m.get_body(object)),
        )
        for message, read in bodies:
            message.properties.update({"i": 1, "s": "é", "list": [1, {"a": True}]})
            await sender.convert_and_send("q", message)
            got = await receiver.receive("q")
            assert type(got) is type(message)
            assert read(got) == read(message)
            assert dict(got.properties) == dict(message.properties)


@pytest.mark.fact("spring-jms 4.13")
async def test_one_template_for_many_tasks(template: JmsTemplate) -> None:
    received: list[str] = []

    async def work(number: int) -> None:
        for _ in range(5):
            await template.convert_and_send(f"q{number}", f"{number}")
            received.append(await template.receive_and_convert(f"q{number}"))
            assert received[-1] is not None

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(work, number)
    assert sorted(received) == sorted(str(number) for number in range(10) for _ in range(5))
