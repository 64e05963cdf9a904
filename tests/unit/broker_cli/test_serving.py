"""`pyjms broker start` when the broker loses its store's lock."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from pyjms_broker.cli.start import serve
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
