"""What retroactive consumers get, at ActiveMQ 5.17.2 and at our broker: the same on both."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import decode_map, decode_text, encode_map
from tests.kit.brokers.policies import activemq_with_policies, connect, policy_broker
from tests.kit.clients.raw import Connect, RawClient

__all__ = ["activemq_with_policies", "connect", "policy_broker"]

pytestmark = pytest.mark.activemq


async def send(client: RawClient, topic: Destination, texts: str, **fields: Any) -> None:
    """Send non-persistent messages."""
    producer = await client.producer()
    for text in texts:
        message = client.text(producer, topic, text)
        message.persistent = False
        for name, value in fields.items():
            setattr(message, name, value)
        await client.request(message)


async def texts(client: RawClient, count: int) -> str:
    """Return the texts of the next `count` messages, after which none came."""
    messages = [await client.message() for _ in range(count)]
    await client.nothing_dispatched()
    return "".join(str(decode_text(message.content or b"")) for message in messages)


async def recovered(client: RawClient, topic: Destination, count: int, **fields: Any) -> str:
    consumer = await client.consumer(topic, **{"retroactive": True, **fields})
    found = await texts(client, count)
    await client.remove(consumer)
    return found


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("count", "345", marks=pytest.mark.fact("activemq-broker 4.2/fixedCount")),
        pytest.param("size", "345", marks=pytest.mark.fact("activemq-broker 4.2/fixedSized")),
        pytest.param("last", "5", marks=pytest.mark.fact("activemq-broker 4.2/lastImage")),
        pytest.param("timed", "12345", marks=pytest.mark.fact("activemq-broker 4.2/timed")),
        pytest.param(
            "none", "", marks=pytest.mark.fact("activemq-broker 4.2/noSubscriptionRecoveryPolicy")
        ),
    ],
)
async def test_each_policy(connect: Connect, policy: str, expected: str) -> None:
    client = await connect()
    topic = Topic(f"{policy}.{client.name}")
    await send(client, topic, "12345")
    assert await recovered(client, topic, len(expected)) == expected
    assert await recovered(client, topic, 0, retroactive=False) == ""


async def test_old_messages_are_forgotten(connect: Connect) -> None:
    client = await connect()
    topic = Topic(f"timed.{client.name}")
    await send(client, topic, "1")
    await _clock.sleep(1.8)  # ActiveMQ drops them once a second
    await send(client, topic, "2")
    assert await recovered(client, topic, 1) == "2"


@pytest.mark.fact("activemq-broker 2.1/alwaysRetroactive")
async def test_policies_that_make_every_consumer_retroactive(connect: Connect) -> None:
    client = await connect()
    topic = Topic(f"always.{client.name}")
    await send(client, topic, "12345")
    assert await recovered(client, topic, 3, retroactive=False) == "345"


async def test_patterns_and_composites(connect: Connect) -> None:
    client = await connect()
    topics = [Topic(f"count.{client.name}.{child}") for child in "ab"]
    for topic, sent in zip(topics, ("123", "456"), strict=True):
        await send(client, topic, sent)
    for wanted in (f"count.{client.name}.*", ",".join(topic.physical_name for topic in topics)):
        assert "".join(sorted(await recovered(client, Topic(wanted), 6))) == "123456"


async def test_recovered_messages_come_before_new_ones(connect: Connect) -> None:
    client = await connect()
    topic = Topic(f"count.{client.name}")
    await send(client, topic, "123")
    await client.consumer(topic, retroactive=True, prefetch_size=2)
    await send(client, topic, "4")
    first = [await client.dispatched() for _ in range(2)]
    await client.nothing_dispatched()
    for dispatch in first:
        await client.ack(dispatch)
    assert await texts(client, 2) == "34"


def properties(message: ActiveMQMessage) -> dict[str, object]:
    return dict(decode_map(message.marshalled_properties or encode_map({})))


@pytest.mark.fact("activemq-broker 4.2/(built in) retained")
async def test_retained_messages(connect: Connect) -> None:
    client = await connect()
    topic = Topic(f"retained.{client.name}")
    live = await client.consumer(topic)
    for text, value in (("1", True), ("2", "TRUE")):
        marked = encode_map({"ActiveMQ.Retain": value, "a": 1})
        await send(client, topic, text, marshalled_properties=marked)
        assert properties(await client.message()) == {"a": 1}
    await client.remove(live)
    for _ in range(2):
        consumer = await client.consumer(topic, retroactive=True)
        message = await client.message()
        assert decode_text(message.content or b"") == "2"
        assert properties(message) == {"a": 1, "ActiveMQ.Retained": True}
        await client.remove(consumer)
    assert await recovered(client, topic, 0, retroactive=False) == ""


@pytest.mark.fact("activemq-broker 4.2/fixedCount")
async def test_durable_subscriptions_at_each_activation(connect: Any) -> None:
    client = await connect()
    topic = Topic(f"count.{client.name}")
    await send(client, topic, "1234")
    for _ in range(2):
        consumer = await client.consumer(
            topic, retroactive=True, subscription_name="s", client_id=client.name
        )
        for expected in "234":
            dispatch = await client.dispatched()
            assert decode_text(dispatch.message.content) == expected
            await client.ack(dispatch)
        await client.nothing_dispatched()
        await client.remove(consumer)


async def test_advisories_that_a_policy_keeps(connect: Connect) -> None:
    client = await connect()
    queue = Queue(f"kept.{client.name}")
    topic = Topic(f"ActiveMQ.Advisory.Producer.Queue.{queue.physical_name}")
    producer = await client.producer(queue)
    await client.remove(producer)
    consumer = await client.consumer(topic, retroactive=True)
    kinds = [type((await client.message()).data_structure).__name__ for _ in range(2)]
    assert kinds == ["ProducerInfo", "RemoveInfo"]
    await client.nothing_dispatched()
    await client.remove(consumer)


@pytest.mark.fact("activemq-broker V6")
async def test_the_first_consumer_of_a_queue_that_a_virtual_topic_feeds(connect: Any) -> None:
    client = await connect()
    topic = Topic(f"VirtualTopic.count.{client.name}")
    queue = Queue(f"Consumer.A.{topic.physical_name}")
    await send(client, topic, "12345")
    await client.consumer(queue, retroactive=True)
    received = [await client.dispatched() for _ in range(3)]
    assert [decode_text(d.message.content) for d in received] == ["3", "4", "5"]
    assert {str(d.message.original_destination) for d in received} == {topic.qualified_name}
    second = await client.consumer(queue, retroactive=True)
    await client.nothing_dispatched()
    await client.remove(second)
