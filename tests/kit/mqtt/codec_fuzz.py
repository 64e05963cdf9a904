"""Random input for the MQTT codec: packets, damaged packets and noise, in any portions.

`python -m tests.kit.mqtt.codec_fuzz 1000000 [SEED]` runs a million inputs.
"""

from __future__ import annotations

import random
import sys

from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from pyjms.wire.mqtt import Fault, MqttFormat, Publish, write_varint

LIMIT = 2000
LEVELS = [None, 3, 4, 5]
TEXTS = ["", "a", "a/b", "+", "#", "a/#", "$SYS/x", "\0", "\u00fc", "x" * 300, "a,b", "a?b=c"]
STARTS = [b"\0\4MQTT\4", b"\0\4MQTT\5", b"\0\6MQIsdp\3", b"\0\4MQTT\6"]


def field(chance: random.Random) -> bytes:
    kind = chance.randrange(5)
    if kind == 0:
        text = chance.choice(TEXTS).encode()
        return len(text).to_bytes(2) + text
    if kind == 1:
        return chance.randrange(65536).to_bytes(2)
    if kind == 2:
        return bytes([chance.choice([0, 1, 2, 3, 0x22, 0x26, 0x80, 0xFF])])
    if kind == 3:
        return chance.choice(STARTS)
    return chance.randbytes(chance.randrange(20))


def packet(chance: random.Random) -> bytes:
    """A packet whose length is right, with fields that may make sense."""
    body = b"".join(field(chance) for _ in range(chance.randrange(7)))
    first = chance.choice([*range(0x10, 0xF1, 0x10), 0x32, 0x3D, 0x62, 0x82, 0xA2])
    head = bytearray([first | (chance.randrange(16) if chance.random() < 0.1 else 0)])
    write_varint(head, len(body))
    return bytes(head) + body


def run(inputs: int, seed: int = 1) -> int:
    """Feed random inputs; return the number of packets. Fails if a limit is exceeded."""
    chance = random.Random(seed)
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    found = 0
    for _ in range(inputs):
        codec = MqttFormat(LIMIT, UnfinishedFrame(budget), level=chance.choice(LEVELS))
        data = b"".join(packet(chance) for _ in range(chance.randrange(5)))
        if chance.random() < 0.3:
            data = data[: chance.randrange(len(data) + 1)] + chance.randbytes(5)
        ended = False
        while data:
            size = chance.randrange(1, 40)
            portion, data = data[:size], data[size:]
            for each in codec.receive_data(portion):
                assert not ended, "a packet behind a fault"
                ended = isinstance(each, Fault)
                assert not isinstance(each, Publish) or len(each.payload) <= LIMIT
                found += not ended
        codec.discard()
    assert budget.used == 0
    return found


if __name__ == "__main__":
    print(f"{run(int(sys.argv[1]), *map(int, sys.argv[2:3]))} packets, no failure")
