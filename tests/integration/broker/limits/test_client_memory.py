"""What the consumers, selectors and other resources of one connection take is limited."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from pyjms.errors import InvalidSelectorException, ResourceAllocationException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConsumerId, DestinationInfo, RemoveInfo
from pyjms_broker.api.usage import CONSUMER_SIZE, MATCH_SIZE, MEMBER_SIZE, TEMPORARY_SIZE
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient

pytestmark = pytest.mark.fact("activemq-broker M15")

LIMIT = 100_000
Connect = Callable[[], Awaitable[RawClient]]


@asynccontextmanager
async def running(service: BrokerService) -> AsyncIterator[BrokerService]:
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@pytest.fixture
async def connect(raw_client: Callable[..., RawClient]) -> AsyncIterator[Connect]:
    service = BrokerService(
        "limited", persistent=False, client_memory_limit=LIMIT, maximum_selector_nodes=100
    )

    async def connected() -> RawClient:
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        return client

    async with running(service):
        yield connected


async def create(client: RawClient, count: int) -> None:
    for n in range(count):
        await client.request(DestinationInfo(client.connection_id, Queue(f"w.{n}"), 0))


async def fill(client: RawClient, *, selector: str | None = None) -> list[ConsumerId]:
    """Open consumers until one is refused."""
    opened: list[ConsumerId] = []
    with pytest.raises(ResourceAllocationException, match=f"client_memory_limit .* {LIMIT}"):
        while len(opened) < 1000:
            opened.append(await client.consumer(Queue("q"), selector=selector))
    return opened


async def test_consumers_of_one_connection(connect: Connect) -> None:
    assert len(await fill(await connect())) == LIMIT // (CONSUMER_SIZE + MATCH_SIZE)


async def test_the_connection_and_the_others_stay(connect: Connect) -> None:
    client, other = await connect(), await connect()
    opened = await fill(client)
    await other.consumer(Queue("q"))
    await client.send(Queue("q"), "x")
    await client.request(RemoveInfo(opened[0]))
    await client.consumer(Queue("q"))


async def test_selectors_count_by_their_length(connect: Connect) -> None:
    client = await connect()
    assert len(await fill(client, selector="a = '" + "x" * 200 + "'")) < 5


@pytest.mark.fact("jms-api 8.10")
async def test_a_selector_of_too_many_parts_takes_nothing(connect: Connect) -> None:
    client = await connect()
    for _ in range(50):
        with pytest.raises(InvalidSelectorException, match="more than 100"):
            await client.consumer(Queue("q"), selector=" OR ".join(["a = 1"] * 40))
    await client.consumer(Queue("q"))


async def test_matches_of_patterns_count(connect: Connect) -> None:
    client = await connect()
    await create(client, 100)
    await client.consumer(Queue("w.>"))
    with pytest.raises(ResourceAllocationException):
        await client.consumer(Topic(">"))
        await client.consumer(Queue("w.>"))


async def test_a_refused_consumer_leaves_nothing(connect: Connect) -> None:
    client = await connect()
    await create(client, 100)
    await client.consumer(Queue("w.>"))
    for _ in range(20):
        with pytest.raises(ResourceAllocationException):
            await client.consumer(Queue("w.>"))
    await client.consumer(Queue("w.1"))


async def test_matches_with_later_destinations_count(connect: Connect) -> None:
    client = await connect()
    await client.consumer(Queue("w.>"))
    await create(client, 2 * LIMIT // MATCH_SIZE)  # others may create them, too
    with pytest.raises(ResourceAllocationException):
        await client.consumer(Queue("q"))


async def test_temporary_destinations_count_until_they_are_deleted(connect: Connect) -> None:
    client = await connect()
    infos = [
        DestinationInfo(client.connection_id, TemporaryQueue(f"{client.name}:{n}"), 0)
        for n in range(LIMIT // TEMPORARY_SIZE)
    ]
    for info in infos[:-1]:
        await client.request(info)
    with pytest.raises(ResourceAllocationException):
        await client.request(infos[-1])
        await fill(client)
        await client.request(
            DestinationInfo(client.connection_id, TemporaryQueue(f"{client.name}:more"), 0)
        )
    await client.request(DestinationInfo(client.connection_id, infos[0].destination, 1))
    await client.consumer(Queue("q"))


@pytest.mark.usefixtures("young_garbage")
async def test_a_temporary_queue_with_its_consumer_takes_5_kb(
    raw_client: Callable[..., RawClient],
) -> None:
    async with running(BrokerService("open", persistent=False)) as service:
        client = raw_client(create_transport(service.vm_uri))
        await client.open()

        async def fill_up_to(end: int) -> int:
            while (number := next(numbers)) <= end:
                name = f"{client.name}:{number}"
                await client.request(DestinationInfo(client.connection_id, TemporaryQueue(name), 0))
                await client.consumer(TemporaryQueue(name))
            client.commands.clear()
            gc.collect(0)
            return tracemalloc.get_traced_memory()[0]

        numbers = itertools.count(1)
        await fill_up_to(20)
        tracemalloc.start()
        try:
            before = await fill_up_to(100)
            assert await fill_up_to(500) - before < 400 * 5000
        finally:
            tracemalloc.stop()


async def test_producers_count_until_they_are_closed(connect: Connect) -> None:
    client = await connect()
    with pytest.raises(ResourceAllocationException):
        for _ in range(LIMIT // MEMBER_SIZE + 1):
            producer = await client.producer(Queue("q"))
    await client.request(RemoveInfo(producer))
    await client.producer(Queue("q"))
