"""Advisories as objects, from the real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyjms import Queue
from pyjms.aio import CachingConnectionFactory, ConnectionFactory, JmsTemplate
from pyjms.client import (
    Advisory,
    ConnectionAdvisory,
    ConsumerAdvisory,
    DestinationAdvisory,
    MessageAdvisory,
    ProducerAdvisory,
    advisory_topic,
    read_advisory,
)
from pyjms.errors import IllegalStateException, MessageFormatException, NoConsumerException
from pyjms.jms.api import MessageConsumer, Session
from pyjms.jms.destination import parse_destination
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    async with EmbeddedTestBroker(BrokerService("advising", persistent=False)):
        factory = ConnectionFactory("vm://advising?create=false")
        async with await factory.create_connection() as connection:
            await connection.start()
            async with await connection.create_session() as session:
                yield session


async def told(consumer: MessageConsumer) -> Advisory:
    message = await consumer.receive(5.0)
    assert message is not None
    return read_advisory(message)


@pytest.mark.fact("activemq-broker V-A6")
async def test_who_connects(session: Session) -> None:
    consumer = await session.create_consumer(advisory_topic("Connection"))
    mine = await told(consumer)  # what is there already
    assert isinstance(mine, ConnectionAdvisory)
    assert mine.is_open
    factory = ConnectionFactory("vm://advising?create=false", client_id="me", user_name="anna")
    async with await factory.create_connection() as connection:
        await connection.start()
        came = await told(consumer)
    assert isinstance(came, ConnectionAdvisory)
    assert (came.is_open, came.client_id, came.user_name) == (True, "me", "anna")
    assert (came.event, came.destination, came.broker_name) == ("Connection", None, "advising")
    gone = await told(consumer)
    assert isinstance(gone, ConnectionAdvisory)
    assert (gone.is_open, gone.connection_id) == (False, came.connection_id)


@pytest.mark.fact("activemq-broker V-A6")
async def test_which_message_died(session: Session) -> None:
    consumer = await session.create_consumer(advisory_topic("MessageDLQd", Queue("orders.>")))
    template = JmsTemplate(ConnectionFactory("vm://advising?create=false"))
    await template.convert_and_send(
        "orders.new", "x", correlation_id="c1", time_to_live=0.001, properties={"n": 7}
    )
    await template.with_receive_timeout(0.05).receive("orders.new")
    died = await told(consumer)
    assert isinstance(died, MessageAdvisory)
    assert (died.event, died.destination) == ("MessageDLQd", Queue("orders.new"))
    assert died.message.correlation_id == "c1"
    assert died.message.properties["n"] == 7


@pytest.mark.fact("activemq-broker V-A6")
async def test_consumers_producers_and_destinations(session: Session) -> None:
    orders = Queue("orders.new")
    names = [
        advisory_topic("Consumer", orders),
        advisory_topic("Producer", orders),
        advisory_topic("Queue"),
    ]
    consumers = [await session.create_consumer(name) for name in names]
    producer = await session.create_producer(orders)
    consumer = await session.create_consumer(orders, "n > 1")
    await consumer.close()
    await producer.close()
    came, gone = await told(consumers[0]), await told(consumers[0])
    assert isinstance(came, ConsumerAdvisory)
    assert (came.destination, came.exists, came.count) == (orders, True, 1)
    assert came.selector == "n > 1"
    assert isinstance(gone, ConsumerAdvisory)
    assert (gone.destination, gone.exists, gone.count) == (orders, False, 0)
    assert gone.consumer_id == came.consumer_id
    came, gone = await told(consumers[1]), await told(consumers[1])
    assert isinstance(came, ProducerAdvisory)
    assert isinstance(gone, ProducerAdvisory)
    assert (came.exists, gone.exists, gone.producer_id) == (True, False, came.producer_id)
    found = [await told(consumers[2])]
    while found[-1].destination != orders:
        found.append(await told(consumers[2]))
    assert isinstance(found[-1], DestinationAdvisory)
    assert found[-1].exists


async def test_other_messages_are_no_advisories(session: Session) -> None:
    consumer = await session.create_consumer(Queue("q"))
    producer = await session.create_producer(Queue("q"))
    await producer.send(session.create_text_message("x"))
    message = await consumer.receive(5.0)
    assert message is not None
    with pytest.raises(MessageFormatException, match="of queue://q is not an advisory"):
        read_advisory(message)


def test_a_comma_in_a_name_is_replaced() -> None:
    topic = advisory_topic("MessageDLQd", Queue("a,b"))
    assert topic.physical_name == "ActiveMQ.Advisory.MessageDLQd.Queue.a&sbquo;b"


@pytest.fixture
def template(session: Session) -> JmsTemplate:
    """A template on the broker of `session`, with a cache that would also keep consumers."""
    factory = CachingConnectionFactory(
        ConnectionFactory("vm://advising?create=false"), cache_consumers=True
    )
    return JmsTemplate(factory, require_consumer=True, receive_timeout=0.01)


@pytest.mark.fact("spring-jms 4.14.2")
@pytest.mark.parametrize("name", ["orders", "orders.>", "orders,invoices", "topic://orders"])
async def test_a_request_without_a_consumer_fails_at_once(
    session: Session, template: JmsTemplate, name: str
) -> None:
    to = "topic://orders" if name.startswith("topic") else "orders"
    for _ in range(2):
        with pytest.raises(NoConsumerException, match="orders has no consumer") as raised:
            await template.request(to, "x", timeout=None)
        assert raised.value.destination.endswith("://orders")
    consumer = await session.create_consumer(parse_destination(name))
    for _ in range(2):
        assert await template.request(to, "x") is None  # a consumer that does not reply
        assert await consumer.receive(5.0) is not None
    await consumer.close()
    with pytest.raises(NoConsumerException):
        await template.request(to, "x", timeout=None)
    assert isinstance(template.connection_factory, CachingConnectionFactory)
    await template.connection_factory.destroy()


async def test_a_request_to_a_broker_without_advisories_says_so() -> None:
    broker = BrokerService("silent", persistent=False, advisory_support=False)
    async with EmbeddedTestBroker(broker), VirtualClock(autojump=True):
        factory = ConnectionFactory("vm://silent?create=false")
        template = JmsTemplate(factory, require_consumer=True)
        with pytest.raises(IllegalStateException, match="does not tell its consumers"):
            await template.request("orders", "x", timeout=60.0)
