"""One broker at a time. (activemq-persistence J7)"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy.exc import OperationalError

from pyjms.errors import ResourceAllocationException
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.database import Database, LeaseDatabaseLocker
from pyjms_broker.store.jdbc.settings import JDBCSettings, Locker
from tests.kit.waiting import until

LEASE: dict[str, Any] = {"locker": Locker.LEASE, "lock_keep_alive_period": 5.0}


def lease(tmp_path: Path, name: str, **settings: Any) -> Any:
    database = Database(tmp_path, JDBCSettings(**{**LEASE, **settings}))
    database.create_tables()
    return database, LeaseDatabaseLocker(database, name)


@pytest.mark.fact("activemq-persistence J7")
async def test_a_lease_is_renewed_or_runs_out(
    tmp_path: Path, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    (tmp_path / "store").mkdir()
    first_database, first = lease(tmp_path / "store", "a")
    second_database, second = lease(tmp_path / "store", "b")
    async with VirtualClock(time_ms=1_000_000) as clock:
        assert first.try_acquire()
        row = sql("SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK")
        assert row == [("a", 1_010_000)]
        assert not second.try_acquire()
        await clock.advance(9)
        assert first.keep_alive()
        await clock.advance(9)
        assert not second.try_acquire()
        await clock.advance(2)
        assert second.try_acquire()
        assert not first.keep_alive()
        second.release()
        assert sql("SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK") == [(None, None)]
        assert first.try_acquire()
    first_database.close()
    second_database.close()


async def test_a_clock_that_is_wrong_is_not_used(
    tmp_path: Path, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    (tmp_path / "store").mkdir()
    database, locker = lease(tmp_path / "store", "a", max_allowable_diff_from_db_time=60.0)
    async with VirtualClock(time_ms=1_000_000):
        assert locker.try_acquire()
    ((_, until),) = sql("SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK")
    assert until > 1_700_000_000_000
    database.close()


def test_a_lease_shorter_than_its_renewal_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, _ = lease(tmp_path, "a", lock_keep_alive_period=30.0)
    database.close()
    assert "expires between renewals" in caplog.text


async def test_a_slave_waits_and_follows(
    open_store: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"lock_acquire_sleep_interval": 0.01}
    master = await open_store(**settings)
    await master.send(master.queue(), 1)
    slave = JDBCPersistenceAdapter(tmp_path / "store", JDBCSettings(**settings))
    async with anyio.create_task_group() as group:
        group.start_soon(slave.start)
        await anyio.wait_all_tasks_blocked()
        await master.adapter.stop()
    assert slave.queue_message_store(master.queue().destination).message_count == 1
    assert sum("slave mode" in record.message for record in caplog.records) <= 1
    await slave.stop()


async def test_a_slave_that_need_not_wait(open_store: Callable[..., Any], tmp_path: Path) -> None:
    master = await open_store()
    slave = JDBCPersistenceAdapter(tmp_path / "store", JDBCSettings(fail_if_locked=True))
    with pytest.raises(ResourceAllocationException, match="locked"):
        await slave.start()
    await slave.stop()
    assert master.adapter.state is StoreState.RUNNING


async def test_a_waiting_slave_can_be_stopped(
    open_store: Callable[..., Any], tmp_path: Path
) -> None:
    await open_store()
    slave = JDBCPersistenceAdapter(tmp_path / "store")
    with anyio.move_on_after(0.05) as scope:
        await slave.start()
    assert scope.cancelled_caught
    await slave.stop()


async def test_a_lock_that_is_lost_stops_the_store(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store(**{**LEASE, "lock_keep_alive_period": 0.01})
    failed = anyio.Event()
    states = []

    def on_state(state: Any, error: Any) -> None:
        states.append((state, str(error)))
        failed.set()

    store.adapter.on_state = on_state
    sql("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'another'")
    await failed.wait()
    assert states[0][0] is StoreState.FAILED
    assert "lost" in states[0][1]


async def test_a_lease_of_a_database_that_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, locker = lease(tmp_path, "a", network_timeout=0.01)
    assert locker.try_acquire()
    busy = sqlite3.connect(tmp_path / "activemq.db", isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError, match="locked"):
        locker.keep_alive()
    locker.release()
    assert "will expire" in caplog.text
    busy.execute("ROLLBACK")
    busy.close()
    database.close()


async def test_who_has_no_lease_gives_none_up(
    tmp_path: Path, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    (tmp_path / "store").mkdir()
    first_database, first = lease(tmp_path / "store", "same")
    second_database, second = lease(tmp_path / "store", "same")
    assert first.try_acquire()
    assert not second.try_acquire()
    second.release()
    assert sql("SELECT BROKER_NAME FROM ACTIVEMQ_LOCK") == [("same",)]
    first_database.close()
    second_database.close()


@pytest.mark.fact("activemq-persistence H4")
async def test_a_broker_says_that_it_is_a_slave(
    open_store: Callable[..., Any], tmp_path: Path
) -> None:
    master = await open_store()
    store = JDBCPersistenceAdapter(tmp_path / "store")
    service = BrokerService("slave", persistence_adapter=store, data_directory=tmp_path)
    async with VirtualClock() as clock, anyio.create_task_group() as group:
        group.start_soon(service.start)
        await until(lambda: service.slave, turn=lambda: clock.advance(0))
        assert not service.started
        await master.adapter.stop()
        await until(lambda: service.started, turn=lambda: clock.advance(10))
        assert not service.slave
    await service.stop()


async def test_a_broker_that_lost_its_lease_stops_and_requests_a_restart(
    tmp_path: Path, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    settings = JDBCSettings(**{**LEASE, "lock_keep_alive_period": 0.01})
    store = JDBCPersistenceAdapter(tmp_path / "store", settings)
    service = BrokerService("leased", persistence_adapter=store, data_directory=tmp_path)
    await service.start()
    sql("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'another'")
    await service.wait_until_stopped()
    assert service.restart_requested
