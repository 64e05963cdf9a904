"""STOMP clients that break the rules, flood the broker, or do not read."""

from __future__ import annotations

import random

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.tcp import HIGH_WATER
from tests.kit.stomp.client import StompBroker, StompClient
from tests.kit.stomp.codec_fuzz import PARTS

KIB = 1024


def waiting_bytes(stomp: StompBroker) -> int:
    """What is queued in the broker for its only client."""
    writer = stomp.connection._transport._tcp._writer
    return int(writer.queued)


async def serves(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.done("SEND", {"destination": "/queue/alive"}, "x")
    await client.done("DISCONNECT")


async def left(client: StompClient) -> None:
    """Read until the broker has closed the connection."""
    with anyio.fail_after(60):
        try:
            while True:
                await client.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return


@pytest.mark.parametrize("mode", ["auto", "client"])
async def test_a_consumer_that_never_reads_costs_one_buffer(stomp: StompBroker, mode: str) -> None:
    client = await stomp.client()
    prefetch = {"activemq.prefetchSize": 2**31 - 1}
    await client.subscribe("/queue/q", ack=mode, **prefetch)
    async with stomp.jms() as session:
        producer = await session.create_producer(Queue("q"))
        for _ in range(400):
            await producer.send(session.create_text_message("x" * 64 * KIB))
    for _ in range(3):
        await anyio.wait_all_tasks_blocked()
    assert waiting_bytes(stomp) < HIGH_WATER + 128 * KIB
    assert stomp.broker.queue_statistics("q").messages > 200


@pytest.mark.parametrize(
    "frame", [b"SEND\n\n\0", b"COMMIT\ntransaction:x\n\n\0"], ids=["send", "commit"]
)
async def test_a_client_that_reads_no_errors_is_disconnected(
    stomp: StompBroker, frame: bytes
) -> None:
    client = await stomp.client()
    with anyio.fail_after(60), pytest.raises((anyio.BrokenResourceError, ConnectionError)):
        while True:
            await client.stream.send(frame * 2000)
    await serves(stomp)


async def test_a_client_that_reads_no_receipts_is_read_no_further(stomp: StompBroker) -> None:
    client = await stomp.client()
    frame = b"SEND\ndestination:/topic/t\nreceipt:" + b"r" * 1000 + b"\n\nx\0"
    with anyio.move_on_after(1.0):
        while True:
            await client.stream.send(frame * 100)
    assert waiting_bytes(stomp) < HIGH_WATER + 256 * KIB


@pytest.mark.parametrize("kind", ["transactions", "subscriptions", "aliases"])
async def test_what_a_client_may_open_is_limited(stomp: StompBroker, kind: str) -> None:
    frames = {
        "transactions": ("BEGIN", {"transaction": "n%d"}),
        "subscriptions": ("SUBSCRIBE", {"destination": "/topic/t", "id": "n%d"}),
        "aliases": ("SEND", {"destination": "/temp-queue/n%d"}),
    }
    command, headers = frames[kind]
    (connector,) = stomp.broker.service.connectors
    connector.maximum_transactions_per_connection = 10
    connector.maximum_consumers_per_connection = 10
    connector.maximum_temporary_destinations_per_connection = 10
    client = await stomp.client()
    for number in range(10):
        await client.done(command, {n: v.replace("%d", str(number)) for n, v in headers.items()})
    assert "limit" in await client.refused(command, headers)
    long = {name: value + "x" * 1024 for name, value in headers.items()}
    assert "at most 1024" in await client.refused(command, long)
    session = stomp.connection._transport
    kept = (session.transactions, session.consumers, session.subscriptions)
    assert sum(map(len, kept)) <= 20


async def test_half_a_frame_and_nothing_more(stomp: StompBroker) -> None:
    client = await stomp.client()
    budget = stomp.broker.service.frame_budget
    await client.stream.send(b"SEND\ncontent-length:50000000\n\n" + b"x" * 70000)
    while not budget.used:
        await anyio.wait_all_tasks_blocked()
    await serves(stomp)
    await client.stream.aclose()
    while budget.used:
        await anyio.wait_all_tasks_blocked()


async def test_noise_ends_only_its_own_connection(stomp: StompBroker) -> None:
    chance = random.Random(7)
    for _ in range(100):
        client = await stomp.open()
        if chance.random() < 0.7:
            await client.connect()
        data = b"".join(chance.choices(PARTS, k=chance.randrange(80)))
        try:
            await client.stream.send(data + b"\n\0")
            await client.stream.send_eof()
            await left(client)
        except (anyio.BrokenResourceError, OSError):
            pass  # closed by the broker already
    await serves(stomp)
