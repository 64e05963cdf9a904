"""The cases by which brokers of MQTT 3.1.1 are compared, with the names that they have there.

They are those of the interoperability tests of Eclipse Paho. ActiveMQ passes all but
`offline_message_queueing`, as it says of no session that it is present, and `subscribe_failure`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from pyjms.testing.clock import VirtualClock
from pyjms.wire.mqtt import CONNECT, ConnAck, Connect, Publish, Will
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import simple, user
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt, texts

TOPICS = ["TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA"]
ALL_OF_TWO_LEVELS = "+/+"


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


async def publish_all(client: MqttClient, topics: Sequence[str], *, retain: bool = False) -> None:
    """Publish a message of each QoS."""
    for qos, topic in enumerate(topics):
        await client.publish(topic, f"qos {qos}", qos, retain=retain)


async def received(client: MqttClient, count: int) -> list[Publish]:
    """Return the next messages, acknowledged; no more may come."""
    found = []
    for message in await client.messages(count):
        await client.acknowledge(message)
        found.append(message)
    await client.nothing_comes()
    return found


async def test_basic(mqtt: MqttBroker) -> None:
    client = await mqtt.client("me")
    await client.subscribe(TOPICS[0], qos=2)
    await publish_all(client, [TOPICS[0]] * 3)
    assert [message.qos for message in await received(client, 3)] == [0, 1, 2]
    await client.disconnect()
    twice = await mqtt.client("me")
    await twice.send(Connect("me"))
    assert await twice.closed()
    wrong = await mqtt.open()
    first = b"\0\4hj68\4\2\0\0\0\2me"
    await wrong.stream.send(bytes([CONNECT << 4, len(first)]) + first)
    assert await wrong.closed()


@pytest.mark.fact("mqtt-connector M110", "mqtt-connector M111")
async def test_retained_messages(mqtt: MqttBroker) -> None:
    client = await mqtt.client("me")
    await publish_all(client, TOPICS[1:4], retain=True)
    await client.subscribe(ALL_OF_TWO_LEVELS, qos=2)
    found = await received(client, 3)
    assert sorted((each.topic, each.qos, each.retain) for each in found) == [
        ("Topic/C", 1, True),
        ("TopicA/B", 0, True),
        ("TopicA/C", 2, True),
    ]
    await client.disconnect()
    client = await mqtt.client("me")
    for qos, topic in enumerate(TOPICS[1:4]):
        await client.publish(topic, "", qos, retain=True)
    await client.subscribe(ALL_OF_TWO_LEVELS, qos=2)
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M39", "mqtt-connector M40")
async def test_will_message(mqtt: MqttBroker) -> None:
    watcher = await mqtt.client("watcher", clean=False)
    await watcher.subscribe(TOPICS[2], qos=2)
    client = await mqtt.client("me", will=Will(TOPICS[2], b"client not disconnected"))
    await client.lose()
    assert texts(await received(watcher, 1)) == [(TOPICS[2], "client not disconnected")]


@pytest.mark.fact("mqtt-connector M24")
async def test_zero_length_clientid(mqtt: MqttBroker) -> None:
    kept = await mqtt.open()
    assert await kept.connect("", clean=False) == ConnAck(2)
    assert await kept.closed()
    for _ in range(2):
        assert await (await mqtt.open()).connect("") == ConnAck()


@pytest.mark.fact("mqtt-connector M23", "mqtt-connector M94")
async def test_offline_message_queueing(mqtt: MqttBroker) -> None:
    client = await mqtt.client("me", clean=False)
    await client.subscribe(ALL_OF_TWO_LEVELS, qos=2)
    await client.disconnect()
    await publish_all(await mqtt.client(), TOPICS[1:4])
    client = await mqtt.open()
    assert (await client.connect("me", clean=False)).session_present
    found = await received(client, 3)
    assert sorted(texts(found)) == [
        ("Topic/C", "qos 1"),
        ("TopicA/B", "qos 0"),
        ("TopicA/C", "qos 2"),
    ]


@pytest.mark.fact("mqtt-connector M75")
async def test_overlapping_subscriptions(mqtt: MqttBroker) -> None:
    client = await mqtt.client("me")
    assert await client.subscribe("TopicA/#", qos=2) == [2]
    assert await client.subscribe("TopicA/+", qos=1) == [1]
    await client.publish(TOPICS[3], "overlapping", 2)
    assert sorted(message.qos for message in await received(client, 2)) == [1, 2]


@pytest.mark.fact("mqtt-connector M35")
async def test_keepalive(mqtt: MqttBroker, clock: VirtualClock) -> None:
    watcher = await mqtt.client("watcher")
    await watcher.subscribe(TOPICS[4], qos=2)
    will = Will(TOPICS[4], b"keepalive expiry")
    client = await mqtt.client("me", will=will, keep_alive=5)
    await clock.advance(7)
    await watcher.nothing_comes()
    await clock.advance(4)
    assert await client.closed()
    assert texts(await received(watcher, 1)) == [(TOPICS[4], "keepalive expiry")]


@pytest.mark.fact("mqtt-connector M85")
async def test_redelivery_on_reconnect(mqtt: MqttBroker) -> None:
    client = await mqtt.client("me", clean=False)
    await client.subscribe("TopicA/#", qos=2)
    sender = await mqtt.client()
    await sender.publish(TOPICS[1], "one", 1)
    await sender.publish(TOPICS[3], "two", 2)
    first = await client.messages(2)
    await client.lose()
    client = await mqtt.client("me", clean=False)
    again = await received(client, 2)
    assert texts(again) == texts(first) == [(TOPICS[1], "one"), (TOPICS[3], "two")]
    assert [m.packet_id for m in again] == [m.packet_id for m in first]
    assert all(message.duplicate for message in again)


@pytest.mark.fact("mqtt-connector M71")
async def test_subscribe_failure(mqtt_broker: StartMqtt) -> None:
    everybody = {"read": "all", "write": "all", "admin": "all"}
    rights = AuthorizationSettings.model_validate(
        {
            "entries": [
                {"destination": "topic://ActiveMQ.Advisory.>", **everybody},
                {"destination": "topic://test.nosubscribe", **everybody, "read": "nobody"},
            ]
        }
    )
    async with mqtt_broker(plugins=[simple(user("me", "all")), rights]) as mqtt:
        client = await mqtt.open()
        assert (await client.connect("me", login=("me", "secret"))).code == 0
        assert await client.subscribe("test/nosubscribe", qos=2) == [0x80]


@pytest.mark.fact("mqtt-connector M54", "mqtt-connector M55")
async def test_dollar_topics(mqtt_broker: StartMqtt) -> None:
    for options in ("", "?transport.publishDollarTopics=true"):
        async with mqtt_broker(options) as mqtt:
            client = await mqtt.client("me")
            await client.subscribe(ALL_OF_TWO_LEVELS, qos=2)
            await client.publish(f"${TOPICS[1]}", "not for a wildcard", 1)
            await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M76")
async def test_unsubscribe(mqtt: MqttBroker) -> None:
    client = await mqtt.client("me")
    await client.subscribe(*TOPICS[:3], qos=2)
    await client.unsubscribe(TOPICS[0])
    sender = await mqtt.client()
    await publish_all(sender, TOPICS[:3])
    assert texts(await received(client, 2)) == [(TOPICS[1], "qos 1"), (TOPICS[2], "qos 2")]
