"""Queues and durable subscriptions over a KahaDB store, with less memory than messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQTextMessage,
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
)
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.temp import TempStore

Q, T = Queue("Q"), Topic("T")
COUNT = 1500


class Client:
    """A connection that keeps the received messages."""

    remote_address = "tcp://client:1"

    def __init__(self, region: RegionBroker, name: str) -> None:
        self.region = region
        client: Any = self
        self.context = ConnectionContext(client)
        self.context.client_id = name
        self.context.connection_id = ConnectionId(name)
        self.dispatches: list[MessageDispatch] = []
        self._exchange = ProducerExchange(self.context)
        self._producer_id = ProducerId(name, 1, 1)
        self._sent = 0

    def dispatch(self, dispatch: MessageDispatch) -> None:
        self.dispatches.append(dispatch)

    async def send(
        self,
        destination: Destination,
        first: int,
        last: int,
        priority: int | Callable[[int], int] = 4,
    ) -> None:
        for number in range(first, last + 1):
            self._sent += 1
            message = ActiveMQTextMessage(
                producer_id=self._producer_id,
                destination=destination,
                message_id=MessageId(None, self._producer_id, self._sent),
                persistent=True,
                response_required=number == last,
                priority=priority if isinstance(priority, int) else priority(number),
                type=str(number),
                content=bytes(200),
            )
            answer = self.region.send(self._exchange, message)
            if answer is not None:
                done = anyio.Event()
                answer.then(partial(lambda done, _: done.set(), done))
                await done.wait()

    def consume(self, destination: Destination, name: str | None = None) -> Subscription:
        info = ConsumerInfo(
            ConsumerId("c", 1, 1),
            destination=destination,
            prefetch_size=20,
            client_id=self.context.client_id,
            subscription_name=name,
        )
        return self.region.add_consumer(self.context, info)

    def take(self, consumer: Subscription, count: int) -> list[str | None]:
        taken: list[str | None] = []
        while len(taken) < min(count, len(self.dispatches)):
            message = self.dispatches[len(taken)].message
            assert message is not None
            taken.append(message.type)
            assert message is not None
            ack = MessageAck(
                destination=message.destination,
                consumer_id=consumer.consumer_id,
                ack_type=AckType.STANDARD,
                first_message_id=message.message_id,
                last_message_id=message.message_id,
                message_count=1,
            )
            self.region.acknowledge(ConsumerExchange(self.context, consumer), ack)
        return taken


@pytest.fixture
def region(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[RegionBroker]]:
    @asynccontextmanager
    async def running(**policy: Any) -> AsyncIterator[RegionBroker]:
        store = KahaDBPersistenceAdapter(tmp_path / "kahadb", KahaDBSettings())
        temp_store = TempStore(tmp_path / "tmp_storage")
        await store.start()
        await temp_store.start()
        entry = PolicyEntry(memory_limit=100_000, max_page_size=50, **policy)
        broker = RegionBroker(store, PolicyMap([entry]), temp_store=temp_store)
        await broker.start()
        try:
            yield broker
        finally:
            await broker.stop()
            await temp_store.stop()
            await store.stop()

    return running


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


async def test_a_queue_over_a_restart(
    region: Callable[..., AbstractAsyncContextManager[RegionBroker]],
) -> None:
    async with region() as broker:
        client = Client(broker, "first")
        await client.send(Q, 1, COUNT)
        queue = broker.destinations()[Q]
        assert queue.statistics.messages == COUNT
        assert queue.memory.used < 100_000
        assert client.take(client.consume(Q), 500) == numbers(1, 500)
        assert queue.memory.used < 200_000
    async with region() as broker:
        client = Client(broker, "second")
        queue = broker.destinations()[Q]
        assert (queue.statistics.messages, queue.memory.used) == (COUNT - 500, 0)
        await client.send(Q, COUNT + 1, COUNT + 100)
        assert [r.message.type for r in queue.messages()] == numbers(501, COUNT + 100)
        assert client.take(client.consume(Q), 2 * COUNT) == numbers(501, COUNT + 100)
        assert (queue.statistics.messages, queue.memory.used) == (0, 0)
    async with region() as broker:
        assert broker.destinations()[Q].statistics.messages == 0


async def test_priorities_over_a_restart(
    region: Callable[..., AbstractAsyncContextManager[RegionBroker]],
) -> None:
    async with region(prioritized_messages=True) as broker:
        client = Client(broker, "first")
        await client.send(Q, 1, 600, priority=lambda number: number % 10)
    async with region(prioritized_messages=True) as broker:
        client = Client(broker, "second")
        await client.send(Q, 601, 700, priority=9)
        got = [int(str(text)) for text in client.take(client.consume(Q), 1000)]
        urgent = [n for n in range(1, 601) if n % 10 == 9] + list(range(601, 701))
        assert got[: len(urgent)] == urgent
        assert got[len(urgent) :] == sorted(
            (n for n in range(1, 601) if n % 10 != 9), key=lambda n: (-(n % 10), n)
        )


async def test_a_durable_subscription_over_a_restart(
    region: Callable[..., AbstractAsyncContextManager[RegionBroker]],
) -> None:
    async with region() as broker:
        client = Client(broker, "me")
        consumer = client.consume(T, "s")
        sender = Client(broker, "sender")
        await sender.send(T, 1, COUNT)
        assert client.take(consumer, 300) == numbers(1, 300)
        assert broker.destinations()[T].memory.used < 150_000
    async with region() as broker:
        client = Client(broker, "me")
        topic = broker.destinations()[T]
        (subscription,) = topic.consumers
        assert subscription.pending_count == COUNT - 300
        assert client.take(client.consume(T, "s"), 2 * COUNT) == numbers(301, COUNT)
        assert (topic.memory.used, subscription.pending_count) == (0, 0)
