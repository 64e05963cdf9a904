"""Random packets for an MQTT port; see `tests.kit.socket_fuzz`."""

from __future__ import annotations

import random
from collections.abc import Iterator

from anyio.abc import ByteStream

from pyjms.wire.mqtt import Connect, Publish, Will
from tests.kit import socket_fuzz
from tests.kit.mqtt import codec_fuzz
from tests.kit.mqtt.client import MqttClient

DAMAGED = 0.01


def talk(chance: random.Random) -> Iterator[bytes]:
    """Yield what a client sends."""
    level = chance.choice([3, 4, 5])
    first = Connect(f"c{chance.randrange(4)}", level, clean=chance.random() < 0.5)
    if chance.random() < 0.3:
        given = codec_fuzz.properties(chance, "will")
        first.will = Will("a", b"gone", chance.randrange(3), properties=given)
    first.properties = codec_fuzz.properties(chance, "connect")
    yield codec_fuzz.encoded(level, first)
    while True:
        if chance.random() < DAMAGED:
            yield codec_fuzz.noise(chance)
        else:
            yield codec_fuzz.encoded(level, codec_fuzz.packet(chance))


async def use(stream: ByteStream) -> None:
    """Check that a client is served."""
    client = MqttClient(stream)
    await client.connect()
    await client.subscribe("well", qos=1)
    for number in range(10):
        await client.publish("well", str(number), 1)
        message = await client.receive(Publish)
        assert message.payload == str(number).encode()
        await client.acknowledge(message)


async def run(packets: int, seed: int = 1) -> int:
    """Send about so many packets; return the bytes that were added."""
    return await socket_fuzz.run("mqtt", talk, use, packets, seed)


if __name__ == "__main__":
    socket_fuzz.main("mqtt", talk, use)
