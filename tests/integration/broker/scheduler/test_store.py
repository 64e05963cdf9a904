"""The job store on disk: restarts, crashes, full disks and prepared transactions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import TransactionType, XATransactionId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.completion import Completion
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.persistence import (
    JDBCPersistenceSettings,
    JournaledJDBCPersistenceSettings,
    KahaDBPersistenceSettings,
    MultiKahaDBPersistenceSettings,
)
from pyjms_broker.store.jobs.scheduler import JobScheduler
from tests.kit.brokers.scheduled import Make, deliver_without_end
from tests.kit.clients.raw import RawClient

HOUR = 3_600_000
XA = XATransactionId(4660, b"global", b"branch")


STORES = {
    "kahadb": KahaDBPersistenceSettings(type="kahadb"),
    "multi": MultiKahaDBPersistenceSettings.model_validate(
        {"type": "multi_kahadb", "filtered_kahadb": [{"per_destination": True}]}
    ),
    "jdbc": JDBCPersistenceSettings(type="jdbc"),
    "journaled": JournaledJDBCPersistenceSettings(type="journaled_jdbc"),
}
every_store = pytest.mark.parametrize(
    "store",
    ["kahadb", *(pytest.param(n, marks=pytest.mark.nightly) for n in STORES if n != "kahadb")],
)


def texts(messages: list[Any]) -> list[str]:
    return [message.text for message in messages]


@every_store
@pytest.mark.fact("activemq-broker S6", "activemq-persistence E3")
async def test_jobs_survive_a_restart_and_missed_executions_are_delivered_once(
    make_broker: Make, store: str
) -> None:
    broker = await make_broker(persistent=True, persistence=STORES[store])
    await broker.order("missed", delay=300)
    await broker.order("often missed", delay=100, period=50, repeat=1000)
    await broker.order("tomorrow", delay=24 * HOUR)
    await broker.until(lambda: broker.count("PyJMS.Scheduled") == 0)
    await broker.stop()
    await _clock.sleep(0.6)
    await broker.start()
    assert len(broker.jobs) in (2, 3)
    consumer = await broker.session.create_consumer(Queue("Q"))
    found = [await consumer.receive(5) for _ in range(6)]
    assert texts(found).count("missed") == 1
    [often] = [job for job in broker.jobs if job.period]
    assert often.repeat > 950, "what was missed is not made up for"
    [tomorrow] = [job for job in broker.jobs if job.delay == 24 * HOUR]
    assert tomorrow.execution_count == 0


@pytest.mark.fact("activemq-broker S6")
async def test_without_persistence_jobs_are_lost_at_a_restart(make_broker: Make) -> None:
    broker = await make_broker()
    await broker.order(delay=24 * HOUR)
    assert len(broker.jobs) == 1
    await broker.restart()
    assert broker.jobs == []


@pytest.mark.fact("activemq-broker S10")
async def test_an_empty_store_keeps_the_jobs(make_broker: Make, tmp_path: Path) -> None:
    broker = await make_broker(persistent=True)
    await broker.order(delay=24 * HOUR)
    await broker.until(lambda: broker.jobs)
    await broker.stop()
    name = broker.service.broker_name
    async with BrokerService(
        name, data_directory=tmp_path, scheduler_support=True, delete_all_messages_on_startup=True
    ) as service:
        assert len(list(service.stores.job_store.scheduler().jobs())) == 1  # type: ignore[union-attr]
    await broker.start()


@every_store
@pytest.mark.parametrize("where", ["before the job", "after it"])
async def test_a_crash_while_a_request_becomes_a_job_loses_and_repeats_nothing(
    make_broker: Make, tmp_path: Path, where: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await make_broker(persistent=True, persistence=STORES[store])
    add = JobScheduler.add

    def add_without_end(*arguments: Any) -> Completion:
        if where == "after it":
            add(*arguments)
        return Completion()

    monkeypatch.setattr(JobScheduler, "add", add_without_end)
    await broker.order("x", delay=500)
    await broker.until(lambda: broker.jobs or where == "before the job")
    assert broker.count("PyJMS.Scheduled") == 1
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / broker.service.broker_name, crashed / broker.service.broker_name)
    monkeypatch.undo()
    await broker.stop()
    shutil.rmtree(tmp_path / broker.service.broker_name)
    shutil.copytree(crashed / broker.service.broker_name, tmp_path / broker.service.broker_name)
    await broker.start()
    assert texts(await broker.receive(2)) == ["x"]
    assert broker.jobs == []
    assert broker.count("PyJMS.Scheduled") == 0


async def test_a_delivery_that_was_not_settled_is_repeated_but_dropped_as_a_duplicate(
    make_broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the delivery and its settlement: the message id is the same. (activemq-persistence E3)"""
    broker = await make_broker(persistent=True)
    deliver_without_end(broker, monkeypatch)
    monkeypatch.setattr(
        "pyjms_broker.filters.scheduler.job_dispatcher._STOP_TIMEOUT", 0.0
    )  # that never come
    await broker.order("x", delay=100)
    await broker.until(lambda: broker.count("Q") == 1)
    await broker.restart()
    assert len(broker.jobs) <= 1
    await broker.until(lambda: not broker.jobs)
    assert texts(await broker.receive(0.5)) == ["x"]


@every_store
async def test_schedules_in_a_prepared_transaction_wait_for_its_end(
    make_broker: Make, raw_client: type[RawClient], store: str
) -> None:
    broker = await make_broker(persistent=True, persistence=STORES[store])
    client = raw_client(create_transport(broker.service.vm_uri))
    await client.open()
    await client.transaction(TransactionType.BEGIN, XA)
    producer = await client.producer()
    message = client.text(producer, Queue("Q"), "x")
    message.transaction_id = XA
    message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": 100})
    await client.request(message)
    await client.transaction(TransactionType.PREPARE, XA)
    await client.close()
    await broker.restart()
    assert broker.jobs == []
    client = raw_client(create_transport(broker.service.vm_uri))
    await client.open()
    await client.transaction(TransactionType.COMMIT_TWO_PHASE, XA)
    await client.close()
    assert texts(await broker.receive(2)) == ["x"]
    assert broker.count("PyJMS.Scheduled") == 0


@pytest.mark.fact("activemq-broker S9")
async def test_a_full_job_store_makes_senders_wait(
    make_broker: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await make_broker(persistent=True, job_scheduler_limit=1)
    sender = await broker.connect()
    session = await sender.create_session()
    producer = await session.create_producer(Queue("Q"))
    message = session.create_text_message("x")
    message.properties["AMQ_SCHEDULED_DELAY"] = 100
    await broker.order("first", delay=24 * HOUR)
    with _clock.timeout(0.5) as scope:
        await producer.send(message)
    assert scope.cancelled_caught
    assert "Job Scheduler Store is Full" in caplog.text
    await broker.send("Q", "others go on")
    assert texts(await broker.receive(0.2)) == ["others go on"]
    broker.service.system_usage.job_scheduler.limit = 0
    assert texts(await broker.receive(3)) == ["x"]


async def test_a_full_queue_delays_its_own_jobs_only(clock: VirtualClock, make_broker: Any) -> None:
    full = PolicyEntry(destination=Queue("full"), memory_limit=200_000)
    broker = await make_broker(policies=PolicyMap([full]))
    for number in range(30):
        await broker.order(f"{number:05}" + "x" * 20_000, to="full", delay=1000)
    await broker.order("free", delay=1000)
    consumer = await broker.session.create_consumer(Queue("Q"))
    await consumer.receive(60)
    assert broker.count("full") < 30
    found = await broker.receive(5, "full")
    assert sorted(message.text[:5] for message in found) == [f"{n:05}" for n in range(30)]
    assert broker.jobs == []
