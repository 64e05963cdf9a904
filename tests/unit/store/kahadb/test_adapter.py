"""The adapter: what is written when, states, locks, settings, taking over."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    JMSException,
    ResourceAllocationException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaRemoveMessageCommand,
    KahaTraceCommand,
)
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import SYNCED, OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription, StoreState
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.recovery import INDEX_FILES
from pyjms_broker.store.kahadb.settings import KahaDBSettings, PurgeRecoveredXATransactionStrategy
from tests.kit.stores.kahadb_store import Home
from tests.kit.stores.simulated_disk import SimulatedDisk

Q, T = Queue("Q"), Topic("T")


def commands(home: Home, kind: type[Any]) -> list[Any]:
    found = (record.command() for record in JournalFiles(home.directory).records())
    return [command for command in found if isinstance(command, kind)]


@pytest.mark.fact("activemq-persistence K13")
async def test_only_what_a_client_waits_for_is_synced(home: Home) -> None:
    adapter = await home.open()
    store = adapter.queue_message_store(Q)
    topic = adapter.topic_message_store(T)
    transactions = adapter.transaction_store()
    await home.done(adapter.journal.barrier(sync=True))

    async def synced(act: Any) -> bool:
        before = adapter.journal.syncs
        await home.done(act())
        await home.done(adapter.journal.barrier(sync=False))
        return bool(adapter.journal.syncs > before)

    plain, waiting = home.message(1, Q), home.message(2, Q)
    plain.message.response_required = False
    assert not await synced(lambda: store.add_message(OperationContext(), plain))
    assert await synced(lambda: store.add_message(OperationContext(), waiting))
    assert not await synced(lambda: store.remove_message(OperationContext(), plain))
    assert await synced(lambda: store.remove_message(SYNCED, waiting))
    key = SubscriptionKey("c", "s")
    assert await synced(lambda: topic.add_subscription(StoredSubscription(key, T), False))
    assert await synced(lambda: topic.delete_subscription(key))
    for number, end in enumerate((transactions.commit, lambda xid, _: transactions.rollback(xid))):
        xid = XATransactionId(7, bytes((number,)), b"b")
        store.add_message(home.within(xid), home.message(10 + number, Q))
        assert await synced(lambda xid=xid: transactions.prepare(xid))
        assert await synced(lambda xid=xid, end=end: end(xid, True))
    local = LocalTransactionId(1, ConnectionId("ID:c"))
    store.add_message(home.within(local), home.message(20, Q))
    assert await synced(lambda: transactions.commit(local, False))


async def test_a_rollback_of_what_was_not_written_leaves_no_trace(home: Home) -> None:
    adapter = await home.open()
    store = adapter.queue_message_store(Q)
    local = LocalTransactionId(1, ConnectionId("ID:c"))
    store.add_message(home.within(local), home.message(1, Q))
    assert adapter.transaction_store().rollback(local) is COMPLETED
    await home.close()
    assert commands(home, KahaAddMessageCommand) == []


@pytest.mark.fact("activemq-persistence K12")
async def test_high_priorities_come_before_4_and_low_ones_after_it(home: Home) -> None:
    adapter = await home.open()
    store = adapter.queue_message_store(Q, prioritized=True)
    for number, priority in enumerate((4, 0, 5, 9, 3, 4, 6)):
        await home.send(store, number + 1, priority=priority)
    found = [m.message.priority for m in store.next_messages(None, 10)]
    assert found == [9, 6, 5, 4, 4, 3, 0]
    await home.close()
    assert all(c.priority_supported for c in commands(home, KahaAddMessageCommand))


async def test_acknowledgements_of_subscriptions_name_them(home: Home) -> None:
    adapter = await home.open()
    topic, key = adapter.topic_message_store(T), SubscriptionKey("c", "s")
    await home.done(topic.add_subscription(StoredSubscription(key, T, "a = 1"), False))
    (news,) = await home.send(topic, 1)
    topic.acknowledge(OperationContext(), key, news)
    await home.close()
    (remove,) = commands(home, KahaRemoveMessageCommand)
    assert (remove.subscription_key, remove.ack) == ("c:s", b"")


@pytest.mark.fact("activemq-persistence K27")
async def test_each_start_is_logged_and_what_is_not_a_segment_is_left(home: Home) -> None:
    home.directory.mkdir()
    for name in ("db-30.log", "db-x.log", "notes"):
        (home.directory / name).write_bytes(b"" if name == "db-30.log" else b"mine")
    await home.open(journal={"max_file_length": 1 << 20})
    store = home.adapter.queue_message_store(Q)
    await home.send(store, 1, content=bytes(3 << 20))
    await home.send(store, 2)
    await home.reopen()
    await home.close()
    loaded = [c.message for c in commands(home, KahaTraceCommand) if "LOADED" in c.message]
    assert len(loaded) == 2
    await home.open()
    assert (home.directory / "db-x.log").read_bytes() == b"mine"
    assert (home.directory / "db-30.log").read_bytes() == b""
    found = home.adapter.queue_message_store(Q).next_messages(None, 5)
    assert [len(m.message.content or b"") for m in found] == [3 << 20, 0]
    sizes = [path.stat().st_size for path in home.directory.glob("db-*.log")]
    assert max(sizes) > 3 << 20


async def test_one_directory_has_one_holder(home: Home) -> None:
    await home.open()
    other = KahaDBPersistenceAdapter(home.directory, KahaDBSettings(fail_if_locked=True))
    with pytest.raises(ResourceAllocationException, match="locked by another server"):
        await other.start()
    assert not other.is_slave
    await home.close()
    await other.start()
    await other.stop()


async def test_a_slave_waits_and_can_be_given_up(home: Home) -> None:
    await home.open()
    slave = KahaDBPersistenceAdapter(home.directory)
    async with anyio.create_task_group() as group:
        group.start_soon(slave.start)
        await anyio.wait_all_tasks_blocked()
        assert slave.is_slave
        group.cancel_scope.cancel()
    assert not slave.is_slave
    with pytest.raises(IllegalStateException):
        slave.queue_message_store(Q)


async def test_a_full_disk_suspends_the_store_until_there_is_space(
    home: Home, simulated_disk: type[SimulatedDisk]
) -> None:
    disk = simulated_disk()
    adapter = await home.open(disk=disk, journal={"resume_check_sleep_period": 0.01})
    states: list[StoreState] = []
    suspended = anyio.Event()

    def on_state(state: StoreState, error: Exception | None) -> None:
        states.append(state)
        if state is StoreState.SUSPENDED:
            suspended.set()

    adapter.on_state = on_state
    store = adapter.queue_message_store(Q)
    await home.send(store, 1)
    full = True
    disk.fail = lambda call, _: (
        OSError(errno.ENOSPC, "No space left on device") if full and call == "write" else None
    )
    waiting = home.message(2, Q)
    answer = store.add_message(OperationContext(), waiting)
    await suspended.wait()
    assert adapter.state is StoreState.SUSPENDED
    assert not answer.done
    full = False
    await home.done(answer)
    assert StoreState(adapter.state) is StoreState.RUNNING
    assert states == [StoreState.SUSPENDED, StoreState.RUNNING]
    store.mark_visible(waiting)
    await home.reopen(disk=disk)
    store = home.adapter.queue_message_store(Q)
    assert [m.message.type for m in store.next_messages(None, 5)] == ["1", "2"]


async def test_a_broken_disk_fails_the_store_and_loses_nothing_that_was_answered(
    home: Home, simulated_disk: type[SimulatedDisk], caplog: pytest.LogCaptureFixture
) -> None:
    disk = simulated_disk()
    adapter = await home.open(disk=disk)
    states: list[StoreState] = []
    adapter.on_state = lambda state, _: states.append(state)
    store = adapter.queue_message_store(Q)
    await home.send(store, 1)
    disk.fail = lambda call, _: (
        OSError(errno.EIO, "I/O error") if call in {"write", "sync"} else None
    )
    with caplog.at_level(logging.CRITICAL):
        with pytest.raises(JMSException):
            await home.done(store.add_message(OperationContext(), home.message(2, Q)))
        assert adapter.state is StoreState.FAILED
        assert states == [StoreState.FAILED]
        with pytest.raises(JMSException):
            store.add_message(OperationContext(), home.message(3, Q))
        await home.close()
    survivor = disk.after_crash()
    home.delete_index()
    await home.open(disk=survivor)
    store = home.adapter.queue_message_store(Q)
    assert [m.message.type for m in store.next_messages(None, 5)] == ["1"]


async def test_activemqs_index_is_moved_and_ours_is_rebuilt(home: Home) -> None:
    await home.open()
    await home.send(home.adapter.queue_message_store(Q), 1)
    await home.close()
    for _ in range(2):
        for name in INDEX_FILES:
            (home.directory / name).write_bytes(b"theirs")
        await home.open()
        assert home.adapter.rebuilt
        assert not any((home.directory / name).exists() for name in INDEX_FILES)
        moved = home.directory / "activemq-index"
        assert {path.name for path in moved.iterdir()} == set(INDEX_FILES)
        await home.close()
    await home.open()
    assert not home.adapter.rebuilt


@pytest.mark.parametrize("strategy", list(PurgeRecoveredXATransactionStrategy))
async def test_prepared_transactions_can_be_ended_at_the_start(home: Home, strategy: Any) -> None:
    adapter = await home.open()
    store = adapter.queue_message_store(Q)
    (old,) = await home.send(store, 1)
    xid = XATransactionId(7, b"g", b"b")
    store.add_message(home.within(xid), home.message(2, Q))
    store.remove_message(home.within(xid), old)
    await home.done(adapter.transaction_store().prepare(xid))
    adapter = await home.reopen(purge_recovered_xa_transaction_strategy=strategy)
    found = [m.message.type for m in adapter.queue_message_store(Q).next_messages(None, 5)]
    expected = {"never": [], "commit": ["2"], "rollback": ["1"]}
    assert found == expected[strategy.value]
    assert len(adapter.transaction_store().recovered_transactions()) == (
        not expected[strategy.value]
    )
    adapter = await home.reopen()
    found = [m.message.type for m in adapter.queue_message_store(Q).next_messages(None, 5)]
    assert found == expected[strategy.value]


async def test_an_index_has_its_own_directory_if_wanted(home: Home, tmp_path: Path) -> None:
    index = tmp_path / "index"
    await home.open(index_directory=index)
    await home.send(home.adapter.queue_message_store(Q), 1)
    await home.close()
    assert list(index.glob("pyjms-index.db"))
    assert not list(home.directory.glob("pyjms-index.db*"))
    home.adapter = KahaDBPersistenceAdapter(home.directory, home.adapter.settings)
    await home.adapter.delete_all_messages()
    await home.adapter.start()
    assert home.adapter.destinations() == set()
    with pytest.raises(IllegalStateException):
        await home.adapter.delete_all_messages()


async def test_changes_in_memory_request_a_checkpoint(home: Home) -> None:
    adapter = await home.open(journal={"max_file_length": 32 << 20})
    db = adapter._require_open()
    store = adapter.queue_message_store(Q)
    written = anyio.Event()
    on_dirty = db.index.on_dirty

    def asked() -> None:
        written.set()
        on_dirty()

    db.index.on_dirty = asked
    number = 0
    while not written.is_set():
        answer: Completion = COMPLETED
        for _ in range(1000):
            number += 1
            reference = home.message(number, Q)
            reference.message.response_required = False
            answer = store.add_message(OperationContext(), reference)
        await home.done(answer)
    while db.index.dirty >= number:
        await home.done(store.add_message(OperationContext(), home.message(number + 1, Q)))
        number += 1
    assert 9_000 < number < 60_000
    assert store.message_count == number


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("checkpoint_interval", -1),
        ("cleanup_interval", -1),
        ("compact_acks_after_no_gc", -1),
        ("lock_acquire_sleep_interval", 0),
        ("store_open_wire_version", 13),
    ],
)
def test_settings_out_of_range_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationException, match=option):
        KahaDBSettings(**{option: value})


def test_the_defaults_are_activemq_ones() -> None:
    settings = KahaDBSettings()
    journal = settings.journal
    assert (settings.checkpoint_interval, settings.cleanup_interval) == (5.0, 30.0)
    assert settings.cleanup_on_stop
    assert settings.concurrent_store_and_dispatch_queues
    assert not settings.concurrent_store_and_dispatch_topics
    assert not settings.ignore_missing_journalfiles
    assert not settings.force_recover_index
    assert not settings.archive_corrupted_index
    assert settings.max_failover_producers_to_track == 64
    assert settings.purge_recovered_xa_transaction_strategy.value == "never"
    assert settings.enable_ack_compaction
    assert settings.compact_acks_after_no_gc == 10
    assert not settings.compact_acks_ignores_store_growth
    assert settings.use_lock
    assert (settings.lock_acquire_sleep_interval, settings.lock_keep_alive_period) == (10.0, 0.0)
    assert journal.max_file_length == 33_554_432
    assert journal.max_write_batch_size == 4_194_304
    assert (journal.disk_sync_strategy, journal.disk_sync_interval) == ("always", 1.0)
    assert (journal.preallocation_strategy, journal.preallocation_scope) == (
        "sparse_file",
        "entire_journal",
    )
    assert journal.checksum
    assert not journal.check_for_corrupt_journal_files
    assert not journal.archive_data_logs
    assert journal.max_async_jobs == 10_000
