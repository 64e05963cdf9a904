"""The index cannot be written or read while the journal can: nothing is lost, nothing grows."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import MessageId, ProducerId
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription, StoreState
from pyjms_broker.store.kahadb.index import IndexCorrupt
from pyjms_broker.store.kahadb.index.destination import DIRTY_LIMIT
from pyjms_broker.store.kahadb.recovery import OUR_INDEX
from tests.kit.stores.kahadb_store import Home
from tests.kit.stores.simulated_disk import SimulatedDisk
from tests.kit.waiting import until, until_stored

Q = Queue("Q")
HALF = "a\ud800b"
"""Half a surrogate pair, which OpenWire can carry and UTF-8 cannot."""


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


async def until_stored_with(clock: VirtualClock, condition: Callable[[], bool]) -> None:
    """Let checkpoints come due until the condition holds."""

    async def checkpoint_interval() -> None:
        await clock.advance(6)
        await anyio.to_thread.run_sync(lambda: None)

    await until(condition, turn=checkpoint_interval)


@pytest.mark.fact("activemq-persistence K24")
async def test_a_full_disk_under_the_index_suspends_the_store_before_memory_is_full(
    home: Home, clock: VirtualClock
) -> None:
    adapter = await home.open(checkpoint_interval=5.0, journal={"max_file_length": 32 << 20})
    told: list[StoreState] = []
    adapter.on_state = lambda state, error: told.append(state)
    store = adapter.queue_message_store(Q)
    writer = adapter._require_open().index.database.writer
    await home.send(store, 1)
    await adapter.checkpoint()
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages}")  # sqlite3 says then that the disk is full
    for number in range(2, 3 * DIRTY_LIMIT):
        reference = home.message(number, Q)
        store.add_message(OperationContext(), reference)
        store.mark_visible(reference)
        if number % 5000 == 0:
            await home.done(adapter.journal.barrier(sync=False))
            await clock.advance(6)
        if adapter.state is StoreState.SUSPENDED:
            break
    await until_stored(lambda: adapter.state is StoreState.SUSPENDED)
    assert told == [StoreState.SUSPENDED]
    writer.execute("PRAGMA max_page_count = 1000000")
    await until_stored_with(clock, lambda: adapter.state is StoreState.RUNNING)
    assert told == [StoreState.SUSPENDED, StoreState.RUNNING]
    assert store.message_count == number
    await home.rebuild(journal={"max_file_length": 32 << 20})
    assert home.adapter.queue_message_store(Q).message_count == number


async def test_a_damaged_index_fails_the_store_and_is_rebuilt_at_the_next_start(
    home: Home, clock: VirtualClock
) -> None:
    await home.open()
    store = home.adapter.queue_message_store(Q)
    for number in range(1, 3001):
        reference = home.message(number, Q)
        store.add_message(OperationContext(), reference)
        store.mark_visible(reference)
    await home.adapter.checkpoint()
    await home.close()
    path = home.directory / OUR_INDEX
    data = bytearray(path.read_bytes())
    for page in range(len(data) // 4096):
        start = page * 4096
        if data[start] in (2, 10) and page > 20:  # leaves of the trees of messages and ids
            data[start : start + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    adapter = await home.open(checkpoint_interval=5.0)
    assert not adapter.rebuilt
    store = adapter.queue_message_store(Q)
    with pytest.raises(IndexCorrupt):
        store.next_messages(None, 3000)
    await until_stored_with(clock, lambda: adapter.state is StoreState.FAILED)
    await home.close()
    adapter = await home.open()
    assert adapter.rebuilt
    assert len(adapter.queue_message_store(Q).next_messages(None, 5000)) == 3000


async def test_a_stop_does_not_wait_for_space_on_the_disk(home: Home) -> None:
    disk = SimulatedDisk()
    adapter = await home.open(disk=disk)
    store = adapter.queue_message_store(Q)
    await home.send(store, 1)
    disk.fail = lambda call, count: OSError(errno.ENOSPC, "simulated") if call == "write" else None
    adapter._require_open().append_arrivals(
        [adapter._require_open().index.destinations()[0]]
    )  # not written yet
    assert adapter.state is StoreState.RUNNING
    with anyio.fail_after(10):
        await adapter.stop()


async def test_texts_that_no_file_can_hold_are_refused_alone(home: Any) -> None:
    adapter = await home.open()
    store = adapter.queue_message_store(Q)
    for text_view, producer in ((HALF, "ID:p"), (None, HALF)):
        reference = home.message(1, Q)
        reference.message_id = reference.message.message_id = MessageId(
            text_view, ProducerId(producer, 1, 1), 1
        )
        with pytest.raises(JMSException, match="Cannot store the message id"):
            store.add_message(OperationContext(), reference)
    named = home.message(2, Q)
    named.message.message_id.producer_id = ProducerId(HALF, 1, 1)
    named.message.message_id.text_view = named.message_id.text_view = "ID:theirs"
    await home.done(store.add_message(OperationContext(), named))
    store.mark_visible(named)
    await home.send(store, 3, properties={"_AMQ_DUPL_ID": HALF})
    await home.send(store, 4, properties={"_AMQ_DUPL_ID": HALF})
    await adapter.checkpoint()
    await home.send(store, *range(5, 20), content=bytes(900))
    assert len(adapter.journal.segments()) > 2  # each begins with the audits
    for again in (home.reopen, home.rebuild):
        store = (await again()).queue_message_store(Q)
        assert store.message_count == 17
        await home.send(store, 4, properties={"_AMQ_DUPL_ID": HALF})
        assert store.message_count == 17


async def test_a_subscription_does_not_take_another_ones_place(home: Home) -> None:
    topic = Topic("T")
    store = (await home.open()).topic_message_store(topic)
    mine, other = SubscriptionKey("a", "b:c"), SubscriptionKey("a:b", "c")
    await home.done(store.add_subscription(StoredSubscription(mine, topic), False))
    assert store.lookup_subscription(other) is None
    with pytest.raises(JMSException, match="'c' of 'a:b'"):
        store.add_subscription(StoredSubscription(other, topic), False)
    assert store.delete_subscription(other) is COMPLETED
    assert [s.key for s in store.subscriptions()] == [mine]
