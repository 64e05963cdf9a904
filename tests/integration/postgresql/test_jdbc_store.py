"""The JDBC store and a PostgreSQL that is locked, ends and begins again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import NullPool, create_engine, text

from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.testing.contract.store import StoreHarness
from pyjms_broker.api.message import OperationContext
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.settings import Locker
from tests.kit.waiting import until

pytestmark = pytest.mark.postgresql


@pytest.fixture
def opened(postgresql: Any, tmp_path: Path) -> Callable[..., Any]:
    """Make a store, not started; keywords change its settings."""

    def opened(**changes: Any) -> StoreHarness:
        settings = replace(postgresql.settings(tmp_path), **changes)
        return StoreHarness(lambda: JDBCPersistenceAdapter(tmp_path, settings, "me"))

    return opened


def ask(store: Any, statement: str) -> Any:
    """Ask on a connection of our own."""
    prefix = store.adapter.settings.statements.table_prefix
    engine = create_engine(store.adapter.settings.data_source, poolclass=NullPool)
    with engine.connect() as connection:
        return connection.execute(text(statement.format(p=prefix))).all()


async def test_tables_have_activemqs_names(opened: Callable[..., Any]) -> None:
    store = opened()
    await store.start()
    await store.send(store.queue(), 1)
    rows = ask(store, "SELECT container, msgid_prod, priority, xid FROM {p}activemq_msgs")
    assert rows == [("queue://Q", "ID:host-1:1:1", 4, None)]
    assert store.adapter.size == 0
    await store.adapter.stop()


@pytest.mark.fact("activemq-persistence J7")
async def test_one_row_is_locked_or_leased(
    opened: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    master = opened()
    await master.start()
    await master.send(master.queue(), 1)
    slave = opened(fail_if_locked=True)
    with pytest.raises(ResourceAllocationException, match="locked"):
        await slave.start()
    # the master's row has its time and name, in a transaction that is still open
    assert ask(master, "SELECT id, time FROM {p}activemq_lock") == [(1, None)]
    waiting = opened(lock_acquire_sleep_interval=0.02)
    async with anyio.create_task_group() as group:
        group.start_soon(waiting.start)
        while "slave mode" not in caplog.text:
            caplog.set_level("INFO")
            await anyio.lowlevel.checkpoint()
        await master.adapter.stop()
    assert waiting.texts(waiting.queue()) == ["1"]
    await waiting.adapter.stop()
    lease = {"locker": Locker.LEASE, "lock_keep_alive_period": 5.0}
    leased = opened(**lease)
    await leased.start()
    assert ask(leased, "SELECT broker_name FROM {p}activemq_lock") == [("me",)]
    other = opened(**lease, fail_if_locked=True)
    with pytest.raises(ResourceAllocationException, match="locked"):
        await other.start()
    await leased.adapter.stop()
    await other.start()
    await other.adapter.stop()
    assert ask(other, "SELECT broker_name, time FROM {p}activemq_lock") == [(None, None)]
    assert "expires" not in caplog.text
    opened(locker=Locker.LEASE).make()  # renewed each 30 s, but it lasts 10 s only
    assert "expires" in caplog.text


async def test_a_server_that_ends_is_waited_for(
    opened: Callable[..., Any], postgresql: Any
) -> None:
    store = opened(use_lock=False, resume_check_sleep_period=0.05)
    await store.start()
    queue = store.queue()
    (first,) = await store.send(queue, 1)
    seen = {state: anyio.Event() for state in StoreState}
    store.adapter.on_state = lambda state, _: seen[state].set()
    await anyio.to_thread.run_sync(postgresql.cluster().stop)
    second = store.reference(2)
    answer = queue.add_message(OperationContext(), second)
    await seen[StoreState.SUSPENDED].wait()
    with pytest.raises(JMSException):
        queue.next_messages(None, 10)
    also = queue.remove_message(store.synchronous(), first)
    assert not answer.done
    await anyio.to_thread.run_sync(postgresql.cluster().start)
    for each in (answer, also):
        await store.done(each)
    queue.mark_visible(second)
    assert seen[StoreState.RUNNING].is_set()
    assert store.texts(queue) == ["2"]
    await store.restart()
    assert store.texts(store.queue()) == ["2"]
    await store.adapter.stop()


async def test_a_lock_that_went_with_the_server_stops_the_store(
    opened: Callable[..., Any], postgresql: Any
) -> None:
    store = opened(lock_keep_alive_period=0.05)
    await store.start()
    failed = anyio.Event()

    def on_state(state: StoreState, _error: object) -> None:
        if state is StoreState.FAILED:
            failed.set()

    store.adapter.on_state = on_state
    await anyio.to_thread.run_sync(postgresql.cluster().stop)
    await failed.wait()
    await store.adapter.stop()
    await anyio.to_thread.run_sync(postgresql.cluster().start)


@pytest.mark.fact("activemq-persistence H5")
async def test_a_start_waits_for_the_server(
    opened: Callable[..., Any], postgresql: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    await anyio.to_thread.run_sync(postgresql.cluster().stop)
    async with anyio.create_task_group() as group:
        group.start_soon(store.start)
        await until(lambda: store.adapter is not None and store.adapter.is_slave)
        assert "next try in 1 s: The database is unavailable: connection" in caplog.text
        await anyio.to_thread.run_sync(postgresql.cluster().start)
    assert not store.adapter.is_slave
    await store.send(store.queue(), 1)
    await store.adapter.stop()


async def test_a_start_that_may_not_wait_for_the_server_fails(
    opened: Callable[..., Any], postgresql: Any
) -> None:
    store = opened(fail_if_locked=True)
    await anyio.to_thread.run_sync(postgresql.cluster().stop)
    with pytest.raises(JMSException, match="The database is unavailable: connection"):
        await store.start()
    await anyio.to_thread.run_sync(postgresql.cluster().start)


@pytest.mark.fact("activemq-persistence H6")
async def test_a_master_gives_up_a_lock_that_went_with_the_server(
    opened: Callable[..., Any], postgresql: Any
) -> None:
    store = opened(lock_keep_alive_period=0.05)
    await store.start()
    reasons: list[str] = []
    states: list[StoreState] = []
    store.adapter.on_lock_lost = reasons.append
    store.adapter.on_state = lambda state, _: states.append(state)
    await anyio.to_thread.run_sync(postgresql.cluster().stop)
    await until(lambda: bool(reasons))
    assert StoreState.FAILED not in states
    assert "it gives up its lock on the store: The " in reasons[0]
    assert "taken over" not in reasons[0]
    await store.adapter.stop()
    await anyio.to_thread.run_sync(postgresql.cluster().start)


@pytest.mark.fact("activemq-persistence H6")
async def test_a_master_whose_tables_another_broker_has_taken_over_lost_its_lock(
    opened: Callable[..., Any],
) -> None:
    store = opened(lock_keep_alive_period=0.0)
    await store.start()
    reasons: list[str] = []
    store.adapter.on_lock_lost = reasons.append
    other = opened(use_lock=False)
    await other.start()
    with pytest.raises(JMSException):
        await store.send(store.queue(), 1)
    assert "Another broker has taken over the database" in reasons[0]
    await store.adapter.stop()
    await other.adapter.stop()


async def test_statements_that_take_too_long(opened: Callable[..., Any]) -> None:
    store = opened(query_timeout=1.5, network_timeout=10.0, transaction_isolation="SERIALIZABLE")
    await store.start()
    database = store.adapter.database
    assert database.read(text("SHOW statement_timeout")) == [("1500ms",)]
    with database.engine.connect() as connection:
        found = connection.execute(text("SHOW transaction_isolation")).scalar()
    assert found == "serializable"
    await store.send(store.queue(), 1)
    await store.adapter.stop()
