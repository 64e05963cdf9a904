from __future__ import annotations

import zlib

import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.wire.limits import inflate


def test_inflating():
    assert inflate(zlib.compress(b"abc" * 100)) == b"abc" * 100
    assert inflate(zlib.compress(b"")) == b""


def test_bytes_after_the_stream_are_ignored():
    assert inflate(zlib.compress(b"abc") + b"xyz") == b"abc"


def test_the_limit_is_inclusive():
    data = zlib.compress(bytes(1000))
    assert inflate(data, 1000) == bytes(1000)
    with pytest.raises(RemoteProtocolError, match="more than 999"):
        inflate(data, 999)


@pytest.mark.parametrize("data", [b"", zlib.compress(b"abc" * 100)[:-6]])
def test_a_stream_that_ends_early_is_refused(data):
    with pytest.raises(RemoteProtocolError, match="too early"):
        inflate(data)


def test_a_damaged_stream_is_refused():
    with pytest.raises(RemoteProtocolError, match="damaged"):
        inflate(b"no zlib stream")
