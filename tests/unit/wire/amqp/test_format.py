"""Frames of AMQP 1.0: headers, sizes, portions and violations."""

from __future__ import annotations

import pytest

from pyjms.errors import LocalProtocolError
from pyjms.wire.amqp.format import AMQP, SASL, AmqpFormat, Fault, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.performatives import End, Open, SaslInit, SaslOutcome, Transfer
from pyjms.wire.limits import LARGE_FRAME, FrameBudget, UnfinishedFrame

HEADER = b"AMQP\0\1\0\0"
SASL_HEADER = b"AMQP\3\1\0\0"
END = bytes.fromhex("0000000c 02 00 0007 00531745")
LIMIT = 1000


def received(data: bytes, limit: int = LIMIT) -> list[Item]:
    return AmqpFormat(limit).receive_data(data)


def fault(data: bytes) -> Fault:
    """Return the fault that is the last item."""
    last = received(data)[-1]
    assert isinstance(last, Fault), last
    return last


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_a_connection_with_sasl_in_portions(size: int) -> None:
    items: list[Item] = [
        ProtocolHeader(SASL), Frame(0, SaslInit("PLAIN", b"x")), ProtocolHeader(AMQP),
        Frame(0, Open("c")), Frame(0, None), Frame(3, Transfer(0, 1, b"t", 0), b"payload"),
    ]  # fmt: skip
    data = bytearray()
    for item in items:
        AmqpFormat(LIMIT).encode_into(data, item)
    codec = AmqpFormat(LIMIT)
    found = [
        item
        for at in range(0, len(data), size)
        for item in codec.receive_data(bytes(data[at : at + size]))
    ]
    assert repr(found) == repr(items)
    assert isinstance(found[-1], Frame)
    assert found[-1].payload == b"payload"


def test_frames() -> None:
    header, frame = received(HEADER + END)
    assert isinstance(header, ProtocolHeader)
    assert (header.id, header.version) == (AMQP, (1, 0, 0))
    assert isinstance(frame, Frame)
    assert (frame.channel, frame.body) == (7, End())
    buffer = bytearray()
    AmqpFormat(LIMIT).encode_into(buffer, frame)
    assert buffer == END


def test_an_extended_header_is_skipped() -> None:
    _, frame = received(HEADER + bytes.fromhex("00000010 03 00 0000 ffffffff 00531745"))
    assert isinstance(frame, Frame)
    assert frame.body == End()


@pytest.mark.fact("amqp-connector A38")
def test_an_empty_frame() -> None:
    _, frame = received(HEADER + bytes.fromhex("0000000802000000"))
    assert isinstance(frame, Frame)
    assert frame.body is None
    buffer = bytearray()
    AmqpFormat(LIMIT).encode_into(buffer, frame)
    assert buffer.hex() == "0000000802000000"


def test_other_headers() -> None:
    (header,) = received(b"AMQP\2\1\1\x09")
    assert isinstance(header, ProtocolHeader)
    assert (header.id, header.version) == (2, (1, 1, 9))
    (header,) = received(b"GET / HT")
    assert isinstance(header, ProtocolHeader)
    assert header.id == -1


@pytest.mark.fact("amqp-connector A170", "amqp-connector A171", "amqp-connector A172")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (HEADER + bytes(8), "Frame size value was invalid: 0"),
        (HEADER + bytes.fromhex("0000000702000000"), "Frame size value was invalid: 7"),
        (HEADER + bytes.fromhex("000003e902000000"), "Frame size exceeded max frame length"),
        (HEADER + bytes.fromhex("ffffffff02000000"), "Frame size exceeded max frame length"),
        (HEADER + HEADER, "Frame size exceeded max frame length"),
        (SASL_HEADER + bytes.fromhex("0001000102010000"), "at most 65536"),
        (HEADER + bytes.fromhex("0000000801000000"), "has its body at 4"),
        (HEADER + bytes.fromhex("0000000803000000"), "has its body at 12"),
        (HEADER + bytes.fromhex("0000000802010000"), "of type 1"),
        (SASL_HEADER + bytes.fromhex("0000000802000000"), "of type 0"),
        (SASL_HEADER + bytes.fromhex("0000000802010000"), "Could not decode AMQP frame"),
        (HEADER + bytes.fromhex("0000000902000000ff"), "Could not decode AMQP frame: .* at byte"),
        (HEADER + bytes.fromhex("000000100200000000 5344c003015001"), "a SaslOutcome in it"),
        (SASL_HEADER + bytes.fromhex("0000000c0201000000531745"), "a End in it"),
    ],
)
def test_violations(data: bytes, reason: str) -> None:
    import re

    assert re.search(reason, fault(data).reason), fault(data)


def test_what_precedes_a_violation_is_received() -> None:
    codec = AmqpFormat(LIMIT)
    items = codec.receive_data(HEADER + END + bytes(8))
    assert [type(item) for item in items] == [ProtocolHeader, Frame, Fault]
    assert codec.receive_data(END) == []


def test_a_large_unfinished_frame_is_counted() -> None:
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    codec = AmqpFormat(1 << 20, UnfinishedFrame(budget))
    codec.receive_data(HEADER + (LARGE_FRAME + 1).to_bytes(4, "big") + b"\2\0\0\0")
    assert budget.used == LARGE_FRAME + 1
    codec.discard()
    assert budget.used == 0


def test_long_payloads_are_not_copied() -> None:
    payload = bytes(LARGE_FRAME + 1)
    buffer = bytearray()
    frame = Frame(0, Transfer(0, 1, b"", 0), payload)
    [(position, value)] = list(AmqpFormat(LIMIT).encode_shared(buffer, frame))
    assert value is payload
    assert position == len(buffer)
    assert int.from_bytes(buffer[:4], "big") == len(buffer) + len(payload)


@pytest.mark.parametrize("item", [Fault("x", "y"), Frame(0, Transfer(-1))], ids=repr)
def test_what_is_not_written(item: Item) -> None:
    buffer = bytearray(b"x")
    with pytest.raises(LocalProtocolError):
        AmqpFormat(LIMIT).encode_into(buffer, item)
    assert buffer == b"x"


def test_sasl_frames_have_their_type() -> None:
    buffer = bytearray()
    AmqpFormat(LIMIT).encode_into(buffer, Frame(0, SaslOutcome(0)))
    assert buffer.hex() == "0000001002010000" + "005344c003015000"
