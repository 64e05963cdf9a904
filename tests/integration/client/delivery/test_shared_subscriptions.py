"""Shared subscriptions of JMS 2.0 on virtual topics (jms-api 4.9)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.pool import PooledConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import InvalidDestinationException, JMSException, UnsupportedOperationException
from pyjms.jms.destination import Queue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import BrokerId
from tests.kit.clients.embedded import Client

NEWS = Topic("VirtualTopic.news")


async def texts(client: Client, *consumers: Any) -> list[list[str | None]]:
    return [[client.text(m) for m in await client.receive_all(c)] for c in consumers]


@pytest.mark.fact("jms-api 4.9", "jms-api 1.7")
@pytest.mark.parametrize("kind", ["shared", "shared_durable"])
async def test_the_consumers_of_a_subscription_share_its_messages(
    client: Client, kind: str
) -> None:
    consumers = []
    for name in ("a", "a", "b"):  # each on a connection of its own, without a client id
        session = await client.session(query="jms.prefetchPolicy.queuePrefetch=1")
        consumers.append(await getattr(session, f"create_{kind}_consumer")(NEWS, name))
    await client.send(NEWS, "1", "2", "3", "4")
    first, second, other = await texts(client, *consumers)
    assert sorted(map(str, [*first, *second])) == ["1", "2", "3", "4"]
    assert first
    assert second
    assert other == ["1", "2", "3", "4"]


@pytest.mark.fact("jms-api 4.9")
@pytest.mark.parametrize("how", ["consumer", "session", "connection"])
async def test_a_shared_subscription_ends_with_its_last_consumer(client: Client, how: str) -> None:
    last = await client.connect()
    session = await last.create_session()
    consumer = await session.create_shared_consumer(NEWS, "a")
    async with await client.factory().create_connection() as connection:
        another = await connection.create_session()
        await another.create_shared_consumer(NEWS, "a")  # not started: it gets nothing
        await client.send(NEWS, "kept", "kept")
    assert await texts(client, consumer) == [["kept", "kept"]]
    await client.send(NEWS, "lost")
    await {"consumer": consumer, "session": session, "connection": last}[how].close()
    await client.send(NEWS, "lost")
    again = await (await client.session()).create_shared_consumer(NEWS, "a")
    await client.send(NEWS, "new")
    assert await texts(client, again) == [["new"]]


@pytest.mark.fact("jms-api 4.9")
async def test_a_message_that_is_not_committed_keeps_the_subscription_until_the_end(
    client: Client,
) -> None:
    session = await client.session(AcknowledgeMode.TRANSACTED)
    consumer = await session.create_shared_consumer(NEWS, "a")
    await client.send(NEWS, "x")
    assert client.text(await consumer.receive(1.0)) == "x"
    await consumer.close()
    await session.commit()
    await session.close()
    assert await client.left("Consumer.a.VirtualTopic.news") == []
    again = await (await client.session()).create_shared_consumer(NEWS, "a")
    assert await texts(client, again) == [[]]


@pytest.mark.fact("jms-api 4.9")
async def test_a_shared_durable_subscription_survives_and_is_ended_by_unsubscribe(
    client: Client,
) -> None:
    connection = await client.connect()
    session = await connection.create_session()
    consumer = await session.create_shared_durable_consumer(NEWS, "a")
    with pytest.raises(JMSException, match="active"):
        await session.unsubscribe("a")
    await consumer.close()
    await client.send(NEWS, "kept")
    consumer = await session.create_shared_durable_consumer(NEWS, "a")
    assert await texts(client, consumer) == [["kept"]]
    await consumer.close()
    await client.send(NEWS, "unsubscribed")
    await session.unsubscribe("a")
    with pytest.raises(InvalidDestinationException):
        await session.unsubscribe("a")
    consumer = await session.create_shared_durable_consumer(NEWS, "a")
    assert await texts(client, consumer) == [[]]


@pytest.mark.fact("jms-api 1.7")
async def test_the_client_id_is_part_of_a_subscription(client: Client) -> None:
    sessions = []
    for client_id in ("one.a", "two"):
        connection = await client.connect(start=False)
        await connection.set_client_id(client_id)
        await connection.start()
        sessions.append(await connection.create_session())
    consumers = [await s.create_shared_consumer(NEWS, "name.with dots") for s in sessions]
    assert consumers[0].destination == Queue("Consumer.one%2Ea:name%2Ewith dots.VirtualTopic.news")
    await client.send(NEWS, "x")
    assert await texts(client, *consumers) == [["x"], ["x"]]


@pytest.mark.fact(
    "jms-api 4.9",
    "jms-api 14/shared subscriptions, delivery delay, CompletionListener, receiveBody",
)
async def test_what_cannot_be_shared_names_the_alternative(client: Client) -> None:
    session = await client.session()
    for create in (session.create_shared_consumer, session.create_shared_durable_consumer):
        with pytest.raises(UnsupportedOperationException, match=r"topic VirtualTopic\.news;"):
            await create(Topic("news"), "a")
        with pytest.raises(UnsupportedOperationException, match="need a virtual topic"):
            await create(Topic("VirtualTopic.>"), "a")
        with pytest.raises(UnsupportedOperationException, match="selectorAware"):
            await create(NEWS, "a", "n = 1")
        for wrong in (Queue("q"), TemporaryTopic("ID:1"), None):
            with pytest.raises(InvalidDestinationException):
                await create(wrong, "a")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="cannot be None or empty"):
            await create(NEWS, "")
    session.connection.broker_id = BrokerId("7c1f9c5e-55d3-11ee-8c99")
    with pytest.raises(UnsupportedOperationException, match="address::queue"):
        await session.create_shared_consumer(NEWS, "a")


@pytest.mark.parametrize("kind", [CachingConnectionFactory, PooledConnectionFactory])
async def test_shared_consumers_of_caches_pools_and_contexts(client: Client, kind: Any) -> None:
    async with kind(client.factory()) as factory, await factory.create_context() as context:
        shared = await context.create_shared_consumer(NEWS, "a")
        durable = await context.create_shared_durable_consumer(NEWS, "b")
        await context.create_producer().send(NEWS, "x")
        assert await shared.receive_body(str, 1.0) == "x"
        assert await durable.receive_body(str, 1.0) == "x"
        await durable.close()
        await shared.close()
        await context.unsubscribe("b")
