"""Settings of KahaDB with two values, and what the store does with each of them."""

from __future__ import annotations

import anyio
import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.kahadb.commands import KahaAddMessageCommand
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms.wire.openwire.commands import ProducerId
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from tests.kit.stores.kahadb_store import Home
from tests.kit.waiting import until_stored

Q, OTHER = Queue("Q"), Queue("OTHER")
BODY = bytes(900)


@pytest.mark.parametrize(("limit", "known"), [(2, [-1, 2, 3]), (3, [1, 2, 3])])
async def test_the_last_producers_are_known(home: Home, limit: int, known: list[int]) -> None:
    await home.open(max_failover_producers_to_track=limit)
    store = home.adapter.queue_message_store(Q)
    for number in (1, 2, 3):
        await home.send(store, number, producer=number)
    found = [home.adapter.last_producer_sequence_id(ProducerId("ID:p", n, 1)) for n in (1, 2, 3)]
    assert found == known


async def test_messages_are_written_in_the_version_of_openwire(home: Home) -> None:
    written = {}
    for version in (6, 12):
        await home.open(store_open_wire_version=version)
        await home.send(home.adapter.queue_message_store(Q), version)
        await home.close()
        commands = [r.command() for r in JournalFiles(home.directory).records()]
        written[version] = [c for c in commands if isinstance(c, KahaAddMessageCommand)][-1].message
    assert len(written[6]) < len(written[12])  # later versions have more fields


@pytest.mark.parametrize("use_lock", [True, False])
async def test_only_a_lock_keeps_others_out(home: Home, use_lock: bool) -> None:
    await home.open()
    settings = KahaDBSettings(use_lock=use_lock, fail_if_locked=True)
    other = KahaDBPersistenceAdapter(home.directory, settings)
    if use_lock:
        with pytest.raises(ResourceAllocationException, match="locked by another server"):
            await other.start()
    else:
        await other.start()
        await other.stop()


@pytest.mark.parametrize("interval", [10.0, 100.0])
async def test_a_slave_tries_again_after_the_interval(home: Home, interval: float) -> None:
    await home.open()
    settings = KahaDBSettings(
        lock_acquire_sleep_interval=interval, checkpoint_interval=0, cleanup_interval=0
    )
    slave = KahaDBPersistenceAdapter(home.directory, settings)
    async with VirtualClock() as clock, anyio.create_task_group() as group:
        group.start_soon(slave.start)
        await until_stored(lambda: slave.is_slave)
        await home.close()
        await clock.advance(interval - 1)
        assert slave.is_slave
        await clock.advance(2)
        await until_stored(lambda: not slave.is_slave)
    await slave.stop()


@pytest.mark.parametrize(
    ("after", "ignores_growth", "grows", "moved"),
    [
        (2, False, False, True),
        (50, False, False, False),
        (2, False, True, False),
        (2, True, True, True),
    ],
)
async def test_acknowledgements_are_moved_after_idle_cleanups(
    home: Home, after: int, ignores_growth: bool, grows: bool, moved: bool
) -> None:
    await home.open(
        compact_acks_after_no_gc=after, compact_acks_ignores_store_growth=ignores_growth
    )
    other = home.adapter.queue_message_store(OTHER)
    await home.send(other, 1, content=BODY)  # keeps the first segment
    store = home.adapter.queue_message_store(Q)
    late = await home.send(store, 2, 3, 4, content=BODY)
    for number in range(5, 60):  # each segment has acknowledgements of the one before
        await home.remove(store, late.pop(0))
        late += await home.send(store, number, content=BODY)
    await home.remove(store, *late)
    await home.adapter.checkpoint()
    chain = set(home.adapter.journal.segments())
    for number in range(100, 120):
        if grows:
            await home.send(other, number, content=bytes(4000))
        await home.adapter.checkpoint()
    assert (not chain <= set(home.adapter.journal.segments())) is moved
