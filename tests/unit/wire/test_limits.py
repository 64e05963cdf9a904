from __future__ import annotations

import zlib

import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.wire.limits import inflate


def test_inflating() -> None:
    assert inflate(zlib.compress(b"abc" * 100)) == b"abc" * 100
    assert inflate(zlib.compress(b"")) == b""


def test_bytes_after_the_stream_are_ignored() -> None:
    assert inflate(zlib.compress(b"abc") + b"xyz") == b"abc"


def test_the_limit_is_inclusive() -> None:
    data = zlib.compress(bytes(1000))
    assert inflate(data, 1000) == bytes(1000)
    with pytest.raises(RemoteProtocolError, match="more than 999"):
        inflate(data, 999)


def test_a_stream_without_its_end_is_read_as_far_as_it_goes() -> None:
    deflater = zlib.compressobj()
    data = deflater.compress(b"abc" * 100) + deflater.flush(zlib.Z_SYNC_FLUSH)  # as Artemis
    assert inflate(data) == b"abc" * 100
    assert (b"abc" * 100).startswith(inflate(data[:-8]))


def test_a_damaged_stream_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="damaged"):
        inflate(b"no zlib stream")
