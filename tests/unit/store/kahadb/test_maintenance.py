"""What the store does by itself, and what a start makes of what the last end left."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.kahadb.commands import KahaRollbackCommand
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId, XATransactionId
from pyjms_broker.store.kahadb.index.destination import DIRTY_LIMIT
from pyjms_broker.store.kahadb.recovery import OUR_INDEX
from pyjms_broker.store.kahadb.settings import PurgeRecoveredXATransactionStrategy
from tests.kit.stores.kahadb_store import Home
from tests.kit.waiting import until_stored

Q = Queue("Q")


def _has_at_most(home: Any, segments: int) -> bool:
    return len(home.adapter.journal.segments()) <= segments


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


@pytest.mark.fact("activemq-persistence K16")
async def test_checkpoints_and_cleanups_come_by_themselves(home: Home, clock: VirtualClock) -> None:
    await home.open(checkpoint_interval=5.0, cleanup_interval=30.0)
    db = home.adapter._require_open()
    store = home.adapter.queue_message_store(Q)
    references = await home.send(store, *range(1, 21), content=bytes(900))
    await clock.advance(4.9)
    assert db.index.coverage() is None
    await clock.advance(0.2)
    await until_stored(lambda: db.index.coverage() is not None)
    assert db.index.coverage()[0] == db.journal.last
    await home.remove(store, *references)
    segments = home.adapter.journal.segments()
    await clock.advance(6)
    await until_stored(lambda: db.index.coverage()[0] == db.journal.last)
    assert home.adapter.journal.segments() == segments
    await clock.advance(30)
    await until_stored(lambda: len(home.adapter.journal.segments()) < len(segments))


async def test_changes_made_by_the_start_itself_also_lead_to_a_checkpoint(
    home: Home, clock: VirtualClock
) -> None:
    periods: dict[str, Any] = {
        "checkpoint_interval": 0.0,
        "cleanup_interval": 0.0,
        "journal": {"max_file_length": 32 << 20},
    }
    adapter = await home.open(**periods)
    store, xid = adapter.queue_message_store(Q), XATransactionId(7, b"x", b"b")
    for number in range(1, DIRTY_LIMIT + 2):
        store.add_message(home.within(xid), home.message(number, Q))
    await home.done(adapter.transaction_store().prepare(xid))
    await home.close()
    strategy = PurgeRecoveredXATransactionStrategy.COMMIT
    await home.open(**periods, purge_recovered_xa_transaction_strategy=strategy)
    index = home.adapter._require_open().index
    await until_stored(lambda: index.dirty < DIRTY_LIMIT)
    assert home.adapter.queue_message_store(Q).message_count == DIRTY_LIMIT + 1


@pytest.mark.fact("activemq-persistence H2")
async def test_the_loss_of_the_lock_is_reported(home: Home, clock: VirtualClock) -> None:
    adapter = await home.open(lock_keep_alive_period=1.0)
    lost = anyio.Event()
    adapter.on_lock_lost = lost.set
    await clock.advance(3)
    await clock.settle()
    assert not lost.is_set()
    (home.directory / "lock").unlink()
    (home.directory / "lock").write_bytes(b"another")
    await clock.advance(1.1)
    await clock.settle()
    assert lost.is_set()


@pytest.mark.fact("activemq-persistence K22")
async def test_what_was_open_at_the_end(home: Home, tmp_path: Path) -> None:
    journal = {"max_file_length": 32 << 20}
    adapter = await home.open(journal=journal)
    store, transactions = adapter.queue_message_store(Q), adapter.transaction_store()
    (old,) = await home.send(store, 1)
    local, lost, kept = (
        LocalTransactionId(1, ConnectionId("ID:c")),
        XATransactionId(7, b"lost", b"b"),
        XATransactionId(7, b"kept", b"b"),
    )
    for number, xid in enumerate((local, lost)):
        for i in range(60):  # so much that it is written before its end
            reference = home.message(100 * (number + 1) + i, Q, content=bytes(100_000))
            store.add_message(home.within(xid), reference)
    store.remove_message(home.within(local), old)
    store.add_message(home.within(kept), home.message(2, Q))
    await home.done(transactions.prepare(kept))
    copy = type(home)(tmp_path / "copy")
    shutil.copytree(home.directory, copy.directory)
    await copy.open(journal=journal)
    store = copy.adapter.queue_message_store(Q)
    assert [m.message.type for m in store.next_messages(None, 5)] == ["1"]
    assert [r.xid for r in copy.adapter.transaction_store().recovered_transactions()] == [kept]
    await copy.close()
    records = [r.command() for r in JournalFiles(copy.directory).records()]
    ended = [
        c.transaction_info.local_transaction_id or c.transaction_info.xa_transaction_id
        for c in records
        if isinstance(c, KahaRollbackCommand)
    ]
    assert len(ended) == 2
    await copy.rebuild(journal=journal)
    assert [r.xid for r in copy.adapter.transaction_store().recovered_transactions()] == [kept]
    await copy.close()
    # An index that knows more than the journal has is not believed.
    index = (copy.directory / OUR_INDEX).read_bytes()
    copy.delete_index()
    for path in copy.directory.glob("db-*.log"):
        path.unlink()
    shutil.copy(home.directory / "db-1.log", copy.directory)
    (copy.directory / OUR_INDEX).write_bytes(index)
    await copy.open(journal=journal)
    store = copy.adapter.queue_message_store(Q)
    assert [m.message.type for m in store.next_messages(None, 5)] == ["1"]
    await copy.close()


async def test_replays_begin_where_the_oldest_open_transaction_does(
    home: Home, tmp_path: Path
) -> None:
    adapter = await home.open()
    store, transactions = adapter.queue_message_store(Q), adapter.transaction_store()
    xid = XATransactionId(7, b"g", b"b")
    store.add_message(home.within(xid), home.message(1, Q))
    await home.done(transactions.prepare(xid))
    await home.send(store, *range(2, 20), content=bytes(900))
    await adapter.checkpoint()
    first = adapter._require_open().index.open_transactions
    assert first is not None
    assert first < adapter._require_open().index.coverage()[0]
    await home.send(store, 20)
    copy = type(home)(tmp_path / "copy")
    shutil.copytree(home.directory, copy.directory)
    await copy.open()
    assert not copy.adapter.rebuilt
    (found,) = copy.adapter.transaction_store().recovered_transactions()
    assert [m.type for _, m in found.added] == ["1"]
    assert copy.adapter.queue_message_store(Q).message_count == 19
    await copy.done(copy.adapter.transaction_store().commit(xid, True))
    position = copy.adapter.transaction_store().position_of(Q, home.message(1, Q).message_id)
    assert position.arrival == 20
    await copy.close()


async def test_without_intervals_nothing_comes_before_the_stop(
    home: Home, clock: VirtualClock
) -> None:
    await home.open(cleanup_on_stop=True)
    db = home.adapter._require_open()
    store = home.adapter.queue_message_store(Q)
    await home.remove(store, *await home.send(store, *range(1, 21), content=bytes(900)))
    await clock.advance(1000)
    await clock.settle()
    assert db.index.coverage() is None
    before = len(home.adapter.journal.segments())
    await home.close()
    assert len(JournalFiles(home.directory).segments()) < before


@pytest.mark.fact("activemq-persistence K18")
async def test_acknowledgements_are_compacted_at_once_while_space_is_wanted(
    home: Home, clock: VirtualClock
) -> None:
    await home.open(cleanup_interval=30.0)
    await home.send(home.adapter.queue_message_store(Queue("kept")), 1, content=bytes(900))
    store = home.adapter.queue_message_store(Q)
    late = await home.send(store, 2, 3, 4, content=bytes(900))
    for number in range(5, 60):  # each segment has acknowledgements of the one before
        await home.remove(store, late.pop(0))
        late += await home.send(store, number, content=bytes(900))
    await home.remove(store, *late)
    await home.adapter.checkpoint()
    chain = home.adapter.journal.segments()
    assert len(chain) > 5
    expected = home.state()
    await clock.advance(95)
    await home.adapter.checkpoint()
    assert home.adapter.journal.segments() == chain, "three cleanups in vain are not enough"
    for left in range(len(chain) - 1, len(chain) // 2, -1):
        home.adapter.reclaim_soon()
        await clock.advance(1)
        await until_stored(partial(_has_at_most, home, left))
    assert home.state() == expected
    await home.rebuild()
    assert home.state() == expected
