"""A policy that takes the prefetch of consumers, so that they must pull."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from pyjms.aio import ConnectionFactory
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import TextMessage
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConsumerControl
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import BrokerWith, RawClient

NO_PREFETCH = PolicyMap(
    [
        PolicyEntry(
            queue_prefetch=0,
            queue_browser_prefetch=0,
            topic_prefetch=0,
            durable_topic_prefetch=0,
        )
    ]
)


@pytest.fixture
async def broker() -> AsyncIterator[BrokerService]:
    async with BrokerService("pulled", persistent=False, policies=NO_PREFETCH) as service:
        yield service


@pytest.mark.fact("activemq-broker Q34")
@pytest.mark.parametrize(
    ("destination", "fields"),
    [
        (Queue("q"), {"prefetch_size": 1000}),
        (Queue("q"), {"prefetch_size": 500, "browser": True}),
        (Topic("t"), {"prefetch_size": 32767}),
        (Topic("t"), {"prefetch_size": 100, "client_id": "me", "subscription_name": "s"}),
    ],
    ids=["queue", "browser", "topic", "durable"],
)
async def test_a_manageable_client_is_told(
    broker: BrokerService, destination: Destination, fields: dict[str, object]
) -> None:
    client = RawClient(create_transport(broker.vm_uri))
    await client.connect(manageable=True)
    await client.open_session()
    consumer = await client.consumer(destination, **fields)
    control = await client.heard(ConsumerControl)
    assert isinstance(control, ConsumerControl)
    assert (control.consumer_id, control.prefetch, control.close) == (consumer, 0, False)
    await client.close()


@pytest.mark.fact("activemq-broker Q34")
async def test_another_client_gets_one_message_at_a_time(broker_with: BrokerWith) -> None:
    async with broker_with(policies=NO_PREFETCH) as (_, client):
        await client.consumer(Queue("q"), prefetch_size=1000)
        await client.send(Queue("q"), "first", "second")
        first = await client.dispatched()
        await client.nothing_dispatched()
        await client.ack(first)
        await client.dispatched()


@pytest.mark.fact("activemq-broker Q34")
@pytest.mark.parametrize("sent_first", [False, True])
async def test_the_client_pulls(broker: BrokerService, *, sent_first: bool) -> None:
    async with await ConnectionFactory(broker.vm_uri).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(Queue("q"))
        if sent_first:
            await producer.send(session.create_text_message("x"))
        consumer = await session.create_consumer(Queue("q"))
        if not sent_first:
            await producer.send(session.create_text_message("x"))
        message = await consumer.receive(5)
        assert message is not None
        assert await consumer.receive(0) is None


@pytest.mark.fact("activemq-broker Q34")
async def test_a_browser_pulls(broker: BrokerService) -> None:
    async with await ConnectionFactory(broker.vm_uri).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(Queue("q"))
        for text in ("first", "second"):
            await producer.send(session.create_text_message(text))
        browser = await session.create_browser(Queue("q"))
        with anyio.fail_after(10):
            seen = [m.text async for m in browser if isinstance(m, TextMessage)]
        assert seen == ["first", "second"]
