"""Messages are seen in the order of their numbers, which is that after a restart."""

from __future__ import annotations

import random
from pathlib import Path

import anyio
import pytest
from anyio import lowlevel

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from tests.kit.brokers.region import Broker

Q, T = Queue("Q"), Topic("T")
SENDERS = 8


async def send_much(broker: Broker, destination: Destination, name: str) -> None:
    """Send alone and in transactions of three, two commits at the same time."""
    client = broker.client(name)
    rng = random.Random(name)
    ends: list[Completion] = []
    for number in range(60):
        if rng.random() < 0.5:
            ends.append(client.send(destination, f"{name}.{number}", persistent=True))
        else:
            transaction = client.begin()
            for part in "abc":
                client.send(destination, f"{name}.{number}{part}", tx=transaction, persistent=True)
            ends.append(transaction.commit(one_phase=True))
        if rng.random() < 0.5:
            await lowlevel.checkpoint()
    for end in ends:
        await wait_for(end)


def adapter(path: Path) -> KahaDBPersistenceAdapter:
    settings = KahaDBSettings(concurrent_store_and_dispatch_topics=True)
    return KahaDBPersistenceAdapter(path, settings)


@pytest.mark.fact("activemq-persistence K14")
@pytest.mark.parametrize("destination", [Q, T])
async def test_the_order_is_the_same_after_a_restart(
    tmp_path: Path, destination: Destination
) -> None:
    store = adapter(tmp_path)
    await store.start()
    broker = Broker(store=store)
    await broker.region.start()
    client = broker.client("id")
    options = {"subscription_name": "s"} if destination.is_topic else {}
    consumer = client.consume(destination, prefetch=100_000, **options)
    async with anyio.create_task_group() as tasks:
        for number in range(SENDERS):
            tasks.start_soon(send_much, broker, destination, f"s{number}")
    before = client.received(consumer)
    assert len(before) > 500
    await broker.region.stop()
    await store.stop()

    store = adapter(tmp_path)
    await store.start()
    broker = Broker(store=store)
    await broker.region.start()
    client = broker.client("id")
    consumer = client.consume(destination, prefetch=100_000, **options)
    assert client.received(consumer) == before
    await broker.region.stop()
    await store.stop()
