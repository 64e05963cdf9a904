"""JMS 2.0 of our client at a real ActiveMQ 5.17.2, and at our broker: the same."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.enums import AcknowledgeMode
from pyjms.errors import InvalidDestinationException, JMSException, MessageFormatException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from tests.kit.brokers.comparison import MakeFactory

pytestmark = pytest.mark.activemq


class Outcomes:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.errors: list[JMSException] = []

    def on_completion(self, message: Message) -> None:
        self.sent.append(message)

    def on_exception(self, message: Message, error: JMSException) -> None:
        self.errors.append(error)


async def bodies(*consumers: Any) -> list[list[str]]:
    found: list[list[str]] = []
    for consumer in consumers:
        found.append([])
        while (body := await consumer.receive_body(str, 0.5)) is not None:
            found[-1].append(body)
    return found


@pytest.mark.fact("jms-api 11.7", "jms-api 14/JMSContext, JMSProducer, JMSConsumer")
async def test_a_context(quick_factory: MakeFactory, name: str) -> None:
    queue = Queue(name)
    async with await quick_factory().create_context(session_mode=AcknowledgeMode.CLIENT) as context:
        producer = context.create_producer().set_priority(3).set_property("n", 1)
        await producer.send(queue, "a")
        await producer.send(queue, {"b": 1})
        consumer = await context.create_consumer(queue, "n = 1")
        assert await consumer.receive_body(str, 5.0) == "a"
        assert await consumer.receive_body(dict, 5.0) == {"b": 1}
        await context.acknowledge()
        transacted = await context.create_context(AcknowledgeMode.TRANSACTED)
        await transacted.create_producer().send(queue, "rolled back")
        await transacted.rollback()
        await transacted.close()
    async with await quick_factory().create_context() as context:
        await context.create_producer().send(queue, "c")
        consumer = await context.create_consumer(queue)
        with pytest.raises(MessageFormatException):
            await consumer.receive_body(dict, 5.0)
        assert await bodies(consumer) == [["c"]]


@pytest.mark.fact("jms-api 3.11")
async def test_asynchronous_sends(quick_factory: MakeFactory, name: str) -> None:
    queue, outcomes = Queue(name), Outcomes()
    texts = [str(number) for number in range(200)]
    context = await quick_factory().create_context(session_mode=AcknowledgeMode.TRANSACTED)
    producer = context.create_producer().set_async(outcomes)
    for text in texts:
        await producer.send(queue, text)
    await context.commit()
    assert [message.text for message in outcomes.sent] == texts
    await producer.send(queue, "rolled back")
    await context.close()
    assert (len(outcomes.sent), outcomes.errors) == (201, [])
    async with await quick_factory().create_context() as context:
        assert await bodies(await context.create_consumer(queue)) == [texts]


@pytest.mark.fact("jms-api 4.9")
async def test_shared_subscriptions(quick_factory: MakeFactory, name: str) -> None:
    topic = Topic(f"VirtualTopic.{name}")
    async with (
        await quick_factory("jms.prefetchPolicy.queuePrefetch=1").create_context() as one,
        await quick_factory("jms.prefetchPolicy.queuePrefetch=1").create_context() as two,
    ):
        shared = [await context.create_shared_consumer(topic, "a") for context in (one, two)]
        durable = await one.create_shared_durable_consumer(topic, "b")
        for text in "1234":
            await one.create_producer().send(topic, text)
        first, second, copies = await bodies(*shared, durable)
        assert sorted([*first, *second]) == copies == ["1", "2", "3", "4"]
        assert first
        assert second
        await durable.close()
        for consumer in shared:
            await consumer.close()
        await one.create_producer().send(topic, "later")
        again = await two.create_shared_consumer(topic, "a")
        durable = await one.create_shared_durable_consumer(topic, "b")
        assert await bodies(again, durable) == [[], ["later"]]
        await durable.close()
        await one.unsubscribe("b")
        with pytest.raises(InvalidDestinationException):
            await one.unsubscribe("b")
