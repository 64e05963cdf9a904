"""The STOMP codec: versions, limits, and frames in portions."""

from __future__ import annotations

import pytest

from pyjms.errors import LocalProtocolError
from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from pyjms.wire.stomp import (
    HEART_BEAT,
    MAX_COMMAND_LENGTH,
    MAX_HEADER_LENGTH,
    MAX_HEADERS,
    Frame,
    StompFormat,
    negotiated_version,
)


def encoded(frame: Frame, version: str | None = "1.2") -> bytes:
    buffer = bytearray()
    StompFormat(version=version).encode_into(buffer, frame)
    return bytes(buffer)


def decoded(data: bytes, version: str | None = "1.2") -> list[Frame]:
    return StompFormat(version=version).receive_data(data)


@pytest.mark.fact("activemq-edges ST1")
@pytest.mark.parametrize(
    ("accepted", "version"),
    [(None, "1.0"), ("1.0", "1.0"), ("1.1, 1.0", "1.1"), ("1.0,1.1,1.2,2.0", "1.2"), ("9", None)],
)
def test_versions(accepted: str | None, version: str | None) -> None:
    assert negotiated_version(accepted) == version


@pytest.mark.fact("activemq-edges ST3")
@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("1.1", b"a\\cb:c\\n\\\\d\r"),
        ("1.2", b"a\\cb:c\\n\\\\d\\r"),
    ],
)
def test_escapes(version: str, line: bytes) -> None:
    frame = Frame("SEND", {"a:b": "c\n\\d\r"})
    data = b"SEND\n" + line + b"\n\n\0\n"
    assert encoded(frame, version) == data
    assert decoded(data, version) == [frame]


@pytest.mark.fact("activemq-edges ST3", "activemq-edges ST17")
def test_escapes_are_read_in_1_0_and_written_for_line_breaks_only() -> None:
    frame = Frame("SEND", {"a": "b\n:\\\\r"})
    assert decoded(b"SEND\n a : b\\n\\c\\\\\\r \r\n\n\0", "1.0") == [frame]
    assert encoded(Frame("MESSAGE", {"a": "b:\\"}), "1.0") == b"MESSAGE\na:b:\\\n\n\0\n"
    assert encoded(Frame("RECEIPT", {"a": "b\nc"}), "1.0") == b"RECEIPT\na:b\\nc\n\n\0\n"
    with pytest.raises(LocalProtocolError):
        encoded(Frame("MESSAGE", {"a:b": "c"}), "1.0")


@pytest.mark.fact("activemq-edges ST17")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_undefined_escapes_stay_and_the_colon_may_be_absent(version: str) -> None:
    assert decoded(b"SEND\na\\t:\\x\\\nno colon\n\n\0", version) == [
        Frame("SEND", {"a\\t": "\\x\\", "no colon": ""})
    ]


@pytest.mark.fact("activemq-edges ST16")
@pytest.mark.parametrize("command", ["ACK", "SUBSCRIBE", "CONNECT", "RECEIPT"])
@pytest.mark.parametrize("length", ["5", "0", "x"])
def test_content_length_counts_only_where_there_are_bodies(command: str, length: str) -> None:
    head = f"{command}\ncontent-length:{length}\n\n".encode()
    found = decoded(head + b"\0SEND\ncontent-length:+3\n\na\0b\0")
    assert [(f.command, f.body) for f in found] == [(command, b""), ("SEND", b"a\0b")]


def test_carriage_returns_end_lines_and_in_1_1_only_the_headers() -> None:
    data = b"\r\nSEND\r\na:b\r\n\r\n\0"
    assert decoded(data) == decoded(data, "1.0") == [Frame("SEND", {"a": "b"})]
    assert decoded(data, "1.1") == [Frame("SEND", {"a": "b\r"})]


def test_connect_is_not_escaped() -> None:
    data = b"CONNECT\naccept-version:1.2\nlogin:a\\cb\n\n\0SEND\nx:a\\cb\n\n\0"
    connect, send = decoded(data, None)
    assert connect.headers["login"] == "a\\cb"
    assert send.headers["x"] == "a:b"
    assert encoded(Frame("CONNECTED", {"session": "a:b\\"})) == b"CONNECTED\nsession:a:b\\\n\n\0\n"


def test_the_first_of_repeated_headers_counts() -> None:
    assert decoded(b"SEND\na:1\na:2\n\n\0")[0].headers == {"a": "1"}


def test_bodies_with_and_without_a_length() -> None:
    data = b"SEND\ncontent-length:3\n\n\0a\0\0\n\nSEND\n\nb\0"
    assert [frame.body for frame in decoded(data)] == [b"\0a\0", b"b"]
    assert encoded(Frame("SEND", {}, b"\0")) == b"SEND\ncontent-length:1\n\n\0\0\n"


def test_heart_beats_are_ends_of_lines() -> None:
    assert encoded(HEART_BEAT) == b"\n"
    assert decoded(b"\n\r\n \t\n\0\0\n") == []


@pytest.mark.parametrize("name", ["", "a b", "A\nB", "A\0"])
def test_a_command_is_one_word(name: str) -> None:
    with pytest.raises(LocalProtocolError):
        encoded(Frame(name))


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_no_header_contains_nul(version: str) -> None:
    with pytest.raises(LocalProtocolError):
        encoded(Frame("SEND", {"a": "\0"}), version)
    assert decoded(b"SEND\na:\0b\n\n\0", version)[-1].fault


@pytest.mark.fact("activemq-edges ST3")
@pytest.mark.parametrize(
    ("accepted", "refused"),
    [
        (b"C" * MAX_COMMAND_LENGTH, b"C" * (MAX_COMMAND_LENGTH + 1)),
        (
            b"SEND\na:" + b"h" * (MAX_HEADER_LENGTH - 2),
            b"SEND\na:" + b"h" * (MAX_HEADER_LENGTH - 1),
        ),
        (
            b"SEND\n" + b"a:b\n" * (MAX_HEADERS - 1) + b"a:b",
            b"SEND\n" + b"a:b\n" * MAX_HEADERS + b"a:b",
        ),
    ],
    ids=["command", "header", "headers"],
)
def test_limits(accepted: bytes, refused: bytes) -> None:
    assert [f.fault for f in decoded(accepted + b"\n\n\0")] == [None]
    assert [f.fault is None for f in decoded(refused + b"\n\n\0SEND\n\n\0")] == [False]


@pytest.mark.parametrize("named", [True, False])
def test_the_size_of_a_frame_is_limited(named: bool) -> None:
    head = b"SEND\ncontent-length:%d\n\n" if named else b"SEND\n\n"
    size = 200 - len(head) - (1 if named else 0)
    for more, fault in ((0, False), (1, True)):
        codec = StompFormat(200, version="1.2")
        length = size + more
        frames = codec.receive_data((head % length if named else head) + b"x" * length + b"\0")
        assert [frame.fault is not None for frame in frames] == [fault]


@pytest.mark.parametrize("head", [b"SEND\ncontent-length:%d\n\n", b"SEND\n\n"])
def test_the_size_of_a_body_is_limited(head: bytes) -> None:
    for length, fault in ((100, False), (101, True)):
        codec = StompFormat(version="1.2", max_data_length=100)
        frames = codec.receive_data((head % length if b"%" in head else head) + b"x" * length)
        frames += codec.receive_data(b"\0")
        assert ["data length of 100 bytes" in (f.fault or "") for f in frames] == [fault]


def test_frames_are_small_before_the_version_is_agreed_on() -> None:
    codec = StompFormat()
    assert codec.receive_data(b"CONNECT\n\n" + b"x" * 65536)[0].fault
    assert codec.receive_data(b"CONNECT\n\n\0") == []


def test_one_byte_at_a_time() -> None:
    data = b"\n\nCONNECT\naccept-version:1.1\n\n\0\nSEND\na\\cb:c\ncontent-length:2\n\n\0\0\0MESSAGE\n\n\0"
    codec = StompFormat()
    frames = [frame for at in range(len(data)) for frame in codec.receive_data(data[at : at + 1])]
    assert frames == decoded(data, None)
    assert [frame.command for frame in frames] == ["CONNECT", "SEND", "MESSAGE"]


def test_large_frames_that_arrive_in_part_are_counted() -> None:
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    codec = StompFormat(1 << 20, UnfinishedFrame(budget), version="1.2")
    codec.receive_data(b"SEND\ncontent-length:500000\n\n")
    assert budget.used > 500000
    codec.receive_data(b"x" * 500000 + b"\0")
    assert budget.used == 0
    codec.receive_data(b"SEND\n\n" + b"x" * 100000)
    assert budget.used == 131072
    codec.receive_data(b"x" * 100000)
    assert budget.used == 262144
    codec.discard()
    assert budget.used == 0


def test_a_frame_without_room_is_a_fault() -> None:
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    first, second = (StompFormat(1 << 20, UnfinishedFrame(budget), version="1.2") for _ in range(2))
    head = b"SEND\ncontent-length:600000\n\n"
    assert first.receive_data(head) == []
    assert "No memory" in (second.receive_data(head)[0].fault or "")
    assert first.receive_data(b"x" * 600000 + b"\0")[0].fault is None
