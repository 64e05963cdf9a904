"""Qpid Proton as an independent client: its codec reads ours, its engine talks to ours."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.amqp.codec import decode_value, encode_value
from pyjms.wire.amqp.engine import EngineSettings
from pyjms.wire.amqp.message import (
    DATA,
    NO_BODY,
    SEQUENCE,
    VALUE,
    Message,
    decode_message,
    encode_message,
)
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RELEASED,
    Coordinator,
    Declare,
    Declared,
    Error,
    Header,
    Modified,
    Properties,
    Rejected,
    State,
    TransactionalState,
)
from pyjms.wire.amqp.values import (
    Array,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

proton = pytest.importorskip("proton", reason="it is built where there is a C compiler")
from tests.kit.amqp.proton_client import ProtonPeer  # noqa: E402

IDENTIFIER = uuid.UUID("f275ea5e-0c57-4ad7-b11a-b20c563d3b71")
VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (False, False),
    (UByte(255), proton.ubyte(255)),
    (UShort(65535), proton.ushort(65535)),
    (UInt(0), proton.uint(0)),
    (UInt(2**32 - 1), proton.uint(2**32 - 1)),
    (ULong(255), proton.ulong(255)),
    (ULong(2**64 - 1), proton.ulong(2**64 - 1)),
    (Byte(-128), proton.byte(-128)),
    (Short(-1), proton.short(-1)),
    (-(2**31), proton.int32(-(2**31))),
    (5, proton.int32(5)),
    (Long(-(2**63)), -(2**63)),
    (Long(1), 1),
    (Float(0.5), proton.float32(0.5)),
    (0.1, 0.1),
    (Decimal32(b"abcd"), proton.decimal32(0x61626364)),
    (Decimal64(b"abcdefgh"), proton.decimal64(0x6162636465666768)),
    (Decimal128(b"abcdefghijklmnop"), proton.decimal128(b"abcdefghijklmnop")),
    (Char("\u20ac"), proton.char("\u20ac")),
    (Timestamp(1311705672417), proton.timestamp(1311705672417)),
    (IDENTIFIER, IDENTIFIER),
    (b"\0\xff", b"\0\xff"),
    ("caf\u00e9", "caf\u00e9"),
    ("x" * 1000, "x" * 1000),
    (Symbol("s"), proton.symbol("s")),
    ([], []),
    ([Long(1), ["a"]], [1, ["a"]]),
    ({"k": [None]}, {"k": [None]}),
    (Described(Symbol("d"), "v"), proton.Described(proton.symbol("d"), "v")),
    (Described(ULong(2**40), {}), proton.Described(proton.ulong(2**40), {})),
    (
        Array([Symbol("a"), Symbol("b")], 0xB3),
        proton.Array(proton.UNDESCRIBED, proton.Data.SYMBOL, proton.symbol("a"), proton.symbol("b")),
    ),
    (
        Array([UInt(1)], 0x70, Symbol("d")),
        proton.Array(proton.symbol("d"), proton.Data.UINT, proton.uint(1)),
    ),
]  # fmt: skip
NAMES = [repr(ours)[:40] for ours, _ in VALUES]


@pytest.mark.parametrize(("ours", "theirs"), VALUES, ids=NAMES)
def test_proton_reads_values(ours: Any, theirs: Any) -> None:
    buffer = bytearray()
    encode_value(buffer, ours)
    data = proton.Data()
    assert data.decode(bytes(buffer)) == len(buffer)
    data.rewind()
    data.next()
    found = data.get_object()
    if isinstance(found, memoryview):
        found = bytes(found)
    assert type(found) is type(theirs)
    assert found == theirs


@pytest.mark.parametrize(("ours", "theirs"), VALUES, ids=NAMES)
def test_values_of_proton_are_read(ours: Any, theirs: Any) -> None:
    data = proton.Data()
    data.put_object(theirs)
    encoded = bytes(data.encode())
    found, end = decode_value(encoded)
    assert type(found) is type(ours)
    assert found == ours
    assert end == len(encoded)


MESSAGE = Message(
    VALUE,
    {"a": Long(1)},
    header=Header(True, 7, 5000, True, 2),
    message_annotations={Symbol("x-opt"): "m"},
    properties=Properties(IDENTIFIER, b"user", "to", "subject", "reply", ULong(7), "text/plain",
                          "gzip", Timestamp(10), Timestamp(20), "group", 3, "reply-group"),
    application_properties={"p": True, "i": 5},
    footer={Symbol("f"): 1},
)  # fmt: skip


def test_proton_reads_messages() -> None:
    message = proton.Message()
    message.decode(encode_message(MESSAGE))
    assert (message.durable, message.priority, message.first_acquirer) == (True, 7, True)
    assert (message.ttl, message.delivery_count) == (5.0, 2)
    assert (message.id, message.user_id, message.address) == (IDENTIFIER, b"user", "to")
    assert (message.subject, message.reply_to, message.correlation_id) == ("subject", "reply", 7)
    assert (message.content_type, message.content_encoding) == ("text/plain", "gzip")
    assert (message.expiry_time, message.creation_time) == (0.01, 0.02)
    assert (message.group_id, message.group_sequence) == ("group", 3)
    assert message.reply_to_group_id == "reply-group"
    assert message.properties == {"p": True, "i": 5}
    assert message.annotations == {"x-opt": "m"}
    assert message.body == {"a": 1}


@pytest.mark.parametrize(
    ("body", "inferred", "kind", "expected"),
    [(b"x", True, DATA, [b"x"]), ([1], True, SEQUENCE, [[1]]), ("text", False, VALUE, "text"),
     (None, False, NO_BODY, None)],
)  # fmt: skip
def test_messages_of_proton_are_read(body: Any, inferred: bool, kind: int, expected: Any) -> None:
    message = proton.Message(body, id="m", address="to", ttl=5, properties={"p": 1})
    message.inferred = inferred
    message.durable = True
    found = decode_message(bytes(message.encode()))
    assert (found.body_kind, found.body) == (kind, expected)
    assert found.header == Header(True, ttl=5000)
    assert found.properties is not None
    assert (found.properties.message_id, found.properties.to) == ("m", "to")
    assert found.application_properties == {"p": 1}


def test_login() -> None:
    peer = ProtonPeer(user="scott")
    peer.open_connection()
    assert peer.events == [("login", "PLAIN", "scott", "secret"), ("open", "proton")]
    assert peer.connection.remote_container == "broker"
    peer.connection.close()
    peer.pump()
    assert peer.events[-2:] == [("close", None), ("finish",)]
    assert "connection_remote_close" in peer.events_of_proton()


def test_a_refused_login() -> None:
    peer = ProtonPeer(EngineSettings(mechanisms=["EXTERNAL"]))
    peer.open_connection()
    assert peer.events == []
    assert peer.transport.closed or peer.transport.condition is not None


def _sender(peer: ProtonPeer, name: str = "s", settle_mode: int = 0) -> Any:
    peer.open_connection()
    link = peer.session().sender(name)
    link.target.address = "queue://Q"
    link.snd_settle_mode = settle_mode
    link.open()
    peer.pump()
    return link


def test_proton_sends() -> None:
    peer = ProtonPeer()
    link = _sender(peer)
    assert link.remote_target.address == "queue://Q"
    peer.incoming.grant(3)
    peer.pump()
    assert link.credit == 3
    payloads = [b"one", bytes(1_000_000), b""]
    sent = []
    for number, payload in enumerate(payloads):
        sent.append(link.delivery(str(number)))
        link.send(encode_message(Message(DATA, [payload])))
        link.advance()
    peer.pump()
    assert [decode_message(each.payload).body for each in peer.deliveries] == [
        [payload] for payload in payloads
    ]
    states: list[State] = [ACCEPTED, Rejected(Error("amqp:not-allowed", "no")), RELEASED]
    for delivery, state in zip(peer.deliveries, states, strict=True):
        delivery.settle(state)
    peer.pump()
    assert all(each.settled for each in sent)
    assert [each.remote_state for each in sent] == [
        proton.Delivery.ACCEPTED, proton.Delivery.REJECTED, proton.Delivery.RELEASED,
    ]  # fmt: skip
    assert sent[1].remote.condition.name == "amqp:not-allowed"


def test_proton_aborts() -> None:
    peer = ProtonPeer()
    link = _sender(peer)
    peer.incoming.grant(1)
    peer.pump()
    aborted = link.delivery("1")
    link.stream(b"x" * 1000)
    peer.pump()
    aborted.abort()
    peer.pump()
    assert peer.deliveries == []
    assert link.credit == 1


def test_a_transaction() -> None:
    peer = ProtonPeer()
    peer.open_connection()
    link = peer.session().sender("tx")
    link.target.type = proton.Terminus.COORDINATOR
    link.open()
    peer.pump()
    receiver = peer.incoming
    assert isinstance(receiver.peer.target, Coordinator)
    receiver.grant(1)
    peer.pump()
    declare = link.delivery("1")
    described = proton.Described(proton.ulong(0x31), [None])
    link.send(bytes(proton.Message(described).encode()))
    link.advance()
    peer.pump()
    assert decode_message(peer.deliveries[0].payload).body == Declare()
    peer.deliveries[0].settle(Declared(b"\0\1"))
    peer.pump()
    assert declare.remote_state == 0x33
    assert declare.remote.data == [b"\0\1"]


def _receiver(peer: ProtonPeer, credit: int) -> Any:
    peer.open_connection()
    link = peer.session().receiver("r")
    link.source.address = "queue://Q"
    link.open()
    link.flow(credit)
    peer.pump()
    return link


def _received(link: Any) -> list[bytes]:
    """Return the payloads that have arrived, which are not settled."""
    found = []
    while link.current is not None and not link.current.partial:
        found.append(bytes(link.recv(link.current.pending) or b""))
        link.advance()
    return found


def test_proton_receives() -> None:
    peer = ProtonPeer(max_frame_size=4096)
    link = _receiver(peer, 3)
    assert link.remote_source.address == "queue://Q"
    payloads = [b"one", bytes(range(256)) * 400, b"three"]
    for payload in payloads:
        peer.outgoing.send(payload)
    peer.pump()
    assert _received(link) == payloads
    assert peer.outgoing.credit == 0


def test_outcomes_of_proton() -> None:
    peer = ProtonPeer()
    link = _receiver(peer, 4)
    for _ in range(4):
        peer.outgoing.send(b"x")
    peer.pump()
    deliveries = []
    while link.current is not None:
        deliveries.append(link.current)
        link.advance()
    deliveries[3].local.failed = True
    states = [proton.Delivery.ACCEPTED, proton.Delivery.REJECTED, proton.Delivery.RELEASED,
              proton.Delivery.MODIFIED]  # fmt: skip
    for delivery, state in zip(deliveries, states, strict=True):
        delivery.update(state)
        delivery.settle()
    peer.pump()
    told = sorted(each[1:] for each in peer.events if each[0] == "disposition")
    assert told == [
        (0, ACCEPTED, True), (1, Rejected(), True), (2, RELEASED, True), (3, Modified(True), True),
    ]  # fmt: skip
    assert peer.outgoing.unsettled == 0


def test_a_transactional_outcome_of_proton_is_confirmed() -> None:
    peer = ProtonPeer()
    link = _receiver(peer, 1)
    sent = peer.outgoing.send(b"x")
    peer.pump()
    delivery = link.current
    delivery.local.data = [b"\1", proton.Described(proton.ulong(0x24), [])]
    delivery.update(0x34)
    peer.pump()
    assert sent.state == TransactionalState(b"\1", ACCEPTED)
    assert not sent.settled
    sent.settle(sent.state)
    peer.pump()
    assert delivery.settled
    assert delivery.remote_state == 0x34


def test_proton_drains() -> None:
    peer = ProtonPeer()
    link = _receiver(peer, 5)
    peer.outgoing.send(b"one")
    link.drain(0)
    peer.pump()
    assert peer.outgoing.drain
    assert _received(link) == [b"one"]
    peer.outgoing.finish_drain()
    peer.pump()
    assert (link.credit, link.drained()) == (0, 4)


@pytest.mark.parametrize("closed", [True, False])
def test_proton_detaches(closed: bool) -> None:
    peer = ProtonPeer()
    link = _sender(peer)
    if closed:
        link.close()
    else:
        link.detach()
    peer.pump()
    assert peer.events[-1] == ("detach", "s", closed, None)
    answered = "link_remote_close" if closed else "link_remote_detach"
    assert answered in peer.events_of_proton()
    assert peer.engine.links == 0


def test_a_link_that_is_refused() -> None:
    peer = ProtonPeer()
    peer.refuses = "attach"
    link = _sender(peer)
    peer.links[0].refuse(Error("amqp:not-found", "no"))
    peer.pump()
    assert link.remote_target.address is None
    assert link.remote_condition == proton.Condition("amqp:not-found", "no")
    link.close()
    peer.pump()
    assert peer.engine.links == 0


def test_a_session_that_is_ended_by_proton() -> None:
    peer = ProtonPeer()
    peer.open_connection()
    session = peer.session()
    session.close()
    peer.pump()
    assert peer.events[-1] == ("end", 0, None)
    assert "session_remote_close" in peer.events_of_proton()


def test_an_error_of_the_broker() -> None:
    peer = ProtonPeer()
    peer.open_connection()
    peer.engine.fail("amqp:connection:forced", "stopping")
    peer.pump()
    assert peer.connection.remote_condition == proton.Condition(
        "amqp:connection:forced", "stopping"
    )


def test_keep_alives() -> None:
    peer = ProtonPeer()
    peer.open_connection()
    before = peer.transport.frames_input
    peer.engine.keep_alive()
    peer.pump()
    assert peer.transport.frames_input == before + 1
