"""`pyjms broker start` when the broker loses its store's lock, and when a restart is requested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pyjms.errors import ConfigurationException
from pyjms_broker.cli.start import Source, make_service, serve
from pyjms_broker.service import BrokerService
from pyjms_broker.store.memory import MemoryPersistenceAdapter
from tests.kit.waiting import until


class Store(MemoryPersistenceAdapter):
    """A store whose lock can be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.on_lock_lost: Callable[[], None] | None = None
        self.is_slave = False
        self.starts = 0
        self.opened = anyio.Event()

    async def start(self) -> None:
        self.starts += 1
        self.opened.set()

    async def lose(self) -> None:
        await self.opened.wait()
        self.opened = anyio.Event()
        assert self.on_lock_lost is not None
        self.on_lock_lost()


@pytest.mark.fact("activemq-persistence H2")
async def test_a_broker_that_lost_its_lock_restarts_if_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = Store()
    service = BrokerService("again", persistence_adapter=store)
    async with anyio.create_task_group() as group:
        group.start_soon(serve, service)
        await store.lose()
        await store.lose()
        await store.opened.wait()
        await until(lambda: service.started)
        await service.stop()
    assert store.starts == 3
    assert not service.restart_requested
    assert capsys.readouterr().out.count("broker again keeps its messages") == 3


@pytest.mark.fact("activemq-persistence H2")
async def test_a_broker_that_lost_its_lock_stops_if_restarts_are_not_allowed() -> None:
    store = Store()
    service = BrokerService("once", persistence_adapter=store, restart_allowed=False)
    async with anyio.create_task_group() as group:
        group.start_soon(serve, service)
        await store.lose()
    assert store.starts == 1
    assert not service.restart_requested


BROKER = "org.apache.activemq:type=Broker,brokerName=shop"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "broker.yaml"
    file.write_text("broker_name: shop\npersistent: false\nconnectors: []\n", encoding="utf-8")
    return file


def service_of(config: Path) -> BrokerService:
    return make_service(Source(config=config))


@pytest.mark.fact("activemq-broker B18")
async def test_a_restart_reads_the_configuration_again(config: Path) -> None:
    service = service_of(config)
    with config.open("a", encoding="utf-8") as file:
        file.write("scheduler_support: true\n")
    async with anyio.create_task_group() as group:
        group.start_soon(serve, service)
        await until(lambda: service.started)
        await service.management.invoke(BROKER, "restart")
        await until(lambda: service.successor is not None and service.successor.started)
        restarted = service.successor
        assert restarted is not None
        assert restarted.scheduler_support
        await restarted.stop()


@pytest.mark.fact("activemq-broker B18")
async def test_a_wrong_configuration_refuses_the_restart(config: Path) -> None:
    service = service_of(config)
    config.write_text("brokername: shop\n", encoding="utf-8")
    async with anyio.create_task_group() as group:
        group.start_soon(serve, service)
        await until(lambda: service.started)
        with pytest.raises(ConfigurationException, match="brokername"):
            await service.management.invoke(BROKER, "restart")
        assert service.started
        await service.stop()


async def test_a_start_after_a_stop_begins_with_the_configured_limits(tmp_path: Path) -> None:
    service = BrokerService("again", data_directory=tmp_path, store_limit=100 << 40)
    async with service:
        assert service.system_usage.store.limit < 100 << 40
        service.system_usage.store.change_limit(1000)
    async with service:
        assert service.system_usage.store.limit > 1000
