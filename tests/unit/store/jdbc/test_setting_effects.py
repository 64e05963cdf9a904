"""Settings of the JDBC store with two values, and what the store does with each of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import event, text

from pyjms.jms.destination import Topic
from pyjms.testing.clock import VirtualClock
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription, StoreState
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.journaled import JournaledJDBCPersistenceAdapter
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC, Locker
from tests.kit.stores.jdbc import States
from tests.kit.waiting import until_stored

T = Topic("T")
KEY = SubscriptionKey("me", "s")


@pytest.mark.parametrize(("depth", "known"), [(64, False), (1000, True)])
async def test_the_audit_knows_so_many_messages_of_a_producer(
    open_store: Callable[..., Any], depth: int, known: bool
) -> None:
    store = await open_store(enable_audit=True, max_audit_depth=depth)
    queue = store.queue()
    first, *_ = await store.send(queue, 1, 500)
    await store.remove(queue, first)
    again = store.reference(1)
    await store.done(queue.add_message(OperationContext(), again))
    assert (again.position is None) is known


@pytest.mark.parametrize(("holder", "name"), [("me", "me"), (None, "localhost")])
async def test_the_holder_of_a_lease_has_a_name(
    open_store: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    holder: str | None,
    name: str,
) -> None:
    await open_store(locker=Locker.LEASE, lease_holder_id=holder)
    assert sql("SELECT BROKER_NAME FROM ACTIVEMQ_LOCK") == [(name,)]


@pytest.mark.parametrize(("limit", "state"), [(1, StoreState.CONGESTED), (1 << 20, None)])
async def test_bytes_that_wait_are_limited(
    open_store: Callable[..., Any], watch: type[States], limit: int, state: StoreState | None
) -> None:
    store = await open_store(max_waiting_bytes=limit)
    states, queue = watch(store.adapter), store.queue()
    answers = [queue.add_message(OperationContext(), store.reference(n)) for n in range(1, 10)]
    for answer in answers:
        await store.done(answer)
    assert (state in states.names) is (state is not None)


async def test_the_database_is_that_of_the_data_source(
    open_store: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "mine.db"
    store = await open_store(data_source=f"sqlite:///{file}")
    await store.send(store.queue(), 1)
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS").fetchall() == [(1,)]
    connection.close()


@pytest.mark.parametrize("period", [300.0, 0.0])
async def test_acknowledged_messages_of_topics_are_deleted_each_period(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], period: float
) -> None:
    async with VirtualClock() as clock:
        store = await open_store(cleanup_period=period)
        topic = store.adapter.topic_message_store(T)
        await store.done(topic.add_subscription(StoredSubscription(KEY, T), retroactive=False))
        message = store.reference(1, T)
        await store.done(topic.add_message(OperationContext(), message))
        await store.done(topic.acknowledge(OperationContext(), KEY, message))
        assert sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS") == [(1,)]
        await clock.advance(299)
        assert sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS") == [(1,)]
        await clock.advance(2)
        if period:
            await until_stored(lambda: not sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS"))
        else:
            await clock.settle()
            assert sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS") == [(1,)]


@pytest.mark.parametrize("interval", [5.0, 50.0])
async def test_the_journal_goes_to_the_database_each_interval(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], interval: float
) -> None:
    def make(directory: Any) -> JournaledJDBCPersistenceAdapter:
        journal = JournalSettingsJDBC(checkpoint_interval=interval)
        return JournaledJDBCPersistenceAdapter(directory, JDBCSettings(), journal_settings=journal)

    async with VirtualClock() as clock:
        store = await open_store(make)
        await store.send(store.queue(), 1)
        await clock.advance(interval - 1)
        assert sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS") == []
        await clock.advance(2)
        await until_stored(lambda: sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS") == [(1,)])


@pytest.mark.parametrize(("timeout", "milliseconds"), [(0.25, 250), (3.0, 3000)])
async def test_a_database_has_its_time_to_answer(
    open_store: Callable[..., Any], timeout: float, milliseconds: int
) -> None:
    store = await open_store(network_timeout=timeout)
    assert store.adapter.database.read(text("PRAGMA busy_timeout")) == [(milliseconds,)]


@pytest.mark.parametrize("period", [5.0, 50.0])
async def test_a_database_is_tried_again_after_the_period(
    open_store: Callable[..., Any], tmp_path: Path, watch: type[States], period: float
) -> None:
    async with VirtualClock() as clock:
        store = await open_store(
            network_timeout=0.01, resume_check_sleep_period=period, lock_keep_alive_period=0
        )
        states, queue = watch(store.adapter), store.queue()
        await store.send(queue, 1)
        busy = sqlite3.connect(tmp_path / "store" / "activemq.db", isolation_level=None)
        busy.execute("BEGIN IMMEDIATE")
        answer = queue.add_message(OperationContext(), store.reference(2))
        await until_stored(lambda: StoreState.SUSPENDED in states.names)
        busy.execute("ROLLBACK")
        busy.close()
        await clock.advance(period - 1)
        assert not answer.done
        await clock.advance(2)
        await until_stored(lambda: answer.done)
        assert states.names == [StoreState.SUSPENDED, StoreState.RUNNING]


@pytest.mark.parametrize("interval", [10.0, 100.0])
async def test_a_slave_tries_again_after_the_interval(
    open_store: Callable[..., Any], tmp_path: Path, interval: float
) -> None:
    master = await open_store()
    settings = JDBCSettings(lock_acquire_sleep_interval=interval)
    slave = JDBCPersistenceAdapter(tmp_path / "store", settings)
    async with VirtualClock() as clock, anyio.create_task_group() as group:
        group.start_soon(slave.start)
        await until_stored(lambda: slave.is_slave)
        await master.adapter.stop()
        await clock.advance(interval - 1)
        assert slave.is_slave
        await clock.advance(2)
        await until_stored(lambda: not slave.is_slave)
    await slave.stop()


@pytest.mark.parametrize(("max_rows", "at_least", "at_most"), [(3, 4, 10), (100, 1, 2)])
async def test_a_statement_reads_so_many_rows(
    open_store: Callable[..., Any], max_rows: int, at_least: int, at_most: int
) -> None:
    store = await open_store(max_rows=max_rows)
    queue = store.queue()
    await store.send(queue, *range(1, 11))
    selects: list[str] = []
    event.listen(
        store.adapter.database.engine,
        "before_cursor_execute",
        lambda *args: selects.append(args[2]),
    )
    assert len(queue.next_messages(None, 10)) == 10
    assert at_least <= len(selects) <= at_most


@pytest.mark.parametrize("journal_log_files", [1, 1000])
async def test_a_journal_of_many_segments_requests_a_checkpoint(
    open_store: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    journal_log_files: int,
) -> None:
    def make(directory: Any) -> JournaledJDBCPersistenceAdapter:
        journal = JournalSettingsJDBC(
            journal_log_file_size=64 * 1024, journal_log_files=journal_log_files
        )
        return JournaledJDBCPersistenceAdapter(directory, JDBCSettings(), journal_settings=journal)

    store = await open_store(make)
    await store.send(store.queue(), *range(1, 31), body=bytes(10_000))
    if journal_log_files == 1:
        await until_stored(lambda: sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS"))
    else:
        assert sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS") == []
