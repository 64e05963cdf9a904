"""Connecting, keep-alives, wills, take-over and the end of MQTT connections."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator

import anyio
import pytest
from websockets.asyncio.client import connect as websocket_client
from websockets.typing import Subprotocol

from pyjms.errors import ConfigurationException
from pyjms.testing.clock import VirtualClock
from pyjms.wire.mqtt import (
    CONNECT,
    PINGREQ,
    ConnAck,
    Connect,
    Disconnect,
    MqttFormat,
    Packet,
    Ping,
    Publish,
    Will,
)
from pyjms_broker.service import BrokerService
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt, texts
from tests.kit.tls import CertificateFiles

WILL = Will("wills/a", b"gone")


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


@pytest.mark.fact("mqtt-connector M20", "mqtt-connector M22", "mqtt-connector M97")
@pytest.mark.parametrize("level", [3, 4])
async def test_both_levels_connect(mqtt: MqttBroker, level: int) -> None:
    client = await mqtt.open(level)
    assert await client.connect("me") == ConnAck(0, False)
    await client.nothing_comes()


@pytest.mark.fact("mqtt-connector M20", "mqtt-connector M21")
@pytest.mark.parametrize(
    "first",
    [b"\0\4MQTT\x06\2\0\0\0\1c", b"\0\4MQTT\3\2\0\0\0\1c", b"\0\6MQIsdp\4\2\0\0\0\1c"],
    ids=["level 6", "level of the other name", "name of the other level"],
)
async def test_an_unknown_level_is_told(mqtt: MqttBroker, first: bytes) -> None:
    client = await mqtt.open()
    await client.stream.send(bytes([CONNECT << 4, len(first)]) + first)
    assert await client.receive(ConnAck) == ConnAck(1)
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M42", "mqtt-connector M130")
async def test_another_protocol_is_not_answered(mqtt: MqttBroker) -> None:
    for first in (b"GET / HTTP/1.1\r\n\r\n", b"\x10\x0c\0\4HTTP\4\2\0\0\0\0", b"\xc0\0"):
        client = await mqtt.open()
        await client.stream.send(first)
        assert await client.closed()


@pytest.mark.fact("mqtt-connector M131")
async def test_a_first_byte_that_begins_no_connect_ends_the_connection(mqtt: MqttBroker) -> None:
    client = await mqtt.open()
    await client.stream.send(b"G")
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M24")
async def test_a_client_without_an_id(mqtt: MqttBroker) -> None:
    clean = await mqtt.open()
    assert (await clean.connect("")).code == 0
    kept = await mqtt.open()
    assert (await kept.connect("", clean=False)).code == 2
    assert await kept.closed()


@pytest.mark.fact("mqtt-connector M27")
async def test_a_second_connect_ends_the_connection(mqtt: MqttBroker) -> None:
    client = await mqtt.client("me")
    await client.send(Connect("me"))
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M9")
async def test_a_client_must_connect_in_time(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker("?transport.connectAttemptTimeout=100") as mqtt:
        assert await (await mqtt.open()).closed()


@pytest.mark.fact("mqtt-connector M37", "mqtt-connector M38")
async def test_ping_and_disconnect(mqtt: MqttBroker) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("wills/#")
    client = await mqtt.client(will=WILL)
    await client.send(Ping(PINGREQ))
    await client.receive(Ping)
    await client.disconnect()
    await watcher.nothing_comes()


@pytest.mark.fact("mqtt-connector M35", "mqtt-connector M39", "activemq-edges MQ3")
async def test_a_silent_client_is_lost(mqtt: MqttBroker, clock: VirtualClock) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("wills/#")
    client = await mqtt.client(will=WILL, keep_alive=10)
    for _ in range(3):
        await clock.advance(4)
    await client.nothing_comes()
    for _ in range(6):
        await clock.advance(5)
    assert await client.closed()
    assert texts(await watcher.messages(1)) == [("wills/a", "gone")]


@pytest.mark.fact("mqtt-connector M36")
async def test_the_default_keep_alive(mqtt_broker: StartMqtt, clock: VirtualClock) -> None:
    async with mqtt_broker("?transport.defaultKeepAlive=2000") as mqtt:
        client = await mqtt.client()
        for _ in range(5):
            await clock.advance(1)
        assert await client.closed()


@pytest.mark.fact("mqtt-connector M39", "mqtt-connector M40", "activemq-edges MQ3")
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_lost_client_leaves_its_will(mqtt: MqttBroker, qos: int) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("wills/#", qos=2)
    client = await mqtt.client(will=Will("wills/a", b"gone", qos, True))
    await client.lose()
    [message] = await watcher.messages(1)
    assert (message.topic, message.payload, message.qos) == ("wills/a", b"gone", qos)
    later = await mqtt.client()
    await later.subscribe("wills/a")
    assert (await later.receive(Publish)).retain


@pytest.mark.fact("mqtt-connector M39")
async def test_an_error_leaves_the_will(mqtt: MqttBroker) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("wills/#")
    packets = (b"\x30\5\0\3a/+", b"\xf0\0", b"\x82\6\0\1\0\1#\7", b"\0\0")
    for number, wrong in enumerate(packets):
        client = await mqtt.client(will=Will("wills/a", str(number).encode()))
        await client.stream.send(wrong)
        assert await client.closed()
        assert texts(await watcher.messages(1)) == [("wills/a", str(number))]


@pytest.mark.fact("mqtt-connector M40")
async def test_a_will_for_a_pattern_is_refused(mqtt: MqttBroker) -> None:
    client = await mqtt.open()
    await client.send(Connect("me", will=Will("a/#")))
    assert await client.closed()


@pytest.mark.fact("mqtt-connector M41", "mqtt-connector M7", "activemq-edges MQ3")
async def test_a_newer_connection_takes_over(mqtt: MqttBroker) -> None:
    watcher = await mqtt.client()
    await watcher.subscribe("wills/#")
    first = await mqtt.client("me", clean=False, will=WILL)
    await first.subscribe("news", qos=1)
    second = await mqtt.open()
    assert await second.connect("me", clean=False) == ConnAck(0, True)
    assert await first.closed()
    assert texts(await watcher.messages(1)) == [("wills/a", "gone")]
    await watcher.publish("news", "x", 1)
    await second.acknowledge(await second.receive(Publish))


@pytest.mark.fact("mqtt-connector M7")
async def test_taking_over_can_be_refused(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker("?allowLinkStealing=false") as mqtt:
        first = await mqtt.client("me")
        second = await mqtt.open()
        assert (await second.connect("me")).code == 2
        assert await second.closed()
        await first.nothing_comes()


@pytest.mark.fact("mqtt-connector M5", "mqtt-connector M8")
@pytest.mark.parametrize("option", ["transport.nonsense=1", "transport.subscriptionStrategy=x"])
def test_wrong_options_are_refused(option: str) -> None:
    service = BrokerService("mqtt", persistent=False)
    with pytest.raises(ConfigurationException):
        service.add_connector(f"mqtt://127.0.0.1:0?{option}")


@pytest.mark.fact("mqtt-connector M10")
async def test_packets_are_not_traced(
    mqtt_broker: StartMqtt, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with mqtt_broker("?transport.trace=true") as mqtt:
        client = await mqtt.client()
        await client.publish("a", "body of the message", 1)
    assert "accepted without effect: trace" in caplog.text
    assert "body of the message" not in caplog.text


@pytest.mark.fact("mqtt-connector M6")
async def test_a_packet_that_is_too_large(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker("?wireFormat.maxFrameSize=1000") as mqtt:
        client = await mqtt.client()
        await client.publish("a", bytes(997))
        await client.nothing_comes()
        await client.send(Publish("a", bytes(998)))
        assert await client.closed()


@pytest.mark.fact("mqtt-connector M1")
async def test_nio_is_the_same(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker(scheme="mqtt+nio") as mqtt:
        await mqtt.client()


@pytest.mark.fact("mqtt-connector M4", "activemq-edges U5")
async def test_auto_detects_mqtt(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker("?auto.mqtt.publishDollarTopics=true", "auto") as mqtt:
        first = await mqtt.client("me")
        second = await mqtt.client("me", level=3)
        assert await first.closed()
        await second.subscribe("$a")
        await second.publish("$a", "x")
        assert texts(await second.messages(1)) == [("$a", "x")]


@pytest.mark.fact("mqtt-connector M2", "mqtt-connector M3")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("scheme", "subprotocol"), [("ws", "mqtt"), ("ws", "mqttv3.1"), ("wss", "mqtt")]
)
async def test_mqtt_over_websocket(
    mqtt_broker: StartMqtt, scheme: str, subprotocol: str, files: CertificateFiles
) -> None:
    codec = MqttFormat(level=4)
    data = bytearray()
    for packet in (Connect("me"), Publish("a", b"x"), Disconnect()):
        codec.encode_into(data, packet)
    options, tls = "", None
    if scheme == "wss":
        options = f"?ssl.keyStore={files.issue()}"
        tls = ssl.create_default_context(cafile=files.trust)
    async with mqtt_broker(options, scheme) as mqtt:
        asked = [Subprotocol(subprotocol)]
        url = f"{scheme}://localhost:{mqtt.port}"
        async with websocket_client(url, subprotocols=asked, ssl=tls, proxy=None) as socket:
            assert socket.subprotocol == subprotocol
            for at in range(0, len(data), 5):  # packets and messages need not coincide
                await socket.send(bytes(data[at : at + 5]))
            found: list[Packet] = []
            async with asyncio.timeout(20):
                while not found:
                    answer = await socket.recv()
                    assert isinstance(answer, bytes)
                    found += codec.receive_data(answer)
            assert found == [ConnAck()]


async def test_a_chunk_may_begin_everything(mqtt: MqttBroker) -> None:
    """Clients send on without waiting for CONNACK."""
    stream = await anyio.connect_tcp("127.0.0.1", mqtt.port)
    client = MqttClient(stream)
    async with stream:
        await client.send(Connect("me"), Ping(PINGREQ), Ping(PINGREQ))
        await client.receive(ConnAck)
        await client.receive(Ping)
        await client.receive(Ping)


@pytest.mark.fact("mqtt-connector M1", "mqtt-connector M7")
@pytest.mark.parametrize("scheme", ["mqtt+ssl", "mqtt+nio+ssl", "auto+ssl"])
async def test_mqtt_with_tls(mqtt_broker: StartMqtt, scheme: str, files: CertificateFiles) -> None:
    async with mqtt_broker(f"?ssl.keyStore={files.issue()}", scheme) as mqtt:
        context = ssl.create_default_context(cafile=files.trust)
        stream = await anyio.connect_tcp(
            "localhost", mqtt.port, ssl_context=context, tls_standard_compatible=False
        )
        client = MqttClient(stream)
        async with stream:
            assert (await client.connect("me")).code == 0
            await client.subscribe("a", qos=2)
            await client.publish("a", "x", 2)
            assert texts(await client.messages(1)) == [("a", "x")]
