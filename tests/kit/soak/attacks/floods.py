"""More of everything than the broker wants to hold."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    LocalTransactionId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
    SessionInfo,
    TransactionInfo,
    TransactionType,
)
from tests.kit.brokers.openwire_attacker import Peer
from tests.kit.soak.attacks.types import Attacker

__all__ = ["FLOODS"]

KIB: Final = 1024
EXPIRES: Final = 10_000
"""Time to live of an attack's messages, in milliseconds."""


def junk(
    peer: Peer, destination: Destination, size: int, *, persistent: bool = False
) -> ActiveMQMessage:
    """Return a message that expires soon."""
    message = peer.message(destination, bytes(size))
    message.timestamp = _clock.time_ms()
    message.expiration = message.timestamp + EXPIRES
    message.persistent = persistent
    return message


async def _listen(peer: Peer) -> None:
    while True:
        await peer.read()
        peer.heard.clear()


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[TaskGroup]:
    """Read and discard the input of `peer`."""
    async with anyio.create_task_group() as group:
        group.start_soon(_listen, peer)
        yield group
        group.cancel_scope.cancel()


async def _flood(
    attacker: Attacker, destination: Destination, size: int, *, persistent: bool = False
) -> None:
    sender = await attacker.connected()
    async with listening(sender):
        while True:
            await sender.tell(
                *(junk(sender, destination, size, persistent=persistent) for _ in range(8))
            )
            await anyio.sleep(0.01)


async def unacknowledged_topic(attacker: Attacker) -> None:
    topic = Topic(f"hostile.{attacker.name}")
    consumer = await attacker.connected()
    await consumer.consume(topic, prefetch=10)
    await _flood(attacker, topic, 64 * KIB)


async def unread_topic(attacker: Attacker) -> None:
    topic = Topic(f"hostile.{attacker.name}")
    consumer = await attacker.connected()
    await consumer.consume(topic, prefetch=2**31 - 1)
    await _flood(attacker, topic, 16 * KIB)


async def unread_queue(attacker: Attacker) -> None:
    queue = Queue(f"hostile.{attacker.name}")
    consumer = await attacker.connected()
    await consumer.consume(queue, prefetch=2**31 - 1)
    await _flood(attacker, queue, 32 * KIB)


async def full_queue(attacker: Attacker) -> None:
    await _flood(attacker, Queue(f"hostile.{attacker.name}"), 64 * KIB)


async def full_store(attacker: Attacker) -> None:
    await _flood(attacker, Queue(f"hostile.{attacker.name}"), 32 * KIB, persistent=True)


async def endless_transaction(attacker: Attacker) -> None:
    peer = await attacker.connected()
    connection = ConnectionId(peer.name)
    xid = LocalTransactionId(1, connection)
    await peer.tell(TransactionInfo(connection, xid, TransactionType.BEGIN))
    while True:
        message = junk(peer, Queue(f"hostile.{attacker.name}"), 128 * KIB)
        message.transaction_id = xid
        await peer.tell(message)
        await anyio.sleep(0.01)


async def window_without_end(attacker: Attacker) -> None:
    peer = await attacker.connected()
    producer = ProducerId(peer.name, 7, 1)
    await peer.ask(ProducerInfo(producer, window_size=2**31 - 1))
    while True:
        message = junk(peer, Queue(f"hostile.{attacker.name}"), 64 * KIB)
        message.producer_id = producer
        await peer.tell(message)
        await anyio.sleep(0.01)


async def deaf_questions(attacker: Attacker) -> None:
    peer = await attacker.connected()
    question = TransactionInfo(ConnectionId(peer.name), None, TransactionType.RECOVER)
    question.response_required = True
    while True:
        await peer.tell(*[question] * 200)
        await anyio.sleep(0.01)


async def deaf_to_refusals(attacker: Attacker) -> None:
    peer = await attacker.connected()
    number = 0
    while True:
        number += 1
        stray = peer.message(TemporaryQueue("x" * 4000))
        stray.command_id, stray.response_required = number, True
        await peer.tell(stray)
        await anyio.lowlevel.checkpoint()


async def unacknowledged_advisories(attacker: Attacker) -> None:
    watcher, busy = await attacker.connected(), await attacker.connected()
    await watcher.consume(Topic("ActiveMQ.Advisory.>"), prefetch=10)
    topic = Topic(f"hostile.{attacker.name}." + "x" * 2000)
    async with listening(busy):
        for number in range(20_000):
            consumer = ConsumerId(busy.name, 1, number)
            info = ConsumerInfo(consumer, destination=topic, prefetch_size=1)
            await busy.tell(info, RemoveInfo(consumer))
            if number % 20 == 0:
                await anyio.sleep(0.02)


async def unread_ranges(attacker: Attacker) -> None:
    peer = await attacker.connected()
    queue = Queue(f"hostile.{attacker.name}")
    async with listening(peer):
        await peer.tell(*(junk(peer, queue, 30 * KIB, persistent=True) for _ in range(40)))
        for _ in range(3000):
            await peer.tell(_range_request(peer, queue, {"from": 0, "to": 2**62}))
            await anyio.sleep(0.002)


async def broken_ranges(attacker: Attacker) -> None:
    peer = await attacker.connected()
    queue = Queue(f"hostile.{attacker.name}")
    numbers: tuple[object, ...] = (
        2**64,
        -(2**63),
        float("nan"),
        float("inf"),
        None,
        "x",
        [[]],
        True,
    )
    async with listening(peer):
        for number in numbers * 20:
            await peer.tell(_range_request(peer, queue, {"from": number, "to": number}))
        for target in ("PyJMS.Ranges.Marks", "PyJMS.Ranges", "a,b,c", "ActiveMQ.DLQ"):
            request = _range_request(peer, queue, {"from": 0, "to": 9})
            request.reply_to = Queue(target)
            await peer.tell(request)
        await anyio.sleep(1)


def _range_request(peer: Peer, queue: Queue, fields: dict[str, object]) -> ActiveMQMessage:
    text = json.dumps({"op": "range", "queue": queue.physical_name, **fields}).encode()
    request = peer.message(Queue("PyJMS.Ranges"), text)
    request.reply_to = Queue(f"{queue.physical_name}.answers")
    return request


async def members_without_number(attacker: Attacker) -> None:
    peer = await attacker.connected()
    queue = Queue(f"hostile.{attacker.name}")
    async with listening(peer):
        for number in range(10, 3000):
            await peer.tell(
                SessionInfo(SessionId(peer.name, number)),
                ProducerInfo(ProducerId(peer.name, 1, number)),
                ConsumerInfo(ConsumerId(peer.name, 1, number), destination=queue, prefetch_size=1),
            )
            if number % 10 == 0:
                await anyio.sleep(0.01)


async def temporary_destinations(attacker: Attacker) -> None:
    peer = await attacker.connected()
    async with listening(peer):
        for number in range(4000):
            temporary = TemporaryQueue(f"ID:{peer.name}:{number}")
            await peer.tell(
                DestinationInfo(ConnectionId(peer.name), temporary, 0),
                junk(peer, temporary, 2 * KIB),
            )
            if number % 10 == 0:
                await anyio.sleep(0.01)


FLOODS: Final[Mapping[str, Callable[[Attacker], Awaitable[None]]]] = {
    "unacknowledged topic": unacknowledged_topic,
    "unread topic": unread_topic,
    "unread queue": unread_queue,
    "full queue": full_queue,
    "full store": full_store,
    "endless transaction": endless_transaction,
    "window without end": window_without_end,
    "deaf questions": deaf_questions,
    "deaf to refusals": deaf_to_refusals,
    "unacknowledged advisories": unacknowledged_advisories,
    "unread ranges": unread_ranges,
    "broken ranges": broken_ranges,
    "members without number": members_without_number,
    "temporary destinations": temporary_destinations,
}
