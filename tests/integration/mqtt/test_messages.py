"""Messages between MQTT clients, and to and from JMS clients."""

from __future__ import annotations

import json

import anyio
import pytest

from pyjms.enums import DeliveryMode
from pyjms.jms import BytesMessage
from pyjms.wire.mqtt import (
    PUBACK,
    SUBACK,
    UNSUBACK,
    Ack,
    Filter,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
)
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt, texts
from tests.kit.stomp.client import StompClient
from tests.kit.web.sites import web_broker


@pytest.mark.fact("mqtt-connector M80", "activemq-edges MQ1")
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("sent", [0, 1, 2])
async def test_the_lower_qos_counts(mqtt: MqttBroker, sent: int, granted: int) -> None:
    subscriber = await mqtt.client()
    assert await subscriber.subscribe("a/b", qos=granted) == [granted]
    publisher = await mqtt.client()
    await publisher.publish("a/b", "x", sent)
    message = await subscriber.receive(Publish)
    assert (message.topic, message.payload) == ("a/b", b"x")
    assert message.qos == min(sent, granted)
    assert (message.duplicate, message.retain) == (False, False)
    await subscriber.acknowledge(message)
    await subscriber.nothing_comes()


@pytest.mark.fact("mqtt-connector M60", "mqtt-connector M125", "activemq-edges MQ1")
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_a_jms_client_gets(mqtt: MqttBroker, qos: int) -> None:
    async with mqtt.jms() as session:
        consumer = await session.create_consumer(session.create_topic("a.b/c"))
        sender = await mqtt.client()
        await sender.publish("a/b.c", "x", qos)
        message = await consumer.receive(5)
        assert isinstance(message, BytesMessage)
        assert message.data == b"x"
        assert dict(message.properties) == {"ActiveMQ.MQTT.QoS": qos}
        expected = DeliveryMode.PERSISTENT if qos else DeliveryMode.NON_PERSISTENT
        assert message.delivery_mode == expected
        assert (message.priority, message.expiration) == (4, 0)


@pytest.mark.fact("mqtt-connector M80", "mqtt-connector M120", "mqtt-connector M122")
async def test_what_an_mqtt_client_gets(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.subscribe("a", qos=2)
    async with mqtt.jms() as session:
        producer = await session.create_producer(session.create_topic("a"))
        text = session.create_text_message("Gr\u00fc\u00dfe")
        text.properties["color"] = "red"
        await producer.send(text)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        await producer.send(session.create_bytes_message(b"\0\1"))
        producer.delivery_mode = DeliveryMode.PERSISTENT
        mapped = session.create_map_message()
        mapped["a"], mapped["b"], mapped["c"] = 1, "x", b"\1"
        await producer.send(mapped)
        await producer.send(session.create_message())
    found = await client.messages(4)
    assert [m.qos for m in found] == [1, 0, 1, 1]
    assert [m.payload for m in found[:2]] == ["Gr\u00fc\u00dfe".encode(), b"\0\1"]
    assert json.loads(found[2].payload) == {"a": 1, "b": "x", "c": "AQ=="}
    assert found[3].payload == b""


@pytest.mark.fact("mqtt-connector M121")
@pytest.mark.parametrize("compressed", [False, True])
async def test_streams_and_objects_come_as_they_are_stored(
    mqtt: MqttBroker, compressed: bool
) -> None:
    client = await mqtt.client()
    await client.subscribe("a")
    async with mqtt.jms(f"jms.useCompression={str(compressed).lower()}") as session:
        producer = await session.create_producer(session.create_topic("a"))
        stream = session.create_stream_message()
        stream.write_object(True)
        stream.write_object("x")
        await producer.send(stream)
        await producer.send(session.create_object_message(b"\xac\xed\0\5t\0\1x"))
        await producer.send(session.create_text_message("y" * 1000))
        await producer.send(session.create_message())
    found = await client.messages(4)
    assert [m.payload for m in found] == [
        b"\1\1\x09\0\1x",
        b"\xac\xed\0\5t\0\1x",
        b"y" * 1000,
        b"",
    ]


@pytest.mark.fact("mqtt-connector M66")
async def test_the_order_is_kept_over_all_qos(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.subscribe("a")
    await client.send(*(Publish("a", str(n).encode(), n % 3, packet_id=n) for n in range(1, 30)))
    found = [packet for packet in [await client.next() for _ in range(48)]
             if isinstance(packet, Publish)]  # fmt: skip
    assert [int(m.payload) for m in found] == list(range(1, 30))


@pytest.mark.fact("mqtt-connector M50", "mqtt-connector M51", "mqtt-connector M53")
@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("a/#", ["a", "a/", "a/x/y"], ["b", "/a"]),
        ("w/+/x", ["w//x", "w/a/x"], ["w/x", "w/a/b/x"]),
        ("+/z", ["/z", "a/z"], ["z"]),
        ("#", ["a", "/", "a/b.c", "queue://x"], []),
        ("a/b", ["a/b"], ["a.b", "a/b/"]),
        ("a.b", ["a.b"], ["a/b"]),
        ("/", ["/"], ["//"]),
        ("a*", ["a*"], ["ab", "a>"]),
    ],
)
async def test_filters(mqtt: MqttBroker, text: str, matching: list[str], other: list[str]) -> None:
    client = await mqtt.client()
    await client.subscribe(text)
    for topic in (*other, *matching):
        await client.publish(topic, "x")
    assert [m.topic for m in await client.messages(len(matching))] == matching
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M54")
async def test_wildcards_do_not_match_advisories(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.subscribe("#", "+/+/+/#", qos=1)
    async with mqtt.jms() as session:
        await session.create_consumer(session.create_queue("q"))
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M55")
async def test_topics_with_a_dollar(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker() as mqtt:
        client = await mqtt.client()
        await client.subscribe("$x/#")
        for qos in range(3):
            await client.publish("$x/a", "x", qos)
        await client.nothing_comes()
    async with mqtt_broker("?transport.publishDollarTopics=true") as other:
        client = await other.client()
        await client.subscribe("$x/#", "#")
        await client.publish("$x/a", "x")
        assert texts(await client.messages(1)) == [("$x/a", "x")]
        await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M52", "mqtt-connector M57")
@pytest.mark.parametrize("topic", ["a,b", "a?b", " ", "a/+", "#"])
async def test_topics_that_are_refused(mqtt: MqttBroker, topic: str) -> None:
    client = await mqtt.client()
    await client.send(Publish(topic, b"x"))
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M56")
@pytest.mark.parametrize("text", ["a#", "a/#/b", "a,b"])
async def test_filters_that_are_refused(mqtt: MqttBroker, text: str) -> None:
    client = await mqtt.client()
    await client.send(Subscribe(1, [Filter("good"), Filter(text)]))
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M63", "mqtt-connector M70", "mqtt-connector M76")
async def test_packet_id_0_and_empty_lists(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.send(Publish("a", b"x", 1), Subscribe(0, []), Unsubscribe(0, []))
    assert await client.receive(Ack) == Ack(PUBACK, 0)
    assert await client.receive(SubAck) == SubAck(SUBACK, 0, [])
    assert await client.receive(SubAck) == SubAck(UNSUBACK, 0, [])


@pytest.mark.fact("mqtt-connector M124")
async def test_queues_are_other_destinations(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.subscribe("orders", "queue://orders")
    async with mqtt.jms() as session:
        producer = await session.create_producer(session.create_queue("orders"))
        await producer.send(session.create_text_message("x"))
    await client.nothing_comes()


async def test_a_message_of_a_megabyte(mqtt: MqttBroker) -> None:
    client = await mqtt.client()
    await client.subscribe("a", qos=1)
    payload = bytes(range(256)) * 4096
    await client.publish("a", payload, 2)
    assert (await client.receive(Publish)).payload == payload


async def test_stomp_and_back(mqtt: MqttBroker) -> None:
    connector = mqtt.broker.service.add_connector("stomp://127.0.0.1:0")
    await connector.start()
    port = int(connector.connect_uri.rpartition(":")[2])
    stomp = StompClient(await anyio.connect_tcp("127.0.0.1", port))
    async with stomp.stream:
        await stomp.connect()
        await stomp.subscribe("/topic/a.b")
        client = await mqtt.client()
        await client.subscribe("c/d", qos=2)
        await client.publish("a/b", "Gr\u00fc\u00dfe", 1)
        frame = await stomp.receive("MESSAGE")
        assert (frame.headers["destination"], frame.body.decode()) == (
            "/topic/a.b",
            "Gr\u00fc\u00dfe",
        )
        assert frame.headers["ActiveMQ.MQTT.QoS"] == "1"
        for persistent in ("true", "false"):
            await stomp.done("SEND", {"destination": "/topic/c.d", "persistent": persistent}, "x")
        assert [(m.payload, m.qos) for m in await client.messages(2)] == [(b"x", 1), (b"x", 0)]


@pytest.mark.fact("mqtt-connector M143")
async def test_properties_are_headers_of_stomp_and_back(mqtt: MqttBroker) -> None:
    connector = mqtt.broker.service.add_connector("stomp://127.0.0.1:0")
    await connector.start()
    port = int(connector.connect_uri.rpartition(":")[2])
    stomp = StompClient(await anyio.connect_tcp("127.0.0.1", port))
    async with stomp.stream:
        await stomp.connect()
        await stomp.subscribe("/topic/a")
        client = await mqtt.client(level=5)
        await client.subscribe("b", qos=1)
        properties = {
            "response_topic": "b", "correlation_data": b"c-1", "content_type": "text/plain",
            "user_property": [("colour", "red")], "message_expiry_interval": 100,
        }  # fmt: skip
        await client.send(Publish("a", b"x", 1, packet_id=1, properties=properties))
        assert await client.receive(Ack) == Ack(PUBACK, 1)
        headers = (await stomp.receive("MESSAGE")).headers
        assert headers["reply-to"] == "/topic/b"
        assert headers["correlation-id"] == "c-1"
        assert headers["ActiveMQ.MQTT.ContentType"] == "text/plain"
        assert headers["colour"] == "red"
        answer = {name: headers[name] for name in ("correlation-id", "colour", "expires")}
        answer |= {"destination": headers["reply-to"], "persistent": "true"}
        await stomp.done("SEND", answer, "y")
        [message] = await client.messages(1)
        assert (message.payload, message.qos) == (b"y", 1)
        assert 90 <= message.properties.pop("message_expiry_interval") <= 100
        assert message.properties == {
            "payload_format_indicator": True,
            "correlation_data": b"c-1",
            "user_property": [("colour", "red")],
        }


@pytest.mark.fact("mqtt-connector M120", "mqtt-connector M125", "mqtt-connector M143")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_rest_and_back() -> None:
    async with web_broker() as broker, broker.client() as http:
        connector = broker.service.add_connector("mqtt://127.0.0.1:0")
        await connector.start()
        port = int(connector.connect_uri.rpartition(":")[2])
        reader = "/api/message/answers/new?clientId=reader&readTimeout="
        assert (await http.get(f"{reader}10")).status_code == 204  # it consumes from now on
        client = MqttClient(await anyio.connect_tcp("127.0.0.1", port), 5)
        async with client.stream:
            await client.connect()
            await client.subscribe("orders/new", qos=2)
            query = "JMSCorrelationID=c-1&JMSReplyTo=topic%3A%2F%2Fanswers.new&colour=red"
            await http.post(f"/api/message/orders/new?{query}", data={"body": "Gr\u00fc\u00dfe"})
            [order] = await client.messages(1)
            assert (order.payload.decode(), order.qos) == ("Gr\u00fc\u00dfe", 1)
            assert order.properties == {
                "payload_format_indicator": True,
                "response_topic": "answers/new",
                "correlation_data": b"c-1",
                "user_property": [("colour", "red")],
            }
            answer = Publish(order.properties["response_topic"], b"done", 1, packet_id=1)
            answer.properties = {
                "payload_format_indicator": True,
                "correlation_data": order.properties["correlation_data"],
                "user_property": [("shade", "dark")],
            }
            await client.send(answer)
            assert await client.receive(Ack) == Ack(PUBACK, 1)
        taken = await http.get(f"{reader}5000")
        assert (taken.text, taken.headers["shade"]) == ("done", "dark")
        assert taken.headers["destination"] == "topic://answers.new"


async def test_the_view_of_a_connection_names_client_and_protocol(mqtt: MqttBroker) -> None:
    await mqtt.client("sensor-1")
    pattern = "org.apache.activemq:type=Broker,connectionViewType=remoteAddress,*"
    [view] = mqtt.broker.service.management.find(pattern)
    assert view.get("ClientId") == "sensor-1"
    assert view.get("Protocol") == "MQTT 3.1.1"
    assert str(view.get("RemoteAddress")).startswith("mqtt://")
