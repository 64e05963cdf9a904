"""MQTT clients that do not read or acknowledge, and packets that would take much memory."""

from __future__ import annotations

import anyio
import pytest

from pyjms.jms.destination import Topic
from pyjms.wire.mqtt import (
    MAX_FILTERS,
    MAX_PROPERTIES_SIZE,
    PINGREQ,
    PUBACK,
    PUBREC,
    Ack,
    ConnAck,
    Connect,
    Disconnect,
    Filter,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
)
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.mqtt.session import MqttSession
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt
from tests.kit.waiting import until

KIB, MIB = 1 << 10, 1 << 20
LONG = bytes(24 * MIB)
"""More than the sockets of a client that does not read take."""
PINGS = 200_000


def session_of(mqtt: MqttBroker, client_id: str) -> MqttSession:
    """Return the session of a connected client."""
    context = mqtt.broker.service.region_broker.client_context(client_id)
    assert context is not None
    session = context.connection._transport  # type: ignore[union-attr]
    assert isinstance(session, MqttSession)
    return session


def subscription_of(mqtt: MqttBroker, client_id: str, text: str) -> Subscription:
    consumer_id = session_of(mqtt, client_id).subscriptions[text].consumer_id
    found = mqtt.broker.service.region_broker.subscriptions.get(consumer_id)
    assert found is not None
    return found


async def lazy_client(mqtt: MqttBroker, *filters: str, qos: int = 0) -> MqttClient:
    """A client that has subscribed, and does not read the long message that it gets."""
    lazy = await mqtt.client("lazy", clean=False)
    await lazy.subscribe("long")
    if filters:
        await lazy.subscribe(*filters, qos=qos)
    await (await mqtt.client()).publish("long", LONG)
    await until(lambda: session_of(mqtt, "lazy").congested)
    return lazy


async def test_answers_that_are_not_read_are_limited(mqtt: MqttBroker) -> None:
    lazy = await lazy_client(mqtt)
    session = session_of(mqtt, "lazy")
    queued = session.queued_bytes or 0
    async with anyio.create_task_group() as group:
        group.start_soon(lazy.send, *[Ping(PINGREQ)] * PINGS)
        await until(lambda: session._tcp.reading_paused)
        assert (session.queued_bytes or 0) < queued + MIB
        other = await mqtt.client()
        await other.subscribe("a")
        await other.publish("a", "x")
        await other.messages(1)
        # it reads at last
        assert (await lazy.receive(Publish)).payload == LONG
        while len(lazy.received) < PINGS:
            lazy.received += lazy._format.receive_data(await lazy.stream.receive())


@pytest.mark.parametrize("qos", [0, 1])
async def test_retained_messages_do_not_pile_up(mqtt: MqttBroker, qos: int) -> None:
    sender = await mqtt.client()
    for number in range(20):
        await sender.publish(f"r/{number}", "x", retain=True)
    lazy = await lazy_client(mqtt, "r/#", qos=qos)
    received = session_of(mqtt, "lazy")._tcp.received_bytes
    await lazy.send(*[Subscribe(number, [Filter("r/#", qos)]) for number in range(1, 501)])
    await until(lambda: session_of(mqtt, "lazy")._tcp.received_bytes == received + 500 * 10)
    assert 20 <= subscription_of(mqtt, "lazy", "r/#").pending_count <= 1020
    # and nothing is counted for ever
    await lazy.lose()
    await (await mqtt.client("lazy")).disconnect()
    for number in range(20):
        await sender.publish(f"r/{number}", "", retain=True)
    await sender.nothing_comes()
    topics = mqtt.broker.service.region_broker.destinations()
    assert [topics[Topic(f"r.{number}")].memory.used for number in range(20)] == [0] * 20


@pytest.mark.fact("mqtt-connector M145")
async def test_messages_without_packet_ids_wait_in_the_broker(mqtt: MqttBroker) -> None:
    client = await mqtt.open(5)
    await client.send(Connect("lazy", 5, properties={"receive_maximum": 1}))
    await client.receive(ConnAck)
    await client.subscribe("a", qos=1)
    sender = await mqtt.client()
    for number in range(100):
        await sender.publish("a", bytes([number]) * 100 * KIB, 1)
    held = session_of(mqtt, "lazy").deliveries._held_size
    assert held < 2 * MIB
    assert subscription_of(mqtt, "lazy", "a").pending_count > 80
    for number in range(100):
        message = await client.receive(Publish)
        assert message.payload[0] == number
        await client.send(Ack(PUBACK, message.packet_id))
    await client.nothing_comes()
    assert session_of(mqtt, "lazy").deliveries._held_size == 0
    assert subscription_of(mqtt, "lazy", "a").prefetch_size == 32767


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_sender_waits_for_space_within_a_chunk(mqtt_broker: StartMqtt, qos: int) -> None:
    in_memory = PolicyMap([PolicyEntry(pending_subscriber_policy="vmCursor")])
    async with mqtt_broker(memory_limit=2 * MIB, policies=in_memory) as mqtt:
        lazy = await lazy_client(mqtt, "a", qos=0)
        sender = await mqtt.client("sender")
        packets = [
            Publish("a", number.to_bytes(2) + bytes(KIB), qos, packet_id=number)
            for number in range(1, 3001)
        ]
        async with anyio.create_task_group() as group:
            group.start_soon(sender.send, *packets)
            await until(lambda: session_of(mqtt, "sender").is_paused)
            await (await mqtt.client()).nothing_comes()
            assert (await lazy.receive(Publish)).payload == LONG
            for packet in packets:
                assert (await lazy.receive(Publish)).payload == packet.payload
        if qos:
            kind = PUBACK if qos == 1 else PUBREC
            answers = [await sender.receive(Ack) for _ in packets]
            assert sorted(each.packet_id for each in answers) == list(range(1, 3001))
            assert {each.type for each in answers} == {kind}


async def test_a_sender_that_is_lost_while_it_waits_sends_the_rest_again(
    mqtt_broker: StartMqtt,
) -> None:
    in_memory = PolicyMap([PolicyEntry(pending_subscriber_policy="vmCursor")])
    async with mqtt_broker(memory_limit=2 * MIB, policies=in_memory) as mqtt:
        lazy = await lazy_client(mqtt, "a", qos=0)
        packets = [
            Publish("a", number.to_bytes(2) + bytes(KIB), 2, packet_id=number)
            for number in range(1, 3001)
        ]
        sender = await mqtt.client("sender", clean=False)
        async with anyio.create_task_group() as group:
            group.start_soon(sender.send, *packets)
            await until(lambda: session_of(mqtt, "sender").is_paused)
            group.cancel_scope.cancel()
        await sender.lose()
        assert (await lazy.receive(Publish)).payload == LONG
        sender = await mqtt.client("sender", clean=False)
        received = [await lazy.receive(Publish)]
        async with anyio.create_task_group() as group:
            group.start_soon(sender.send, *packets)
            while len(received) < len(packets):
                received.append(await lazy.receive(Publish))
        answers = {(await sender.receive(Ack)).packet_id for _ in packets}
        assert answers == set(range(1, 3001))
        await lazy.nothing_comes()
        assert [each.payload for each in received] == [each.payload for each in packets]


@pytest.mark.fact("mqtt-connector M145")
@pytest.mark.parametrize("kind", ["subscribe", "unsubscribe", "properties"])
async def test_packets_of_many_parts_are_refused(mqtt: MqttBroker, kind: str) -> None:
    client = await mqtt.open(5)
    await client.send(Connect("many", 5))
    await client.receive(ConnAck)
    if kind == "subscribe":
        await client.send(Subscribe(1, [Filter("a")] * (MAX_FILTERS + 1)))
    elif kind == "unsubscribe":
        await client.send(Unsubscribe(1, ["a"] * (MAX_FILTERS + 1)))
    else:
        pairs = [("a", "b")] * (MAX_PROPERTIES_SIZE // 7 + 1)
        await client.send(Publish("a", properties={"user_property": pairs}))
    assert (await client.receive(Disconnect)).code == 0x95
    assert await client.closed()
