"""Invalid byte streams: incomplete handshakes, wrong sizes, impossible values."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import ExceptionResponse
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect

HELLO = b"\0\0\0\x10\1ActiveMQ\0\0\0\x0c\0\0\0"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        struct.pack(">i", -1) + b"x",
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1) + b"\1ActiveMQ",
        struct.pack(">i", 9) + b"\1NotAMQ!!",
        struct.pack(">i", 14) + b"\1ActiveMQ" + struct.pack(">ib", 12, 1),
        b"\0\0\0\x0a" + bytes(10),
    ],
)
async def test_what_is_not_openwire_ends_the_connection(
    peer: Connect, gone: Callable[[], Any], serves: Callable[[], Any], data: Any
) -> None:
    attacker = await peer()
    await attacker.stream.send(data)
    with suppress(anyio.BrokenResourceError, OSError):  # the broker may be faster
        await attacker.stream.send_eof()
        await attacker.closed()
    await gone()
    await serves()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">i", -1) + b"x",
        struct.pack(">i", 9) + b"\1NotAMQ!!",
        b"\0\0\0\x0a" + bytes(10),
    ],
)
async def test_the_broker_itself_closes_what_is_not_openwire(
    peer: Connect, gone: Callable[[], Any], serves: Callable[[], Any], data: Any
) -> None:
    attacker = await peer()
    await attacker.stream.send(data)
    await attacker.closed()  # though the peer keeps its side open
    await gone()
    await serves()


async def test_half_a_handshake_that_goes_away_leaves_nothing(
    peer: Connect, service: BrokerService, gone: Callable[[], Any]
) -> None:
    for cut in range(1, len(HELLO)):
        attacker = await peer()
        await attacker.stream.send(HELLO[:cut])
        await attacker.leave()
    attacker = await peer()
    await attacker.stream.send(b"\0")
    await attacker.leave()
    while service.connectors[0].connections:
        await gone()
        await anyio.wait_all_tasks_blocked()
    assert service.connections.by_id == {}


async def test_random_frames_after_the_handshake(
    peer: Connect, gone: Callable[[], Any], serves: Callable[[], Any]
) -> None:
    generator = random.Random(7)
    for _ in range(200):
        attacker = await peer()
        await attacker.negotiate()
        kind = generator.choice([1, 3, 4, 5, 6, 7, 8, 21, 22, 23, 28, 30, 100, 111, 255])
        body = bytes([kind]) + generator.randbytes(generator.randrange(200))
        with suppress(anyio.BrokenResourceError, OSError):  # the broker may be faster
            await attacker.stream.send(struct.pack(">i", len(body)) + body)
            await attacker.stream.send_eof()
            await attacker.closed()
    await gone()
    await serves()


@pytest.mark.parametrize("name", ["", "?", "a?b", " ", ",", ",,", "a,?"])
async def test_a_destination_that_is_not_a_name(
    peer: Connect, gone: Callable[[], Any], serves: Callable[[], Any], name: str
) -> None:
    attacker = await peer()
    await attacker.connect()
    message = attacker.message(Queue("placeholder"))
    frame = attacker.format.encode(message)
    at = frame.index(struct.pack(">H", 11) + b"placeholder")
    changed = frame[4:at] + struct.pack(">H", len(name)) + name.encode() + frame[at + 13 :]
    await attacker.stream.send(struct.pack(">i", len(changed)) + changed)
    with suppress(anyio.BrokenResourceError, OSError):  # the broker may be faster
        await attacker.stream.send_eof()
        await attacker.closed()
    assert not any(isinstance(c, ExceptionResponse) for c in attacker.heard)
    await gone()
    await serves()
