"""Unused destinations are removed, and no client can exhaust the limit for others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
)
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient

Make = Callable[..., Any]
Q = Queue("q")
PERIOD, TIMEOUT = 10.0, 60.0


def collecting(**settings: Any) -> dict[str, Any]:
    """Settings of a broker that removes inactive destinations."""
    entry = {"gc_inactive_destinations": True, "inactive_timeout_before_gc": TIMEOUT}
    policy = PolicyEntry(**{**entry, **settings.pop("policy", {})})
    return {
        "schedule_period_for_destination_purge": PERIOD,
        "policies": PolicyMap([policy]),
        **settings,
    }


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as virtual:
        yield virtual


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[Make]:
    services: list[BrokerService] = []

    async def start(**settings: Any) -> BrokerService:
        service = BrokerService("limited", data_directory=tmp_path, **settings)
        await service.start()
        services.append(service)
        return service

    yield start
    for service in services:
        await service.stop()


@pytest.fixture
def connect_to(raw_client: type[RawClient]) -> Make:
    async def connect(service: BrokerService) -> RawClient:
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        return client

    return connect


def names(service: BrokerService) -> set[str]:
    return {
        d.physical_name
        for d in service.region_broker.destinations()
        if not d.physical_name.startswith("ActiveMQ.Advisory.")
    }


async def create(client: RawClient, destination: Destination) -> None:
    await client.request(DestinationInfo(client.connection_id, destination, 0))


async def pass_time(clock: VirtualClock, seconds: float) -> None:
    """Let time pass in steps of the sweeps' period."""
    for _ in range(int(seconds / PERIOD)):
        await clock.advance(PERIOD)


@pytest.mark.fact("activemq-broker D11")
async def test_inactive_destinations_are_removed(
    clock: VirtualClock, started: Make, connect_to: Make
) -> None:
    service = await started(**collecting())
    client = await connect_to(service)
    consumer_id = await client.consumer(Queue("consumed"))
    await client.producer(Queue("produced"))
    await client.send(Queue("filled"), "x")
    await client.consumer(Topic("listened"))
    await create(client, Queue("idle"))
    await create(client, Topic("idle"))
    await pass_time(clock, PERIOD + TIMEOUT - PERIOD)
    assert "idle" in names(service)
    await pass_time(clock, PERIOD)
    assert names(service) == {"consumed", "produced", "filled", "listened"}
    await client.request(RemoveInfo(consumer_id))
    await pass_time(clock, PERIOD + TIMEOUT)
    assert names(service) == {"produced", "filled", "listened"}
    await client.send(Queue("idle"), "again")  # it is created again
    assert "idle" in names(service)


async def test_removed_destinations_are_not_in_the_store(
    clock: VirtualClock, started: Make, connect_to: Make
) -> None:
    service = await started(**collecting())
    await create(await connect_to(service), Q)
    await pass_time(clock, PERIOD + TIMEOUT)
    await service.stop()
    await service.start()
    assert "q" not in names(service)


@pytest.mark.fact("activemq-broker D11")
@pytest.mark.parametrize("use", ["consume", "produce", "send and receive"])
async def test_use_keeps_a_destination_for_another_timeout(
    clock: VirtualClock, started: Make, connect_to: Make, use: str
) -> None:
    service = await started(**collecting())
    client = await connect_to(service)
    await create(client, Q)
    await pass_time(clock, TIMEOUT)
    if use == "consume":
        await client.request(RemoveInfo(await client.consumer(Q)))
    elif use == "produce":
        await client.request(RemoveInfo(await client.producer(Q)))
    else:
        topic_like = service.region_broker.region_destination(Q)
        topic_like.statistics.enqueues += 1  # a message that was consumed at once
    await pass_time(clock, TIMEOUT)
    assert names(service) == {"q"}
    await pass_time(clock, PERIOD)
    assert names(service) == set()


@pytest.mark.fact(
    "activemq-broker D11",
    "activemq-broker 2.1/gcInactiveDestinations / gcWithNetworkConsumers / inactiveTimeoutBeforeGC",
)
@pytest.mark.parametrize(
    "settings",
    [
        {"schedule_period_for_destination_purge": 0.0},
        {"policy": {"gc_inactive_destinations": False}},
        {"policy": {"inactive_timeout_before_gc": 0.0}},
    ],
)
async def test_nothing_is_removed_unless_broker_and_policy_say_so(
    clock: VirtualClock, started: Make, connect_to: Make, settings: dict[str, Any]
) -> None:
    defaults, policy = BrokerService("defaults"), PolicyEntry()
    assert defaults.schedule_period_for_destination_purge == 0
    assert defaults.max_purged_destinations_per_sweep == 0
    assert not policy.gc_inactive_destinations
    assert not policy.gc_with_network_consumers
    assert policy.inactive_timeout_before_gc == 60.0
    service = await started(**collecting(**settings))
    await create(await connect_to(service), Q)
    await pass_time(clock, 3 * TIMEOUT)
    assert names(service) == {"q"}


@pytest.mark.fact("activemq-broker D11")
async def test_a_sweep_removes_at_most_its_maximum(
    clock: VirtualClock, started: Make, connect_to: Make
) -> None:
    service = await started(**collecting(max_purged_destinations_per_sweep=3))
    client = await connect_to(service)
    for number in range(8):
        await create(client, Queue(f"q{number}"))
    await pass_time(clock, PERIOD + TIMEOUT)
    left = []
    for _ in range(3):
        left.append(len(names(service)))
        await pass_time(clock, PERIOD)
    assert left == [5, 2, 0]


@pytest.mark.fact(
    "activemq-broker D11",
    "activemq-broker 2.1/gcInactiveDestinations / gcWithNetworkConsumers / inactiveTimeoutBeforeGC",
)
@pytest.mark.parametrize("ignored", [True, False])
async def test_consumers_of_a_network_of_brokers_may_be_ignored(
    clock: VirtualClock, started: Make, connect_to: Make, ignored: bool
) -> None:
    service = await started(**collecting(policy={"gc_with_network_consumers": ignored}))
    client = await connect_to(service)
    await client.consumer(Q, network_subscription=True)
    await pass_time(clock, PERIOD + TIMEOUT)
    assert names(service) == (set() if ignored else {"q"})


async def test_durable_subscriptions_keep_their_topic(
    clock: VirtualClock, started: Make, connect_to: Make
) -> None:
    service = await started(**collecting())
    client = await connect_to(service)
    consumer_id = await client.consumer(Topic("news"), subscription_name="s")
    await client.request(RemoveInfo(consumer_id))
    await pass_time(clock, PERIOD + TIMEOUT)
    assert names(service) == {"news"}
    await client.request(
        RemoveSubscriptionInfo(client.connection_id, client_id=client.name, subscription_name="s")
    )
    await pass_time(clock, PERIOD + TIMEOUT)
    assert names(service) == set()


@pytest.mark.fact("activemq-broker D11")
@pytest.mark.parametrize("swept", [True, False])
async def test_temporary_destinations_are_swept_only_if_sends_create_them(
    clock: VirtualClock, started: Make, connect_to: Make, swept: bool
) -> None:
    service = await started(**collecting(allow_temp_auto_creation_on_send=swept), persistent=False)
    client = await connect_to(service)
    await create(client, TemporaryQueue(f"{client.name}:1"))
    await pass_time(clock, PERIOD + TIMEOUT)
    assert len(names(service)) == (0 if swept else 1)


async def test_a_connection_creates_only_so_many_destinations(
    started: Make, connect_to: Make
) -> None:
    service = await started(persistent=False, maximum_destinations_per_connection=5)
    first, second = await connect_to(service), await connect_to(service)
    for number in range(5):
        await create(first, Queue(f"q{number}"))
    for more in (Queue("q5"), Topic("t"), Queue("q5,q6")):
        with pytest.raises(JMSException, match=r"has created 5 destinations, its maximum"):
            await first.send(more, "x")
    await first.send(Queue("q0"), "to an existing one")
    await create(second, Queue("q5"))  # the others are not concerned
    await first.request(DestinationInfo(first.connection_id, Queue("q1"), 1))
    await create(first, Queue("q7"))


async def test_a_user_creates_only_so_many_destinations(
    started: Make, raw_client: type[RawClient]
) -> None:
    service = await started(persistent=False, maximum_destinations_per_user=3)

    async def log_in(user: str | None) -> RawClient:
        client = raw_client(create_transport(service.vm_uri))
        await client.transport.start()
        identifier = ConnectionId(client.name)
        await client.request(ConnectionInfo(identifier, client.name, user_name=user))
        return client

    for user in ("eve", None):
        for number in range(3):
            client = await log_in(user)
            await create(client, Queue(f"{user}{number}"))
            await client.request(RemoveInfo(client.connection_id))
        with pytest.raises(JMSException, match="created 3 destinations that still exist"):
            await create(await log_in(user), Queue("more"))
    other = await log_in("joe")
    await other.request(DestinationInfo(other.connection_id, Queue("eve0"), 1))
    await create(await log_in("eve"), Queue("more"))


async def test_composites_and_consumers_count_as_well(started: Make, connect_to: Make) -> None:
    service = await started(persistent=False, maximum_destinations_per_connection=50)
    client = await connect_to(service)
    with pytest.raises(JMSException, match="its maximum"):
        await client.send(Queue(",".join(f"c{n}" for n in range(1000))), "x")
    with pytest.raises(JMSException, match="its maximum"):
        await client.request(
            ConsumerInfo(ConsumerId(client.name, 1, 99), destination=Queue("one more"))
        )
    assert len(names(service)) <= 50
