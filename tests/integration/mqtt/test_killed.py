"""A broker that is killed loses nothing that it has acknowledged, and delivers QoS 2 once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pyjms.wire.mqtt import PUBACK, PUBCOMP, PUBREC, PUBREL, Ack, Publish
from tests.kit.brokers.commands import free_port
from tests.kit.mqtt.client import MqttClient
from tests.kit.processes.children import BrokerProcess

CONFIGURATION = """
broker_name: killed
data_directory: {folder}/data
connectors:
  - name: openwire
    uri: tcp://127.0.0.1:0
  - name: mqtt
    uri: mqtt://127.0.0.1:{port}
"""
STARTS, MESSAGES = 5, 40


class KilledBroker(BrokerProcess):
    """A broker with an MQTT connector, which keeps its port."""

    def __init__(self, folder: Path) -> None:
        self.mqtt_port = free_port()
        file = folder / "broker.yaml"
        text = CONFIGURATION.format(folder=folder, port=self.mqtt_port)
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pyjms_broker", "--config", str(file)]
        super().__init__(command, folder / "log")

    def command(self, port: int) -> list[str]:
        return self._command


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KilledBroker]:
    broker = KilledBroker(tmp_path)
    yield broker
    broker.end()


async def connected(broker: KilledBroker, client_id: str) -> MqttClient:
    client = MqttClient(await anyio.connect_tcp("127.0.0.1", broker.mqtt_port))
    assert (await client.connect(client_id, clean=False)).code == 0
    return client


class Sender:
    """Sends numbers by a QoS until the connection breaks, and repeats what is not answered."""

    def __init__(self, qos: int) -> None:
        self.qos = qos
        self.next = 0
        self.acknowledged = 0
        self._unanswered: Publish | None = None
        self._is_released = False

    async def run(self, client: MqttClient, until: int, reached: anyio.Event) -> None:
        """Send on after `until` messages, when `reached` is set."""
        while True:
            packet = self._unanswered
            if packet is None:
                payload = f"{self.qos}:{self.next}".encode()
                packet = Publish("a", payload, self.qos, packet_id=self.next % 50 + 1)
                self.next += 1
                self._unanswered = packet
            if not self._is_released:
                await client.send(packet)
                packet.duplicate = True
                answer = await client.receive(Ack)
                assert answer.type == (PUBACK if self.qos == 1 else PUBREC)
            if self.qos == 2:
                self._is_released = True
                await client.send(Ack(PUBREL, packet.packet_id))
                assert await client.receive(Ack) == Ack(PUBCOMP, packet.packet_id)
                self._is_released = False
            self._unanswered = None
            self.acknowledged += 1
            if self.acknowledged == until:
                reached.set()


class Receiver:
    """Receives as a client does that keeps the ids of QoS 2 until PUBREL."""

    def __init__(self) -> None:
        self.found: list[bytes] = []
        self._unreleased: set[int] = set()
        self._wanted = 0
        self._has_wanted = anyio.Event()

    async def has(self, count: int) -> None:
        """Wait until so many different messages have come."""
        self._wanted = count
        if len(set(self.found)) < count:
            with anyio.fail_after(20):
                await self._has_wanted.wait()

    async def run(self, client: MqttClient) -> None:
        while True:
            packet = await client.next()
            if isinstance(packet, Publish):
                if packet.packet_id not in self._unreleased:
                    self.found.append(packet.payload)
                    if self._wanted and len(set(self.found)) >= self._wanted:
                        self._has_wanted.set()
                if packet.qos == 2:
                    self._unreleased.add(packet.packet_id)
                    await client.send(Ack(PUBREC, packet.packet_id))
                else:
                    await client.send(Ack(PUBACK, packet.packet_id))
            else:
                assert isinstance(packet, Ack)
                assert packet.type == PUBREL
                self._unreleased.discard(packet.packet_id)
                await client.send(Ack(PUBCOMP, packet.packet_id))


@pytest.mark.fact("mqtt-connector M61", "mqtt-connector M62", "mqtt-connector M86")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("qos", [1, 2])
async def test_nothing_is_lost_or_delivered_twice(broker: KilledBroker, qos: int) -> None:
    sender, receiver = Sender(qos), Receiver()
    for start in range(1, STARTS + 1):
        await anyio.to_thread.run_sync(broker.start)
        target = await connected(broker, "receiver")
        if start == 1:
            await target.subscribe("a", qos=2)
        source = await connected(broker, "sender")
        reached = anyio.Event()
        try:
            async with target.stream, source.stream, anyio.create_task_group() as group:
                group.start_soon(receiver.run, target)
                group.start_soon(sender.run, source, MESSAGES * start, reached)
                await reached.wait()
                if start < STARTS:
                    await anyio.to_thread.run_sync(broker.kill)  # while messages are in flight
                    await anyio.sleep_forever()
                await receiver.has(sender.acknowledged)
                group.cancel_scope.cancel()
        except* (anyio.EndOfStream, anyio.BrokenResourceError):
            assert start < STARTS
    await anyio.to_thread.run_sync(broker.kill)
    sent = {f"{qos}:{number}".encode() for number in range(sender.acknowledged)}
    assert sent <= set(receiver.found)
    if qos == 2:
        assert len(receiver.found) == len(set(receiver.found))
