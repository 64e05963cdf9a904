"""What advisories say, at ActiveMQ 5.17.2 and at our broker: the same scenarios on both."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ActiveMQTextMessage,
    ConsumerInfo,
    ProducerInfo,
    RemoveInfo,
    Throwable,
)
from pyjms.wire.openwire.primitives import decode_map, encode_map, encode_text
from tests.kit.brokers.policies import activemq_with_policies, connect, policy_broker
from tests.kit.clients.raw import Connect, RawClient
from tests.kit.values import present

__all__ = ["activemq_with_policies", "connect", "policy_broker"]

pytestmark = pytest.mark.activemq

A = "ActiveMQ.Advisory."
SELECTED = Topic("advised.selected")


def properties(message: ActiveMQMessage) -> dict[str, object]:
    """Return the properties beside those of every advisory."""
    if message.marshalled_properties is None:
        return {}
    found = dict(decode_map(message.marshalled_properties))
    return {name: value for name, value in found.items() if not name.startswith("originBroker")}


def about(message: ActiveMQMessage) -> ActiveMQMessage:
    assert isinstance(message.data_structure, ActiveMQMessage)
    return message.data_structure


async def watch(client: RawClient, *events: str) -> None:
    topics = ",".join(f"{A}{event}.>" for event in events)
    await client.consumer(Topic(topics), prefetch_size=1000)


async def send(
    client: RawClient, destination: Destination, *texts: str, **fields: Any
) -> list[ActiveMQTextMessage]:
    """Send non-persistent messages, unless `fields` say otherwise."""
    producer = await client.producer()
    sent = []
    for text in texts:
        message = client.text(producer, destination, text)
        message.persistent = False
        for name, value in fields.items():
            setattr(message, name, value)
        await client.request(message)
        sent.append(message)
    return sent


async def topics(client: RawClient, count: int) -> list[str]:
    """Return the topics of the next `count` advisories, after which none came."""
    found = [present((await client.message()).destination).physical_name for _ in range(count)]
    await client.nothing_dispatched()
    return [name.removeprefix(A) for name in found]


@pytest.mark.fact("activemq-broker 11/MessageDelivered.Queue/Topic.X")
@pytest.mark.parametrize("destination", [Queue("advised.d"), Topic("advised.d")])
async def test_each_arrival(connect: Connect, destination: Destination) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "MessageDelivered")
    (sent,) = await send(client, destination, "x", marshalled_properties=encode_map({"p": 1}))
    advisory = await watcher.message()
    kind = "Queue" if destination.is_queue else "Topic"
    assert advisory.destination == Topic(f"{A}MessageDelivered.{kind}.advised.d")
    assert (advisory.type, advisory.persistent) == ("Advisory", False)
    assert properties(advisory) == {
        "orignalMessageId": str(sent.message_id),
        "orignalDestination": destination.qualified_name,
    }
    payload = about(advisory)
    assert type(payload) is ActiveMQTextMessage
    assert payload.message_id == sent.message_id
    assert (payload.destination, payload.content) == (destination, None)
    assert payload.marshalled_properties is not None
    await watcher.nothing_dispatched()


async def test_each_copy_of_a_composite_arrives_once(connect: Connect) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "MessageDelivered")
    await send(client, Queue("advised.c1,advised.c2,topic://advised.c3"), "x")
    heard = [await watcher.message() for _ in range(3)]
    await watcher.nothing_dispatched()
    assert {properties(message)["orignalDestination"] for message in heard} == {
        "queue://advised.c1",
        "queue://advised.c2",
        "topic://advised.c3",
    }


async def test_a_topic_message_of_a_transaction_arrives_at_its_commit(connect: Connect) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "MessageDelivered")
    for number, (end, count) in enumerate(((4, 0), (2, 1)), 1):
        transaction = client.local(number)
        await client.transaction(0, transaction)
        await client.send(Topic("advised.tx"), "x", transaction_id=transaction)
        await watcher.nothing_dispatched()
        await client.transaction(end, transaction)
        assert await topics(watcher, count) == ["MessageDelivered.Topic.advised.tx"] * count


@pytest.mark.fact("activemq-broker 11/NoConsumer.Queue.X / .Topic.X")
@pytest.mark.parametrize("destination", [Queue("advised.n"), Topic("advised.n")])
async def test_a_message_without_consumers_is_sent_on(
    connect: Connect, destination: Destination
) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "NoConsumer")
    await send(client, destination, "kept", persistent=True)
    await watcher.nothing_dispatched()
    (sent,) = await send(client, destination, "x", marshalled_properties=encode_map({"p": 1}))
    message = await watcher.message()
    kind = "Queue" if destination.is_queue else "Topic"
    assert message.destination == Topic(f"{A}NoConsumer.{kind}.advised.n")
    assert type(message) is ActiveMQTextMessage
    assert message.message_id == sent.message_id
    assert (message.type, message.persistent) == (None, False)
    assert message.original_destination is None
    assert message.content == encode_text("x")
    assert properties(message) == {"p": 1}
    await client.consumer(destination)
    await send(client, destination, "y")
    await watcher.nothing_dispatched()


async def test_a_forwarded_message_without_consumers_says_where_it_was(connect: Connect) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "NoConsumer")
    await send(client, Queue("advised.f1,advised.f2"), "x")
    heard = [await watcher.message() for _ in range(2)]
    assert {str(message.original_destination): str(message.destination) for message in heard} == {
        f"queue://advised.{name}": f"topic://{A}NoConsumer.Queue.advised.{name}"
        for name in ("f1", "f2")
    }


async def test_who_counts_as_a_consumer(connect: Connect) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "NoConsumer")
    await client.consumer(Queue("advised.browsed"), browser=True)
    await send(client, Queue("advised.browsed"), "x")
    durable = await client.consumer(
        Topic("advised.s"), subscription_name="s", client_id=client.name
    )
    await client.remove(durable)
    await send(client, Topic("advised.s"), "x")
    await watcher.nothing_dispatched()
    await client.consumer(SELECTED, selector="a = 1")
    await send(client, SELECTED, "x")
    assert await topics(watcher, 1) == ["NoConsumer.Topic.advised.selected"]


@pytest.mark.fact("activemq-broker 11/MessageConsumed.Queue/Topic.X")
async def test_consumed_includes_poison_but_no_unacknowledged_topic_messages(
    connect: Connect,
) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "MessageConsumed")
    await client.consumer(Queue("advised.consumed"))
    for kind in (AckType.STANDARD, AckType.INDIVIDUAL, AckType.POISON):
        (sent,) = await send(client, Queue("advised.consumed"), "x")
        await client.ack(await client.dispatched(), kind, poison_cause=Throwable("x", "y"))
        advisory = await watcher.message()
        assert advisory.destination == Topic(f"{A}MessageConsumed.Queue.advised.consumed")
        assert properties(advisory)["orignalMessageId"] == str(sent.message_id)
        assert about(advisory).content is None
    await client.consumer(Topic("advised.consumed"))
    await send(client, Topic("advised.consumed"), "x")
    await client.ack(await client.dispatched())
    await watcher.nothing_dispatched()
    await client.consumer(
        Topic("advised.durable"), subscription_name="consumed", client_id=client.name
    )
    await client.send(Topic("advised.durable"), "x")
    await client.ack(await client.dispatched())
    assert await topics(watcher, 1) == ["MessageConsumed.Topic.advised.durable"]


async def test_bodies_on_demand(connect: Any) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "MessageDelivered", "MessageConsumed", "MessageDLQd", "Expired")
    await send(client, Queue("bodies.b"), "body", persistent=True)
    await client.consumer(Queue("bodies.b"))
    await client.ack(await client.dispatched(), AckType.POISON, poison_cause=Throwable("x", "y"))
    await send(client, Queue("bodies.b"), "body", persistent=True, expiration=1)
    heard = {}
    for _ in range(5):
        advisory = await watcher.message()
        heard[advisory.destination.physical_name.removeprefix(A)] = about(advisory)
    events = ("Expired", "MessageConsumed", "MessageDLQd", "MessageDelivered")
    assert sorted(name for name in heard if name.endswith(".bodies.b")) == [
        f"{event}.Queue.bodies.b" for event in events
    ]
    assert {payload.content for payload in heard.values()} == {encode_text("body")}


@pytest.mark.fact(
    "activemq-broker 11/FULL.Queue/Topic.X", "activemq-broker 11/FastProducer.Queue/Topic.X"
)
async def test_full_memory_and_who_sends_then(connect: Connect) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "FULL", "FastProducer")
    queue = Queue(f"full.{client.name}")
    producer = await client.producer(queue)
    for _ in range(3):
        await client.request(client.text(producer, queue, "x" * 1000))
    full = await watcher.message()
    assert full.destination == Topic(f"{A}FULL.Queue.{queue.physical_name}")
    assert full.data_structure is None
    assert properties(full) == {
        "usageName": f"Main:memory:{queue.qualified_name}:memory",
        "usageCount": 4056,
    }
    fast = await watcher.message()
    assert fast.destination == Topic(f"{A}FastProducer.Queue.{queue.physical_name}")
    assert properties(fast) == {"producerId": str(producer)}
    assert isinstance(fast.data_structure, ProducerInfo)
    assert fast.data_structure.producer_id == producer
    await watcher.nothing_dispatched()


@pytest.mark.fact("activemq-broker T10", "activemq-broker 11/MessageDiscarded.Queue/Topic.X")
@pytest.mark.parametrize("persistent", [True, False])
async def test_discarded_messages(connect: Connect, persistent: bool) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "MessageDiscarded", "MessageDLQd")
    topic = Topic(f"discarding.{client.name}")
    consumer = await client.consumer(topic, prefetch_size=1)
    _, *discarded, _ = await send(client, topic, *"1234", persistent=persistent)
    for count, message in enumerate(discarded, 1):
        advisory = await watcher.message()
        assert advisory.destination == Topic(f"{A}MessageDiscarded.Topic.{topic.physical_name}")
        assert properties(advisory) == {
            "orignalMessageId": str(message.message_id),
            "orignalDestination": topic.qualified_name,
            "consumerId": str(consumer),
            "discardedCount": count,
        }
        if persistent:
            letter = await watcher.message()
            assert letter.destination == Topic(f"{A}MessageDLQd.Topic.{topic.physical_name}")
            assert about(letter).message_id == message.message_id
    await watcher.nothing_dispatched()


@pytest.mark.fact("activemq-broker T7", "activemq-broker 11/SlowConsumer.Queue/Topic.X")
async def test_a_topic_consumer_with_more_than_its_prefetch_pending_is_slow(
    connect: Connect,
) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "SlowConsumer")
    topic = Topic(f"advised.slow.{client.name}")
    consumer = await client.consumer(topic, prefetch_size=2)
    await send(client, topic, *"12345")
    await watcher.nothing_dispatched()
    await send(client, topic, *"678")
    advisory = await watcher.message()
    assert advisory.destination == Topic(f"{A}SlowConsumer.Topic.{topic.physical_name}")
    assert properties(advisory) == {"consumerId": str(consumer)}
    assert isinstance(advisory.data_structure, ConsumerInfo)
    await watcher.nothing_dispatched()


@pytest.mark.fact("activemq-broker 11/MasterBroker")
@pytest.mark.parametrize("topic", [f"{A}MasterBroker", f"{A}>"])
async def test_each_consumer_is_told_that_the_broker_is_a_master(
    connect: Connect, topic: str
) -> None:
    client = await connect()
    await client.consumer(Topic(topic))
    advisory = await client.message()
    assert advisory.destination == Topic(f"{A}MasterBroker")
    assert (advisory.type, advisory.data_structure) == ("Advisory", None)
    assert properties(advisory) == {}


@pytest.mark.fact("activemq-broker 11/VirtualDestination.Consumer.Queue/Topic.X")
async def test_consumers_that_a_virtual_topic_feeds(connect: Connect) -> None:
    watcher, client = await connect(), await connect()
    await watch(watcher, "VirtualDestination.Consumer")
    name = f"VirtualTopic.{client.name}"
    prefix = f"{A}VirtualDestination.Consumer.Topic."
    consumer = await client.consumer(Queue(f"Consumer.A.{name}"))
    advisory = await watcher.message()
    assert advisory.destination == Topic(prefix + name)
    assert properties(advisory) == {"consumerCount": 0}
    assert isinstance(advisory.data_structure, ConsumerInfo)
    assert advisory.data_structure.destination == Topic(name)
    assert advisory.data_structure.consumer_id == consumer
    await client.consumer(Topic(f"VirtualTopic.other.{client.name}"))
    await watcher.nothing_dispatched()

    late = await connect()
    await watch(late, "VirtualDestination.Consumer")
    replayed = await late.message()
    assert replayed.destination == Topic(prefix + name)
    await late.nothing_dispatched()
    await watcher.nothing_dispatched()

    await client.remove(consumer)
    removal = await watcher.message()
    assert removal.destination == Topic(f"{prefix}VirtualTopic.>")
    assert isinstance(removal.data_structure, RemoveInfo)
    assert removal.data_structure.object_id == consumer
