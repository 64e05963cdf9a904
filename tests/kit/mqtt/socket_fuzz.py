"""Random packets of many clients at once to an MQTT port, over real sockets.

`python -m tests.kit.mqtt.socket_fuzz 200000 [SEED]` sends so many packets to brokers in memory, about
4000 in each second of CPU time; it fails if a broker does not serve another client meanwhile, or the
process has grown by `MEMORY`.
"""

from __future__ import annotations

import random
import resource
import sys
from pathlib import Path

import anyio

from pyjms.wire.mqtt import (
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Connect,
    Filter,
    MqttFormat,
    Packet,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
    Will,
)
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.mqtt.client import MqttClient
from tests.kit.mqtt.codec_fuzz import packet as noise
from tests.kit.stomp.socket_fuzz import drain

CLIENTS = 8
PACKETS_A_CLIENT = 200
DAMAGED = 0.01
MEMORY = 64 << 20
"""Bytes by which the process may grow after the first broker has ended."""
TOPICS = ["a", "a/b", "$a", "", "a//b", "a,b", "\u00fc", "x" * 300, "ActiveMQ/Advisory/x"]
FILTERS = ["a", "#", "+/b", "a/#", "", "a#", "$share/g/a", "x" * 300, "a,b"]
PAYLOADS = [b"", b"abc", b"\xff", bytes(3000)]


def packet(chance: random.Random) -> Packet:
    """Return a packet that may make sense."""
    qos, packet_id = chance.randrange(3), chance.randrange(5)
    kind = chance.randrange(10)
    if kind < 4:
        flags = chance.random() < 0.3, chance.random() < 0.3
        return Publish(chance.choice(TOPICS), chance.choice(PAYLOADS), qos, *flags, packet_id)
    if kind < 6:
        return Subscribe(packet_id, [Filter(chance.choice(FILTERS), qos)])
    if kind == 6:
        return Unsubscribe(packet_id, [chance.choice(FILTERS)])
    if kind == 7:
        return Ping(PINGREQ)
    return Ack(chance.choice([PUBACK, PUBREC, PUBREL, PUBCOMP]), packet_id)


async def attack(port: int, chance: random.Random, packets: int) -> None:
    """Send packets while reading answers; connect again when the broker ends the connection."""
    sent = 0
    while sent < packets:
        client_id = f"c{chance.randrange(4)}"
        will = Will("a", b"gone", chance.randrange(3)) if chance.random() < 0.3 else None
        codec = MqttFormat(level=chance.choice([3, 4, 5]))
        assert codec.level is not None
        first = Connect(client_id, codec.level, chance.random() < 0.5, 0, will)
        try:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                data = bytearray()
                codec.encode_into(data, first)
                await stream.send(bytes(data))
                async with anyio.create_task_group() as group:
                    group.start_soon(drain, stream)
                    while sent < packets:
                        sent += 1
                        data = bytearray()
                        codec.encode_into(data, packet(chance))
                        if chance.random() < DAMAGED:
                            data = bytearray(noise(chance))
                        await stream.send(bytes(data))
                    group.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


def memory() -> int:
    """Return the memory of this process, in bytes; tracemalloc would take three times as long."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def run(packets: int, seed: int = 1) -> int:
    """Send about so many packets; return the bytes that were added after the first round."""
    first = 0
    for number in range(0, packets, CLIENTS * PACKETS_A_CLIENT):
        await _round(random.Random(seed * 1_000_003 + number))
        first = first or memory()
    return memory() - first


async def _round(chance: random.Random) -> None:
    """Attack a new broker, which must serve a client in the end, and others meanwhile."""
    async with EmbeddedTestBroker(BrokerService("fuzz", persistent=False)) as broker:
        connector = broker.service.add_connector("mqtt://127.0.0.1:0")
        await connector.start()
        port = int(connector.connect_uri.rpartition(":")[2])
        client = MqttClient(await anyio.connect_tcp("127.0.0.1", port))
        async with client.stream, anyio.create_task_group() as group:
            await client.connect("well")
            await client.subscribe("well", qos=1)
            for _ in range(CLIENTS):
                seed = chance.randrange(2**32)
                group.start_soon(attack, port, random.Random(seed), PACKETS_A_CLIENT)
            for number in range(10):
                await client.publish("well", str(number), 1)
                message = await client.receive(Publish)
                assert message.payload == str(number).encode()
                await client.acknowledge(message)


if __name__ == "__main__":
    _packets, _seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    _kept = anyio.run(run, _packets, _seed)
    if _kept >= MEMORY:
        sys.exit(f"{_kept} bytes kept")
    print(f"{_kept} bytes kept, no failure")
