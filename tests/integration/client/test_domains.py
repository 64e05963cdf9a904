"""The API of one domain each: queues, or topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest

from pyjms.aio import (
    AcknowledgeMode,
    CachingConnectionFactory,
    IllegalStateException,
    InvalidDestinationException,
    JmsPoolConnectionFactory,
    Queue,
    SingleConnectionFactory,
    Topic,
    UserCredentialsConnectionFactoryAdapter,
)
from pyjms.client.connection import ActiveMQConnection
from pyjms.connection import DelegatingConnectionFactory, TransactionAwareConnectionFactoryProxy
from pyjms.jms import (
    QueueConnection,
    QueueConnectionFactory,
    QueueReceiver,
    QueueRequestor,
    QueueSender,
    QueueSession,
    TopicConnection,
    TopicConnectionFactory,
    TopicPublisher,
    TopicRequestor,
    TopicSession,
    TopicSubscriber,
)
from tests.kit.clients.embedded import Client

Q = Queue("q")
T = Topic("t")

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda target: target,
    "single": SingleConnectionFactory,
    "caching": CachingConnectionFactory,
    "pooled": JmsPoolConnectionFactory,
    "credentials": UserCredentialsConnectionFactoryAdapter,
    "delegating": lambda target: DelegatingConnectionFactory(target, should_stop_connections=True),
    "transaction-aware": TransactionAwareConnectionFactoryProxy,
}


@pytest.fixture(params=WRAPPERS)
async def factory(request: pytest.FixtureRequest, client: Client) -> Any:
    wrapped = WRAPPERS[request.param](client.factory())
    yield wrapped
    if isinstance(wrapped, SingleConnectionFactory | JmsPoolConnectionFactory):
        await wrapped.stop()


async def test_queues_by_every_factory(client: Client, factory: Any) -> None:
    assert isinstance(factory, QueueConnectionFactory)
    async with await factory.create_queue_connection() as connection:
        assert isinstance(connection, QueueConnection)
        await connection.start()
        session = await connection.create_queue_session()
        assert isinstance(session, QueueSession)
        sender = await session.create_sender(Q)
        assert isinstance(sender, QueueSender)
        assert sender.queue == Q
        sender.priority = 7
        await sender.send(session.create_text_message("a"))
        anywhere = await session.create_sender()
        assert anywhere.queue is None
        await anywhere.send(Q, session.create_text_message("b"), priority=2)
        browser = await session.create_browser(Q)
        assert [client.text(message) async for message in browser] == ["a", "b"]
        receiver = await session.create_receiver(Q, "JMSPriority > 5")
        assert isinstance(receiver, QueueReceiver)
        assert (receiver.queue, receiver.message_selector) == (Q, "JMSPriority > 5")
        assert client.text(await receiver.receive(1.0)) == "a"
        assert await receiver.receive(0.1) is None
        await receiver.close()
        await session.close()
    assert await client.left(Q) == ["b"]


@pytest.mark.fact("jms-api 2.17")
async def test_topics_by_every_factory(client: Client, factory: Any) -> None:
    assert isinstance(factory, TopicConnectionFactory)
    async with await factory.create_topic_connection() as connection:
        assert isinstance(connection, TopicConnection)
        await connection.start()
        session = await connection.create_topic_session()
        assert isinstance(session, TopicSession)
        subscriber = await session.create_subscriber(T)
        remote = await session.create_subscriber(T, "n > 1", no_local=True)
        assert isinstance(subscriber, TopicSubscriber)
        assert (subscriber.topic, subscriber.no_local, remote.no_local) == (T, False, True)
        publisher = await session.create_publisher(T)
        assert isinstance(publisher, TopicPublisher)
        assert publisher.topic == T
        message = session.create_text_message("a")
        message.properties["n"] = 2
        await publisher.publish(message)
        await publisher.send(session.create_text_message("b"))
        assert [client.text(m) for m in await client.receive_all(subscriber)] == ["a", "b"]
        assert await remote.receive(0.1) is None
        await session.close()


async def test_a_subscriber_without_local_messages_has_those_of_others(client: Client) -> None:
    connection = await client.factory().create_topic_connection()
    client.opened.append(cast("ActiveMQConnection", connection))
    await connection.start()
    session = await connection.create_topic_session()
    subscriber = await session.create_subscriber(T, no_local=True)
    await (await session.create_publisher(T)).publish(session.create_text_message("own"))
    await client.send(T, "of another")
    assert [client.text(m) for m in await client.receive_all(subscriber)] == ["of another"]


@pytest.mark.fact("jms-api 2.17")
async def test_a_durable_subscriber_of_a_topic_session(client: Client) -> None:
    connection = await client.connect(query="jms.clientID=me")
    session = await connection.create_topic_session()
    subscriber = await session.create_durable_subscriber(T, "mail", "JMSPriority > 5")
    assert isinstance(subscriber, TopicSubscriber)
    assert (subscriber.topic, subscriber.no_local) == (T, False)
    await subscriber.close()
    await client.send(T, "low", priority=1)
    await client.send(T, "high", priority=9)
    again = await session.create_durable_subscriber(T, "mail", "JMSPriority > 5")
    assert [client.text(m) for m in await client.receive_all(again)] == ["high"]
    await again.close()
    await session.unsubscribe("mail")
    with pytest.raises(InvalidDestinationException):
        await session.unsubscribe("mail")


async def _call(session: Any, name: str, *arguments: Any) -> None:
    result = getattr(session, name)(*arguments)
    if isinstance(result, Awaitable):
        await result


@pytest.mark.fact("jms-api 2.17")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("create_topic", ["t"]),
        ("create_temporary_topic", []),
        ("create_durable_subscriber", [T, "s"]),
        ("create_shared_consumer", [T, "s"]),
        ("create_shared_durable_consumer", [T, "s"]),
        ("unsubscribe", ["s"]),
    ],
)
async def test_a_queue_session_refuses_what_is_of_topics(
    client: Client, name: str, arguments: Any
) -> None:
    session = await (await client.connect()).create_queue_session()
    with pytest.raises(IllegalStateException, match="Operation not supported by a QueueSession"):
        await _call(session, name, *arguments)


@pytest.mark.fact("jms-api 2.17")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("create_queue", ["q"]), ("create_temporary_queue", []), ("create_browser", [Q])],
)
async def test_a_topic_session_refuses_what_is_of_queues(
    client: Client, name: str, arguments: Any
) -> None:
    session = await (await client.connect()).create_topic_session()
    with pytest.raises(IllegalStateException, match="Operation not supported by a TopicSession"):
        await _call(session, name, *arguments)


@pytest.mark.parametrize("name", ["create_producer", "create_consumer", "create_pull_consumer"])
async def test_destinations_of_the_other_domain_are_refused(client: Client, name: str) -> None:
    connection = await client.connect()
    queues, topics = (
        await connection.create_queue_session(),
        await connection.create_topic_session(),
    )
    with pytest.raises(InvalidDestinationException, match="Topics are not supported by a Queue"):
        await getattr(queues, name)(T)
    with pytest.raises(InvalidDestinationException, match="Queues are not supported by a Topic"):
        await getattr(topics, name)(Q)
    await (await getattr(queues, name)(Q)).close()
    await (await getattr(topics, name)(T)).close()


async def test_sessions_of_a_domain_have_modes_listeners_and_transactions(client: Client) -> None:
    connection = await client.connect()
    session = await connection.create_queue_session(True)
    assert (session.transacted, session.acknowledge_mode) == (True, AcknowledgeMode.TRANSACTED)
    await (await session.create_sender(Q)).send(session.create_text_message("a"))
    await session.rollback()
    await (await session.create_sender(Q)).send(session.create_text_message("b"))
    await session.commit()
    receiver = await session.create_receiver(Q)
    announced: list[Any] = []
    await receiver.set_message_available_listener(announced.append)
    await client.settle()
    assert announced == [receiver]
    await receiver.set_message_available_listener(None)
    received: list[Any] = []
    await receiver.set_message_listener(received.append)
    await client.settle()
    assert [client.text(message) for message in received] == ["b"]
    await session.commit()
    await session.close()
    assert receiver.is_closed
    assert await client.left(Q) == []


async def _answering(client: Client, destination: Topic | Queue) -> Any:
    """Answer each request with its text in capitals, in a separate session."""
    session = await client.session()
    producer = await session.create_producer()

    async def answer(message: Any) -> None:
        if message.text != "silence":
            reply = session.create_text_message(message.text.upper())
            await producer.send(message.reply_to, reply)

    consumer = await session.create_consumer(destination)
    await consumer.set_message_listener(answer)
    return producer


@pytest.mark.parametrize("of_topics", [False, True])
async def test_a_requestor_waits_for_the_reply(client: Client, of_topics: bool) -> None:
    destination = T if of_topics else Q
    await _answering(client, destination)
    connection = await client.connect()
    requestor: Any
    if of_topics:
        requestor = TopicRequestor(await connection.create_topic_session(), T)
    else:
        requestor = QueueRequestor(await connection.create_queue_session(), Q)
    session = requestor.session
    places = set()
    for text in ("a", "b"):
        message = session.create_text_message(text)
        assert client.text(await requestor.request(message)) == text.upper()
        places.add(message.reply_to)
    assert len(places) == 1
    await requestor.close()
    await requestor.close()
    with pytest.raises(IllegalStateException):
        await requestor.request(message)


async def test_a_late_reply_is_not_that_of_the_next_request(client: Client) -> None:
    producer = await _answering(client, Q)
    session = await (await client.connect()).create_queue_session()
    requestor = QueueRequestor(session, Q)
    first = session.create_text_message("silence")
    assert await requestor.request(first, 0.5) is None
    await producer.send(first.reply_to, session.create_text_message("late"))
    assert client.text(await requestor.request(session.create_text_message("b"), 1.0)) == "B"
    second = session.create_text_message("silence")
    with anyio.move_on_after(0.5):
        await requestor.request(second)
    assert client.text(await requestor.request(session.create_text_message("c"), 1.0)) == "C"
    for unanswered in (first, second):
        with pytest.raises(InvalidDestinationException, match="deleted Destination"):
            await producer.send(unanswered.reply_to, session.create_text_message("too late"))


async def test_a_requestor_needs_a_destination_and_no_transaction(client: Client) -> None:
    connection = await client.connect()
    session = await connection.create_queue_session()
    with pytest.raises(InvalidDestinationException, match="needs a destination"):
        QueueRequestor(session, None)  # type: ignore[arg-type]
    transacted = await connection.create_topic_session(True)
    with pytest.raises(IllegalStateException, match="would wait for ever in a transacted session"):
        TopicRequestor(transacted, T)
