"""Kept sessions: subscriptions, packet ids and QoS 2 over reconnects and restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.wire.mqtt import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    Ack,
    ConnAck,
    Filter,
    Publish,
    SubAck,
    Subscribe,
)
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt, texts


async def kept(mqtt: MqttBroker, client_id: str = "me", *, present: bool) -> MqttClient:
    """A client with a kept session, which the broker has or has not."""
    client = await mqtt.open()
    assert await client.connect(client_id, clean=False) == ConnAck(0, present)
    return client


def durables(mqtt: MqttBroker) -> list[str]:
    found = mqtt.broker.service.region_broker.subscriptions.durable_subscriptions()
    return sorted(each.key.subscription_name for each in found)


@pytest.mark.fact(
    "mqtt-connector M90",
    "mqtt-connector M92",
    "mqtt-connector M94",
    "mqtt-connector M23",
    "mqtt-connector M28",
    "activemq-edges MQ2",
)
@pytest.mark.parametrize("qos", [1, 2])
async def test_messages_wait_for_an_absent_client(mqtt: MqttBroker, qos: int) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a/#", qos=qos)
    assert durables(mqtt) == [f"{'AT_LEAST' if qos == 1 else 'EXACTLY'}_ONCE:a/#"]
    await client.disconnect()
    sender = await mqtt.client()
    for sent in range(3):
        await sender.publish("a/b", str(sent), sent)
    client = await kept(mqtt, present=True)
    found = await client.messages(3)
    assert sorted(texts(found)) == [("a/b", "0"), ("a/b", "1"), ("a/b", "2")]
    assert sorted(m.qos for m in found) == sorted(min(sent, qos) for sent in range(3))
    for message in found:
        await client.acknowledge(message)
    await client.disconnect()
    client = await kept(mqtt, present=True)
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M95")
async def test_the_backlog_of_each_kind_is_in_order(mqtt: MqttBroker) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a", qos=1)
    await client.disconnect()
    sender = await mqtt.client()
    for number in range(6):
        await sender.publish("a", str(number), number % 2)
    client = await kept(mqtt, present=True)
    found = await client.messages(6)
    for qos, expected in ((0, ["0", "2", "4"]), (1, ["1", "3", "5"])):
        assert [m.payload.decode() for m in found if m.qos == qos] == expected


@pytest.mark.fact("mqtt-connector M90")
async def test_subscriptions_of_qos_0_and_clean_sessions_end(mqtt: MqttBroker) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a")
    clean = await mqtt.client("other")
    await clean.subscribe("a", qos=2)
    assert durables(mqtt) == []


@pytest.mark.fact("mqtt-connector M93", "activemq-edges MQ2")
async def test_a_clean_session_deletes_the_kept_one(mqtt: MqttBroker) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a", "b", qos=1)
    await client.disconnect()
    client = await mqtt.client("me")
    await client.nothing_comes()
    assert durables(mqtt) == []
    await client.disconnect()
    await kept(mqtt, present=False)


@pytest.mark.fact("mqtt-connector M92")
async def test_a_subscription_that_jms_made_stays_as_it_is(mqtt: MqttBroker) -> None:
    async with mqtt.jms("jms.clientID=me") as session:
        consumer = await session.create_durable_subscriber(session.create_topic("a"), "mine")
        await consumer.close()
    client = await kept(mqtt, present=False)
    await client.publish("a", "x", 1)
    await client.nothing_comes()
    assert durables(mqtt) == ["mine"]


@pytest.mark.fact("mqtt-connector M76")
async def test_unsubscribing_deletes(mqtt: MqttBroker) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a", "b", qos=1)
    await client.unsubscribe("a", "unknown", "a")
    assert durables(mqtt) == ["AT_LEAST_ONCE:b"]
    await client.unsubscribe()
    await client.publish("a", "x")
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M74")
async def test_another_qos_replaces_the_subscription(mqtt: MqttBroker) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a", qos=1)
    await client.subscribe("a", qos=2)
    assert durables(mqtt) == ["EXACTLY_ONCE:a"]
    await client.subscribe("a", qos=0)
    assert durables(mqtt) == []
    await client.publish("a", "x", 2)
    assert (await client.receive(Publish)).qos == 0
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M82", "mqtt-connector M85", "mqtt-connector M87")
async def test_unacknowledged_messages_come_again_with_their_ids(mqtt: MqttBroker) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a", qos=2)
    sender = await mqtt.client()
    for qos in (1, 2):
        await sender.publish("a", str(qos), qos)
    first = await client.messages(2)
    assert [m.packet_id for m in first] == [1, 2]
    await client.lose()
    client = await kept(mqtt, present=True)
    again = await client.messages(2)
    assert [(m.payload, m.packet_id, m.duplicate) for m in again] == [
        (m.payload, m.packet_id, True) for m in first
    ]
    for message in again:
        await client.acknowledge(message)
    await sender.publish("a", "new", 1)
    message = await client.receive(Publish)
    assert (message.packet_id, message.duplicate) == (3, False)


@pytest.mark.fact("mqtt-connector M85")
async def test_after_pubrec_only_pubrel_comes_again(mqtt: MqttBroker) -> None:
    client = await kept(mqtt, present=False)
    await client.subscribe("a", qos=2)
    await client.publish("a", "x", 2)
    message = await client.receive(Publish)
    await client.send(Ack(PUBREC, message.packet_id))
    assert await client.receive(Ack) == Ack(PUBREL, message.packet_id)
    await client.lose()
    client = await kept(mqtt, present=True)
    assert await client.receive(Ack) == Ack(PUBREL, message.packet_id)
    await client.send(Ack(PUBCOMP, message.packet_id))
    await client.lose()
    client = await kept(mqtt, present=True)
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M61", "mqtt-connector M62", "mqtt-connector M65")
async def test_a_duplicate_of_qos_2_is_delivered_once(mqtt: MqttBroker) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("a")
    client = await kept(mqtt, present=False)
    packet = Publish("a", b"x", 2, packet_id=7)
    await client.send(packet)
    assert await client.receive(Ack) == Ack(PUBREC, 7)
    packet.duplicate = True
    await client.send(packet)
    assert await client.receive(Ack) == Ack(PUBREC, 7)
    await client.lose()
    client = await kept(mqtt, present=True)
    await client.send(packet)
    assert await client.receive(Ack) == Ack(PUBREC, 7)
    for _ in range(2):
        await client.send(Ack(PUBREL, 7))
        assert await client.receive(Ack) == Ack(PUBCOMP, 7)
    assert len(await watcher.messages(1)) == 1
    await watcher.nothing_comes()
    await client.send(packet)
    assert await client.receive(Ack) == Ack(PUBREC, 7)
    assert len(await watcher.messages(1)) == 1


@pytest.mark.fact("mqtt-connector M81")
async def test_acknowledgements_of_unknown_ids(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.send(Ack(PUBACK, 9), Ack(PUBCOMP, 9))
    await client.send(Ack(PUBREC, 9))
    assert await client.receive(Ack) == Ack(PUBREL, 9)


@pytest.mark.fact("mqtt-connector M83", "mqtt-connector M91")
async def test_the_prefetch_limits_what_is_in_flight(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker("?transport.activeMQSubscriptionPrefetch=2") as mqtt:
        client = await mqtt.client()
        await client.subscribe("a", qos=1)
        sender = await mqtt.client()
        for number in range(4):
            await sender.publish("a", str(number), 1)
        first, _ = await client.messages(2)
        await client.nothing_comes()
        await client.acknowledge(first)
        assert texts(await client.messages(1)) == [("a", "2")]
        await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M96")
async def test_sessions_survive_a_restart(mqtt_broker: StartMqtt, tmp_path: Path) -> None:
    for again in (False, True):
        store = KahaDBPersistenceAdapter(tmp_path)
        async with mqtt_broker(persistent=True, persistence_adapter=store) as mqtt:
            client = await kept(mqtt, present=again)
            if not again:
                await client.subscribe("a/+", qos=2)
                await client.disconnect()
                sender = await mqtt.client()
                for qos in (1, 2):
                    await sender.publish("a/b", str(qos), qos)
            else:
                found = await client.messages(2)
                assert [(m.payload, m.qos) for m in found] == [(b"1", 1), (b"2", 2)]
                for message in found:
                    await client.acknowledge(message)
                await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M70", "mqtt-connector M75")
async def test_one_copy_for_each_filter(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.send(Subscribe(5, [Filter("a/#", 2), Filter("a/b", 0), Filter("+/b", 1)]))
    assert await client.receive(SubAck) == SubAck(SUBACK, 5, [2, 0, 1])
    await client.publish("a/b", "x", 2)
    assert sorted(m.qos for m in await client.messages(3)) == [0, 1, 2]


@pytest.mark.fact("mqtt-connector M62", "mqtt-connector M86")
async def test_qos_2_from_the_client_over_a_restart(mqtt_broker: StartMqtt, tmp_path: Path) -> None:
    packet = Publish("a", b"x", 2, packet_id=7)
    for again in (False, True):
        store = KahaDBPersistenceAdapter(tmp_path)
        async with mqtt_broker(persistent=True, persistence_adapter=store) as mqtt:
            watcher = await kept(mqtt, "watcher", present=again)
            client = await kept(mqtt, present=again)
            if not again:
                await watcher.subscribe("a", qos=1)
            await client.send(packet)
            assert await client.receive(Ack) == Ack(PUBREC, 7)
            if again:
                await watcher.acknowledge(await watcher.receive(Publish))
                await watcher.nothing_comes()
                await client.send(Ack(PUBREL, 7))
                assert await client.receive(Ack) == Ack(PUBCOMP, 7)
                await client.send(packet)
                assert await client.receive(Ack) == Ack(PUBREC, 7)
                await watcher.receive(Publish)


@pytest.mark.fact("mqtt-connector M85", "mqtt-connector M86")
async def test_qos_2_to_the_client_over_restarts(mqtt_broker: StartMqtt, tmp_path: Path) -> None:
    found: list[Publish] = []
    for start in range(4):
        store = KahaDBPersistenceAdapter(tmp_path)
        async with mqtt_broker(persistent=True, persistence_adapter=store) as mqtt:
            client = await kept(mqtt, present=start > 0)
            if start == 0:
                await client.subscribe("a", qos=2)
                for text in ("1", "2"):
                    await client.publish("a", text, 2)
                found = await client.messages(2)
            elif start == 1:
                again = await client.messages(2)
                assert [(m.payload, m.packet_id, m.duplicate) for m in again] == [
                    (m.payload, m.packet_id, True) for m in found
                ]
                await client.send(Ack(PUBREC, found[0].packet_id))
                assert await client.receive(Ack) == Ack(PUBREL, found[0].packet_id)
            elif start == 2:
                assert await client.receive(Ack) == Ack(PUBREL, found[0].packet_id)
                await client.send(Ack(PUBCOMP, found[0].packet_id))
                message = await client.receive(Publish)
                assert (message.packet_id, message.duplicate) == (found[1].packet_id, True)
                await client.acknowledge(message)
                await client.nothing_comes()
            else:
                await client.nothing_comes()
