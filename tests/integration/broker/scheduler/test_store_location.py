"""The location of the job store: on disk if the messages are, shared with a slave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms_broker.service import BrokerService
from pyjms_broker.settings import BrokerSettings
from pyjms_broker.store.jobs.scheduler import MemoryJobSchedulerStore
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.memory import MemoryPersistenceAdapter
from tests.kit.brokers.scheduled import Make

HOUR = 3_600_000


async def test_jobs_survive_a_restart_of_a_broker_with_a_custom_store(
    make_broker: Make, tmp_path: Path
) -> None:
    def store() -> KahaDBPersistenceAdapter:
        return KahaDBPersistenceAdapter(tmp_path / "own", KahaDBSettings())

    broker = await make_broker(persistence_adapter=store())
    await broker.order(delay=HOUR)
    await broker.stop()
    name = broker.service.broker_name
    again = BrokerService(
        name, data_directory=tmp_path, persistence_adapter=store(), scheduler_support=True
    )
    async with again:
        jobs = again.stores.job_store
        assert jobs is not None
        assert len(jobs.scheduler()) == 1


async def test_jobs_are_in_memory_with_messages_in_memory(make_broker: Make) -> None:
    broker = await make_broker(persistent=True, persistence_adapter=MemoryPersistenceAdapter())
    assert isinstance(broker.service.stores.job_store, MemoryJobSchedulerStore)


async def test_a_slave_with_its_own_data_directory_gets_the_masters_jobs(
    make_broker: Make, tmp_path: Path
) -> None:
    common = tmp_path / "common"
    master = await make_broker(persistent=True, scheduler_directory=common)
    await master.order(delay=HOUR)
    await master.stop()
    slave = BrokerService(
        "slave",
        data_directory=tmp_path / "other",
        scheduler_directory=common,
        scheduler_support=True,
    )
    async with slave:
        jobs = slave.stores.job_store
        assert jobs is not None
        assert len(jobs.scheduler()) == 1


@pytest.mark.parametrize(
    "service",
    [
        lambda: BrokerService.from_uri("broker:()/b?schedulerDirectory=there&persistent=false"),
        lambda: BrokerService.from_settings(
            BrokerSettings.model_validate({"scheduler_directory": "there"})
        ),
    ],
    ids=["uri", "settings"],
)
def test_the_directory_can_be_configured(service: Any) -> None:
    assert service().scheduler_directory == Path("there")
    assert BrokerService().scheduler_directory is None
