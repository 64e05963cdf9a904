"""A broker in memory keeps nothing beyond its stop, and its spool on the disk is emptied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    DataArrayResponse,
    MessageId,
    ProducerId,
    TransactionType,
    XATransactionId,
)
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.persistence import MemoryPersistenceSettings
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.scheduler import MemoryJobSchedulerStore
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from tests.kit.clients.raw import RawClient

Q, NEWS = Queue("q"), Topic("news")
XA = XATransactionId(4660, b"global", b"branch")


def in_memory(tmp_path: Path, kind: str) -> BrokerService:
    if kind == "persistent=false":
        return BrokerService("gone", persistent=False)
    persistence = MemoryPersistenceSettings(type="memory")
    return BrokerService("gone", persistence=persistence, data_directory=tmp_path)


async def prepared(client: RawClient) -> list[Any]:
    found = await client.transaction(TransactionType.RECOVER, None)
    assert isinstance(found, DataArrayResponse)
    return list(found.data or [])


@pytest.mark.fact("activemq-persistence E1")
@pytest.mark.parametrize("kind", ["persistent=false", "memory store"])
async def test_everything_is_kept_while_it_runs_and_dropped_at_its_stop(
    tmp_path: Path, raw_client: type[RawClient], kind: str
) -> None:
    service = in_memory(tmp_path, kind)
    for run in range(2):
        async with service:
            region = service.region_broker
            assert Q not in region.destinations()
            client = raw_client(create_transport(service.vm_uri))
            await client.open("reader")
            assert await prepared(client) == []
            durable = await client.consumer(NEWS, subscription_name="s")
            await client.nothing_dispatched()
            await client.remove(durable)
            await client.send(NEWS, "n")
            await client.send(Q, "1", "2")
            await client.transaction(TransactionType.BEGIN, XA)
            await client.send(Q, "3", transaction_id=XA)
            await client.transaction(TransactionType.PREPARE, XA)
            await client.close()
            # still there while it runs, for whoever comes next
            client = raw_client(create_transport(service.vm_uri))
            await client.open("reader")
            assert await prepared(client) == [XA]
            await client.consumer(NEWS, subscription_name="s")
            await client.message()
            assert region.destinations()[Q].statistics.messages == 2, run
            await client.close()
    assert list(tmp_path.rglob("db-*.log")) == []


@pytest.mark.fact("activemq-persistence E1")
async def test_jobs_are_kept_while_it_runs() -> None:
    store = MemoryJobSchedulerStore()
    producer = ProducerId("c", 1, 1)
    message = ActiveMQTextMessage(destination=Q, message_id=MessageId(None, producer, 1), type="x")
    await store.start()
    store.scheduler().add(ScheduledJob("a", 1, 2), message)
    assert store.scheduler().message("a") is not None
    await store.stop()
    await store.start()
    assert store.schedulers() == []


@pytest.mark.fact("activemq-persistence K2")
async def test_the_spool_is_in_the_brokers_folder_and_empty_at_the_start(
    tmp_path: Path, raw_client: type[RawClient]
) -> None:
    spool = tmp_path / "b" / "tmp_storage"
    spool.mkdir(parents=True)
    for name in ("tmpDB.data", "tmpDB.redo", "db-1.log", "5.spool"):
        (spool / name).write_bytes(bytes(10))
    service = BrokerService("b", data_directory=tmp_path, memory_limit=200_000)
    async with service:
        assert list(spool.iterdir()) == []
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        producer = await client.producer()
        for number in range(120):
            message = client.text(producer, Q, f"{number:05}" + "x" * 40_000)
            message.persistent = False
            await client.request(message)
        temp = service.stores.temp_store
        assert temp is not None
        await temp.wait_idle()
        assert list(spool.iterdir()) != []
        await client.consumer(Q)
        for number in range(120):
            dispatch = await client.dispatched()
            assert dispatch.message is not None
            assert (dispatch.message.content or b"")[4:9] == f"{number:05}".encode()
            await client.ack(dispatch)
        await client.close()
    assert list(spool.iterdir()) == []


async def test_a_broker_with_a_store_of_ones_own_has_a_spool_too(
    tmp_path: Path, raw_client: type[RawClient]
) -> None:
    """Without one, a consumer that does not acknowledge would stop the senders to its topic."""
    store = KahaDBPersistenceAdapter(tmp_path / "elsewhere")
    service = BrokerService(
        "b", data_directory=tmp_path, memory_limit=200_000, persistence_adapter=store
    )
    async with service:
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        await client.consumer(NEWS, prefetch_size=1)
        producer = await client.producer()
        for number in range(20):
            message = client.text(producer, NEWS, f"{number:05}" + "x" * 40_000)
            await client.request(message)
        temp = service.stores.temp_store
        assert temp is not None
        assert temp.size > 0
        assert temp.directory == tmp_path / "b" / "tmp_storage"
