"""Settings of several stores as one with two values, and what they do with each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.testing.clock import VirtualClock
from pyjms_broker.store.multi import FilteredKahaDB, MultiKahaDBPersistenceAdapter
from tests.kit.waiting import until_stored


async def opened(folder: Path, **options: Any) -> MultiKahaDBPersistenceAdapter:
    adapter = MultiKahaDBPersistenceAdapter(folder, [FilteredKahaDB()], **options)
    await adapter.start()
    return adapter


@pytest.mark.parametrize("use_lock", [True, False])
async def test_only_a_lock_keeps_others_out(tmp_path: Path, use_lock: bool) -> None:
    first = await opened(tmp_path)
    if use_lock:
        with pytest.raises(ResourceAllocationException, match="locked"):
            await opened(tmp_path, use_lock=use_lock, fail_if_locked=True)
    else:
        await (await opened(tmp_path, use_lock=use_lock, fail_if_locked=True)).stop()
    await first.stop()


@pytest.mark.parametrize("interval", [10.0, 100.0])
async def test_a_slave_tries_again_after_the_interval(tmp_path: Path, interval: float) -> None:
    master = await opened(tmp_path)
    slave = MultiKahaDBPersistenceAdapter(
        tmp_path, [FilteredKahaDB()], cleanup_interval=0, lock_acquire_sleep_interval=interval
    )
    async with VirtualClock() as clock, anyio.create_task_group() as group:
        group.start_soon(slave.start)
        await until_stored(lambda: slave.is_slave)
        await master.stop()
        await clock.advance(interval - 1)
        assert slave.is_slave
        await clock.advance(2)
        await until_stored(lambda: not slave.is_slave)
    await slave.stop()


@pytest.mark.parametrize("period", [1.0, 0.0])
async def test_the_lock_is_checked_each_period(tmp_path: Path, period: float) -> None:
    async with VirtualClock() as clock:
        adapter = await opened(tmp_path, lock_keep_alive_period=period)
        lost = anyio.Event()
        adapter.on_lock_lost = lost.set
        (tmp_path / "lock").unlink()
        (tmp_path / "lock").write_bytes(b"another")
        await clock.advance(1.1)
        await clock.settle()
        assert lost.is_set() is (period > 0)
        await adapter.stop()
