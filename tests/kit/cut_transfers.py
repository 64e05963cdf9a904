"""Messages moved between two queues in transactions while connections are cut, and the account.

Nothing may be lost, and nothing committed twice.
"""

from __future__ import annotations

import random
from typing import Any

import anyio

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.errors import TransactionRolledBackException
from pyjms.jms.bodies import TextMessage
from tests.kit.cutting_proxy import DIRECTIONS, CuttingProxy

FAST = "initialReconnectDelay=5&maxReconnectDelay=20"


def factory_of(proxy: CuttingProxy, query: str = FAST) -> ConnectionFactory:
    """Return a factory of connections through the proxy, which survive cuts."""
    return ConnectionFactory(f"failover:({proxy.url})?{query}")


async def texts(factory: Any, queue: str) -> list[str]:
    """Consume a queue and return its texts."""
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        consumer = await session.create_consumer(session.create_queue(queue))
        found = []
        while (message := await consumer.receive(0.3)) is not None:
            found.append(message.text)
        return found


async def transfer(connection: ActiveMQConnection, count: int, ends: list[str]) -> None:
    """Move `count` messages from one queue to another, each in a transaction of its own."""
    session = await connection.create_session(True)
    consumer = await session.create_consumer(session.create_queue("in"))
    producer = await session.create_producer(session.create_queue("out"))
    while len(ends) < count:
        message = await consumer.receive(1)
        if message is None:
            return
        assert isinstance(message, TextMessage)
        await producer.send(session.create_text_message(message.text))
        try:
            await session.commit()
        except TransactionRolledBackException:
            continue
        ends.append(str(message.text))


async def cut_while_transferring(
    proxy: CuttingProxy, url: str, cuts: int, count: int, seed: int
) -> None:
    """Cut connections during connect, send, transacted receive, commit and close; then account."""
    chance = random.Random(seed)
    query = f"{FAST}&jms.redeliveryPolicy.maximumRedeliveries=-1&jms.closeTimeout=500"
    sent: list[str] = []
    moved: list[str] = []

    async def keep_cutting() -> None:
        while proxy.cuts < cuts:
            before = proxy.cuts
            direction = chance.choice(DIRECTIONS)
            proxy.cut_at(direction, chance.randrange(12), chance.choice((0, 0, 1, 5, 40)))
            await proxy.wait_for_cuts(before + 1)

    async with anyio.create_task_group() as group:
        group.start_soon(keep_cutting)

        async def send() -> None:
            number = 0
            while proxy.cuts < cuts or number < count:
                async with await factory_of(proxy, query).create_connection() as connection:
                    session = await connection.create_session()
                    producer = await session.create_producer(session.create_queue("in"))
                    for _ in range(10):
                        text = f"m{number}"
                        number += 1
                        await producer.send(session.create_text_message(text))
                        sent.append(text)

        async def receive() -> None:
            while proxy.cuts < cuts or len(moved) < len(sent):
                async with await factory_of(proxy, query).create_connection() as connection:
                    await connection.start()
                    before = len(moved)
                    await transfer(connection, before + 15, moved)
                    if proxy.cuts >= cuts and len(moved) == before:
                        return

        group.start_soon(send)
        group.start_soon(receive)
    direct = ConnectionFactory(url)
    left = await texts(direct, "in")
    out = await texts(direct, "out")
    dead = await texts(direct, "ActiveMQ.DLQ")
    assert proxy.cuts >= cuts
    assert set(out) | set(left) >= set(sent)  # nothing is lost
    assert len(out) == len(set(out))  # and nothing committed twice
    assert set(moved) <= set(out)
    assert set(dead) <= set(out)
