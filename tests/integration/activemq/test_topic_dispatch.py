"""Topics with several subscribers of one connection, and without a connection's own messages."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Topic
from tests.kit.brokers.comparison import OpenConnection

pytestmark = pytest.mark.activemq


async def send(session: Any, topic: Any, *texts: str) -> None:
    producer = await session.create_producer(topic)
    for text in texts:
        await producer.send(session.create_text_message(text))
    await producer.close()


async def take(consumer: Any, count: int) -> list[str]:
    return [(await consumer.receive(5)).text for _ in range(count)]


@pytest.mark.fact("activemq-broker T1", "activemq-broker T3")
@pytest.mark.parametrize("same_session", [True, False])
async def test_each_subscriber_of_a_connection_gets_its_own_copy(
    connect: OpenConnection, name: str, same_session: bool
) -> None:
    connection = await connect(client_id=name)
    first = await connection.create_session()
    second = first if same_session else await connection.create_session()
    topic = Topic(f"{name}.a")
    consumers = [
        await first.create_consumer(topic),
        await second.create_consumer(topic),
        await second.create_consumer(Topic(f"{name}.>")),
        await second.create_consumer(topic, "number = 1"),
        await first.create_durable_subscriber(topic, "d"),
        await second.create_durable_subscriber(Topic(f"{name}.*"), "e"),
    ]
    producer = await first.create_producer(topic)
    for number in range(3):
        message = first.create_text_message(str(number))
        message.properties["number"] = number
        await producer.send(message)
    for index, consumer in enumerate(consumers):
        expected = ["1"] if index == 3 else ["0", "1", "2"]
        assert await take(consumer, len(expected)) == expected
    await consumers[0].close()
    await send(first, topic, "3")
    for consumer in (*consumers[1:3], *consumers[4:]):
        assert await take(consumer, 1) == ["3"]


@pytest.mark.fact("activemq-broker T1")
async def test_a_full_subscriber_holds_up_no_other_of_its_connection(
    connect: OpenConnection, name: str
) -> None:
    connection = await connect()
    session = await connection.create_session()
    full = await session.create_consumer(Topic(f"{name}?consumer.prefetchSize=1"))
    quick = await session.create_consumer(Topic(name))
    sent = [str(number) for number in range(10)]
    await send(session, Topic(name), *sent)
    assert await take(quick, 10) == sent
    assert await take(full, 10) == sent


@pytest.mark.fact("activemq-broker T4")
async def test_a_durable_no_local_subscription_over_reconnects(
    connect: OpenConnection, name: str
) -> None:
    topic = Topic(name)
    me, other = await connect(client_id=name), await connect()
    session = await me.create_session()
    others = await other.create_session()
    consumer = await session.create_durable_subscriber(topic, "s", no_local=True)
    await send(session, topic, "own")
    await send(others, topic, "other")
    assert await take(consumer, 1) == ["other"]
    await consumer.close()
    await send(session, topic, "own, while nobody listens")
    await send(others, topic, "other, while nobody listens")
    await me.close()
    await send(others, topic, "other, while away")

    me = await connect(client_id=name)
    session = await me.create_session()
    consumer = await session.create_durable_subscriber(topic, "s", no_local=True)
    await send(session, topic, "own again")
    await send(others, topic, "end")
    found = []
    while "end" not in found:
        found += await take(consumer, 1)
    assert found == ["other, while nobody listens", "other, while away", "end"]
