"""The simplified API of JMS 2.0 (jms-api 11), on factories of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import pyjms
from pyjms.aio import (
    AcknowledgeMode,
    CachingConnectionFactory,
    ConnectionFailedException,
    DefaultMessageConverter,
    DeliveryMode,
    IllegalStateException,
    InvalidDestinationException,
    JMSConsumer,
    JMSContext,
    JMSException,
    JMSProducer,
    MessageFormatException,
    PooledConnectionFactory,
    Queue,
    SingleConnectionFactory,
    TemporaryQueue,
    TextMessage,
    Topic,
    UserCredentialsConnectionFactoryAdapter,
)
from pyjms.errors import MessageNotWriteableException
from pyjms.jms.message import Message
from tests.kit.clients.embedded import Client
from tests.kit.values import present

Q = Queue("q")


class Order(BaseModel):
    id: int


KINDS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda factory: factory,
    "single": SingleConnectionFactory,
    "caching": lambda factory: CachingConnectionFactory(factory, cache_consumers=True),
    "pooled": PooledConnectionFactory,
    "credentials": UserCredentialsConnectionFactoryAdapter,
}


@pytest.fixture(params=KINDS)
async def factory(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    made = KINDS[request.param](client.factory())
    async with AsyncExitStack() as stack:
        if hasattr(made, "__aexit__"):
            await stack.enter_async_context(made)
        yield made


@pytest.mark.fact("jms-api 11.1", "jms-api 11.3", "jms-api 11.6")
async def test_a_context_sends_and_receives(factory: Any) -> None:
    async with await factory.create_context() as context:
        assert isinstance(context, JMSContext)
        assert (context.session_mode, context.transacted) == (AcknowledgeMode.AUTO, False)
        consumer = await context.create_consumer(context.create_queue("q"))  # starts the connection
        assert isinstance(consumer, JMSConsumer)
        producer = context.create_producer()
        for body in ("text", b"bytes", {"n": 1}, None, TextMessage("message")):
            assert await producer.send(Q, body) is producer
        assert await consumer.receive_body(str, 1.0) == "text"
        assert await consumer.receive_body(bytes, 1.0) == b"bytes"
        assert await consumer.receive_body(dict, 1.0) == {"n": 1}
        empty = await consumer.receive(1.0)
        assert type(empty) is Message
        assert await consumer.receive_body(str, 1.0) == "message"
        assert await consumer.receive_body(str, 0.2) is None
        assert await consumer.receive_body_no_wait(str) is None
        assert await consumer.receive_no_wait() is None
        await consumer.close()
        await consumer.close()
    await context.close()


@pytest.mark.fact("jms-api 11.1", "jms-api 11.2", "jms-api 11.6")
async def test_the_last_context_closes_the_connection(client: Client) -> None:
    first = await client.factory().create_context()
    connection = first.connection
    second = await first.create_context(AcknowledgeMode.TRANSACTED)
    assert (second.transacted, second.connection) == (True, connection)
    await first.close()
    await first.close()
    with pytest.raises(IllegalStateException, match="The context is closed"):
        first.create_producer()
    with pytest.raises(IllegalStateException, match="The context is closed"):
        await first.create_context(AcknowledgeMode.AUTO)
    with pytest.raises(IllegalStateException, match="The context is closed"):
        await first.create_consumer(Q)
    await second.create_producer().send(Q, "x")
    await second.commit()
    await second.close()
    with pytest.raises(IllegalStateException, match="closed"):
        await connection.start()
    assert await client.left("q") == ["x"]


@pytest.mark.fact("jms-api 11.2")
def test_there_are_no_unchecked_copies_of_the_exceptions() -> None:
    # all exceptions are unchecked in Python: one tree serves both APIs
    assert [name for name in pyjms.__all__ if "RuntimeException" in name] == []


@pytest.mark.fact("jms-api 11.1")
async def test_without_auto_start_a_context_has_to_be_started(client: Client) -> None:
    await client.send("q", "x")
    async with await client.factory().create_context() as context:
        assert context.auto_start
        context.auto_start = False
        consumer = await context.create_consumer(Q)
        assert await consumer.receive(0.5) is None
        await context.start()
        assert await consumer.receive_body(str, 1.0) == "x"
        await context.stop()
        await client.send("q", "y")
        assert await consumer.receive(0.5) is None


@pytest.mark.fact("jms-api 11.1")
async def test_credentials_and_modes_of_a_context(client: Client) -> None:
    factory = client.factory()
    async with await factory.create_context("user", "secret", AcknowledgeMode.CLIENT) as context:
        assert context.session_mode is AcknowledgeMode.CLIENT
        assert "secret" not in repr(context)
    with pytest.raises(TypeError, match=r"create_context\(session_mode=...\)"):
        await factory.create_context(AcknowledgeMode.CLIENT)  # type: ignore[arg-type]
    with pytest.raises(JMSException, match="invalid session mode: 7"):
        await factory.create_context(session_mode=7)
    async with CachingConnectionFactory(factory) as caching:
        with pytest.raises(IllegalStateException, match="custom username"):
            await caching.create_context("user", "secret")


async def test_the_client_id_comes_before_the_first_use(client: Client) -> None:
    async with await client.factory().create_context() as context:
        await context.set_client_id("me")
        assert context.client_id == "me"
        consumer = await context.create_durable_consumer(Topic("t"), "news")
        await consumer.close()
        await context.create_producer().send(Topic("t"), "kept")
        consumer = await context.create_durable_consumer(Topic("t"), "news")
        assert await consumer.receive_body(str, 1.0) == "kept"
        with pytest.raises(IllegalStateException):
            await context.set_client_id("another")
        await consumer.close()
        await context.unsubscribe("news")
        with pytest.raises(InvalidDestinationException):
            await context.unsubscribe("news")


@pytest.mark.fact("jms-api 11.3")
async def test_settings_of_a_producer_are_chained_and_apply_to_every_message(
    client: Client,
) -> None:
    async with await client.factory().create_context() as context:
        consumer = await context.create_consumer(Q)
        producer = (
            context.create_producer()
            .set_delivery_mode(DeliveryMode.NON_PERSISTENT)
            .set_priority(7)
            .set_time_to_live(60)
            .set_delivery_delay(2)
            .set_correlation_id("c")
            .set_reply_to(Queue("replies"))
            .set_type("t")
            .set_property("n", 1)
            .set_property("JMSXGroupID", "g")
        )
        assert isinstance(producer, JMSProducer)
        own = context.create_text_message("x")
        own.correlation_id = own.type = "own"
        own.properties["n"] = 2
        own.properties["other"] = 3
        await producer.send(Q, own)
        got = await consumer.receive(5.0)
        assert got is not None
        assert (got.delivery_mode, got.priority) == (1, 7)
        assert got is not None
        assert got.delivery_time == own.delivery_time == own.timestamp + 2000
        assert got is not None
        assert got.expiration >= own.expiration + 2000  # the scheduler shifts it by the delay
        assert got is not None
        assert (got.correlation_id, got.reply_to, got.type) == ("c", Queue("replies"), "t")
        assert got is not None
        assert (got.properties["n"], got.properties["other"], got.group_id) == (1, 3, "g")
        assert (producer.delivery_mode, producer.priority, producer.time_to_live) == (1, 7, 60)
        assert (producer.delivery_delay, producer.correlation_id, producer.type) == (2, "c", "t")
        assert producer.reply_to == Queue("replies")
        assert producer.property_exists("n")
        assert producer.properties.get_int("n") == 1
        producer.clear_properties().set_delivery_delay(0).set_disable_message_timestamp(True)
        producer.set_disable_message_id(True).set_correlation_id(None)
        assert not producer.property_exists("n")
        await producer.send(Q, "y")
        got = await consumer.receive(1.0)
        assert got is not None
        assert (got.timestamp, got.correlation_id, got.group_id, got.type) == (0, None, None, "t")
        assert got is not None
        assert "n" not in got.properties
        await context.create_producer().send(Q, "z")  # the settings are not the other one's
        got = await consumer.receive(1.0)
        assert got is not None
        assert got.timestamp > 0
        assert got is not None
        assert (got.priority, got.delivery_mode, got.type) == (4, 2, None)


@pytest.mark.fact("jms-api 11.3")
async def test_what_a_producer_refuses(client: Client) -> None:
    async with await client.factory().create_context() as context:
        producer = context.create_producer()
        for call, value in (
            (producer.set_priority, 10),
            (producer.set_delivery_mode, 3),
            (producer.set_time_to_live, -1),
            (producer.set_delivery_delay, -1),
        ):
            with pytest.raises(IllegalStateException):
                call(value)
        with pytest.raises(ValueError, match="name cannot be None or empty"):
            producer.set_property("", 1)
        with pytest.raises(MessageFormatException):
            producer.set_property("n", object())
        with pytest.raises(MessageFormatException, match="message_converter"):
            await producer.send(Q, Order(id=1))
        with pytest.raises(InvalidDestinationException):
            await producer.send("q", "x")  # type: ignore[arg-type]
        await producer.send(Q, "x")
        consumer = await context.create_consumer(Q)
        received = await consumer.receive(1.0)
        with pytest.raises(MessageNotWriteableException):
            await producer.set_property("n", 1).send(Q, received)
        assert received is not None
        received.clear_properties()
        await producer.send(Q, received)
        assert present(await consumer.receive(1.0)).properties["n"] == 1


async def test_a_converter_takes_other_bodies(client: Client) -> None:
    converter = DefaultMessageConverter()
    async with await client.factory().create_context(message_converter=converter) as context:
        consumer = await context.create_consumer(Q)
        await context.create_producer().send(Q, Order(id=1))
        assert await consumer.receive_body(Order, 1.0) == Order(id=1)
        await context.create_producer().send(Q, Order(id=2))
        assert await consumer.receive_body(str, 1.0) == '{"id":2}'


@pytest.mark.fact("jms-api 11.4")
@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
async def test_a_body_of_another_type_stays_first_in_line(
    client: Client, mode: AcknowledgeMode
) -> None:
    await client.send("q", "first", "second")
    context = await client.factory().create_context(session_mode=mode)
    consumer = await context.create_consumer(Q)
    for _ in range(3):
        with pytest.raises(MessageFormatException, match="not a dict"):
            await consumer.receive_body(dict, 1.0)
    message = await consumer.receive(1.0)
    assert client.delivery(message) == "first#1"  # that is no redelivery
    with pytest.raises(MessageFormatException):
        await consumer.receive_body(bytes, 1.0)
    await context.close()
    assert await client.left("q") == ["second"]  # it was not acknowledged


@pytest.mark.fact("jms-api 11.4")
@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED])
async def test_a_body_of_another_type_counts_as_delivered(
    client: Client, mode: AcknowledgeMode
) -> None:
    await client.send("q", "first", "second")
    async with await client.factory().create_context(session_mode=mode) as context:
        consumer = await context.create_consumer(Q)
        with pytest.raises(MessageFormatException):
            await consumer.receive_body(dict, 1.0)
        assert await consumer.receive_body(str, 1.0) == "second"
        await (context.commit() if context.transacted else context.acknowledge())
    assert await client.left("q") == []


@pytest.mark.fact("jms-api 11.4")
async def test_bodies_that_cannot_be_received(client: Client) -> None:
    async with await client.factory().create_context() as context:
        consumer = await context.create_consumer(Q)
        for message in (context.create_message(), context.create_stream_message()):
            await context.create_producer().send(Q, message)
            with pytest.raises(MessageFormatException, match="receive_body cannot be used"):
                await consumer.receive_body(str, 1.0)
            assert type(await consumer.receive(1.0)) is type(message)


async def test_a_pulled_body_of_another_type_stays_first_in_line(client: Client) -> None:
    await client.send("q", "x")
    async with await client.factory().create_context() as context:
        consumer = await context.create_consumer(Queue("q?consumer.prefetchSize=0"))
        with pytest.raises(MessageFormatException):
            await consumer.receive_body(dict, 1.0)
        assert await consumer.receive_body(str, 1.0) == "x"


@pytest.mark.fact("jms-api 11.5")
async def test_acknowledge_covers_all_messages_of_a_client_context(factory: Any) -> None:
    async with await factory.create_context(session_mode=AcknowledgeMode.CLIENT) as context:
        await context.acknowledge()
        producer = context.create_producer()
        consumers = [await context.create_consumer(Queue(name)) for name in ("q", "other")]
        for name in ("q", "q", "other"):
            await producer.send(Queue(name), "x")
        for consumer in (consumers[1], consumers[0]):
            assert await consumer.receive_body(str, 1.0) == "x"
        await context.acknowledge()
        assert await consumers[0].receive_body(str, 1.0) == "x"
        await context.recover()
        again = await consumers[0].receive(5.0)
        assert (again.redelivered, again.delivery_count) == (True, 2)
        await context.acknowledge()
        assert [await consumer.receive(0.2) for consumer in consumers] == [None, None]


@pytest.mark.fact("jms-api 11.5")
async def test_transactions_of_a_context(factory: Any) -> None:
    mode = AcknowledgeMode.TRANSACTED
    async with await factory.create_context(session_mode=mode) as context:
        producer = context.create_producer()
        consumer = await context.create_consumer(Q)
        await producer.send(Q, "rolled back")
        await context.rollback()
        await producer.send(Q, "committed")
        assert await consumer.receive(0.2) is None
        await context.commit()
        assert await consumer.receive_body(str, 1.0) == "committed"
        await context.acknowledge()  # ignored
        await context.rollback()
        assert (await consumer.receive(5.0)).redelivered
        await context.commit()
        with pytest.raises(IllegalStateException):
            await context.recover()
    async with await factory.create_context() as context:
        with pytest.raises(IllegalStateException):
            await context.commit()


async def test_a_listener_of_a_context(client: Client) -> None:
    async with await client.factory().create_context(session_mode=2) as context:
        got: list[str | None] = []
        done = anyio.Event()

        async def listen(message: Message) -> None:
            got.append(client.text(message))
            if len(got) == 2:
                await context.acknowledge()
                done.set()

        consumer = await context.create_consumer(Q, "a = 1")
        assert consumer.message_selector == "a = 1"
        await consumer.set_message_listener(listen)
        assert consumer.message_listener is listen
        producer = context.create_producer().set_property("a", 1)
        await producer.send(Q, "x")
        await producer.send(Q, "y")
        await done.wait()
        await consumer.set_message_listener(None)
        assert consumer.message_listener is None
    assert (got, await client.left("q")) == (["x", "y"], [])  # type: ignore[unreachable]


async def test_browsers_temporary_destinations_and_sessions_of_a_context(client: Client) -> None:
    async with await client.factory().create_context() as context:
        await context.create_producer().send(Q, "x")
        browser = await context.create_browser(Q)
        assert [client.text(m) async for m in browser] == ["x"]
        replies = await context.create_temporary_queue()
        assert context.create_queue(replies.physical_name) == replies
        assert isinstance(context.create_queue("ID:x"), TemporaryQueue)
        await context.delete_temporary(replies)
        news = await context.create_temporary_topic()
        assert context.create_topic(news.physical_name) == news
        assert (await context.session()).acknowledge_mode is AcknowledgeMode.AUTO
        assert context.metadata.jms_provider_name == "ActiveMQ"
        consumer = await context.create_consumer(Q)
        assert [client.text(m) for m in [await anext(aiter(consumer))]] == ["x"]


@pytest.mark.fact("jms-api 3.11", "jms-api 11.3")
async def test_a_producer_sends_asynchronously(client: Client) -> None:
    calls: list[str | None] = []

    class Listener:
        async def on_completion(self, message: Message) -> None:
            calls.append(client.text(message))
            with pytest.raises(IllegalStateException, match="completion listener"):
                await context.close()
            calls.append("not closed")

        def on_exception(self, message: Message, error: JMSException) -> None:
            raise AssertionError(error)

    context = await client.factory().create_context()
    producer = context.create_producer().set_async(Listener())
    await producer.send(Q, "x")
    assert calls == []
    await context.close()
    assert calls == ["x", "not closed"]
    assert await client.left("q") == ["x"]


async def test_a_failed_connection_of_a_context(client: Client) -> None:
    errors: list[JMSException] = []
    context = await client.factory().create_context()
    context.exception_listener = errors.append
    assert context.exception_listener == errors.append
    await context.start()
    await client.broker.stop()
    await client.settle()
    with pytest.raises(ConnectionFailedException):
        await context.create_producer().send(Q, "x")
    await context.close()
    assert len(errors) == 1
