"""Random input for the MQTT codec: packets, damaged packets and noise, in any portions.

`python -m tests.kit.mqtt.codec_fuzz 1000000 [SEED]` runs a million inputs.
"""

from __future__ import annotations

import random
import sys

from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from pyjms.wire.mqtt import (
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Auth,
    Disconnect,
    Fault,
    Filter,
    MqttFormat,
    Packet,
    Ping,
    Properties,
    Publish,
    Subscribe,
    Unsubscribe,
    write_varint,
)

LIMIT = 4000
LEVELS = [None, 3, 4, 5]
TEXTS = ["", "a", "a/b", "+", "#", "a/#", "$SYS/x", "\0", "\u00fc", "x" * 300, "a,b", "a?b=c"]
STARTS = [b"\0\4MQTT\4", b"\0\4MQTT\5", b"\0\6MQIsdp\3", b"\0\4MQTT\6"]
TOPICS = ["a", "a/b", "$a", "", "a//b", "a,b", "\u00fc", "x" * 300, "ActiveMQ/Advisory/x"]
FILTERS = ["a", "#", "+/b", "a/#", "", "a#", "$share/g/a", "$share/g", "x" * 300, "a,b"]
PAYLOADS = [b"", b"abc", b"\xff", bytes(3000)]
VALUES: dict[str, list[object]] = {
    "payload_format_indicator": [False, True],
    "message_expiry_interval": [0, 1, 2**32 - 1],
    "content_type": ["", "text/plain", "x" * 300],
    "response_topic": ["a", "a/#", "", "a,b"],
    "correlation_data": [b"", b"\xff", b"x" * 300],
    "subscription_identifier": [[1], [268_435_455], [0], [1, 2]],
    "session_expiry_interval": [0, 1, 2**32 - 1],
    "request_problem_information": [False, True],
    "will_delay_interval": [0, 1, 2**32 - 1],
    "receive_maximum": [1, 5, 65535, 0],
    "topic_alias_maximum": [0, 10],
    "topic_alias": [1, 2, 100, 101, 0],
    "user_property": [
        [("a", "b")],
        [("a", "b")] * 20,
        [("JMSX", "")],
        [("ActiveMQ.Retain", "true")],
    ],
    "maximum_packet_size": [1, 30, 2000, 0],
    "reason_string": ["", "x" * 300],
    "authentication_method": ["PLAIN"],
    "server_keep_alive": [1],
}
"""Values of the properties of 5.0, which are not all allowed."""
FITTING = {
    "will": [
        "payload_format_indicator", "message_expiry_interval", "content_type", "response_topic",
        "correlation_data", "will_delay_interval", "user_property",
    ],
    "connect": [
        "session_expiry_interval", "request_problem_information", "receive_maximum",
        "topic_alias_maximum", "user_property", "maximum_packet_size",
    ],
    "publish": [
        "payload_format_indicator", "message_expiry_interval", "content_type", "response_topic",
        "correlation_data", "topic_alias", "user_property",
    ],
    "subscribe": ["subscription_identifier", "user_property"],
    "unsubscribe": ["user_property"],
    "ack": ["reason_string", "user_property"],
    "disconnect": ["session_expiry_interval", "reason_string", "user_property"],
}  # fmt: skip
"""The properties that each kind of packet may have."""


def properties(chance: random.Random, kind: str) -> Properties:
    """Return properties for a packet; now and then one that it cannot have."""
    found = chance.sample(FITTING[kind], chance.choice([0, 0, 1, 2, 3]) % (len(FITTING[kind]) + 1))
    if chance.random() < 0.02:
        found.append(chance.choice(list(VALUES)))
    return {name: chance.choice(VALUES[name]) for name in found}


def packet(chance: random.Random) -> Packet:
    """Return a packet that may make sense."""
    qos, packet_id = chance.randrange(3), chance.randrange(5)
    kind = chance.randrange(21)
    flags = chance.random() < 0.3, chance.random() < 0.3
    if kind < 8:
        given = properties(chance, "publish")
        topic = chance.choice(TOPICS)
        return Publish(topic, chance.choice(PAYLOADS), qos, *flags, packet_id, given)
    if kind < 12:
        wanted = Filter(chance.choice(FILTERS), qos)
        if chance.random() < 0.5:
            wanted.no_local, wanted.retain_as_published = flags
            wanted.retain_handling = chance.choice([0, 1, 2, 3])
        return Subscribe(packet_id, [wanted], properties(chance, "subscribe"))
    if kind < 14:
        texts = [chance.choice(FILTERS)]
        return Unsubscribe(packet_id, texts, properties(chance, "unsubscribe"))
    if kind < 16:
        return Ping(PINGREQ)
    if kind < 20:
        code = chance.choice([0, 0, 0x10, 0x80, 0x92])
        given = properties(chance, "ack")
        return Ack(chance.choice([PUBACK, PUBREC, PUBREL, PUBCOMP]), packet_id, code, given)
    if chance.random() < 0.9:
        return Ping(PINGREQ)
    if chance.random() < 0.5:
        return Auth(0x18)
    return Disconnect(chance.choice([0, 4, 0x80]), properties(chance, "disconnect"))


def encoded(level: int, packet: Packet) -> bytes:
    """Return the bytes of a packet."""
    data = bytearray()
    MqttFormat(level=level).encode_into(data, packet)
    return bytes(data)


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


def noise(chance: random.Random) -> bytes:
    """A packet whose length is right, with fields that may make sense."""
    body = b"".join(field(chance) for _ in range(chance.randrange(7)))
    first = chance.choice([*range(0x10, 0xF1, 0x10), 0x32, 0x3D, 0x62, 0x82, 0xA2])
    head = bytearray([first | (chance.randrange(16) if chance.random() < 0.1 else 0)])
    write_varint(head, len(body))
    return bytes(head) + body


def part(chance: random.Random, level: int | None) -> bytes:
    """A packet, which may be damaged, or noise."""
    if level is None or chance.random() < 0.5:
        return noise(chance)
    data = bytearray(encoded(level, packet(chance)))
    if chance.random() < 0.3:
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def run(inputs: int, seed: int = 1) -> int:
    """Feed random inputs; return the number of packets. Fails if a limit is exceeded."""
    chance = random.Random(seed)
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    found = 0
    for _ in range(inputs):
        level = chance.choice(LEVELS)
        codec = MqttFormat(LIMIT, UnfinishedFrame(budget), level=level)
        data = b"".join(part(chance, level) for _ in range(chance.randrange(5)))
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
