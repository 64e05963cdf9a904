"""Temporary destinations and queue browsers: JMS sections 4.4.3 and 4.4.9."""

from __future__ import annotations

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message
from pyjms.testing.clock import VirtualClock
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client


@pytest.mark.fact("jms-api 9.1", "activemq-broker D13")
async def test_temporary_destinations_live_with_their_connection(client: Client) -> None:
    connection = await client.connect()
    session = await client.session(connection=connection)
    other = await client.session()
    one, two = [await session.create_temporary_queue() for _ in range(2)]
    topic = await session.create_temporary_topic()
    assert len({one, two, topic}) == 3
    assert one.physical_name.startswith(f"{connection.connection_id}:")
    consumer = await session.create_consumer(one)
    await client.settle()
    await client.send(one, "from elsewhere")
    assert client.text(await consumer.receive(1)) == "from elsewhere"
    with pytest.raises(InvalidDestinationException):
        await other.create_consumer(one)
    with pytest.raises(JMSException, match="A consumer is consuming"):
        await session.delete_temporary(one)
    await consumer.close()
    await session.delete_temporary(one)
    await client.settle()
    producer = await other.create_producer()
    with pytest.raises(InvalidDestinationException):
        await producer.send(other.create_text_message("x"), destination=one)
    with pytest.raises(InvalidDestinationException, match="has been deleted"):
        await session.create_consumer(one)
    await producer.send(
        other.create_text_message("pending"),
        destination=two,
        delivery_mode=DeliveryMode.NON_PERSISTENT,
    )
    await connection.close()
    await client.settle()
    with pytest.raises(InvalidDestinationException):
        await producer.send(other.create_text_message("x"), destination=two)
    with pytest.raises(InvalidDestinationException, match="from another Connection"):
        await other.delete_temporary(topic)


async def test_request_and_reply_over_a_temporary_queue(client: Client) -> None:
    asking, answering = await client.session(), await client.session()
    answers = await asking.create_temporary_queue()
    consumer = await asking.create_consumer(answers)
    service = await answering.create_consumer(Queue("service"))
    replier = await answering.create_producer()

    async def answer(message: Message) -> None:
        reply = answering.create_text_message(f"re: {client.text(message)}")
        reply.correlation_id = message.message_id
        await replier.send(reply, destination=message.reply_to)

    await service.set_message_listener(answer)
    request = asking.create_text_message("hello")
    request.reply_to = answers
    producer = await asking.create_producer(Queue("service"))
    await producer.send(request)
    reply = await consumer.receive(1)
    assert client.text(reply) == "re: hello"
    assert reply is not None
    assert reply.correlation_id == request.message_id


@pytest.mark.fact("jms-api 9.2", "activemq-broker Q31")
async def test_a_browser_shows_the_queue_in_order_and_leaves_it(client: Client) -> None:
    recorded = client.oracle("jms-raw-listeners")
    await client.send("q", "1", "2", "3")
    connection = await client.connect(start=False)
    session = await client.session(connection=connection)
    browser = await session.create_browser(Queue("q"))
    assert browser.queue == Queue("q")
    assert browser.message_selector is None
    assert [m async for m in browser] == []
    await connection.start()
    seen = [client.text(m) async for m in browser]
    assert seen == recorded["browser after start sees"]
    assert [client.text(m) async for m in browser] == ["1", "2", "3"]
    look = aiter(browser)
    for _ in range(3):
        await anext(look)
    assert await anext(look, None) is recorded["nextElement past the end"] is None
    assert await anext(look, None) is None
    await client.settle()
    assert client.broker.queue_statistics("q").consumers == 0
    await browser.close()
    await browser.close()
    with pytest.raises(IllegalStateException):
        aiter(browser)
    assert await client.left("q") == ["1", "2", "3"]


@pytest.mark.fact("jms-api 9.2")
async def test_a_browser_honours_its_selector_and_sees_a_thousand(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    for number in range(1000):
        message = session.create_text_message(str(number))
        message.properties["even"] = number % 2 == 0
        await producer.send(message)
    browser = await session.create_browser(Queue("q"))
    seen = [client.text(m) async for m in browser]
    assert len(seen) == client.oracle("jms-raw-listeners")["browsing a queue of 1000 messages sees"]
    assert seen == [str(n) for n in range(1000)]
    even = await session.create_browser(Queue("q"), "even = TRUE")
    assert even.message_selector == "even = TRUE"
    assert [client.text(m) async for m in even] == [str(n) for n in range(0, 1000, 2)]


async def test_a_browser_left_half_way_ends_with_its_session(client: Client) -> None:
    await client.send("q", "1", "2", "3")
    session = await client.session(AcknowledgeMode.TRANSACTED)
    browser = await session.create_browser(Queue("q"))
    async for message in browser:
        assert client.text(message) == "1"
        break
    await session.rollback()
    assert client.broker.queue_statistics("q").messages == 3
    await session.close()
    await browser.close()
    assert await client.left("q") == ["1", "2", "3"]


@pytest.mark.fact("jms-api 9.2")
async def test_a_policy_entry_limits_browsers_to_a_page(clock: VirtualClock) -> None:
    policies = PolicyMap([PolicyEntry(destination=Queue(">"))])
    service = BrokerService("paged", persistent=False, policies=policies)
    async with (
        EmbeddedTestBroker(service) as broker,
        await ConnectionFactory(broker.url).create_connection() as connection,
    ):
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(Queue("q"))
        for number in range(700):
            await producer.send(session.create_text_message(str(number)))
        browser = await session.create_browser(Queue("q"))
        assert len([m async for m in browser]) == 400
