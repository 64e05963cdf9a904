"""Clients that send numbered messages, singly or in transactions, and record the confirmed ones."""

from __future__ import annotations

import random
import zlib

import anyio

from pyjms.aio import Message, Queue, Topic
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.errors import TransactionRolledBackException
from pyjms.jms.destination import Destination
from tests.kit.soak.clients.links import Link
from tests.kit.soak.flows import Flow

__all__ = ["Numbers", "body_of", "checksum_of", "destination_of", "send"]

NOISE = random.Random(1).randbytes(4 << 20)


class Numbers:
    """The numberings of one sender; they go on when it connects again."""

    def __init__(self, name: str, lanes: int) -> None:
        self.names = [name] if lanes == 1 else [f"{name}.{lane}" for lane in range(lanes)]
        self.sent = 0
        self._next = dict.fromkeys(self.names, 0)

    def take(self) -> tuple[str, int]:
        name = self.names[self.sent % len(self.names)]
        self.sent += 1
        number = self._next[name]
        self._next[name] = number + 1
        return name, number


def destination_of(url: str) -> Destination:
    """Return the destination that `queue://name` or `topic://name` means."""
    kind, name = url.split("://", 1)
    return Queue(name) if kind == "queue" else Topic(name)


def body_of(flow: Flow, chance: random.Random) -> bytes:
    """Return a body of the flow's size."""
    size = chance.randint(*flow.sizes)
    start = chance.randrange(len(NOISE) - size)
    return NOISE[start : start + size]


def checksum_of(body: bytes) -> int:
    """Return what a message's property says about its body."""
    return zlib.crc32(body)


def _message(
    session: ActiveMQSession, flow: Flow, name: str, number: int, chance: random.Random
) -> Message:
    body = body_of(flow, chance)
    message: Message = session.create_bytes_message(body)
    properties = message.properties
    properties["soak_producer"], properties["soak_number"] = name, number
    properties["soak_crc"] = checksum_of(body)
    if flow.lanes > 1:
        message.group_id = name
    if flow.delay is not None:
        properties["AMQ_SCHEDULED_DELAY"] = round(1000 * chance.uniform(*flow.delay))
    if chance.random() < flow.poison:
        properties["soak_poison"] = True
    return message


async def send(link: Link, flow: Flow, numbers: Numbers, chance: random.Random) -> None:
    """Send until the soak ends; now and then a burst."""
    session = await link.connection.create_session(flow.transacted)
    producer = await session.create_producer(destination_of(flow.destination))
    send_some = _send_transaction if flow.transacted else _send_one
    burst = 0
    while not link.links.finishing.is_set():
        count = await send_some(link, flow, session, producer, numbers, chance)
        burst = burst - count if burst > 0 else 40 * (chance.random() < 0.01)
        if burst <= 0:
            with anyio.move_on_after(chance.expovariate(flow.rate / count)):
                await link.links.finishing.wait()


async def _send_one(
    link: Link,
    flow: Flow,
    session: ActiveMQSession,
    producer: ActiveMQMessageProducer,
    numbers: Numbers,
    chance: random.Random,
) -> int:
    name, number = numbers.take()
    message = _message(session, flow, name, number, chance)
    life = None if flow.time_to_live is None else chance.uniform(*flow.time_to_live)
    before = link.interruptions
    link.log.write("try", name, number)
    await producer.send(message, time_to_live=life)
    link.log.write("ok" if link.interruptions == before else "doubt", name, number)
    return 1


async def _send_transaction(
    link: Link,
    flow: Flow,
    session: ActiveMQSession,
    producer: ActiveMQMessageProducer,
    numbers: Numbers,
    chance: random.Random,
) -> int:
    """Send a few messages and commit, or roll back; a commit that fails may have happened."""
    sent = [numbers.take() for _ in range(chance.randint(1, 8))]
    before = link.interruptions
    for name, number in sent:
        link.log.write("try", name, number)
    (name, first), (_, last) = sent[0], sent[-1]
    link.log.write("batch", name, first, last)
    try:
        for lane, number in sent:
            await producer.send(_message(session, flow, lane, number, chance))
        if chance.random() < 0.15:
            for lane, number in sent:
                link.log.write("never", lane, number)
            await session.rollback()
            return len(sent)
        await session.commit()
    except TransactionRolledBackException:
        return len(sent)
    for lane, number in sent:
        link.log.write("ok" if link.interruptions == before else "doubt", lane, number)
    return len(sent)
