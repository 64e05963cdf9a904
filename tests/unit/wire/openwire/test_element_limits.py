"""Frames and property maps whose decoding would need many times their size."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.wire import limits
from pyjms.wire.openwire.commands import (
    BrokerId,
    BrokerInfo,
    ExceptionResponse,
    StackTraceElement,
    Throwable,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import decode_map, decode_values, encode_map
from pyjms.wire.openwire.settings import WireFormatSettings

NULLS = 200_000


def null_map(count: int) -> bytes:
    return struct.pack(">i", count) + b"\0\0\0" * count


def negotiated(**settings: Any) -> OpenWireFormat:
    wire_format = OpenWireFormat(WireFormatSettings(**settings))
    wire_format.negotiate(wire_format.local_info())
    return wire_format


@pytest.mark.parametrize(
    "values",
    [
        {f"p{n}": None for n in range(NULLS)},
        {"list": [None] * NULLS},
        {f"list{n}": [[None] * 1000] for n in range(NULLS // 1000)},
        {"map": {"map": {f"p{n}": 1 for n in range(NULLS)}}},
    ],
    ids=["flat", "list", "lists", "maps"],
)
def test_the_values_of_a_map_are_limited(values: dict[str, object]) -> None:
    data = encode_map(values)
    assert decode_map(data) == values  # a body may have that many
    with pytest.raises(RemoteProtocolError, match="more than the 100000 values allowed"):
        decode_map(data, limits.MAX_PROPERTY_VALUES)


def test_a_map_of_millions_of_values_is_refused_before_it_is_decoded() -> None:
    count = limits.MAX_VALUES + 1
    with pytest.raises(RemoteProtocolError, match="values allowed") as caught:
        decode_map(null_map(count))
    assert caught.value.position == 4


def test_the_values_of_a_stream_are_limited() -> None:
    assert decode_values(b"\0" * 5, 5) == [None] * 5
    with pytest.raises(RemoteProtocolError, match="more than the 5 values allowed"):
        decode_values(b"\0" * 6, 5)


@pytest.mark.parametrize("tight", [False, True])
def test_the_structures_of_a_frame_are_limited(tight: bool) -> None:
    inner = BrokerInfo(BrokerId("x"), peer_broker_infos=[None] * 30_000)
    sender, receiver = (
        negotiated(tight_encoding_enabled=tight, max_frame_size_enabled=False) for _ in range(2)
    )
    small = BrokerInfo(BrokerId("y"), peer_broker_infos=[inner] * 3)
    (received,) = receiver.receive_data(sender.encode(small))
    assert isinstance(received, BrokerInfo)
    assert received.peer_broker_infos
    last = received.peer_broker_infos[2]
    assert last is not None
    assert last.peer_broker_infos == [None] * 30_000
    large = BrokerInfo(BrokerId("y"), peer_broker_infos=[inner] * 4)
    with pytest.raises(RemoteProtocolError, match="more than 100000 structures"):
        receiver.receive_data(sender.encode(large))


def test_the_stack_trace_elements_of_a_frame_are_limited() -> None:
    cause = None
    for _ in range(4):
        cause = Throwable("c", "m", (StackTraceElement("c", "m", "f", 1),) * 30_000, cause)
    sender, receiver = negotiated(), negotiated()
    with pytest.raises(RemoteProtocolError, match="more than 100000 structures"):
        receiver.receive_data(sender.encode(ExceptionResponse(1, cause)))
