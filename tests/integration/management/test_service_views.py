"""The views of the scheduler, health, the store, XA transactions and slow consumers."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConsumerControl, TransactionType, XATransactionId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.management.errors import InstanceNotFoundException, InvalidArgumentException
from pyjms_broker.management.model import View
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.slow_consumers import AbortSlowConsumerStrategy
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import BrokerWith, RawClient, broker_with
from tests.kit.stores.small import SMALL_SEGMENTS

__all__ = ["broker_with"]

Q = Queue("orders")
XID = XATransactionId(7, b"\x01\x02", b"\xff")


def part(service: BrokerService, keys: str = "") -> View[Any]:
    name = f"org.apache.activemq:type=Broker,brokerName={service.broker_name}"
    return service.management.view(f"{name},{keys}" if keys else name)


@pytest.fixture
async def scheduling(broker_with: BrokerWith) -> AsyncIterator[tuple[BrokerService, RawClient]]:
    async with broker_with(scheduler_support=True) as (broker, client):
        yield broker.service, client


async def order(client: RawClient, text: str, milliseconds: int) -> None:
    message = client.text(await client.producer(), Q, text)
    message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": milliseconds})
    await client.request(message)


async def test_jobs_are_listed_and_removed(scheduling: tuple[BrokerService, RawClient]) -> None:
    service, client = scheduling
    for text, hours in (("b", 2), ("a", 1), ("c", 3)):
        await order(client, text, hours * 3_600_000)
    broker = part(service)
    view = service.management.view(str(broker.get("JMSJobScheduler")))
    assert view.get("ScheduledMessageCount") == view.get("DelayedMessageCount") == 3
    jobs: Any = view.get("AllJobs")
    assert [job["delay"] for job in jobs] == [3_600_000, 7_200_000, 10_800_000]
    assert set(jobs[0]) == {"jobId", "cronEntry", "start", "delay", "next", "period", "repeat"}
    assert view.get("NextScheduleJobs") == jobs[:1]
    assert view.get("NextScheduleTime") == jobs[0]["next"]
    assert await view.invoke("getAllJobs", jobs[0]["next"], jobs[1]["next"]) == jobs[:2]
    assert await view.invoke("getExecutionCount", jobs[0]["jobId"]) == 0
    await view.invoke("removeAllJobsAtScheduledTime", jobs[1]["next"])
    assert view.get("AllJobs") == [jobs[0], jobs[2]]
    await view.invoke("removeJob", jobs[0]["jobId"])
    await view.invoke("removeJob", "unknown")
    assert view.get("AllJobs") == jobs[2:]
    await view.invoke("removeAllJobs", jobs[0]["next"], jobs[1]["next"])
    assert view.get("ScheduledMessageCount") == 1
    await view.invoke("removeAllJobs")
    assert view.get("NextScheduleTime") == ""
    with pytest.raises(InvalidArgumentException, match="'tomorrow' is not a time"):
        await view.invoke("removeAllJobsAtScheduledTime", "tomorrow")


async def test_a_broker_without_a_scheduler_has_no_view_of_it(broker_with: BrokerWith) -> None:
    async with broker_with() as (broker, _client):
        assert part(broker.service).get("JMSJobScheduler") is None
        with pytest.raises(InstanceNotFoundException):
            part(broker.service, "service=JobScheduler,name=JMS")


async def test_health_names_queues_that_nobody_reads(broker_with: BrokerWith) -> None:
    async with broker_with() as (broker, client):
        view = part(broker.service, "service=Health")
        assert view.get("CurrentStatus") == "Good"
        assert await view.invoke("healthList") == []
        await client.producer(Q)
        queue = f"{part(broker.service).name},destinationType=Queue,destinationName=orders"
        assert await view.invoke("health") == [
            {
                "healthId": "org.apache.activemq.noConsumer",
                "level": "WARNING",
                "message": "Queue orders has no consumers",
                "resource": queue,
            }
        ]
        assert await view.invoke("healthStatus") == (
            "Getting Worried {org.apache.activemq.noConsumer: WARNING Queue orders has no "
            f"consumers from {queue} ,  }}"
        )
        await client.consumer(Q)
        assert view.get("CurrentStatus") == "Good"


Stored = Callable[[], AbstractAsyncContextManager[tuple[BrokerService, RawClient]]]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Opens a broker on the same KahaDB store each time, and a client of it."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[BrokerService, RawClient]]:
        async with BrokerService(
            "stored", data_directory=tmp_path, persistence=SMALL_SEGMENTS
        ) as service:
            client = RawClient(create_transport(f"{service.vm_uri}?create=false"))
            await client.open()
            try:
                yield service, client
            finally:
                await client.close()

    return opened


async def prepare(client: RawClient, text: str) -> None:
    """Leave a prepared transaction that sends a message."""
    await client.transaction(TransactionType.BEGIN, XID)
    await client.send(Q, text, transaction_id=XID)
    await client.transaction(TransactionType.PREPARE, XID)


async def test_health_names_stores_near_their_limits(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stored() as (service, client):
        broker, view = part(service), part(service, "service=Health")
        await client.send(Q, "x")
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=5 << 20))
        assert view.get("CurrentStatus") == "Good", "the default limit is no promise"
        broker.set("StoreLimit", service.system_usage.store.used)
        assert [(each["healthId"], each["message"]) for each in await listed(view)] == [
            ("org.apache.activemq.StoreLimit", "Message Store size is within 100% of its limit")
        ]
        broker.set("StoreLimit", 1 << 60)
        (found,) = await listed(view)
        assert found["healthId"] == "org.apache.activemq.FreeDiskSpaceLeft"
        assert "Store limit is 1099511627776 mb, whilst" in found["message"]
        assert found["message"].endswith(" only has 5 mb of usable space")


async def listed(view: View[Any]) -> list[dict[str, str]]:
    found = await view.invoke("healthList")
    assert isinstance(found, list)
    return found


async def test_the_store_shows_its_files_and_prepared_transactions(stored: Stored) -> None:
    async with stored() as (service, client):
        (view,) = service.management.find("*:service=PersistenceAdapter,*")
        assert str(view.get("Name")).startswith("KahaDBPersistenceAdapter[")
        assert (view.get("Data"), view.get("Transactions")) == ("[1]", "[]")
        await prepare(client, "x")
        assert view.get("Transactions") == "[XID:[7,globalId=12,branchId=ffffffff]]"
        assert view.get("Size") == service.system_usage.store.used > 0
        await part(service).invoke("gc")


@pytest.mark.parametrize(("operation", "left"), [("heuristicCommit", 1), ("heuristicRollback", 0)])
async def test_an_operator_ends_a_prepared_transaction(
    stored: Stored, operation: str, left: int
) -> None:
    async with stored() as (service, client):
        await prepare(client, "x")
    async with stored() as (service, client):
        (view,) = service.management.find("*:transactionType=RecoveredXaTransaction,*")
        assert view.name.keys["xid"] == "XID_[7_globalId&amp;12_branchId&amp;ffffffff]"
        assert view.get_all() == {
            "FormatId": 7,
            "GlobalTransactionId": [1, 2],
            "BranchQualifier": [-1],
        }
        await view.invoke(operation)
        assert service.management.find("*:transactionType=RecoveredXaTransaction,*") == []
    async with stored() as (service, client):
        queue = part(service, "destinationType=Queue,destinationName=orders")
        assert queue.get("QueueSize") == left
        assert service.management.find("*:transactionType=RecoveredXaTransaction,*") == []


@pytest.mark.parametrize("operation", ["abortConsumer", "abortConnection"])
async def test_an_operator_aborts_a_slow_consumer(broker_with: BrokerWith, operation: str) -> None:
    strategy = AbortSlowConsumerStrategy(max_slow_duration=60.0)
    policies = PolicyMap([PolicyEntry(destination=Q, slow_consumer_strategy=strategy)])
    async with broker_with(policies=policies) as (broker, client):
        await client.consumer(Q, prefetch_size=1)
        await client.send(Q, "a", "b", "c")
        queue = part(broker.service, "destinationType=Queue,destinationName=orders")
        view = broker.service.management.view(str(queue.get("SlowConsumerStrategy")))
        assert view.name.keys["instanceName"] == "AbortSlowConsumerStrategy@1"
        assert (view.get("MaxSlowDuration"), view.get("MaxSlowCount")) == (60_000, -1)
        names: Any = queue.get("Subscriptions")
        (consumer,) = names
        expected = {"subscription": consumer, "slowCount": 1, "markCount": 0}
        assert view.get("SlowConsumers") == [expected]
        await view.invoke(operation, consumer)
        if operation == "abortConsumer":
            control = await client.heard(ConsumerControl)
            assert isinstance(control, ConsumerControl)
            assert control.close
        else:
            await client.lost()
        with pytest.raises(InvalidDestinationException, match="no consumer"):
            await view.invoke(operation, f"{queue.name},endpoint=Consumer")
