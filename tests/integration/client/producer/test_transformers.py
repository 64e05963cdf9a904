"""Message transformers: ActiveMQ's MessageTransformer."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.pool import JmsPoolConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message, TextMessage
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.template.template import JmsTemplate
from tests.kit.clients.embedded import Client
from tests.kit.values import present

Q = Queue("q")


class Marking:
    """Replaces texts by `sent-by>text` and `text>received-by`."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.calls: list[tuple[Any, Any, Message]] = []

    def producer_transform(self, session: Any, producer: Any, message: Message) -> Message:
        self.calls.append((session, producer, message))
        assert isinstance(message, TextMessage)
        replacement: TextMessage = session.create_text_message(f"{self.name}>{message.text}")
        return replacement

    def consumer_transform(self, session: Any, consumer: Any, message: Message) -> Message:
        self.calls.append((session, consumer, message))
        assert isinstance(message, TextMessage)
        replacement: TextMessage = session.create_text_message(f"{message.text}>{self.name}")
        return replacement


class Unchanged:
    """Leaves messages unchanged."""

    def producer_transform(self, session: Any, producer: Any, message: Message) -> None:
        return None

    def consumer_transform(self, session: Any, consumer: Any, message: Message) -> None:
        return None


class Failing:
    """Fails a given number of times, then leaves messages unchanged."""

    def __init__(self, times: int) -> None:
        self.times = times

    def producer_transform(self, session: Any, producer: Any, message: Message) -> None:
        self._fail()

    def consumer_transform(self, session: Any, consumer: Any, message: Message) -> None:
        self._fail()

    def _fail(self) -> None:
        self.times -= 1
        if self.times >= 0:
            raise LookupError("no such code")


class Wrong:
    """Is written as coroutines."""

    async def producer_transform(self, session: Any, producer: Any, message: Message) -> Message:
        return message

    async def consumer_transform(self, session: Any, consumer: Any, message: Message) -> Message:
        return message


@pytest.mark.fact("activemq-edges N17")
async def test_the_replacement_is_sent_and_stamped(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    producer.transformer = Marking("p")
    message = session.create_text_message("x")
    await producer.send(message, priority=7)
    ((given_session, given_producer, given),) = producer.transformer.calls
    assert (given_session, given_producer, given) == (session, producer, message)
    assert message.message_id is None
    (received,) = await client.take(Q)
    assert isinstance(received, TextMessage)
    assert (received.text, received.priority, received.destination) == ("p>x", 7, Q)
    producer.transformer = Unchanged()
    await producer.send(message)
    assert message.message_id is not None
    producer.transformer = None  # type: ignore[unreachable]
    await producer.send(message)
    assert await client.left(Q) == ["x", "x"]


@pytest.mark.parametrize("how", ["receive", "receive_no_wait", "iteration", "pull", "listener"])
@pytest.mark.fact("activemq-edges N17")
async def test_the_replacement_is_delivered(client: Client, how: str) -> None:
    await client.send(Q, "x")
    session = await client.session()
    session.transformer = Marking("c")
    create = session.create_pull_consumer if how == "pull" else session.create_consumer
    consumer = await create(Q)
    if how == "listener":
        arrived, received = anyio.Event(), []

        def listen(message: Message) -> None:
            received.append(message)
            arrived.set()

        await consumer.set_message_listener(listen)
        await arrived.wait()
        (message,) = received
    elif how == "receive_no_wait":
        await client.settle()
        message = present(await consumer.receive_no_wait())
    else:
        message = present(await (anext(consumer) if how == "iteration" else consumer.receive(5.0)))
    assert client.text(message) == "x>c"
    ((given_session, given_consumer, given),) = session.transformer.calls
    assert (given_session, given_consumer) == (session, consumer)
    assert given.message_id is not None
    await session.close()
    assert await client.left(Q) == []


@pytest.mark.fact("activemq-edges N17")
async def test_each_object_takes_its_creators_transformer_and_may_have_its_own(
    client: Client,
) -> None:
    factory = client.factory()
    factory.transformer = of_factory = Marking("factory")
    async with await factory.create_connection() as connection:
        assert connection.transformer is of_factory
        factory.transformer = None
        first = await connection.create_session()
        connection.transformer = of_connection = Marking("connection")
        second = await connection.create_session()
        assert (first.transformer, second.transformer) == (of_factory, of_connection)
        producer, consumer = await second.create_producer(Q), await second.create_consumer(Q)
        second.transformer = None
        assert (producer.transformer, consumer.transformer) == (of_connection, of_connection)
        assert (await second.create_producer(Q)).transformer is None
        assert (await second.create_consumer(Queue("other"))).transformer is None
        consumer.transformer = Marking("own")
        await producer.send(second.create_text_message("x"))
        await connection.start()
        assert client.text(await consumer.receive(5.0)) == "connection>x>own"


@pytest.mark.parametrize("shared", [None, CachingConnectionFactory, JmsPoolConnectionFactory])
async def test_templates_and_contexts_use_the_factorys_transformer(
    client: Client, shared: Any
) -> None:
    target = ConnectionFactory(client.broker.url)
    target.transformer = Marking("f")
    factory: Any = target if shared is None else shared(target)
    if shared is CachingConnectionFactory:
        factory.cache_consumers = True
    template = JmsTemplate(factory, receive_timeout=5.0)
    await template.convert_and_send("q", "x")
    assert await template.receive_and_convert("q") == "f>x>f"
    async with await factory.create_context() as context:
        await context.create_producer().send(Q, "y")
        consumer = await context.create_consumer(Q)
        assert await consumer.receive_body(str, 5.0) == "f>y>f"
    if shared is not None:
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer, consumer = await session.create_producer(Q), await session.create_consumer(Q)
            for handle in (connection, session, producer, consumer):
                assert handle.transformer is target.transformer
                with pytest.raises(AttributeError, match="transformer"):
                    handle.transformer = None
        await (factory.destroy() if shared is CachingConnectionFactory else factory.stop())


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
async def test_the_replacement_acknowledges_the_message(
    client: Client, mode: AcknowledgeMode
) -> None:
    await client.send(Q, "a", "b")
    session = await client.session(mode)
    session.transformer = Marking("c")
    consumer = await session.create_consumer(Q)
    first, second = await client.receive_all(consumer)
    assert client.text(second) == "b>c"
    await first.acknowledge()
    await session.close()
    assert await client.left(Q) == ([] if mode == AcknowledgeMode.CLIENT else ["b"])


async def test_a_browser_shows_what_a_consumer_would_receive(client: Client) -> None:
    await client.send(Q, "a", "b")
    session = await client.session()
    session.transformer = Marking("c")
    browser = await session.create_browser(Q)
    assert [client.text(message) async for message in browser] == ["a>c", "b>c"]
    assert await client.left(Q) == ["a", "b"]


@pytest.mark.parametrize("timeout", [5.0, 0.0])
async def test_where_a_transformer_fails_nothing_is_sent_and_nothing_is_lost(
    client: Client, timeout: float
) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    message = session.create_text_message("x")
    producer.transformer = Failing(1)
    with pytest.raises(LookupError, match="no such code"):
        await producer.send(message)
    await producer.send(message)
    consumer = await session.create_consumer(Q)
    await client.settle()
    consumer.transformer = Failing(2)
    for _ in range(2):
        with pytest.raises(LookupError, match="no such code"):
            await consumer.receive(timeout)
    received = await consumer.receive(timeout)
    assert client.delivery(received) == "x#1"
    assert await consumer.receive_no_wait() is None


async def test_its_failure_before_a_listener_is_the_listeners(client: Client) -> None:
    await client.send(Q, "x")
    connection = await client.connect(start=False)
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Q)
    consumer.transformer = Failing(1)
    arrived, received = anyio.Event(), []

    def listen(message: Message) -> None:
        received.append(client.delivery(message))
        arrived.set()

    await consumer.set_message_listener(listen)
    await connection.start()
    await arrived.wait()
    assert received == ["x#2*"]
    assert connection.failure is None


async def test_a_transformer_of_coroutines_is_refused(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    producer.transformer = cast("Any", Wrong())
    message = session.create_text_message("x")
    refusal = "producer_transform of Wrong returned a coroutine: it must be a plain function"
    with pytest.raises(TypeError, match=refusal):
        await producer.send(message)
    producer.transformer = None
    await producer.send(message)
    consumer = await session.create_consumer(Q)
    consumer.transformer = cast("Any", Wrong())
    with pytest.raises(TypeError, match="consumer_transform of Wrong returned a coroutine"):
        await consumer.receive(5.0)
    consumer.transformer = None
    assert client.text(await consumer.receive(5.0)) == "x"


async def test_a_replacement_that_is_being_sent_is_not_sent_again(client: Client) -> None:
    class Same(Unchanged):
        message = TextMessage("same")

        def producer_transform(self, session: Any, producer: Any, message: Message) -> Any:
            return self.message

    class Outcomes:
        def __init__(self) -> None:
            self.sent: list[Message] = []

        def on_completion(self, message: Message) -> None:
            self.sent.append(message)

        def on_exception(self, message: Message, error: JMSException) -> None:
            raise AssertionError(error)

    session = await client.session()
    session.transformer = transformer = Same()
    producer, outcomes = await session.create_producer(Q), Outcomes()
    await producer.send(session.create_text_message("x"), completion_listener=outcomes)
    with pytest.raises(JMSException, match="being sent asynchronously"):
        await producer.send(session.create_text_message("y"), completion_listener=outcomes)
    await session.wait_for_completions()
    assert outcomes.sent == [transformer.message]


async def test_a_listener_container_handles_replacements(client: Client) -> None:
    factory = client.factory()
    factory.transformer = Marking("f")
    handled: list[str | None] = []
    done = anyio.Event()

    async def handle(message: Message) -> None:
        handled.append(client.text(message))
        if len(handled) == 2:
            done.set()

    container = DefaultMessageListenerContainer(
        factory, destination_name="q", message_listener=handle
    )
    await container.start()
    await client.send(Q, "a", "b")
    await done.wait()
    await container.shutdown()
    assert handled == ["a>f", "b>f"]
    assert await client.left(Q) == []
