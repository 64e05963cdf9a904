"""How transactions come into the journal and into the index."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.kahadb.frames import to_transaction_info
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId, XATransactionId
from tests.kit.stores.kahadb_store import Home

Q, R = Queue("Q"), Queue("R")
LOCAL = LocalTransactionId(3, ConnectionId("ID:c"))
OTHER = LocalTransactionId(4, ConnectionId("ID:c"))
XA = XATransactionId(7, b"g", b"b")
BIG = 1 << 20


def records(home: Home, *xids: Any) -> list[tuple[str, str | None]]:
    """The records of these transactions, in the journal's order."""
    wanted = [to_transaction_info(xid) for xid in xids]
    found = []
    for record in JournalFiles(home.directory).records():
        command: Any = record.command()
        if getattr(command, "transaction_info", None) in wanted:
            kind = type(command).__name__.removeprefix("Kaha").removesuffix("Command")
            found.append((kind, getattr(command, "message_id", None)))
    return found


def texts(store: Any) -> list[str]:
    return [m.message.type for m in store.next_messages(None, 99)]


@pytest.mark.fact("activemq-persistence K15")
async def test_operations_wait_in_memory_and_are_done_in_order_at_the_commit(home: Any) -> None:
    adapter = await home.open(journal={"max_file_length": 32 << 20})
    one, two = adapter.queue_message_store(Q), adapter.queue_message_store(R)
    transactions = adapter.transaction_store()
    (old,) = await home.send(one, 1)
    added = [home.message(2, Q), home.message(3, R), home.message(4, Q)]
    one.add_message(home.within(LOCAL), added[0])
    one.remove_message(home.within(LOCAL), old)
    two.add_message(home.within(LOCAL), added[1])
    one.add_message(home.within(LOCAL), added[2])
    await home.done(adapter.journal.barrier(sync=True))
    assert (texts(one), texts(two)) == (["1"], [])
    assert all(reference.position is None for reference in added)
    (between,) = await home.send(one, 9)  # takes its number before the transaction does
    before = adapter.journal.syncs
    answer = transactions.commit(LOCAL, False)
    assert not answer.done
    await home.done(answer)
    assert adapter.journal.syncs > before
    assert [r.position.arrival for r in (between, *added)] == [2, 3, 1, 4]
    for reference in added:
        (two if reference is added[1] else one).mark_visible(reference)
    assert (texts(one), texts(two)) == (["9", "2", "4"], ["3"])
    await home.close()
    ids = [str(reference.message_id) for reference in added]
    assert records(home, LOCAL) == [
        ("AddMessage", ids[0]),
        ("RemoveMessage", str(old.message_id)),
        ("AddMessage", ids[1]),
        ("AddMessage", ids[2]),
        ("Commit", None),
    ]
    await home.rebuild(journal={"max_file_length": 32 << 20})
    adapter = home.adapter
    assert texts(adapter.queue_message_store(Q)) == ["9", "2", "4"]
    assert texts(adapter.queue_message_store(R)) == ["3"]


@pytest.mark.fact("activemq-persistence K15")
async def test_a_large_one_is_written_as_it_comes_with_its_id(home: Home) -> None:
    adapter = await home.open(journal={"max_file_length": 32 << 20})
    store, transactions = adapter.queue_message_store(Q), adapter.transaction_store()
    for number in range(1, 7):
        for xid, first in ((LOCAL, 0), (OTHER, 100)):
            reference = home.message(first + number, Q, content=bytes(BIG))
            store.add_message(home.within(xid), reference)
    await home.done(adapter.journal.barrier(sync=False))
    written = records(home, LOCAL, OTHER)
    assert {kind for kind, _ in written} == {"AddMessage"}
    assert len(written) > 6
    assert store.message_count == 0
    await home.done(transactions.rollback(OTHER))
    await home.done(transactions.commit(LOCAL, False))
    assert store.message_count == 6
    await home.close()
    assert records(home, OTHER)[-1] == ("Rollback", None)


@pytest.mark.fact("activemq-persistence K15")
@pytest.mark.parametrize("restart", [False, True])
async def test_what_is_prepared_is_kept_until_its_end(home: Any, restart: bool) -> None:
    adapter = await home.open()
    store = adapter.queue_message_store(Q)
    (old,) = await home.send(store, 1)
    added = home.message(2, Q)
    store.add_message(home.within(XA), added)
    store.remove_message(home.within(XA), old)
    before = adapter.journal.syncs
    await home.done(adapter.transaction_store().prepare(XA))
    assert adapter.journal.syncs > before
    if restart:
        adapter = await home.reopen()
    store = adapter.queue_message_store(Q)
    assert texts(store) == []
    await home.done(adapter.transaction_store().commit(XA, True))
    found = adapter.transaction_store().position_of(Q, added.message_id)
    position = found if restart else added.position
    assert position.arrival == 2
    assert store.message_count == 1
    await home.close()
    assert [kind for kind, _ in records(home, XA)] == [
        *("AddMessage", "RemoveMessage", "Prepare", "Commit"),
    ]
