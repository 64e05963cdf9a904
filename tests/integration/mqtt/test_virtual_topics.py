"""The strategy in which kept subscriptions are queues of virtual topics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.mqtt import ConnAck, Connect, Publish
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from tests.kit.mqtt.client import MqttBroker, StartMqtt, texts

OPTION = "?transport.subscriptionStrategy=mqtt-virtual-topic-subscriptions"


@pytest.fixture
async def virtual(mqtt_broker: StartMqtt) -> AsyncIterator[MqttBroker]:
    async with mqtt_broker(OPTION) as broker:
        yield broker


def queues(mqtt: MqttBroker) -> list[str]:
    found = mqtt.broker.service.region_broker.destinations()
    return sorted(
        each.physical_name for each in found if each.is_queue and each != Queue("ActiveMQ.DLQ")
    )


@pytest.mark.fact("mqtt-connector M100", "mqtt-connector M101")
async def test_topics_are_virtual(virtual: MqttBroker) -> None:
    client = await virtual.client()
    await client.subscribe("a/+", qos=1)
    await client.publish("a/b", "1", 1)
    await client.publish("VirtualTopic/a/c", "2", 1)
    assert texts(await client.messages(2)) == [("a/b", "1"), ("a/c", "2")]
    assert queues(virtual) == []


@pytest.mark.fact("mqtt-connector M101", "mqtt-connector M103", "mqtt-connector M105")
async def test_kept_subscriptions_are_queues(virtual: MqttBroker) -> None:
    client = await virtual.client("v.t/x", clean=False)
    await client.subscribe("a/b", qos=1)
    assert queues(virtual) == ["Consumer.v/t%2Ex:AT_LEAST_ONCE.VirtualTopic.a.b"]
    await client.publish("a/b", "1", 1)
    first = await client.receive(Publish)
    await client.lose()
    sender = await virtual.client()
    await sender.publish("a/b", "2", 1)
    client = await virtual.open()
    assert await client.connect("v.t/x", clean=False) == ConnAck(0, True)
    again, new = await client.messages(2)
    assert (again.payload, again.packet_id, again.duplicate) == (b"1", first.packet_id, True)
    assert (new.payload, new.duplicate) == (b"2", False)


@pytest.mark.fact("mqtt-connector M104")
async def test_queues_are_deleted(virtual: MqttBroker) -> None:
    client = await virtual.client("me", clean=False)
    await client.subscribe("a", "b", "c", qos=1)
    await client.unsubscribe("a")
    await client.subscribe("b", qos=2)
    assert queues(virtual) == [
        "Consumer.me:AT_LEAST_ONCE.VirtualTopic.c",
        "Consumer.me:EXACTLY_ONCE.VirtualTopic.b",
    ]
    await client.disconnect()
    client = await virtual.client("me")
    await client.nothing_comes()
    assert queues(virtual) == []


@pytest.mark.fact("mqtt-connector M102")
async def test_a_virtual_topic_itself_is_durable(virtual: MqttBroker) -> None:
    client = await virtual.client("me", clean=False)
    await client.subscribe("VirtualTopic/a", qos=1)
    assert queues(virtual) == []
    await client.publish("a", "x", 1)
    assert texts(await client.messages(1)) == [("a", "x")]


@pytest.mark.fact("mqtt-connector M106")
async def test_retained_messages_reach_topics_and_queues(virtual: MqttBroker) -> None:
    client = await virtual.client("me", clean=False)
    await client.publish("a", "x", 1, retain=True)
    await client.subscribe("a", qos=0)
    assert (await client.receive(Publish)).retain
    await client.subscribe("a", qos=1)
    [message] = await client.messages(1)
    assert (message.payload, message.retain) == (b"x", True)


@pytest.mark.fact("mqtt-connector M104")
async def test_only_the_own_queues_are_deleted(virtual: MqttBroker) -> None:
    for client_id in ("me", "me2", "m"):
        client = await virtual.client(client_id, clean=False)
        await client.subscribe("a/#", qos=2)
        await client.disconnect()
    client = await virtual.client("me")
    await client.nothing_comes()
    assert queues(virtual) == [
        "Consumer.m:EXACTLY_ONCE.VirtualTopic.a.>",
        "Consumer.me2:EXACTLY_ONCE.VirtualTopic.a.>",
    ]


@pytest.mark.fact("mqtt-connector M103")
async def test_queues_are_found_after_a_restart(mqtt_broker: StartMqtt, tmp_path: Path) -> None:
    for again in (False, True):
        store = KahaDBPersistenceAdapter(tmp_path)
        async with mqtt_broker(OPTION, persistent=True, persistence_adapter=store) as mqtt:
            client = await mqtt.open()
            assert await client.connect("me", clean=False) == ConnAck(0, again)
            if not again:
                await client.subscribe("a/b", qos=1)
            await client.publish("a/b", "x", 1)
            await client.acknowledge(await client.receive(Publish))


@pytest.mark.fact("mqtt-connector M141")
async def test_expired_sessions_lose_their_queues(virtual: MqttBroker) -> None:
    async with VirtualClock() as clock:
        client = await virtual.open(5)
        await client.send(Connect("me", 5, True, 0, properties={"session_expiry_interval": 10}))
        assert (await client.receive(ConnAck)).code == 0
        await client.subscribe("a", qos=1)
        await client.disconnect()
        await clock.advance(9)
        assert queues(virtual) == ["Consumer.me:AT_LEAST_ONCE.VirtualTopic.a"]
        await clock.advance(2)
        assert queues(virtual) == []
