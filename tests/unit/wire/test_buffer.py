from __future__ import annotations

import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.wire.openwire.format import ReceiveBuffer

LIMIT = 100


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(b).to_bytes(4, "big") + b for b in bodies)


def frames(buffer: ReceiveBuffer) -> list[bytes]:
    return list(iter(lambda: buffer.next_frame(LIMIT), None))


def test_frames_of_one_portion() -> None:
    buffer = ReceiveBuffer()
    buffer.feed(framed(b"a", b"bc", b"d" * 100))
    assert frames(buffer) == [b"a", b"bc", b"d" * 100]
    assert len(buffer) == 0


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 11])
def test_frames_in_portions(step: int) -> None:
    data = framed(b"a", b"bc" * 10, b"d" * 100, b"e")
    buffer = ReceiveBuffer()
    found = []
    for start in range(0, len(data), step):
        buffer.feed(data[start : start + step])
        found += frames(buffer)
    assert found == [b"a", b"bc" * 10, b"d" * 100, b"e"]


def test_feeding_twice_without_taking() -> None:
    data = framed(b"abc", b"de")
    buffer = ReceiveBuffer()
    buffer.feed(data[:5])
    buffer.feed(data[5:])
    assert len(buffer) == len(data)
    assert frames(buffer) == [b"abc", b"de"]


@pytest.mark.parametrize("size", [0, -1, 101])
@pytest.mark.parametrize("split", [False, True])
def test_sizes_beyond_the_limit_are_refused_at_once(size: int, split: bool) -> None:
    head = size.to_bytes(4, "big", signed=True)
    buffer = ReceiveBuffer()
    if split:
        buffer.feed(head[:1])
        assert buffer.next_frame(LIMIT) is None
        head = head[1:]
    buffer.feed(head)
    with pytest.raises(RemoteProtocolError, match=str(size)):
        buffer.next_frame(LIMIT)


def test_taking_all_that_is_left() -> None:
    buffer = ReceiveBuffer()
    buffer.feed(framed(b"abc")[:6])
    assert buffer.next_frame(LIMIT) is None
    buffer.feed(b"xy")
    assert buffer.take_all() == framed(b"abc")[:6] + b"xy"
    assert len(buffer) == 0
