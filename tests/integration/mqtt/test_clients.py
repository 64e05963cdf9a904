"""What programs use: paho-mqtt, aiomqtt, gmqtt, amqtt, and Debian's mosquitto_pub and mosquitto_sub.

amqtt requires one version of websockets, so that it is tested where it has been installed with
`pip install --no-deps`.
"""

from __future__ import annotations

import asyncio
import queue
import shutil
import subprocess
import threading
from typing import Any

import anyio.to_thread
import pytest

from tests.kit.mqtt.client import MqttBroker

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
WAIT = 20
SENT = [("a/b", str(qos).encode(), qos) for qos in range(3)]


@pytest.mark.parametrize("level", [3, 4, 5])
async def test_paho(mqtt: MqttBroker, level: int) -> None:
    paho = pytest.importorskip("paho.mqtt.client", reason="no paho-mqtt: pip install paho-mqtt")
    found: queue.Queue[tuple[str, bytes, int]] = queue.Queue()
    subscribed = threading.Event()

    def on_message(_client: Any, _data: Any, message: Any) -> None:
        found.put((message.topic, message.payload, message.qos))

    def client(name: str, *, clean: bool = True) -> Any:
        version = paho.CallbackAPIVersion.VERSION2
        made = paho.Client(version, name, clean_session=None if level == 5 else clean,
                           protocol=level)  # fmt: skip
        made.on_message = on_message
        made.on_subscribe = lambda *_: subscribed.set()
        options = {}
        if level == 5:
            properties = pytest.importorskip("paho.mqtt.properties").Properties(1)
            properties.SessionExpiryInterval = 0 if clean else 100
            options = {"clean_start": clean, "properties": properties}
        made.connect("127.0.0.1", mqtt.port, **options)
        made.loop_start()
        return made

    def run() -> list[tuple[str, bytes, int]]:
        subscriber, sender = client("kept", clean=False), client("sender")
        subscriber.subscribe("a/#", 2)
        assert subscribed.wait(WAIT)
        messages = []
        for topic, payload, qos in SENT:
            sender.publish(topic, payload, qos).wait_for_publish(WAIT)
            messages.append(found.get(timeout=WAIT))
        subscriber.disconnect()
        subscriber.loop_stop()
        sender.publish("a/c", b"later", 1).wait_for_publish(WAIT)
        subscriber = client("kept", clean=False)
        messages.append(found.get(timeout=WAIT))
        for each in (subscriber, sender):
            each.disconnect()
            each.loop_stop()
        return messages

    assert await anyio.to_thread.run_sync(run) == [*SENT, ("a/c", b"later", 1)]


async def test_aiomqtt(mqtt: MqttBroker) -> None:
    aiomqtt = pytest.importorskip("aiomqtt", reason="no aiomqtt: pip install aiomqtt")
    will = aiomqtt.Will("wills/a", b"gone", 1)
    found: list[tuple[str, bytes, int]] = []
    async with asyncio.timeout(WAIT), aiomqtt.Client("127.0.0.1", mqtt.port) as client:
        await client.subscribe("a/#", 2)
        await client.subscribe("wills/#", 1)
        for topic, payload, qos in SENT:
            await client.publish(topic, payload, qos)
        other = aiomqtt.Client("127.0.0.1", mqtt.port, will=will)
        await other.__aenter__()
        other._client.socket().close()
        async for message in client.messages:
            found.append((str(message.topic), message.payload, message.qos))
            if len(found) == len(SENT) + 1:
                break
    assert found == [*SENT, ("wills/a", b"gone", 1)]


@pytest.mark.parametrize("version", ["MQTTv311", "MQTTv50"])
async def test_gmqtt(mqtt: MqttBroker, version: str) -> None:
    gmqtt = pytest.importorskip("gmqtt", reason="no gmqtt: pip install gmqtt")
    found: asyncio.Queue[tuple[str, bytes, int]] = asyncio.Queue()
    subscribed = asyncio.Event()

    async def on_message(_client: Any, topic: str, payload: bytes, qos: int, _more: Any) -> int:
        await found.put((topic, bytes(payload), qos))
        return 0

    client = gmqtt.Client("gmqtt")
    client.on_message = on_message
    client.on_subscribe = lambda *_: subscribed.set()
    await client.connect("127.0.0.1", mqtt.port, version=getattr(gmqtt.constants, version))
    client.subscribe("a/#", qos=2)
    async with asyncio.timeout(WAIT):
        await subscribed.wait()
        for topic, payload, qos in SENT:
            client.publish(topic, payload, qos=qos)
        assert sorted([await found.get() for _ in SENT], key=lambda each: each[2]) == SENT
    await client.disconnect()


async def test_amqtt(mqtt: MqttBroker) -> None:
    amqtt = pytest.importorskip("amqtt.client", reason="no amqtt: pip install --no-deps amqtt")
    client = amqtt.MQTTClient(config={"auto_reconnect": False})
    async with asyncio.timeout(WAIT):
        await client.connect(f"mqtt://127.0.0.1:{mqtt.port}/")
        await client.subscribe([("a/#", 2)])
        for topic, payload, qos in SENT:
            await client.publish(topic, payload, qos)
        found = [await client.deliver_message() for _ in SENT]
        assert [(each.topic, bytes(each.data), each.qos) for each in found] == SENT
        await client.disconnect()


async def test_mosquitto(mqtt: MqttBroker) -> None:
    if shutil.which("mosquitto_pub") is None:
        pytest.skip("no mosquitto_pub: apt-get install mosquitto-clients")
    port = str(mqtt.port)

    def run() -> str:
        subscribe = [
            "stdbuf",
            "-oL",
            "mosquitto_sub",
            "-p",
            port,
            "-t",
            "a/#",
            "-q",
            "2",
            "-C",
            "3",
            "-v",
            "-d",
        ]
        with subprocess.Popen(subscribe, stdout=subprocess.PIPE, text=True) as subscriber:
            assert subscriber.stdout is not None
            lines = iter(subscriber.stdout.readline, "")
            assert any("SUBACK" in line for line in lines)
            for topic, payload, qos in SENT:
                publish = ["mosquitto_pub", "-p", port, "-t", topic, "-m", payload.decode()]
                subprocess.run([*publish, "-q", str(qos)], check=True, timeout=WAIT)
            return "".join(line for line in lines if line.startswith("a/"))

    assert await anyio.to_thread.run_sync(run) == "a/b 0\na/b 1\na/b 2\n"
