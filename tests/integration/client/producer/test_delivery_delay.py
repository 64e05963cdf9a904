"""Delivery delay of JMS 2.0, which the broker's scheduler keeps."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Queue
from pyjms.jms.message import TextMessage
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client
from tests.kit.values import present

Q = Queue("q")


@pytest.mark.fact("jms-api 3.10", "jms-api 5/JMSDeliveryTime", "jms-api 3.4")
async def test_a_delayed_message_comes_at_its_delivery_time(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    consumer = await session.create_consumer(Q)
    assert producer.delivery_delay == 0
    producer.delivery_delay = 30
    sent = session.create_text_message("later")
    await producer.send(sent)
    assert sent.delivery_time == sent.timestamp + 30_000
    assert "AMQ_SCHEDULED_DELAY" not in sent.properties  # it travels with the sent copy only
    await producer.send(session.create_text_message("now"), delivery_delay=0)
    assert client.text(await consumer.receive(1.0)) == "now"
    assert await consumer.receive(28.0) is None
    browser = await session.create_browser(Q)
    assert [m async for m in browser] == []
    received = await consumer.receive(5.0)
    assert client.text(received) == "later"
    assert received is not None
    assert _clock.time_ms() >= received.delivery_time == sent.delivery_time
    assert received is not None
    assert set(received.properties) == {"scheduledJobId"}


@pytest.mark.fact("jms-api 3.10")
async def test_every_send_sets_the_delivery_time(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    message = session.create_text_message("x")
    assert message.delivery_time == 0
    await producer.send(message, delivery_delay=5)
    await producer.send(message)
    assert message.delivery_time == message.timestamp
    producer.disable_message_timestamp = True
    await producer.send(message)
    assert (message.timestamp, message.delivery_time) == (0, 0)
    before = _clock.time_ms()
    await producer.send(message, delivery_delay=5)
    assert message.delivery_time >= before + 5000


async def test_a_received_message_is_delayed_again(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    consumer = await session.create_consumer(Q)
    await producer.send(session.create_text_message("x"), delivery_delay=2)
    first = present(await consumer.receive(5.0))
    await producer.send(first)
    unchanged = await consumer.receive(5.0)
    assert unchanged is not None
    assert unchanged.delivery_time == unchanged.timestamp  # not that of the send before
    await producer.send(unchanged, delivery_delay=10)
    assert await consumer.receive(9.0) is None
    again = await consumer.receive(5.0)
    assert again is not None
    assert first is not None
    assert again.delivery_time == unchanged.delivery_time > first.delivery_time


async def test_a_delay_in_a_transaction_counts_from_the_send(client: Client) -> None:
    session = await client.session(AcknowledgeMode.TRANSACTED)
    producer = await session.create_producer(Q)
    await producer.send(session.create_text_message("committed"), delivery_delay=3)
    await session.commit()
    await producer.send(session.create_text_message("rolled back"), delivery_delay=3)
    await session.rollback()
    consumer = await session.create_consumer(Q)
    assert await consumer.receive(2.0) is None
    assert [client.text(m) for m in await client.receive_all(consumer, 5.0)] == ["committed"]


@pytest.mark.fact("jms-api 3.3")
async def test_wrong_delays_are_refused(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    with pytest.raises(IllegalStateException, match="negative deliveryDelay: -1"):
        producer.delivery_delay = -1
    with pytest.raises(TypeError, match="delivery_delay"):
        producer.delivery_delay = "5s"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="delivery_delay"):
        await producer.send(session.create_message(), delivery_delay=-1)
    await producer.close()
    with pytest.raises(IllegalStateException, match="The producer is closed"):
        producer.delivery_delay = 1
    assert await client.left("q") == []


async def test_a_cached_producer_forgets_the_delay_of_its_last_user(client: Client) -> None:
    async with CachingConnectionFactory(client.factory()) as factory:
        for delay in (60, 0):
            connection = await factory.create_connection()
            session = await connection.create_session()
            producer = await session.create_producer(Q)
            assert producer.delivery_delay == 0
            producer.delivery_delay = delay
            await producer.send(TextMessage(f"after {delay} s"))
            await session.close()
        assert await client.left("q") == ["after 0 s"]


@pytest.mark.fact("spring-jms 4.2")
async def test_a_templates_delay_is_that_of_its_producer(client: Client) -> None:
    template = JmsTemplate(client.factory(), receive_timeout=20.0, delivery_delay=5.0)
    sent: list[Any] = []

    def keep(message: Any) -> Any:
        sent.append(message)
        return message

    await template.convert_and_send("q", "x", post_processor=keep)
    received = await template.receive("q")
    assert received is not None
    assert sent[0].delivery_time == sent[0].timestamp + 5000 == received.delivery_time


async def test_a_broker_without_a_scheduler_refuses_it(clock: VirtualClock) -> None:
    async with EmbeddedTestBroker(BrokerService("unscheduled", persistent=False)) as broker:
        with pytest.raises(IllegalStateException, match="a message with a delivery delay is"):
            await Client(broker).send("q", "x", delivery_delay=60)
