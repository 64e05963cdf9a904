"""MQTT 3.1, 3.1.1 and 5.0 over one connection, on either side: bytes to packets and back, no I/O.

A packet is one byte of type and flags, the remaining length (one to four bytes of 7 bits, the
lowest first), and so many bytes. With 5.0, most packets also have properties: a table of 27, each
with an id, a type and the packets that may have it (`_PROPERTIES`). The level of a connection (3, 4
or 5) is that of its CONNECT; a broker learns it from the client's first packet, a client states it.

A violation becomes a `Fault`, the last packet, with the reason code of 5.0, so that the session can
tell a client of 5.0 the reason before it closes; the earlier versions have no packet for errors.
Where the versions leave a choice, or ActiveMQ accepts more than they allow, 3.1 and 3.1.1 are read
as by ActiveMQ, and 5.0 by its standard. (mqtt-connector M6, M20 to M26, M56, M57, M63,
M70, M130)
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.limits import LARGE_FRAME, UnfinishedFrame

V3_1: Final = 3
V3_1_1: Final = 4
V5: Final = 5
NAMES: Final = {V3_1: "MQTT 3.1", V3_1_1: "MQTT 3.1.1", V5: "MQTT 5.0"}
"""How people call the levels of the protocol."""
PROTOCOL_NAMES: Final = {V3_1: "MQIsdp", V3_1_1: "MQTT", V5: "MQTT"}
"""By level."""

MAX_PACKET_SIZE: Final = 268_435_456
"""The maximum remaining length that can be written."""
MAX_SHORT_PACKET: Final = 16_000
"""The maximum of topic and payload for `publish_bytes`, less than what two bytes can express."""
MAX_CONNECT_SIZE: Final = 512 * 1024
"""The maximum remaining length of a CONNECT: five fields of 64 KiB, and properties."""

MAX_PROPERTIES_SIZE: Final = 1024 * 1024
"""The maximum size of a packet's properties, which take up to 30 times as much in memory."""
MAX_FILTERS: Final = 10_000
"""The maximum number of topic filters of a packet."""

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15
_WILL: Final = 0
"""In the table of properties: those of a will."""

# Reason codes of MQTT 5 (2.4), as far as a broker uses them.
SUCCESS: Final = 0x00
NO_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION: Final = 0x11
WITH_WILL: Final = 0x04
"""DISCONNECT of a client that wants its will to be published."""
UNSPECIFIED: Final = 0x80
MALFORMED: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
UNSUPPORTED_VERSION: Final = 0x84
BAD_CLIENT_ID: Final = 0x85
BAD_CREDENTIALS: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
TAKEN_OVER: Final = 0x8E
BAD_FILTER: Final = 0x8F
BAD_TOPIC: Final = 0x90
ID_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
BAD_TOPIC_ALIAS: Final = 0x94
TOO_LARGE: Final = 0x95
QUOTA_EXCEEDED: Final = 0x97
BAD_PAYLOAD: Final = 0x99
SHARED_NOT_SUPPORTED: Final = 0x9E

Properties: TypeAlias = dict[str, Any]
"""The properties of a packet of MQTT 5, by name: numbers, text, bytes; `user_property` is a list of
pairs, `subscription_identifier` of a list of numbers."""


@dataclass
class Will:
    """The message that a broker publishes when a client is lost."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=dict)

    def publish(self) -> Publish:
        """Return the packet that delivers it; its properties are those but the delay."""
        properties = {k: v for k, v in self.properties.items() if k != "will_delay_interval"}
        return Publish(
            self.topic, self.payload, self.qos, self.retain, packet_id=1, properties=properties
        )


@dataclass
class Connect:
    """A client's first packet."""

    client_id: str = ""
    level: int = V3_1_1
    clean: bool = True
    """Clean session (3.1, 3.1.1) or clean start (5.0)."""
    keep_alive: int = 0
    """Seconds; 0: none."""
    will: Will | None = None
    user_name: str | None = None
    password: bytes | None = None
    properties: Properties = field(default_factory=dict)


@dataclass
class ConnAck:
    """The answer to CONNECT. `code` is a return code of 3.1.1, or a reason code of 5.0."""

    code: int = SUCCESS
    session_present: bool = False
    properties: Properties = field(default_factory=dict)


@dataclass
class Publish:
    """A message."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    duplicate: bool
    packet_id: int
    """Without meaning for QoS 0."""
    properties: Properties

    def __init__(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        duplicate: bool = False,
        packet_id: int = 0,
        properties: Properties | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.duplicate = duplicate
        self.packet_id = packet_id
        self.properties = {} if properties is None else properties


@dataclass
class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP, by its `type`."""

    type: int
    packet_id: int
    code: int
    properties: Properties

    def __init__(
        self,
        type: int,  # noqa: A002 - as the attribute
        packet_id: int,
        code: int = SUCCESS,
        properties: Properties | None = None,
    ) -> None:
        self.type = type
        self.packet_id = packet_id
        self.code = code
        self.properties = {} if properties is None else properties


@dataclass
class Filter:
    """A topic filter of SUBSCRIBE, with its options (those but `qos` are of 5.0)."""

    text: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    """0: send the retained messages, 1: if the subscription is new, 2: never."""


@dataclass
class Subscribe:
    """A request for subscriptions."""

    packet_id: int
    filters: list[Filter]
    properties: Properties = field(default_factory=dict)


@dataclass
class Unsubscribe:
    """A request to end subscriptions."""

    packet_id: int
    filters: list[str]
    properties: Properties = field(default_factory=dict)


@dataclass
class SubAck:
    """SUBACK or UNSUBACK, by its `type`, with a code for each filter."""

    type: int
    packet_id: int
    codes: list[int]
    properties: Properties = field(default_factory=dict)


@dataclass
class Ping:
    """PINGREQ or PINGRESP, by its `type`."""

    type: int


@dataclass
class Disconnect:
    """The last packet of a client, or in 5.0 of a broker."""

    code: int = SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass
class Auth:
    """A step of enhanced authentication. (5.0)"""

    code: int = SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass
class Fault:
    """The peer violated MQTT, and no packets follow. `code` is the reason code of 5.0."""

    code: int
    reason: str


Packet: TypeAlias = (
    Connect | ConnAck | Publish | Ack | Subscribe | Unsubscribe | SubAck | Ping | Disconnect
    | Auth | Fault | bytes
)  # fmt: skip
"""Bytes are whole packets that are only sent, such as those of `publish_bytes`."""

_ACKS: Final = (PUBACK, PUBREC, PUBREL, PUBCOMP)
_ALL: Final = frozenset({_WILL, *range(CONNECT, PINGREQ), DISCONNECT, AUTH})
_PROPERTIES: Final[dict[int, tuple[str, str, frozenset[int]]]] = {
    code: (name, kind, frozenset(packets))
    for code, name, kind, packets in (
        (0x01, "payload_format_indicator", "bool", (PUBLISH, _WILL)),
        (0x02, "message_expiry_interval", "u32", (PUBLISH, _WILL)),
        (0x03, "content_type", "text", (PUBLISH, _WILL)),
        (0x08, "response_topic", "text", (PUBLISH, _WILL)),
        (0x09, "correlation_data", "bytes", (PUBLISH, _WILL)),
        (0x0B, "subscription_identifier", "varint", (PUBLISH, SUBSCRIBE)),
        (0x11, "session_expiry_interval", "u32", (CONNECT, CONNACK, DISCONNECT)),
        (0x12, "assigned_client_identifier", "text", (CONNACK,)),
        (0x13, "server_keep_alive", "u16", (CONNACK,)),
        (0x15, "authentication_method", "text", (CONNECT, CONNACK, AUTH)),
        (0x16, "authentication_data", "bytes", (CONNECT, CONNACK, AUTH)),
        (0x17, "request_problem_information", "bool", (CONNECT,)),
        (0x18, "will_delay_interval", "u32", (_WILL,)),
        (0x19, "request_response_information", "bool", (CONNECT,)),
        (0x1A, "response_information", "text", (CONNACK,)),
        (0x1C, "server_reference", "text", (CONNACK, DISCONNECT)),
        (0x1F, "reason_string", "text", (CONNACK, *_ACKS, SUBACK, UNSUBACK, DISCONNECT, AUTH)),
        (0x21, "receive_maximum", "u16", (CONNECT, CONNACK)),
        (0x22, "topic_alias_maximum", "u16", (CONNECT, CONNACK)),
        (0x23, "topic_alias", "u16", (PUBLISH,)),
        (0x24, "maximum_qos", "bool", (CONNACK,)),
        (0x25, "retain_available", "bool", (CONNACK,)),
        (0x26, "user_property", "pair", _ALL),
        (0x27, "maximum_packet_size", "u32", (CONNECT, CONNACK)),
        (0x28, "wildcard_subscription_available", "bool", (CONNACK,)),
        (0x29, "subscription_identifier_available", "bool", (CONNACK,)),
        (0x2A, "shared_subscription_available", "bool", (CONNACK,)),
    )
}
_CODES: Final = {name: (code, kind) for code, (name, kind, _) in _PROPERTIES.items()}
_REPEATED: Final = frozenset({"user_property", "subscription_identifier"})
"""Properties that are lists, as they may occur several times."""
_NOT_ZERO: Final = frozenset(
    {"receive_maximum", "maximum_packet_size", "subscription_identifier", "topic_alias"}
)

_CONNECT_FLAGS: Final = struct.Struct(">BBH")
_SHORT_ACK: Final = struct.Struct(">BBH")
_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_LONGEST_TEXT: Final = 65535
_SEVEN_BITS: Final = 0x7F
_LENGTH_BYTES: Final = 4
_EXACTLY_ONCE: Final = 2
_FLAGS: Final = {PUBREL: 0b0010, SUBSCRIBE: 0b0010, UNSUBSCRIBE: 0b0010}
"""The flags that a packet must have; 0 if not named, and any for PUBLISH."""
_PUBLISH_BITS: Final = PUBLISH << 4
_ACK_BITS: Final = frozenset((packet << 4 | _FLAGS.get(packet, 0)) for packet in _ACKS)
"""The first bytes of acknowledgements."""
SHORT_ACKS: Final = {
    packet: bytes((packet << 4 | _FLAGS.get(packet, 0), _U16.size)) for packet in _ACKS
}
"""The beginning of acknowledgements without code and properties; the packet id follows."""
_LARGE_CHUNK: Final = 4 * LARGE_FRAME
_REPEATABLE: Final = 0b1000
"""3.1 allows the flag DUP for the packets of `_FLAGS`."""


def check_filter(text: str) -> str | None:
    """Return what is wrong with a topic filter, or None. (mqtt-connector M56)"""
    if not text:
        return "a topic filter is empty"
    levels = text.split("/")
    for position, level in enumerate(levels, 1):
        if level in {"+", "#"}:
            if level == "#" and position < len(levels):
                return f"in the topic filter {text[:200]!r}, # is not the last level"
        elif "+" in level or "#" in level:
            return f"in the topic filter {text[:200]!r}, + or # does not fill its level"
    return None


def check_topic(text: str) -> str | None:
    """Return why `text` cannot be the topic of a message, or None. (mqtt-connector M57)"""
    if not text:
        return "the topic of a message is empty"
    if "+" in text or "#" in text:
        return f"the topic {text[:200]!r} of a message contains a wildcard"
    return None


class _Reader:
    """Reads the fields of one packet; every read checks that the packet has the bytes."""

    __slots__ = ("at", "code", "data", "end", "is_v5")

    def __init__(self, data: bytes | bytearray, at: int, end: int, level: int | None) -> None:
        self.data: bytes | bytearray = data
        self.at: int = at
        self.end: int = end
        self.is_v5: bool = level == V5
        self.code: int = MALFORMED
        """The reason code of the violation, if a method raises."""

    def violation(self, reason: str, code: int = MALFORMED) -> RemoteProtocolError:
        """Return the error to raise, and keep its reason code."""
        self.code = code
        return RemoteProtocolError(reason)

    def advance(self, size: int) -> int:
        """Return the start of the next `size` bytes and go behind them."""
        at = self.at
        if at + size > self.end:
            raise RemoteProtocolError("a packet ends within a field")
        self.at = at + size
        return at

    def byte(self) -> int:
        return self.data[self.advance(1)]

    def u16(self) -> int:
        return int(_U16.unpack_from(self.data, self.advance(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack_from(self.data, self.advance(4))[0])

    def boolean(self) -> bool:
        value = self.byte()
        if value > 1:
            raise self.violation("a property that is 0 or 1 is neither", PROTOCOL_ERROR)
        return bool(value)

    def varint(self) -> int:
        value = shift = 0
        for _ in range(_LENGTH_BYTES):
            byte = self.byte()
            value |= (byte & _SEVEN_BITS) << shift
            if byte <= _SEVEN_BITS:
                return value
            shift += 7
        raise RemoteProtocolError("a variable length has more than four bytes")

    def binary(self) -> bytes:
        size = self.u16()
        at = self.advance(size)
        return bytes(self.data[at : at + size])

    def text(self) -> str:
        try:
            text = self.binary().decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("a text is not UTF-8") from error
        if self.is_v5 and "\0" in text:  # ActiveMQ accepts it in 3.1 and 3.1.1
            raise RemoteProtocolError("a text contains the character NUL")
        return text

    def pair(self) -> tuple[str, str]:
        return self.text(), self.text()

    def rest(self) -> bytes:
        at, self.at = self.at, self.end
        return bytes(self.data[at : self.end])

    def properties(self, packet: int) -> Properties:
        """Return the properties of 5.0; nothing for other levels, which have none."""
        found: Properties = {}
        if not self.is_v5:
            return found
        size = self.varint()
        if size > MAX_PROPERTIES_SIZE:
            raise self.violation(f"a packet has {size} bytes of properties", TOO_LARGE)
        end = self.advance(size) + size
        self.at -= size
        while self.at < end:
            code = self.varint()
            known = _PROPERTIES.get(code)
            if known is None or packet not in known[2]:
                raise self.violation(f"a packet has the property {code:#x}, which it cannot have")
            name = known[0]
            value = _READ[known[1]](self)
            if name in _NOT_ZERO and not value:
                raise self.violation(f"the property {name} is 0", PROTOCOL_ERROR)
            if name in _REPEATED:
                found.setdefault(name, []).append(value)
            elif name in found:
                raise self.violation(f"the property {name} occurs twice", PROTOCOL_ERROR)
            else:
                found[name] = value
        if self.at != end:
            raise RemoteProtocolError("the properties are longer than their length")
        return found


_READ: Final[dict[str, Callable[[_Reader], Any]]] = {
    "bool": _Reader.boolean,
    "bytes": _Reader.binary,
    "pair": _Reader.pair,
    "text": _Reader.text,
    "u16": _Reader.u16,
    "u32": _Reader.u32,
    "varint": _Reader.varint,
}


def _read_connect(reader: _Reader, _: int) -> Packet:
    name = reader.text()
    level, flags, keep_alive = _CONNECT_FLAGS.unpack_from(reader.data, reader.advance(4))
    if name not in PROTOCOL_NAMES.values():
        raise RemoteProtocolError(f"the protocol {name[:100]!r} is unknown")
    if PROTOCOL_NAMES.get(level) != name:
        raise reader.violation(f"{name} of level {level} is unknown", UNSUPPORTED_VERSION)
    reader.is_v5 = level == V5
    will_qos, has_will = flags >> 3 & 3, bool(flags & 4)
    if (flags & 1 and level != V3_1) or will_qos > _EXACTLY_ONCE:
        raise RemoteProtocolError(f"the flags {flags:#x} of CONNECT are invalid")
    if not has_will and flags & 0b111000:
        raise RemoteProtocolError("CONNECT has options of a will, and no will")
    if level == V3_1_1 and flags & 0x40 and not flags & 0x80:
        raise RemoteProtocolError("CONNECT has a password without a user name")
    packet = Connect(level=level, clean=bool(flags & 2), keep_alive=keep_alive)
    packet.properties = reader.properties(CONNECT)
    packet.client_id = reader.text()
    if has_will:
        properties = reader.properties(_WILL)
        will = Will(reader.text(), reader.binary(), will_qos, bool(flags & 0x20), properties)
        packet.will = will
    if flags & 0x80:
        packet.user_name = reader.text()
    if flags & 0x40:
        packet.password = reader.binary()
    return packet


def _read_connack(reader: _Reader, _: int) -> Packet:
    flags, code = reader.byte(), reader.byte()
    return ConnAck(code, bool(flags & 1), reader.properties(CONNACK))


def _read_publish(reader: _Reader, flags: int) -> Packet:
    qos = flags >> 1 & 3
    if qos > _EXACTLY_ONCE:
        raise RemoteProtocolError("PUBLISH has QoS 3")
    topic = reader.text()
    packet_id = reader.u16() if qos else 0
    if qos and not packet_id and reader.is_v5:
        raise reader.violation("PUBLISH has the packet id 0", PROTOCOL_ERROR)
    properties = reader.properties(PUBLISH)
    retain, duplicate = bool(flags & 1), bool(flags & 8)
    return Publish(topic, reader.rest(), qos, retain, duplicate, packet_id, properties)


def _read_ack(packet: int) -> Callable[[_Reader, int], Packet]:
    def read(reader: _Reader, _: int) -> Packet:
        ack = Ack(packet, reader.u16())
        if reader.is_v5 and reader.at < reader.end:
            ack.code = reader.byte()
            if reader.at < reader.end:
                ack.properties = reader.properties(packet)
        return ack

    return read


def _read_subscribe(reader: _Reader, _: int) -> Packet:
    packet = Subscribe(reader.u16(), [], reader.properties(SUBSCRIBE))
    while reader.at < reader.end:
        text, options = reader.text(), reader.byte()
        qos = options & 3
        handling = options >> 4 & 3
        if qos > _EXACTLY_ONCE or (options > _EXACTLY_ONCE and not reader.is_v5):
            raise RemoteProtocolError(f"SUBSCRIBE asks for QoS {options}")
        if handling > _EXACTLY_ONCE or options & 0xC0:
            raise reader.violation(f"SUBSCRIBE has the options {options:#x}", PROTOCOL_ERROR)
        packet.filters.append(Filter(text, qos, bool(options & 4), bool(options & 8), handling))
        if len(packet.filters) > MAX_FILTERS:
            raise reader.violation(f"SUBSCRIBE has more than {MAX_FILTERS} filters", TOO_LARGE)
    if not packet.filters and reader.is_v5:
        raise reader.violation("SUBSCRIBE has no topic filter", PROTOCOL_ERROR)
    return packet


def _read_unsubscribe(reader: _Reader, _: int) -> Packet:
    packet = Unsubscribe(reader.u16(), [], reader.properties(UNSUBSCRIBE))
    while reader.at < reader.end:
        packet.filters.append(reader.text())
        if len(packet.filters) > MAX_FILTERS:
            raise reader.violation(f"UNSUBSCRIBE has more than {MAX_FILTERS} filters", TOO_LARGE)
    if not packet.filters and reader.is_v5:
        raise reader.violation("UNSUBSCRIBE has no topic filter", PROTOCOL_ERROR)
    return packet


def _read_suback(packet: int) -> Callable[[_Reader, int], Packet]:
    def read(reader: _Reader, _: int) -> Packet:
        return SubAck(packet, reader.u16(), properties=reader.properties(packet),
                      codes=list(reader.rest()))  # fmt: skip

    return read


def _read_ping(packet: int) -> Callable[[_Reader, int], Packet]:
    def read(reader: _Reader, _: int) -> Packet:
        reader.at = reader.end  # ActiveMQ ignores more bytes
        return Ping(packet)

    return read


def _read_end(kind: type[Disconnect | Auth], packet: int) -> Callable[[_Reader, int], Packet]:
    def read(reader: _Reader, _: int) -> Packet:
        if packet == AUTH and not reader.is_v5:
            raise RemoteProtocolError("AUTH is a packet of MQTT 5")
        end = kind()
        if reader.is_v5 and reader.at < reader.end:
            end.code = reader.byte()
            if reader.at < reader.end:
                end.properties = reader.properties(packet)
        return end

    return read


_PACKETS: Final[dict[int, Callable[[_Reader, int], Packet]]] = {
    CONNECT: _read_connect,
    CONNACK: _read_connack,
    PUBLISH: _read_publish,
    **{packet: _read_ack(packet) for packet in _ACKS},
    SUBSCRIBE: _read_subscribe,
    SUBACK: _read_suback(SUBACK),
    UNSUBSCRIBE: _read_unsubscribe,
    UNSUBACK: _read_suback(UNSUBACK),
    PINGREQ: _read_ping(PINGREQ),
    PINGRESP: _read_ping(PINGRESP),
    DISCONNECT: _read_end(Disconnect, DISCONNECT),
    AUTH: _read_end(Auth, AUTH),
}


class MqttFormat:
    """The MQTT codec of one connection. Not thread-safe."""

    def __init__(
        self,
        max_frame_size: int = MAX_PACKET_SIZE,
        unfinished_frame: UnfinishedFrame | None = None,
        *,
        level: int | None = None,
    ) -> None:
        """Create a codec.

        Args:
            max_frame_size: the maximum remaining length of a received packet, in bytes.
            unfinished_frame: counts large incomplete packets.
            level: 3, 4 or 5; None: that of the first CONNECT, before which no other packet may
                be received.
        """
        self.level: int | None = level
        """The level of the protocol, or None."""
        self._limit = min(max_frame_size, MAX_PACKET_SIZE)
        self.unfinished = unfinished_frame
        self._buffer = bytearray()
        self._needed = 0
        """The size that `_buffer` must have before another packet can be read."""
        self._packets = 0
        self._failed = False

    def receive_data(self, data: bytes) -> list[Packet]:
        """Return the packets that `data` completes; after a `Fault` there are none.

        Never raises.
        """
        packets: list[Packet] = []
        if self._failed:
            return packets
        chunk: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return packets
            # only bytes are read fast; a large packet is not copied as a whole
            chunk = self._buffer if len(self._buffer) > _LARGE_CHUNK else bytes(self._buffer)
        at = self._parse(chunk, packets)
        if at < 0:
            return packets
        if self._buffer or at < len(chunk):
            self._buffer = bytearray(chunk[at:])
        if self.unfinished is not None:
            self._packets += len(packets)
            size = self._needed if self._needed > LARGE_FRAME else 0
            self.unfinished.update(self._packets, size)
        return packets

    def discard(self) -> None:
        """Drop the incomplete packet, because nothing more is received."""
        self._failed = True
        self._buffer = bytearray()
        if self.unfinished is not None:
            self.unfinished.close()

    def _read_frequent(self, data: bytes, at: int, packets: list[Packet]) -> int:
        """Read whole packets of messages from `at`, as far as they are usual; return their end.

        Anything else is left to `_parse`: other packets, those that are incomplete or that MQTT
        does not allow, and properties. One loop, because it is what a message costs to read.
        """
        size, is_v5, limit = len(data), self.level == V5, self._limit
        while at + 4 <= size:
            first, length = data[at], data[at + 1]
            if first & 0xF0 == _PUBLISH_BITS:
                body = at + 2
                if length > _SEVEN_BITS:
                    high = data[body]
                    length, body = length & _SEVEN_BITS | high << 7, body + 1
                    if high > _SEVEN_BITS:
                        break
                qos, end = first >> 1 & 3, body + length
                if end > size or length > limit or length < _U16.size:
                    break
                payload = start = body + _U16.size
                payload += data[body] << 8 | data[body + 1]
                topic = data[start:payload]
                packet_id = 0
                if qos:
                    payload += _U16.size
                    if payload > end or qos > _EXACTLY_ONCE:
                        break
                    packet_id = data[payload - 2] << 8 | data[payload - 1]
                if is_v5:
                    if payload >= end or data[payload] or 0 in topic or (qos and not packet_id):
                        break
                    payload += 1
                elif payload > end:
                    break
                try:
                    name = topic.decode()
                except UnicodeDecodeError:
                    break
                retain, duplicate = first & 1 == 1, first & 8 == 8
                packets.append(
                    Publish(name, data[payload:end], qos, retain, duplicate, packet_id, {})
                )
                at = end
            elif first in _ACK_BITS and length == _U16.size:
                packets.append(Ack(first >> 4, data[at + 2] << 8 | data[at + 3], SUCCESS, {}))
                at += 4
            else:
                break
        return at

    def _parse(self, data: bytes | bytearray, packets: list[Packet]) -> int:
        """Read all whole packets of `data`; return where they end, -1 after a `Fault`."""
        at, size = 0, len(data)
        while True:
            self._needed = 0
            if self.level is not None and type(data) is bytes:
                at = self._read_frequent(data, at, packets)
            reader = _Reader(data, at, size, self.level)
            if size - at < 1:
                return at
            try:
                first = data[at]
                self._check_start(reader, first)
                length, body = self._length(data, at + 1, size)
                if body < 0:
                    return at
                self._check_length(reader, length)
                if size - body < length:
                    self._needed = body - at + length
                    return at
                reader.at, reader.end = body, body + length
                packet = _PACKETS[first >> 4](reader, first & 0x0F)
                if reader.at != reader.end:
                    raise RemoteProtocolError("a packet is longer than its fields")
            except RemoteProtocolError as error:
                self.discard()
                packets.append(Fault(reader.code, error.reason))
                return -1
            if isinstance(packet, Connect) and self.level is None:
                self.level = packet.level
            packets.append(packet)
            at = reader.end

    def _check_start(self, reader: _Reader, first: int) -> None:
        kind, flags = first >> 4, first & 0x0F
        if kind not in _PACKETS:
            raise RemoteProtocolError(f"a packet has the type {kind}")
        if self.level is None and kind != CONNECT:
            raise reader.violation("the first packet is not CONNECT", PROTOCOL_ERROR)
        allowed = _FLAGS.get(kind, 0)
        if kind != PUBLISH and flags != allowed:
            if self.level == V3_1 and kind in _FLAGS and flags == allowed | _REPEATABLE:
                return
            raise RemoteProtocolError(f"a packet of type {kind} has the flags {flags:#x}")

    def _length(self, data: bytes | bytearray, at: int, size: int) -> tuple[int, int]:
        """Return the remaining length, and where its bytes begin: -1 if it is incomplete."""
        value = shift = 0
        for position in range(at, at + _LENGTH_BYTES):
            if position >= size:
                return 0, -1
            byte = data[position]
            value |= (byte & _SEVEN_BITS) << shift
            if byte <= _SEVEN_BITS:
                return value, position + 1
            shift += 7
        raise RemoteProtocolError("the remaining length has more than four bytes")

    def _check_length(self, reader: _Reader, length: int) -> None:
        limit = self._limit if self.level is not None else min(self._limit, MAX_CONNECT_SIZE)
        if length > limit:
            raise reader.violation(
                f"a packet of {length} bytes exceeds the maximum frame size of {limit}", TOO_LARGE
            )

    def encode_into(self, buffer: bytearray, command: Packet) -> None:
        """Append a packet to `buffer`.

        Raises:
            LocalProtocolError: a text or the packet is too long, or the packet has no bytes.
        """
        for position, value in self.encode_shared(buffer, command):
            buffer[position:position] = value

    def encode_shared(
        self, buffer: bytearray, command: Packet
    ) -> list[tuple[int, bytes]] | tuple[()]:
        """Append a packet; a long payload is left out, and returned with its position.

        Raises:
            LocalProtocolError: as for `encode_into`.
        """
        if type(command) is bytes:
            buffer += command
            return ()
        if type(command) is Ack and not command.code and not command.properties:
            first = command.type << 4 | _FLAGS.get(command.type, 0)
            buffer += _SHORT_ACK.pack(first, _U16.size, command.packet_id)
            return ()
        write = _WRITE.get(type(command))
        if write is None:
            raise LocalProtocolError(f"{type(command).__name__} is not a packet of MQTT")
        body = bytearray()
        first = write(_Writer(body, self.level), command)
        payload = command.payload if isinstance(command, Publish) else b""
        size = len(body) + len(payload)
        if size >= MAX_PACKET_SIZE:
            raise LocalProtocolError(f"A packet of {size} bytes is too long for MQTT")
        buffer.append(first)
        write_varint(buffer, size)
        buffer += body
        if len(payload) > LARGE_FRAME:
            return [(len(buffer), payload)]
        buffer += payload
        return ()


def topic_bytes(topic: str) -> bytes:
    """Return the topic of a message as it is written.

    Raises:
        LocalProtocolError: it is too long, or has half of a surrogate pair.
    """
    buffer = bytearray()
    _Writer(buffer, None).text(topic)
    return bytes(buffer)


def publish_bytes(
    topic: bytes, payload: bytes, flags: int = 0, packet_id: int = 0, *, is_v5: bool = False
) -> bytes:
    """Return the bytes of PUBLISH without properties, for at most `MAX_SHORT_PACKET` bytes.

    Args:
        topic: what `topic_bytes` returns.
        payload: the payload.
        flags: 8 for DUP, twice the QoS, 1 for RETAIN.
        packet_id: the packet id if the QoS is not 0.
        is_v5: whether the peer expects the length of properties.
    """
    if flags & 6:
        topic += _U16.pack(packet_id)
    if is_v5:
        topic += b"\0"
    size = len(topic) + len(payload)
    if size <= _SEVEN_BITS:
        return bytes((_PUBLISH_BITS | flags, size)) + topic + payload
    low, high = size & _SEVEN_BITS | 0x80, size >> 7
    return bytes((_PUBLISH_BITS | flags, low, high)) + topic + payload


def write_varint(buffer: bytearray, value: int) -> None:
    """Append a number of up to 28 bits, the lowest seven first."""
    while value > _SEVEN_BITS:
        buffer.append(value & _SEVEN_BITS | 0x80)
        value >>= 7
    buffer.append(value)


class _Writer:
    """Writes the fields of one packet."""

    __slots__ = ("buffer", "is_v5")

    def __init__(self, buffer: bytearray, level: int | None) -> None:
        self.buffer: bytearray = buffer
        self.is_v5: bool = level == V5

    def u16(self, value: int) -> None:
        self.buffer += _U16.pack(value)

    def binary(self, value: bytes) -> None:
        if len(value) > _LONGEST_TEXT:
            raise LocalProtocolError(f"A field of {len(value)} bytes is too long for MQTT")
        self.buffer += _U16.pack(len(value))
        self.buffer += value

    def text(self, value: str) -> None:
        try:
            self.binary(value.encode())
        except UnicodeEncodeError as error:
            raise LocalProtocolError("A text has half of a surrogate pair") from error

    def pair(self, value: tuple[str, str]) -> None:
        self.text(value[0])
        self.text(value[1])

    def properties(self, properties: Properties) -> None:
        """Write the properties of 5.0; nothing for the other levels."""
        if not self.is_v5:
            return
        part = bytearray()
        writer = _Writer(part, V5)
        for name, value in properties.items():
            code, kind = _CODES[name]
            for each in value if name in _REPEATED else [value]:
                part.append(code)
                _WRITE_VALUE[kind](writer, each)
        write_varint(self.buffer, len(part))
        self.buffer += part


_WRITE_VALUE: Final[dict[str, Callable[[_Writer, Any], None]]] = {
    "bool": lambda writer, value: writer.buffer.append(int(value)),
    "bytes": _Writer.binary,
    "pair": _Writer.pair,
    "text": _Writer.text,
    "u16": _Writer.u16,
    "u32": lambda writer, value: writer.buffer.extend(_U32.pack(value)),
    "varint": lambda writer, value: write_varint(writer.buffer, value),
}


def _write_connect(writer: _Writer, packet: Connect) -> int:
    writer.is_v5 = packet.level == V5
    will = packet.will
    flags = 2 * packet.clean | 0x80 * (packet.user_name is not None)
    flags |= 0x40 * (packet.password is not None)
    if will is not None:
        flags |= 4 | will.qos << 3 | 0x20 * will.retain
    writer.text(PROTOCOL_NAMES[packet.level])
    writer.buffer += _CONNECT_FLAGS.pack(packet.level, flags, packet.keep_alive)
    writer.properties(packet.properties)
    writer.text(packet.client_id)
    if will is not None:
        writer.properties(will.properties)
        writer.text(will.topic)
        writer.binary(will.payload)
    if packet.user_name is not None:
        writer.text(packet.user_name)
    if packet.password is not None:
        writer.binary(packet.password)
    return CONNECT << 4


def _write_connack(writer: _Writer, packet: ConnAck) -> int:
    writer.buffer += bytes((packet.session_present, packet.code))
    writer.properties(packet.properties)
    return CONNACK << 4


def _write_publish(writer: _Writer, packet: Publish) -> int:
    writer.text(packet.topic)
    if packet.qos:
        writer.u16(packet.packet_id)
    writer.properties(packet.properties)
    return PUBLISH << 4 | 8 * packet.duplicate | packet.qos << 1 | packet.retain


def _write_ack(writer: _Writer, packet: Ack) -> int:
    writer.u16(packet.packet_id)
    if writer.is_v5 and (packet.code or packet.properties):
        writer.buffer.append(packet.code)
        writer.properties(packet.properties)
    return packet.type << 4 | _FLAGS.get(packet.type, 0)


def _write_subscribe(writer: _Writer, packet: Subscribe) -> int:
    writer.u16(packet.packet_id)
    writer.properties(packet.properties)
    for each in packet.filters:
        writer.text(each.text)
        options = 4 * each.no_local | 8 * each.retain_as_published | each.retain_handling << 4
        writer.buffer.append(each.qos | options)
    return SUBSCRIBE << 4 | _FLAGS[SUBSCRIBE]


def _write_unsubscribe(writer: _Writer, packet: Unsubscribe) -> int:
    writer.u16(packet.packet_id)
    writer.properties(packet.properties)
    for text in packet.filters:
        writer.text(text)
    return UNSUBSCRIBE << 4 | _FLAGS[UNSUBSCRIBE]


def _write_suback(writer: _Writer, packet: SubAck) -> int:
    writer.u16(packet.packet_id)
    writer.properties(packet.properties)
    if packet.type == SUBACK or writer.is_v5:
        writer.buffer += bytes(packet.codes)
    return packet.type << 4


def _write_end(code: int) -> Callable[[_Writer, Any], int]:
    def write(writer: _Writer, packet: Disconnect | Auth) -> int:
        if writer.is_v5 and (packet.code or packet.properties):
            writer.buffer.append(packet.code)
            writer.properties(packet.properties)
        return code << 4

    return write


_WRITE: Final[dict[type, Callable[[_Writer, Any], int]]] = {
    Connect: _write_connect,
    ConnAck: _write_connack,
    Publish: _write_publish,
    Ack: _write_ack,
    Subscribe: _write_subscribe,
    Unsubscribe: _write_unsubscribe,
    SubAck: _write_suback,
    Ping: lambda _, packet: packet.type << 4,
    Disconnect: _write_end(DISCONNECT),
    Auth: _write_end(AUTH),
}
"""By the packet's class: writes it without its payload, and returns its first byte."""
