"""MQTT 5: properties, reason codes, session expiry, subscription options and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from pyjms.jms import TextMessage
from pyjms.testing.clock import VirtualClock
from pyjms.wire.mqtt import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    Ack,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Filter,
    Properties,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
    Will,
)
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from tests.kit.brokers.access_matrix import DESTINATIONS, RIGHTS, USERS
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt, texts


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


async def connected(
    mqtt: MqttBroker, client_id: str = "", *, clean: bool = True, will: Will | None = None,
    login: str | None = None, **properties: object,
) -> tuple[MqttClient, ConnAck]:  # fmt: skip
    client = await mqtt.open(5)
    secret = None if login is None else b"secret"
    await client.send(Connect(client_id, 5, clean, 0, will, login, secret, properties))
    return client, await client.receive(ConnAck)


async def v5(mqtt: MqttBroker, client_id: str = "", **how: object) -> MqttClient:
    client, answer = await connected(mqtt, client_id, **how)  # type: ignore[arg-type]
    assert answer.code == 0, answer
    return client


async def subscribe(client: MqttClient, *filters: Filter, **properties: object) -> list[int]:
    await client.send(Subscribe(9, list(filters), properties))
    answer = await client.receive(SubAck)
    assert (answer.type, answer.packet_id) == (SUBACK, 9)
    return answer.codes


@pytest.mark.fact("mqtt-connector M140")
async def test_what_the_broker_says_of_itself(mqtt_broker: StartMqtt) -> None:
    options = "?transport.defaultKeepAlive=5000&wireFormat.maxFrameSize=1000"
    async with mqtt_broker(options) as mqtt:
        _, answer = await connected(mqtt)
        assert answer.code == 0
        assigned = answer.properties.pop("assigned_client_identifier")
        assert assigned
        assert answer.properties == {
            "receive_maximum": 10_000,
            "topic_alias_maximum": 100,
            "shared_subscription_available": False,
            "maximum_packet_size": 1003,
            "server_keep_alive": 5,
        }


@pytest.mark.fact("mqtt-connector M140", "mqtt-connector M6")
@pytest.mark.parametrize(("limit", "header"), [(127, 2), (128, 3), (16_383, 3), (16_384, 4)])
async def test_the_largest_packet_counts_its_header(
    mqtt_broker: StartMqtt, limit: int, header: int
) -> None:
    async with mqtt_broker(f"?wireFormat.maxFrameSize={limit}") as mqtt:
        client, answer = await connected(mqtt)
        assert answer.properties["maximum_packet_size"] == limit + header
        await client.send(Publish("a", bytes(limit - 6), 1, packet_id=1))
        assert await client.receive(Ack) == Ack(PUBACK, 1)
        await client.send(Publish("a", bytes(limit - 5), 1, packet_id=2))
        assert (await client.receive(Disconnect)).code == 0x95


@pytest.mark.fact("mqtt-connector M143")
async def test_properties_come_back(mqtt: MqttBroker) -> None:
    client = await v5(mqtt)
    await subscribe(client, Filter("a"), subscription_identifier=[7])
    properties: Properties = {
        "payload_format_indicator": True,
        "message_expiry_interval": 100,
        "response_topic": "r/1",
        "correlation_data": b"\xff\0",
        "content_type": "text/plain",
        "user_property": [("color", "red"), ("size", "5")],
    }
    await client.send(Publish("a", b"x", properties=dict(properties)))
    message = await client.receive(Publish)
    assert message.properties.pop("message_expiry_interval") in {99, 100}
    assert message.properties.pop("subscription_identifier") == [7]
    del properties["message_expiry_interval"]
    assert message.properties == properties


@pytest.mark.fact("mqtt-connector M141", "mqtt-connector M143")
async def test_properties_are_headers_of_jms(mqtt: MqttBroker) -> None:
    client = await v5(mqtt)
    async with mqtt.jms() as session:
        consumer = await session.create_consumer(session.create_topic("a"))
        await client.send(
            Publish(
                "a",
                b"hello",
                properties={
                    "payload_format_indicator": True,
                    "message_expiry_interval": 100,
                    "response_topic": "r/1",
                    "correlation_data": b"id",
                    "user_property": [("color", "red")],
                },
            )
        )
        message = await consumer.receive(5)
        assert isinstance(message, TextMessage)
        assert message.text == "hello"
        assert str(message.reply_to) == "topic://r.1"
        assert message.correlation_id == "id"
        assert message.expiration - message.timestamp == 100_000
        assert message.properties["color"] == "red"
        await client.subscribe("r/1")
        reply = session.create_text_message("back")
        reply.correlation_id = message.correlation_id
        reply.properties["n"] = 5
        producer = await session.create_producer(message.reply_to)
        await producer.send(reply)
        found = await client.receive(Publish)
        assert (found.topic, found.payload) == ("r/1", b"back")
        assert found.properties == {
            "payload_format_indicator": True,
            "correlation_data": b"id",
            "user_property": [("n", "5")],
        }


@pytest.mark.fact("mqtt-connector M40", "mqtt-connector M142")
@pytest.mark.parametrize(
    "will",
    [
        Will("w", properties={"response_topic": "a/#"}),
        Will("w", b"\xff", properties={"payload_format_indicator": True}),
    ],
    ids=["response topic", "payload"],
)
async def test_a_will_that_could_not_be_sent_is_refused(mqtt: MqttBroker, will: Will) -> None:
    client, answer = await connected(mqtt, "me", will=will)
    assert answer.code == 0x99
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M142")
async def test_a_payload_that_is_not_the_text_it_says(mqtt: MqttBroker) -> None:
    client = await v5(mqtt)
    await client.send(Publish("a", b"\xff", properties={"payload_format_indicator": True}))
    assert (await client.receive(Disconnect)).code == 0x99
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M142", "mqtt-connector M64")
async def test_refusals_have_reason_codes(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as mqtt:
        _, answer = await connected(mqtt)
        assert answer.code == 0x86
        client = await v5(mqtt, login="stranger")
        for qos, kind in ((1, PUBACK), (2, PUBREC)):
            await client.send(Publish("M/t", b"", qos, packet_id=qos))
            refused = await client.receive(Ack)
            assert (refused.type, refused.packet_id, refused.code) == (kind, qos, 0x87)
            assert "not authorized" in refused.properties["reason_string"]
        assert await subscribe(client, Filter("M/t"), Filter("a/#/b")) == [0x87, 0x8F]
        await client.send(Unsubscribe(4, ["unknown"]))
        assert await client.receive(SubAck) == SubAck(UNSUBACK, 4, [0x11])
        await client.send(Ack(PUBREL, 99), Ack(PUBREC, 99))
        assert await client.receive(Ack) == Ack(PUBCOMP, 99, 0x92)
        assert await client.receive(Ack) == Ack(PUBREL, 99, 0x92)


@pytest.mark.fact("mqtt-connector M142", "mqtt-connector M145")
@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (Publish("a/+"), 0x90),
        (Publish("", properties={"topic_alias": 3}), 0x82),
        (Publish("a", properties={"topic_alias": 101}), 0x94),
        (Publish("a", properties={"subscription_identifier": [1]}), 0x82),
        (Auth(0x18), 0x82),
        (Connect("again", 5), 0x82),
        (Disconnect(0, {"session_expiry_interval": 5}), 0x82),
    ],
)
async def test_violations_are_told(
    mqtt: MqttBroker, packet: Publish | Auth | Connect | Disconnect, code: int
) -> None:
    client = await v5(mqtt)
    await client.send(packet)
    assert (await client.receive(Disconnect)).code == code
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M145")
async def test_enhanced_authentication_is_refused(mqtt: MqttBroker) -> None:
    client, answer = await connected(mqtt, authentication_method="SCRAM")
    assert answer.code == 0x8C
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M142")
async def test_a_client_that_was_taken_over_is_told(mqtt: MqttBroker) -> None:
    first = await v5(mqtt, "me")
    await v5(mqtt, "me")
    assert (await first.receive(Disconnect)).code == 0x8E
    assert await first.closed()


@pytest.mark.fact("mqtt-connector M145")
async def test_topic_aliases(mqtt: MqttBroker) -> None:
    client = await v5(mqtt)
    await client.subscribe("#")
    await client.send(
        Publish("a/b", b"1", properties={"topic_alias": 3}),
        Publish("", b"2", properties={"topic_alias": 3}),
        Publish("c", b"3", properties={"topic_alias": 3}),
        Publish("", b"4", properties={"topic_alias": 3}),
    )
    assert texts(await client.messages(4)) == [("a/b", "1"), ("a/b", "2"), ("c", "3"), ("c", "4")]


@pytest.mark.fact("mqtt-connector M145")
async def test_the_receive_maximum(mqtt: MqttBroker) -> None:
    client = await v5(mqtt, receive_maximum=2)
    await client.subscribe("a", qos=1)
    sender = await mqtt.client()
    for number in range(4):
        await sender.publish("a", str(number), 1)
    await sender.publish("a", "0", 0)
    first, second, unlimited = await client.messages(3)
    assert texts([first, second, unlimited]) == [("a", "0"), ("a", "1"), ("a", "0")]
    await client.nothing_comes()
    await client.acknowledge(second)
    assert texts(await client.messages(1)) == [("a", "2")]
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M145")
async def test_the_receive_maximum_of_a_resumed_session(
    mqtt: MqttBroker, clock: VirtualClock
) -> None:
    kept = {"session_expiry_interval": 100}
    client = await v5(mqtt, "me", **kept)
    await client.subscribe("a", qos=1)
    sender = await v5(mqtt)
    for number in range(3):
        expiry = {"message_expiry_interval": 5} if number == 0 else {}
        await sender.send(Publish("a", str(number).encode(), 1, packet_id=9, properties=expiry))
        await sender.receive(Ack)
    assert len(await client.messages(3)) == 3
    await client.lose()
    await clock.advance(10)  # the first one is not sent again
    client = await v5(mqtt, "me", clean=False, receive_maximum=1, **kept)
    for text in ("1", "2"):
        [message] = await client.messages(1)
        assert texts([message]) == [("a", text)]
        await client.nothing_comes()
        await client.acknowledge(message)
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M145")
async def test_packets_that_are_too_large_for_the_client_are_left_out(mqtt: MqttBroker) -> None:
    client = await v5(mqtt, maximum_packet_size=50)
    await client.subscribe("a", qos=1)
    sender = await mqtt.client()
    await sender.publish("a", bytes(100), 1)
    await sender.publish("a", "small", 1)
    assert texts(await client.messages(1)) == [("a", "small")]


@pytest.mark.fact("mqtt-connector M144")
async def test_no_local(mqtt: MqttBroker) -> None:
    client = await v5(mqtt)
    assert await subscribe(client, Filter("a", no_local=True)) == [0]
    await client.publish("a", "own")
    await (await mqtt.client()).publish("a", "other")
    assert texts(await client.messages(1)) == [("a", "other")]


@pytest.mark.fact("mqtt-connector M144")
async def test_retain_as_published(mqtt: MqttBroker) -> None:
    client = await v5(mqtt)
    await subscribe(client, Filter("a", retain_as_published=True), Filter("+"))
    await client.publish("a", "x", retain=True)
    assert sorted(m.retain for m in await client.messages(2)) == [False, True]


@pytest.mark.fact("mqtt-connector M144")
async def test_retain_handling(mqtt: MqttBroker) -> None:
    client = await v5(mqtt)
    await client.publish("a", "x", retain=True)
    await subscribe(client, Filter("a", retain_handling=2))
    await client.nothing_comes()
    await client.unsubscribe("a")
    for comes in (True, False):
        await client.send(Subscribe(9, [Filter("a", retain_handling=1)]))
        kinds = {type(await client.next()) for _ in range(1 + comes)}
        assert kinds == ({SubAck, Publish} if comes else {SubAck})


@pytest.mark.fact("mqtt-connector M141")
async def test_a_session_lives_as_long_as_it_says(mqtt: MqttBroker, clock: VirtualClock) -> None:
    client = await v5(mqtt, "me", session_expiry_interval=100)
    await client.subscribe("a", qos=1)
    await client.disconnect()
    await clock.advance(50)
    client, answer = await connected(mqtt, "me", clean=False, session_expiry_interval=100)
    assert answer.session_present
    await client.disconnect()
    await clock.advance(101)
    region = mqtt.broker.service.region_broker
    assert region.subscriptions.durable_subscriptions() == []
    _, answer = await connected(mqtt, "me", clean=False)
    assert not answer.session_present


@pytest.mark.fact("mqtt-connector M141", "mqtt-connector M144")
async def test_a_resumed_session_has_its_options(mqtt: MqttBroker) -> None:
    client = await v5(mqtt, "me", session_expiry_interval=100)
    await subscribe(
        client, Filter("a", 1, no_local=True), Filter("b", 0), subscription_identifier=[5]
    )
    await client.disconnect()
    sender = await mqtt.client()
    await sender.publish("a", "x", 1)
    client, answer = await connected(mqtt, "me", clean=False, session_expiry_interval=100)
    assert answer.session_present
    message = await client.receive(Publish)
    assert (message.payload, message.properties["subscription_identifier"]) == (b"x", [5])
    await sender.publish("b", "y")
    assert texts(await client.messages(1)) == [("b", "y")]


@pytest.mark.fact("mqtt-connector M141")
async def test_disconnect_may_end_the_session_and_send_the_will(mqtt: MqttBroker) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("w")
    client = await v5(mqtt, "me", session_expiry_interval=100, will=Will("w", b"gone"))
    await client.subscribe("a", qos=1)
    await client.send(Disconnect(4, {"session_expiry_interval": 0}))
    assert await client.closed()
    assert texts(await watcher.messages(1)) == [("w", "gone")]
    _, answer = await connected(mqtt, "me", clean=False)
    assert not answer.session_present


@pytest.mark.fact("mqtt-connector M144")
async def test_shared_subscriptions(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker() as mqtt:
        client = await v5(mqtt)
        assert await subscribe(client, Filter("$share/g/a")) == [0x9E]
    strategy = "?transport.subscriptionStrategy=mqtt-virtual-topic-subscriptions"
    async with mqtt_broker(strategy) as mqtt:
        first, answer = await connected(mqtt)
        assert answer.properties["shared_subscription_available"]
        second = await v5(mqtt)
        for client in (first, second):
            assert await subscribe(client, Filter("$share/g/a", 1)) == [1]
        for number in range(4):
            await first.publish("a", str(number), 1)
        found = []
        for client in (first, second):
            for message in await client.messages(2):
                await client.acknowledge(message)
                found.append(message)
        await second.nothing_comes()
        assert sorted(texts(found)) == [("a", str(number)) for number in range(4)]
        await second.unsubscribe("$share/g/a")
        await first.publish("a", "4", 1)
        assert texts(await first.messages(1)) == [("a", "4")]


@pytest.mark.fact("mqtt-connector M141")
@pytest.mark.parametrize("returns", [True, False])
async def test_a_will_may_wait(mqtt: MqttBroker, clock: VirtualClock, returns: bool) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("w")
    will = Will("w", b"gone", properties={"will_delay_interval": 10})
    client = await v5(mqtt, "me", will=will, session_expiry_interval=100)
    await client.lose()
    await clock.advance(5)
    await watcher.nothing_comes()
    if returns:
        await v5(mqtt, "me", clean=False, session_expiry_interval=100)
    await clock.advance(6)
    if not returns:
        assert texts(await watcher.messages(1)) == [("w", "gone")]
    await watcher.nothing_comes()


@pytest.mark.fact("mqtt-connector M141")
@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_clean_start_sends_the_will_that_waits(
    mqtt: MqttBroker, clock: VirtualClock, is_lost: bool
) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("w")
    will = Will("w", b"gone", properties={"will_delay_interval": 10})
    client = await v5(mqtt, "me", will=will, session_expiry_interval=100)
    if is_lost:
        await client.lose()
        await clock.advance(1)
        await watcher.nothing_comes()
    await v5(mqtt, "me")  # otherwise it takes over
    assert texts(await watcher.messages(1)) == [("w", "gone")]
    await clock.advance(20)
    await watcher.nothing_comes()


@pytest.mark.fact("mqtt-connector M66")
async def test_all_kinds_of_messages_in_one_chunk(mqtt: MqttBroker) -> None:
    former, plain, other = await mqtt.client(), await v5(mqtt), await v5(mqtt)
    await former.subscribe("a", qos=2)
    await plain.subscribe("a", qos=2)
    await subscribe(other, Filter("a", 1, retain_as_published=True), subscription_identifier=[7])
    shown: list[tuple[str, int, bool, Properties]] = [
        ("0", 0, False, {}),
        ("1", 0, False, {}),
        ("2", 1, False, {}),
        ("3", 2, False, {}),
        ("4", 2, False, {"user_property": [("k", "v")]}),
        ("5", 0, False, {"correlation_data": b"c"}),
        ("6", 1, True, {}),
        ("7" * 20_000, 1, False, {}),
        ("8" * 200, 0, False, {}),
        ("", 2, False, {"response_topic": "r"}),
        ("9", 1, False, {}),
    ]
    packets = [
        Publish("a", text.encode(), qos, retain, False, number + 1 if qos else 0, dict(properties))
        for number, (text, qos, retain, properties) in enumerate(shown)
    ]
    await (await v5(mqtt)).send(*packets)
    for client in (former, plain, other):
        found = [
            (m.payload.decode(), m.qos, m.retain, m.properties)
            for m in await client.messages(len(shown))
        ]
        if client is former:
            assert found == [(text, qos, False, {}) for text, qos, _, _ in shown]
        elif client is plain:
            assert found == [(text, qos, False, props) for text, qos, _, props in shown]
        else:
            mark = {"subscription_identifier": [7]}
            assert found == [(t, min(q, 1), retain, p | mark) for t, q, retain, p in shown]


@pytest.mark.fact("mqtt-connector M141")
@pytest.mark.parametrize("returns", [False, True])
async def test_a_will_waits_over_restarts(
    mqtt_broker: StartMqtt, tmp_path: Path, clock: VirtualClock, returns: bool
) -> None:
    def start() -> AbstractAsyncContextManager[MqttBroker]:
        store = KahaDBPersistenceAdapter(tmp_path)
        return mqtt_broker(persistent=True, persistence_adapter=store)

    properties = {"will_delay_interval": 10, "user_property": [("why", "lost")]}
    will = Will("w", b"gone", 1, properties=properties)
    async with start() as mqtt:
        client = await v5(mqtt, "me", will=will, session_expiry_interval=100)
        await client.lose()
        await clock.advance(3)
    async with start() as mqtt:
        await clock.advance(3)
    async with start() as mqtt:
        watcher = await v5(mqtt)
        await watcher.subscribe("w")
        await clock.advance(3)
        await watcher.nothing_comes()
        if returns:
            await v5(mqtt, "me", clean=False, session_expiry_interval=100)
        await clock.advance(2)
        if not returns:
            [message] = await watcher.messages(1)
            assert texts([message]) == [("w", "gone")]
            assert message.properties == {"user_property": [("why", "lost")]}
        await watcher.nothing_comes()
    async with start() as mqtt:  # it has been sent or dropped
        watcher = await v5(mqtt)
        await watcher.subscribe("w")
        await clock.advance(20)
        await watcher.nothing_comes()


@pytest.mark.fact("mqtt-connector M141", "mqtt-connector M144")
async def test_sessions_have_all_after_a_restart(mqtt_broker: StartMqtt, tmp_path: Path) -> None:
    for start in range(3):
        store = KahaDBPersistenceAdapter(tmp_path)
        async with mqtt_broker(persistent=True, persistence_adapter=store) as mqtt:
            client, answer = await connected(
                mqtt, "me", clean=False, session_expiry_interval=0xFFFFFFFF
            )
            assert answer.session_present == (start > 0)
            sender = await mqtt.client()
            if start == 0:
                wanted = [Filter("a", 1, no_local=True, retain_as_published=True), Filter("b"),
                          Filter("removed")]  # fmt: skip
                assert await subscribe(client, *wanted, subscription_identifier=[5]) == [1, 0, 0]
                await client.unsubscribe("removed")
            else:
                await client.publish("a", "own", 1)
                await client.publish("removed")
                await sender.publish("a", "x", 1, retain=True)
                await sender.publish("b", "y")
                found = await client.messages(2)
                assert texts(found) == [("a", "x"), ("b", "y")]
                assert [m.properties["subscription_identifier"] for m in found] == [[5], [5]]
                assert found[0].retain
                await client.acknowledge(found[0])
                await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M141")
@pytest.mark.parametrize("seconds", [50, 150])
async def test_sessions_expire_over_a_restart(
    mqtt_broker: StartMqtt, tmp_path: Path, clock: VirtualClock, seconds: int
) -> None:
    def start() -> AbstractAsyncContextManager[MqttBroker]:
        store = KahaDBPersistenceAdapter(tmp_path)
        return mqtt_broker(persistent=True, persistence_adapter=store)

    def kept(mqtt: MqttBroker) -> list[str]:
        found = mqtt.broker.service.region_broker.subscriptions.durable_subscriptions()
        return sorted(each.key.client_id for each in found)

    async with start() as mqtt:
        for client_id in ("away", "there"):
            client = await v5(mqtt, client_id, session_expiry_interval=100)
            await client.subscribe("a", qos=1)
            if client_id == "away":
                await client.disconnect()
        kept_for_ever = await mqtt.client("v3", clean=False)
        await kept_for_ever.subscribe("a", qos=1)
    await clock.advance(seconds)
    async with start() as mqtt:  # the time of clients that were there begins at the start
        await clock.advance(40)
        left = ["away", "there", "v3"]
        assert kept(mqtt) == (left if seconds < 60 else left[1:])
        await clock.advance(20)
        assert kept(mqtt) == left[1:]
        await clock.advance(50)
        assert kept(mqtt) == ["v3"]


@pytest.mark.fact("mqtt-connector M141")
async def test_a_session_that_returned_does_not_expire_over_a_restart(
    mqtt_broker: StartMqtt, tmp_path: Path, clock: VirtualClock
) -> None:
    for start in range(3):
        store = KahaDBPersistenceAdapter(tmp_path)
        async with mqtt_broker(persistent=True, persistence_adapter=store) as mqtt:
            expiry = 100 if start == 0 else 0xFFFFFFFF
            client, answer = await connected(
                mqtt, "me", clean=False, session_expiry_interval=expiry
            )
            assert answer.session_present == (start > 0)
            if start == 0:
                await client.subscribe("a")
            await client.disconnect()
            await clock.advance(start * 1000)
