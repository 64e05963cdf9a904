"""The journal is the only truth: whatever went, the same comes back from it."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from tests.kit.stores.kahadb_store import Driver, Home

KEPT, GONE, EMPTY, NEWS = Queue("KEPT"), Queue("GONE"), Queue("EMPTY"), Topic("NEWS")


@pytest.mark.parametrize("seed", range(6))
async def test_a_rebuilt_index_is_the_same(home: Home, driver: type[Driver], seed: int) -> None:
    await home.open()
    drive = driver(home, seed)
    gone: set[int] = set()
    for _ in range(6):
        for _ in range(120):
            await drive.step()
        before = set(home.adapter.journal.segments())
        await home.adapter.checkpoint()
        gone |= before - set(home.adapter.journal.segments())
        for _ in range(drive.random.randrange(30)):
            await drive.step()
        expected = None
        for reopen in (home.reopen, home.rebuild, home.rebuild, home.reopen):
            await reopen()
            if expected is None:  # what was not prepared is rolled back by the first one
                drive.forget_open()
            state = home.state()
            assert expected is None or state == expected
            expected = state
    assert gone


@pytest.mark.parametrize("seed", range(3))
async def test_a_restart_says_the_same_as_before_it(home: Any, driver: Any, seed: int) -> None:
    await home.open()
    drive = driver(home, 100 + seed)
    for _ in range(4):
        for _ in range(100):
            await drive.step()
        for xid in list(drive.open):
            if xid not in drive.prepared:
                _, removed = drive.open.pop(xid)
                await home.done(home.adapter.transaction_store().rollback(xid))
                for reference in removed:
                    drive.live[reference.message.destination].append(reference)
        state = home.state()
        recovered = state.pop("recovered")
        for reopen in (home.reopen, home.rebuild):
            await reopen()
            after = home.state()
            assert len(after.pop("recovered")) >= len(recovered)
            assert after == state
        drive.forget_open()


async def test_a_removed_queue_stays_removed_when_the_record_of_its_removal_is_deleted(
    home: Home,
) -> None:
    adapter = await home.open()
    gone, kept = adapter.queue_message_store(GONE), adapter.queue_message_store(KEPT)
    subscription = StoredSubscription(SubscriptionKey("c", "s"), NEWS)
    await home.done(adapter.topic_message_store(NEWS).add_subscription(subscription, False))
    await home.remove(gone, *await home.send(gone, 1))
    empty = adapter.queue_message_store(EMPTY)
    await home.remove(empty, *await home.send(empty, 2))

    async def fill_to(segment: int) -> None:
        while adapter.journal.segments()[-1] < segment:
            await home.remove(kept, *await home.send(kept, 3, content=bytes(500)))

    await fill_to(2)  # its header names them all
    await home.send(kept, 4)  # keeps it
    await fill_to(3)
    adapter.remove_message_store(GONE)
    await fill_to(5)
    await adapter.checkpoint()
    assert 2 in adapter.journal.segments()
    assert 3 not in adapter.journal.segments()
    listed = adapter.destinations()
    assert listed == {KEPT, EMPTY, NEWS}
    await home.rebuild()
    assert home.adapter.destinations() == listed
