"""Retained messages."""

from __future__ import annotations

import pytest

from pyjms.wire.mqtt import SUBACK, Filter, Publish, SubAck, Subscribe
from tests.kit.mqtt.client import MqttBroker, texts


@pytest.mark.fact("mqtt-connector M110", "mqtt-connector M111", "mqtt-connector M112")
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_the_last_one_is_kept(mqtt: MqttBroker, qos: int) -> None:
    client = await mqtt.client()
    await client.subscribe("a/b", qos=2)
    for text in ("1", "2"):
        await client.publish("a/b", text, qos, retain=True)
    assert [(m.retain, m.qos) for m in await client.messages(2)] == [(False, qos)] * 2
    later = await mqtt.client()
    await later.subscribe("a/b", qos=2)
    [message] = await later.messages(1)
    assert (message.payload, message.retain, message.qos) == (b"2", True, qos)
    await later.acknowledge(message)
    await later.nothing_comes()


@pytest.mark.fact("mqtt-connector M72")
async def test_it_may_come_before_suback(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.publish("a", "x", retain=True)
    await client.send(Subscribe(7, [Filter("a", 1)]))
    found = {type(packet): packet for packet in (await client.next(), await client.next())}
    assert found[SubAck] == SubAck(SUBACK, 7, [1])
    assert found[Publish] == Publish("a", b"x", retain=True)


@pytest.mark.fact("mqtt-connector M111")
async def test_an_empty_one_clears_it(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.subscribe("a")
    await client.publish("a", "x", retain=True)
    await client.publish("a", "", retain=True)
    assert texts(await client.messages(2)) == [("a", "x"), ("a", "")]
    later = await mqtt.client()
    await later.subscribe("a")
    await later.nothing_comes()


@pytest.mark.fact("mqtt-connector M113")
async def test_patterns_get_those_of_all_topics(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    for topic in ("a/1", "a/2", "b/1"):
        await client.publish(topic, topic, retain=True)
    await client.subscribe("a/#")
    assert sorted(m.topic for m in await client.messages(2)) == ["a/1", "a/2"]
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M73")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("qos", [0, 1])
async def test_the_same_subscription_again_sends_it_again(
    mqtt: MqttBroker, clean: bool, qos: int
) -> None:
    client = await mqtt.client("me", clean=clean)
    await client.publish("a", "x", 1, retain=True)
    for _ in range(2):
        await client.subscribe("a", qos=qos)
        [message] = await client.messages(1)
        assert (message.retain, message.qos) == (True, qos)
        await client.acknowledge(message)
    await client.publish("a", "y", 1)
    assert texts(await client.messages(1)) == [("a", "y")]
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M73", "mqtt-connector M114")
async def test_a_restored_subscription_gets_what_was_not_acknowledged_once(
    mqtt: MqttBroker,
) -> None:
    client = await mqtt.client("me", clean=False)
    await client.publish("a", "x", 1, retain=True)
    await client.subscribe("a", qos=1)
    first = await client.receive(Publish)
    await client.lose()
    client = await mqtt.client("me", clean=False)
    again = await client.receive(Publish)
    assert (again.packet_id, again.duplicate) == (first.packet_id, True)
    await client.acknowledge(again)
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M115", "mqtt-connector M116", "activemq-edges MQ3")
async def test_jms_clients_may_retain(mqtt: MqttBroker) -> None:
    async with mqtt.jms() as session:
        producer = await session.create_producer(session.create_topic("a"))
        message = session.create_text_message("x")
        message.properties["ActiveMQ.Retain"] = True
        await producer.send(message)
        empty = session.create_message()
        empty.properties["ActiveMQ.Retain"] = True
        producer = await session.create_producer(session.create_topic("b"))
        await producer.send(empty)
        client = await mqtt.client()
        await client.subscribe("+", qos=1)
        [message_a] = await client.messages(1)
        assert (message_a.topic, message_a.payload, message_a.retain) == ("a", b"x", True)
        await client.nothing_comes()
        topic = session.create_topic("a?consumer.retroactive=true")
        consumer = await session.create_consumer(topic)
        received = await consumer.receive(5)
        assert received is not None
        assert received.properties["ActiveMQ.Retained"] is True
