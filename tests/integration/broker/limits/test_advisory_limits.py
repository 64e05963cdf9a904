"""Advisories for consumers that do not acknowledge: they use memory and temp space by the limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, RemoveInfo, TransactionType
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.region.topic import AdvisoryTopic
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient

Q = Queue("q")
ADVISORIES = Topic("ActiveMQ.Advisory.Consumer.Queue.q")
LIMIT = 512 << 10
SELECTOR = "a = '" + "x" * 4000 + "'"
KEEP_IN_MEMORY = PolicyMap([PolicyEntry(pending_subscriber_policy="vmCursor")])

Make = Callable[..., Any]


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[Make]:
    services: list[BrokerService] = []

    async def start(**settings: Any) -> BrokerService:
        service = BrokerService(
            "advising", data_directory=tmp_path, **{"memory_limit": LIMIT, **settings}
        )
        await service.start()
        services.append(service)
        return service

    yield start
    for service in services:
        await service.stop()


async def come_and_go(client: Any, times: int) -> None:
    """Cause two advisories each time, one of them with a long selector."""
    for number in range(times):
        consumer_id = ConsumerId(client.name, 1, 1000 + number)
        await client.request(ConsumerInfo(consumer_id, destination=Q, selector=SELECTOR))
        await client.request(RemoveInfo(consumer_id))


async def clients(raw_client: type[RawClient], service: BrokerService, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        found.append(client)
    return found


async def test_an_advisory_counts_with_what_it_is_about(
    raw_client: type[RawClient], started: Make
) -> None:
    service = await started()
    slow, other = await clients(raw_client, service, 2)
    await slow.consumer(ADVISORIES, prefetch_size=1)
    await come_and_go(other, 11)
    assert service.system_usage.memory.used > 10 * len(SELECTOR)


@pytest.mark.parametrize("keeps", [{"persistent": False}, {"policies": KEEP_IN_MEMORY}, {}])
async def test_a_consumer_that_does_not_acknowledge_misses_advisories(
    raw_client: type[RawClient],
    started: Make,
    keeps: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = await started(temp_limit=LIMIT, **keeps)
    slow, quick, other = await clients(raw_client, service, 3)
    await slow.consumer(ADVISORIES, prefetch_size=1)
    await quick.consumer(ADVISORIES, prefetch_size=1000)
    await come_and_go(other, 400)  # about 2 MB
    assert service.system_usage.memory.used < LIMIT + 20_000
    if service.stores.temp_store is not None:
        assert service.stores.temp_store.size < LIMIT + 20_000
    topic = service.region_broker.region_destination(ADVISORIES)
    assert isinstance(topic, AdvisoryTopic)
    assert topic.dropped_count > 100
    assert caplog.text.count("miss advisories") == 1
    for _ in range(800):
        await quick.dispatched()  # who keeps up misses none


@pytest.mark.parametrize("transacted", [False, True])
async def test_messages_of_clients_to_advisory_topics_are_limited_as_well(
    raw_client: type[RawClient], started: Make, transacted: bool
) -> None:
    service = await started(persistent=False)
    slow, other = await clients(raw_client, service, 2)
    await slow.consumer(ADVISORIES, prefetch_size=1)
    local = other.local(1) if transacted else None
    if transacted:
        await other.transaction(TransactionType.BEGIN, local)
    sends = other.send(ADVISORIES, *["x" * 10_000] * 100, transaction_id=local)
    if transacted:
        with pytest.raises(JMSException, match="has no space"):
            await sends
    else:
        await sends
    assert service.system_usage.memory.used < LIMIT + 20_000
