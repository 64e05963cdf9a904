"""The MQTT codec: golden packets, most of them examples of the standards, in both directions."""

from __future__ import annotations

import pytest

from pyjms.errors import LocalProtocolError
from pyjms.wire.mqtt import (
    AUTH,
    CONNECT,
    MAX_CONNECT_SIZE,
    MAX_PACKET_SIZE,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    TOO_LARGE,
    UNSUBACK,
    V3_1,
    V3_1_1,
    V5,
    Ack,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Fault,
    Filter,
    MqttFormat,
    Packet,
    Ping,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
    Will,
    check_filter,
    check_topic,
)

LONG = b"x" * 70_000

GOLDEN: list[tuple[str, int, Packet, bytes]] = [
    (
        "connect 3.1.1 with will and login (3.1.1, 3.1.2)",
        V3_1_1,
        Connect("c", V3_1_1, True, 10, Will("w", b"gone", 1), "u", b"p"),
        b"\x10\x1c\0\4MQTT\4\xce\0\x0a\0\1c\0\1w\0\4gone\0\1u\0\1p",
    ),
    (
        "connect 3.1",
        V3_1,
        Connect("c", V3_1, False, 0),
        b"\x10\x0f\0\6MQIsdp\3\0\0\0\0\1c",
    ),
    (
        "connect 5 (5.0, 3.1.2.12 and 3.1.2.11.2)",
        V5,
        Connect("", V5, True, 60, properties={"session_expiry_interval": 10}),
        b"\x10\x12\0\4MQTT\5\2\0\x3c\5\x11\0\0\0\x0a\0\0",
    ),
    (
        "connect 5 with a will delay",
        V5,
        Connect("c", V5, will=Will("w", b"", 2, True, {"will_delay_interval": 1})),
        b"\x10\x19\0\4MQTT\5\x36\0\0\0\0\1c\5\x18\0\0\0\1\0\1w\0\0",
    ),
    ("connack", V3_1_1, ConnAck(0, True), b"\x20\2\1\0"),
    ("connack refused", V3_1_1, ConnAck(5), b"\x20\2\0\5"),
    (
        "connack 5",
        V5,
        ConnAck(0, False, {"receive_maximum": 20, "assigned_client_identifier": "a"}),
        b"\x20\x0a\0\0\7\x21\0\x14\x12\0\1a",
    ),
    ("publish (3.1.1, 3.3.2)", V3_1_1, Publish("a/b", b"hi", 1, packet_id=10),
     b"\x32\x09\0\3a/b\0\x0ahi"),
    ("publish QoS 0", V3_1_1, Publish("a/b"), b"\x30\5\0\3a/b"),
    ("publish retained duplicate", V3_1_1, Publish("a", b"", 2, True, True, 1),
     b"\x3d\5\0\1a\0\1"),
    ("publish without properties", V5, Publish("a/b", b"", 1, packet_id=10),
     b"\x32\x08\0\3a/b\0\x0a\0"),
    (
        "publish with properties",
        V5,
        Publish("a", b"x", properties={
            "payload_format_indicator": True, "message_expiry_interval": 1,
            "content_type": "t", "response_topic": "r", "correlation_data": b"\1",
            "user_property": [("k", "v"), ("k", "w")], "topic_alias": 3,
            "subscription_identifier": [1, 200],
        }),
        (b"\x30\x2e\0\1a\x29\1\1\2\0\0\0\1\3\0\1t\x08\0\1r\x09\0\1\1\x26\0\1k\0\1v\x26\0\1k\0\1w"
        b"\x23\0\3\x0b\1\x0b\xc8\1x"),
    ),
    ("puback", V3_1_1, Ack(PUBACK, 1), b"\x40\2\0\1"),
    ("pubrec", V3_1_1, Ack(PUBREC, 1), b"\x50\2\0\1"),
    ("pubrel", V3_1_1, Ack(PUBREL, 0x1234), b"\x62\2\x12\x34"),
    ("pubcomp", V3_1_1, Ack(PUBCOMP, 1), b"\x70\2\0\1"),
    ("puback 5, success", V5, Ack(PUBACK, 1), b"\x40\2\0\1"),
    ("puback 5, refused", V5, Ack(PUBACK, 1, 0x87, {"reason_string": "no"}),
     b"\x40\x09\0\1\x87\5\x1f\0\2no"),
    ("subscribe (3.1.1, 3.8.3)", V3_1_1, Subscribe(10, [Filter("a/b", 1), Filter("c/d", 2)]),
     b"\x82\x0e\0\x0a\0\3a/b\1\0\3c/d\2"),
    ("subscribe 5", V5,
     Subscribe(1, [Filter("a", 2, True, True, 2)], {"subscription_identifier": [9]}),
     b"\x82\x09\0\1\2\x0b\x09\0\1a\x2e"),
    ("suback", V3_1_1, SubAck(SUBACK, 10, [0, 2, 0x80]), b"\x90\5\0\x0a\0\2\x80"),
    ("unsubscribe (3.1.1, 3.10.3)", V3_1_1, Unsubscribe(10, ["a/b", "c/d"]),
     b"\xa2\x0c\0\x0a\0\3a/b\0\3c/d"),
    ("unsuback", V3_1_1, SubAck(UNSUBACK, 10, []), b"\xb0\2\0\x0a"),
    ("unsuback 5", V5, SubAck(UNSUBACK, 10, [0, 0x11]), b"\xb0\5\0\x0a\0\0\x11"),
    ("pingreq", V3_1_1, Ping(PINGREQ), b"\xc0\0"),
    ("pingresp", V3_1_1, Ping(PINGRESP), b"\xd0\0"),
    ("disconnect", V3_1_1, Disconnect(), b"\xe0\0"),
    ("disconnect 5", V5, Disconnect(0x8E), b"\xe0\2\x8e\0"),
    ("auth", V5, Auth(0x18, {"authentication_method": "m"}), b"\xf0\6\x18\4\x15\0\1m"),
]  # fmt: skip
NAMES = [name for name, _, _, _ in GOLDEN]


def level_before(packet: Packet, level: int) -> int | None:
    """A CONNECT states the level itself."""
    return None if isinstance(packet, Connect) else level


@pytest.mark.parametrize(("level", "packet", "data"), [g[1:] for g in GOLDEN], ids=NAMES)
def test_packets_are_read(level: int, packet: Packet, data: bytes) -> None:
    codec = MqttFormat(level=level_before(packet, level))
    assert codec.receive_data(data) == [packet]
    assert codec.level == level


@pytest.mark.parametrize(("level", "packet", "data"), [g[1:] for g in GOLDEN], ids=NAMES)
def test_packets_are_written(level: int, packet: Packet, data: bytes) -> None:
    buffer = bytearray()
    MqttFormat(level=level).encode_into(buffer, packet)
    assert bytes(buffer) == data


@pytest.mark.parametrize("size", range(1, 5))
def test_packets_arrive_in_portions(size: int) -> None:
    packets = [packet for _, level, packet, _ in GOLDEN if level == V3_1_1]
    data = b"".join(data for _, level, _, data in GOLDEN if level == V3_1_1)
    codec = MqttFormat()
    portions = [data[at : at + size] for at in range(0, len(data), size)]
    assert [each for portion in portions for each in codec.receive_data(portion)] == packets


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_the_remaining_length_has_one_to_four_bytes(length: int) -> None:
    """The limits of the table in 2.2.3 of the standard."""
    payload = bytes(max(length - 3, 0))
    packet = Publish("a", payload)
    buffer = bytearray()
    MqttFormat(level=V3_1_1).encode_into(buffer, packet)
    assert MqttFormat(level=V3_1_1).receive_data(bytes(buffer)) == [packet]


def test_a_long_payload_is_not_copied() -> None:
    buffer = bytearray()
    [(position, payload)] = list(MqttFormat(level=V3_1_1).encode_shared(buffer, Publish("a", LONG)))
    assert payload is LONG
    assert position == len(buffer)


def test_what_cannot_be_written() -> None:
    codec = MqttFormat(level=V3_1_1)
    for packet in (Publish("x" * 65_536), Fault(0x80, "no packet"), Publish("\ud800")):
        buffer = bytearray()
        with pytest.raises(LocalProtocolError):
            codec.encode_into(buffer, packet)
        assert not buffer


def test_3_1_allows_the_flag_dup_in_requests() -> None:
    data = b"\x8a\x06\0\1\0\1a\1"
    assert MqttFormat(level=V3_1).receive_data(data) == [Subscribe(1, [Filter("a", 1)])]


CONNECT_3_1_1 = b"\x10\x0d\0\4MQTT\4\2\0\0\0\1c"

MALFORMED = [
    ("type 0", V3_1_1, b"\x00\0", 0x81, "type 0"),
    ("type 15 in 3.1.1", V3_1_1, b"\xf0\0", 0x81, "AUTH"),
    ("five bytes of length", V3_1_1, b"\xc0\xff\xff\xff\xff\1", 0x81, "more than four"),
    ("QoS 3", V3_1_1, b"\x36\5\0\1a\0\1", 0x81, "QoS 3"),
    ("flags of SUBSCRIBE", V3_1_1, b"\x80\6\0\1\0\1a\0", 0x81, "flags"),
    ("flags of PUBREL", V3_1_1, b"\x60\2\0\1", 0x81, "flags"),
    ("QoS 3 in SUBSCRIBE", V3_1_1, b"\x82\6\0\1\0\1a\3", 0x81, "QoS 3"),
    ("a text without its end", V3_1_1, b"\x30\3\0\5a", 0x81, "within a field"),
    ("a text that is not UTF-8", V3_1_1, b"\x30\4\0\2\xff\xfe", 0x81, "UTF-8"),
    ("more than the fields", V3_1_1, b"\x40\3\0\1\0", 0x81, "longer"),
    ("no CONNECT first", None, b"\xc0\0", 0x82, "CONNECT"),
    ("another protocol", None, b"\x10\x0c\0\4HTTP\4\2\0\0\0\0", 0x81, "HTTP"),
    ("another level", None, b"\x10\x0c\0\4MQTT\x06\2\0\0\0\0", 0x84, "level 6"),
    ("the level of the other name", None, b"\x10\x0c\0\4MQTT\3\2\0\0\0\0", 0x84, "level 3"),
    ("the reserved flag", None, b"\x10\x0c\0\4MQTT\4\3\0\0\0\0", 0x81, "flags"),
    ("options of no will", None, b"\x10\x0c\0\4MQTT\4\x12\0\0\0\0", 0x81, "no will"),
    ("will QoS 3", None, b"\x10\x11\0\4MQTT\4\x1e\0\0\0\1c\0\1w\0\0", 0x81, "flags"),
    ("a password alone", None, b"\x10\x0f\0\4MQTT\4\x42\0\0\0\0\0\1p", 0x81, "user name"),
    ("property of another packet", V5, b"\x40\6\0\1\0\2\1\1", 0x81, "cannot have"),
    ("property twice", V5, b"\x30\x08\0\1a\4\1\1\1\1", 0x82, "twice"),
    ("property 2 of 0 and 1", V5, b"\x30\6\0\1a\2\1\2", 0x82, "neither"),
    ("topic alias 0", V5, b"\x30\7\0\1a\3\x23\0\0", 0x82, "is 0"),
    ("properties too long", V5, b"\x30\5\0\1a\2\1", 0x81, "within a field"),
    ("NUL in a text", V5, b"\x30\5\0\2a\0\0", 0x81, "NUL"),
    ("SUBSCRIBE without a filter", V5, b"\x82\3\0\1\0", 0x82, "no topic filter"),
]
BAD = [name for name, *_ in MALFORMED]


@pytest.mark.fact(
    "mqtt-connector M21", "mqtt-connector M25", "mqtt-connector M26", "mqtt-connector M63",
    "mqtt-connector M70", "mqtt-connector M130", "mqtt-connector M132",
)  # fmt: skip
@pytest.mark.parametrize(("level", "data", "code", "text"), [m[1:] for m in MALFORMED], ids=BAD)
def test_a_malformed_packet_is_the_last(level: int | None, data: bytes, code: int,
                                        text: str) -> None:  # fmt: skip
    codec = MqttFormat(level=level)
    [fault] = codec.receive_data(data)
    assert isinstance(fault, Fault)
    assert (fault.code, text in fault.reason) == (code, True), fault
    assert codec.receive_data(CONNECT_3_1_1) == []


@pytest.mark.fact("mqtt-connector M56")
@pytest.mark.parametrize(
    "text", ["#", "+", "a/#", "+/a/+", "/", "a//b", "a b", "\0", "\u00fc", "$x/#"]
)
def test_filters(text: str) -> None:
    assert check_filter(text) is None


@pytest.mark.fact("mqtt-connector M56")
@pytest.mark.parametrize("text", ["", "a#", "a/#/b", "#/a", "a+", "+a", "a/+#"])
def test_wrong_filters(text: str) -> None:
    assert check_filter(text)


@pytest.mark.fact("mqtt-connector M57")
@pytest.mark.parametrize("text", ["", "+", "a/#", "a+b"])
def test_wrong_topics(text: str) -> None:
    assert check_topic(text)
    assert check_topic("a/b.c") is None


def test_what_was_whole_before_a_malformed_packet_is_read() -> None:
    found = MqttFormat().receive_data(CONNECT_3_1_1 + b"\0\0")
    assert found[0] == Connect("c")
    assert isinstance(found[1], Fault)


@pytest.mark.fact("mqtt-connector M6")
def test_a_packet_that_exceeds_the_limit_is_refused_before_it_arrives() -> None:
    codec = MqttFormat(100, level=V3_1_1)
    [fault] = codec.receive_data(b"\x30\x65\0")
    assert isinstance(fault, Fault)
    assert fault.code == TOO_LARGE
    buffer = bytearray()
    MqttFormat(level=V3_1_1).encode_into(buffer, Publish("a", bytes(97)))
    assert MqttFormat(100, level=V3_1_1).receive_data(bytes(buffer)) == [Publish("a", bytes(97))]


def test_a_first_packet_is_limited_more() -> None:
    """A client that has not logged in cannot make the broker keep megabytes."""
    head = bytearray([CONNECT << 4])
    size = MAX_CONNECT_SIZE + 1
    while size:
        head.append(size & 0x7F | (0x80 if size > 0x7F else 0))
        size >>= 7
    [fault] = MqttFormat().receive_data(bytes(head))
    assert isinstance(fault, Fault)
    assert fault.code == TOO_LARGE


@pytest.mark.fact("mqtt-connector M6")
def test_the_limit_is_at_most_what_a_length_can_say() -> None:
    codec = MqttFormat(2**40, level=V3_1_1)
    assert codec.receive_data(b"\x30\xff\xff\xff\x7f") == []
    assert MAX_PACKET_SIZE == 2**28


@pytest.mark.fact("mqtt-connector M37")
def test_extra_bytes_of_a_ping_are_ignored() -> None:
    assert MqttFormat(level=V3_1_1).receive_data(b"\xc0\2ab") == [Ping(PINGREQ)]


def test_auth_is_a_packet_of_5() -> None:
    assert MqttFormat(level=V5).receive_data(bytes([AUTH << 4, 0])) == [Auth()]
