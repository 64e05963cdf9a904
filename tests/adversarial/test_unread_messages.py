"""Clients that do not read their messages: what waits for them is in memory once, and limited."""

from __future__ import annotations

import struct
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.transport.openwire.options import wire_format_settings
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    MessageDispatch,
    MessageId,
    ProducerInfo,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect
from tests.kit.waiting import until

MIB = 1 << 20
SIZE = 3 * MIB
"""More than the sockets of a client that does not read take."""
LIMIT = 7 * MIB
FORMS = {
    "fast": "",
    "tight": "wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true",
    "old": "wireFormat.version=11",
}


@pytest.fixture
def form() -> str:
    return ""


@pytest.fixture
async def service(form: str) -> AsyncIterator[BrokerService]:
    service = BrokerService(
        "attacked",
        persistent=False,
        memory_limit=64 * MIB,
        unsent_frames_limit=LIMIT,
        frame_write_timeout=30,
    )
    service.add_connector(f"tcp://127.0.0.1:0?{form}")
    service.add_connector("stomp://127.0.0.1:0")
    await service.start()
    yield service
    await service.stop()


async def until_waiting(service: BrokerService, size: int) -> None:
    """Wait until so many bytes or a little more wait for all clients."""
    await until(lambda: size <= service.unsent_budget.used < size + 4096)


def copied(service: BrokerService) -> int:
    """How many bytes the connections have copied to send them."""
    total = 0
    for connector in service.connectors:
        for connection in connector.connections:
            transport: Any = connection._transport  # type: ignore[attr-defined]
            while hasattr(transport, "next"):
                transport = transport.next
            total += len(getattr(transport, "_tcp", transport)._writer.buffer)
    return total


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_a_message_for_many_that_do_not_read_is_in_memory_once(
    service: BrokerService, peer: Connect, serves: Callable[[], Any], form: str
) -> None:
    options = dict(
        option.split("=") for option in form.replace("wireFormat.", "").split("&") if form
    )
    lazy = [await peer(f"lazy{number}") for number in range(20)]
    for each in lazy:
        each.format = OpenWireFormat(wire_format_settings(options, None))
        await each.connect()
        await each.consume(Topic("t"))
    sender = await peer("sender")
    await sender.connect()
    body = bytes(range(256)) * (SIZE // 256)
    await sender.ask(sender.message(Topic("t"), body))
    await until_waiting(service, SIZE)
    assert copied(service) < 20 * 4096
    await serves()
    for each in lazy:  # they read at last
        (dispatch,) = await each.heard_of(MessageDispatch)
        assert dispatch.message.content == body
    await until_waiting(service, 0)


@pytest.mark.parametrize("kind", ["text", "compressed", "bytes"])
async def test_a_message_for_many_stomp_clients_is_in_memory_once(
    service: BrokerService, peer: Connect, serves: Callable[[], Any], kind: str
) -> None:
    port = int(service.connectors[1].connect_uri.rpartition(":")[2])
    lazy = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(20)]
    for each in lazy:
        await each.send(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        await each.receive()
        await each.send(b"SUBSCRIBE\nid:1\ndestination:/topic/t\nreceipt:1\n\n\0")
        await each.receive()
    sender = await peer("sender")
    await sender.connect()
    text = b"a" * SIZE
    if kind == "bytes":
        message = sender.message(Topic("t"), text)
    else:
        content = struct.pack(">i", SIZE) + text
        message = ActiveMQTextMessage(
            producer_id=sender.producer_id,
            message_id=MessageId(None, sender.producer_id, 1),
            destination=Topic("t"),
            content=zlib.compress(content) if kind == "compressed" else content,
            compressed=kind == "compressed",
        )
    await sender.ask(message)
    await until_waiting(service, SIZE)
    assert copied(service) < 20 * 4096
    await serves()
    for each in lazy:
        received = b""
        while not received.endswith(b"\0\n"):
            received += await each.receive()
        assert received.partition(b"\n\n")[2] == text + b"\0\n"
        await each.aclose()
    await until_waiting(service, 0)


async def test_nobody_waits_for_those_who_do_not_read(
    service: BrokerService, peer: Connect, serves: Callable[[], Any]
) -> None:
    """The oldest are disconnected while others need the memory; their messages are redelivered."""
    sender = await peer("sender")
    await sender.connect()
    async with VirtualClock() as clock:
        lazy = []
        for number in range(3):
            lazy.append(await peer(f"lazy{number}"))
            await lazy[number].connect()
            await lazy[number].consume(Queue(f"q{number}"))
            await sender.ask(sender.message(Queue(f"q{number}"), bytes([number]) * SIZE))
        await until_waiting(service, 3 * SIZE)  # more than the limit
        await serves()
        await clock.advance(29)
        assert len(service.connectors[0].connections) == 4
        await clock.advance(2)
        await lazy[0].closed()
        await until_waiting(service, 2 * SIZE)
        for number in (1, 2):
            (dispatch,) = await lazy[number].heard_of(MessageDispatch)
            assert dispatch.message.content == bytes([number]) * SIZE
        reader = await peer("reader")
        await reader.connect()
        await reader.consume(Queue("q0"))
        (dispatch,) = await reader.heard_of(MessageDispatch)
        assert dispatch.message.content == bytes(1) * SIZE
        await until_waiting(service, 0)


async def test_who_reads_again_gets_everything_in_order(
    service: BrokerService, peer: Connect, serves: Callable[[], Any]
) -> None:
    lazy, sender = await peer("lazy"), await peer("sender")
    await lazy.connect()
    await sender.connect()
    await lazy.consume(Queue("q"))
    sizes = [10, SIZE, 70_000, 20, SIZE, 65_537, 65_536, 2 * MIB, 30]
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    for body in bodies:
        await sender.ask(sender.message(Queue("q"), body))
    await until_waiting(service, SIZE)
    await lazy.tell(ProducerInfo())  # its refusal comes behind what waits
    await serves()
    dispatches = await lazy.heard_of(MessageDispatch, len(bodies))
    assert [dispatch.message.content for dispatch in dispatches] == bodies
    await until_waiting(service, 0)
