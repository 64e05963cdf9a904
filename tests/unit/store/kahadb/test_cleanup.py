"""Segments go when nobody needs them, and never sooner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaLocalTransactionId,
    KahaPrepareCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTraceCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId, XATransactionId
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.kahadb.maintenance import movable_acks
from tests.kit.stores.kahadb_store import Home

Q, OTHER, T = Queue("Q"), Queue("OTHER"), Topic("T")
KEY = SubscriptionKey("c", "s")
XA = XATransactionId(7, b"g", b"b")
BODY = bytes(900)


async def fill(home: Home, queue: Queue, first: int, last: int) -> list[Any]:
    store = home.adapter.queue_message_store(queue)
    references: list[Any] = await home.send(store, *range(first, last + 1), content=BODY)
    return references


async def segments_after_cleanup(home: Home) -> list[int]:
    await home.adapter.checkpoint()
    found: list[int] = home.adapter.journal.segments()
    return found


@pytest.mark.fact("activemq-persistence K17")
async def test_segments_go_with_their_last_message(home: Home) -> None:
    await home.open()
    references = await fill(home, Q, 1, 40)
    before = await segments_after_cleanup(home)
    assert before[0] == 1
    assert len(before) > 8
    store = home.adapter.queue_message_store(Q)
    await home.remove(store, *references[1:])
    # The first message keeps its segment, and so the acknowledgements of what else is in it.
    report = {r.file_id: r for r in home.adapter.segment_report()}
    kept = await segments_after_cleanup(home)
    assert kept[0] == 1
    assert report[1].messages == 1
    acks = [f for f, r in report.items() if 1 in r.refers_to]
    assert acks
    assert set(kept) == {1, *acks, *(f for f, r in report.items() if r.needed)}
    assert len(kept) < len(before)
    expected = home.state()
    await home.rebuild()
    assert home.state() == expected
    store = home.adapter.queue_message_store(Q)
    (left,) = store.next_messages(None, 10)
    references[0].position = left.position
    await home.remove(store, references[0])
    assert len(await segments_after_cleanup(home)) <= 2


@pytest.mark.fact("activemq-persistence K18")
async def test_one_message_keeps_the_chain_of_acknowledgements_until_they_are_moved(
    home: Home,
) -> None:
    options = {"compact_acks_after_no_gc": 2, "compact_acks_ignores_store_growth": True}
    await home.open(**options)
    await fill(home, OTHER, 1, 1)  # nobody will take it
    store = home.adapter.queue_message_store(Q)
    late = await fill(home, Q, 2, 4)
    for number in range(5, 60):  # each segment has acknowledgements of the one before
        await home.remove(store, late.pop(0))
        late += await fill(home, Q, number, number)
    await home.remove(store, *late)
    chain = await segments_after_cleanup(home)
    assert chain[0] == 1
    assert len(chain) > 5
    expected = home.state()
    for _ in range(6 * len(chain)):
        await home.adapter.checkpoint()
    left = home.adapter.journal.segments()
    assert left[0] == 1
    assert len(left) < len(chain)
    assert home.state() == expected
    await home.rebuild(**options)
    assert home.state() == expected


async def test_updates_of_removed_messages_do_not_keep_segments(home: Home) -> None:
    options = {"compact_acks_after_no_gc": 1, "compact_acks_ignores_store_growth": True}
    await home.open(**options)
    await fill(home, OTHER, 1, 1)  # nobody will take it
    store = home.adapter.queue_message_store(Q)
    late = await fill(home, Q, 2, 6)
    for number in range(
        7, 60
    ):  # marked as redelivered in the next segment, removed in the one after
        late[2].message.redelivery_counter = 1
        await home.done(store.update_message(late[2]))
        await home.remove(store, late.pop(0))
        late += await fill(home, Q, number, number)
    kept = late.pop()  # it was added in one segment, and its record is in a later one
    await home.remove(store, *await fill(home, Q, 60, 70))
    kept.message.redelivery_counter = 1
    await home.done(store.update_message(kept))
    await home.remove(store, *late, *await fill(home, Q, 71, 75))
    chain = await segments_after_cleanup(home)
    expected = home.state()
    for _ in range(6 * len(chain)):
        await home.adapter.checkpoint()
    left = home.adapter.journal.segments()
    assert len(left) < len(chain) / 3
    assert home.state() == expected
    await home.rebuild(**options)
    assert home.state() == expected


async def test_compaction_can_be_forbidden(home: Home) -> None:
    await home.open(compact_acks_after_no_gc=0, enable_ack_compaction=False)
    await fill(home, OTHER, 1, 1)
    references = await fill(home, Q, 2, 9)
    await home.remove(home.adapter.queue_message_store(Q), *references)
    await fill(home, Q, 10, 20)
    before = await segments_after_cleanup(home)
    for _ in range(5):
        assert await segments_after_cleanup(home) == before


@pytest.mark.fact("activemq-persistence K19")
async def test_segments_can_be_archived(home: Home, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    journal = {"archive_data_logs": True, "directory_archive": archive}
    await home.open(journal=journal)
    references = await fill(home, Q, 1, 20)
    await home.remove(home.adapter.queue_message_store(Q), *references)
    before = home.adapter.journal.segments()
    gone = set(before) - set(await segments_after_cleanup(home))
    assert gone
    assert {path.name for path in archive.iterdir()} == {f"db-{n}.log" for n in gone}


@pytest.mark.fact("activemq-persistence K17")
async def test_open_transactions_keep_their_segments(home: Home) -> None:
    await home.open()
    store = home.adapter.queue_message_store(Q)
    xid = XATransactionId(7, b"g", b"b")
    store.add_message(home.within(xid), home.message(1, Q, content=BODY))
    await home.done(home.adapter.transaction_store().prepare(xid))
    await home.remove(store, *await fill(home, Q, 2, 30))
    kept = await segments_after_cleanup(home)
    assert kept[0] == 1
    assert home.adapter.segment_report()[0].transactions
    await home.rebuild()
    (found,) = home.adapter.transaction_store().recovered_transactions()
    assert [m.type for _, m in found.added] == ["1"]
    await home.done(home.adapter.transaction_store().rollback(xid))
    await home.remove(home.adapter.queue_message_store(Q), *await fill(home, Q, 31, 50))
    assert (await segments_after_cleanup(home))[0] > 1
    await home.rebuild()
    assert home.adapter.transaction_store().recovered_transactions() == []


async def test_the_end_of_a_transaction_stays_as_long_as_what_it_ends(home: Any) -> None:
    await home.open()
    store = home.adapter.queue_message_store(Q)
    xid = XATransactionId(7, b"g", b"b")
    added = [home.message(n, Q, content=BODY) for n in range(1, 9)]
    for reference in added:
        store.add_message(home.within(xid), reference)
    await home.done(home.adapter.transaction_store().prepare(xid))
    await home.remove(store, *await fill(home, OTHER, 100, 120))
    await home.done(home.adapter.transaction_store().commit(xid, True))
    assert [r.position.arrival for r in added] == list(range(1, 9))
    for reference in added:
        store.mark_visible(reference)
    # Of the transaction's segments the first one goes, the others and the commit stay.
    await home.remove(store, *added[:5])
    others = home.adapter.queue_message_store(OTHER)
    await home.remove(others, *await fill(home, OTHER, 200, 220))
    assert (await segments_after_cleanup(home))[0] > 1
    expected = home.state()
    assert [m[0][1] for m in expected[str(Q)]["messages"]] == [6, 7, 8]
    await home.rebuild()
    assert home.state() == expected


@pytest.mark.fact("activemq-persistence K17")
async def test_subscriptions_stay_when_their_segment_goes(home: Home) -> None:
    await home.open()
    topic = home.adapter.topic_message_store(T)
    await home.done(topic.add_subscription(StoredSubscription(KEY, T, "a = 1"), False))
    await home.remove(home.adapter.queue_message_store(Q), *await fill(home, Q, 1, 30))
    assert (await segments_after_cleanup(home))[0] > 1  # idle: it was written again
    await home.rebuild()
    topic = home.adapter.topic_message_store(T)
    assert topic.subscriptions() == [StoredSubscription(KEY, T, "a = 1")]
    (news,) = await home.send(topic, 31)
    first = home.adapter.journal.segments()[0]
    await home.remove(home.adapter.queue_message_store(Q), *await fill(home, Q, 32, 60))
    kept = await segments_after_cleanup(home)
    held = [r.file_id for r in home.adapter.segment_report() if r.subscriptions]
    assert held
    assert held[0] in kept
    await home.done(topic.acknowledge(OperationContext(), KEY, news))
    await home.remove(home.adapter.queue_message_store(Q), *await fill(home, Q, 61, 90))
    await segments_after_cleanup(home)
    assert (await segments_after_cleanup(home))[0] > max(first, held[0])
    await home.rebuild()
    topic = home.adapter.topic_message_store(T)
    assert topic.subscriptions() == [StoredSubscription(KEY, T, "a = 1")]
    assert topic.subscription_message_count(KEY) == 0


async def test_duplicate_ids_outlive_their_segments(home: Home) -> None:
    await home.open()
    store = home.adapter.queue_message_store(Q)
    (first,) = await home.send(store, 1, properties={"_AMQ_DUPL_ID": "d"})
    producers = home.adapter._require_open().index.producers
    assert producers.last("ID:p:1:1") == 1
    await home.remove(store, first, *await fill(home, Q, 2, 30))
    assert (await segments_after_cleanup(home))[0] > 1
    await home.rebuild()
    store = home.adapter.queue_message_store(Q)
    again = home.message(31, Q, properties={"_AMQ_DUPL_ID": "d"})
    await home.done(store.add_message(OperationContext(), again))
    assert again.position is None
    assert store.last_arrival == 30
    assert home.adapter.last_broker_sequence_id == 30


async def test_a_message_that_was_changed_keeps_its_number(home: Home) -> None:
    await home.open()
    store = home.adapter.queue_message_store(Q)
    references = await fill(home, Q, 1, 30)
    references[0].message.redelivery_counter = 1
    await home.done(store.update_message(references[0]))
    await home.remove(store, *references[1:], *await fill(home, Q, 31, 60))
    await segments_after_cleanup(home)
    expected = home.state()
    await home.rebuild()
    assert home.state() == expected
    store = home.adapter.queue_message_store(Q)
    (left,) = store.next_messages(None, 5)
    assert (left.position.arrival, left.message.redelivery_counter) == (1, 1)
    references[0].position = left.position
    await home.remove(store, references[0])
    await home.remove(store, *await fill(home, Q, 61, 80))
    assert (await segments_after_cleanup(home))[0] > 1
    await home.rebuild()
    assert home.adapter.queue_message_store(Q).message_count == 0


async def test_a_removed_destination_does_not_come_back(home: Home) -> None:
    await home.open()
    await fill(home, OTHER, 1, 1)
    await fill(home, Q, 2, 20)
    home.adapter.remove_message_store(Q)
    await home.remove(home.adapter.queue_message_store(OTHER), *await fill(home, OTHER, 21, 50))
    await segments_after_cleanup(home)
    assert home.adapter.destinations() == {OTHER}
    expected = home.state()
    await home.rebuild()
    assert home.state() == expected


async def test_a_large_transaction_some_segments_of_which_are_missing(home: Any) -> None:
    """It is written before its end, over many segments, and numbered at its end."""
    await home.open(journal={"max_file_length": 1 << 20})
    store, transactions = home.adapter.queue_message_store(Q), home.adapter.transaction_store()
    await home.send(store, 1)
    xid = LocalTransactionId(1, ConnectionId("ID:c"))
    references = [home.message(n, Q, content=bytes(100_000)) for n in range(2, 92)]
    for reference in references:
        store.add_message(home.within(xid), reference)
        if reference is references[50]:
            again = home.message(500, Q, content=bytes(10))
            store.add_message(home.within(xid), again)
            await home.send(store, 500)
    await home.done(transactions.commit(xid, False))
    assert again.position is None
    assert [r.position.arrival for r in references] == list(range(3, 93))
    for reference in references:
        store.mark_visible(reference)
    await home.remove(store, *references[:30], *references[40:60])
    await home.send(store, 501)
    await segments_after_cleanup(home)
    assert len(home.adapter.journal.segments()) < 9
    expected = home.state()
    await home.rebuild(journal={"max_file_length": 1 << 20})
    assert home.state() == expected


DESTINATION = KahaDestination(0, "Q")
INFO = KahaTransactionInfo(local_transaction_id=KahaLocalTransactionId("ID:c", 1))
PLAIN = KahaRemoveMessageCommand(DESTINATION, "ID:1")
INSIDE = KahaRemoveMessageCommand(DESTINATION, "ID:2", transaction_info=INFO)
ADD = KahaAddMessageCommand(DESTINATION, "ID:3", b"m", transaction_info=INFO)
UPDATE = KahaUpdateMessageCommand(KahaAddMessageCommand(DESTINATION, "ID:4", b"m"))
UPDATE_INSIDE = KahaUpdateMessageCommand(ADD)
UPDATE_IN_TOPIC = KahaUpdateMessageCommand(
    KahaAddMessageCommand(KahaDestination(1, "T"), "ID:5", b"m")
)
COMMIT, ROLLBACK = KahaCommitCommand(INFO), KahaRollbackCommand(INFO)


@pytest.mark.parametrize(
    ("commands", "begun", "movable"),
    [
        ([PLAIN, KahaTraceCommand("LOADED")], set(), ["ID:1"]),
        ([INSIDE, ADD, COMMIT, PLAIN], set(), ["ID:2", "ID:1"]),
        ([INSIDE, ROLLBACK, PLAIN], set(), ["ID:1"]),
        ([PLAIN, UPDATE], set(), ["ID:1", "ID:4"]),
        ([PLAIN, UPDATE_INSIDE], set(), None),
        ([PLAIN, UPDATE_IN_TOPIC], set(), None),
        ([INSIDE, COMMIT], {INFO}, None),
        ([COMMIT], {INFO}, None),
        ([INSIDE], set(), None),
        ([ADD, KahaPrepareCommand(INFO)], set(), None),
        ([PLAIN, KahaRemoveDestinationCommand(DESTINATION)], set(), None),
        ([PLAIN, KahaSubscriptionCommand(KahaDestination(1, "T"), "c:s")], set(), None),
        ([PLAIN, KahaTraceCommand('pyjms:transaction ["x",[],{}]')], set(), None),
    ],
)
def test_what_can_be_moved(commands: Any, begun: Any, movable: Any) -> None:
    found = movable_acks(commands, begun)
    assert (None if found is None else [c.message_id for c in found.removes]) == movable


@pytest.mark.parametrize("prepared", [False, True])
async def test_a_removed_destination_removes_open_work_whichever_segments_are_missing(
    home: Home, prepared: bool
) -> None:
    await home.open(journal={"max_file_length": 8192})
    store, transactions = home.adapter.queue_message_store(Q), home.adapter.transaction_store()
    other = home.adapter.queue_message_store(OTHER)
    inside = home.within(XA)
    store.add_message(inside, home.message(2, Q))
    if not prepared:  # else nothing but the transaction needs the segment of the removal
        store.remove_message(inside, *await home.send(store, 1))
    added = home.message(3, OTHER)
    other.add_message(inside, added)
    if prepared:
        await home.done(transactions.prepare(XA))
        kept = await home.send(other, 100, content=bytes(9000))  # what follows is apart
    home.adapter.remove_message_store(Q)
    await home.remove(other, *await fill(home, OTHER, 200, 250))
    await home.adapter.checkpoint()
    if prepared:
        await home.rebuild(journal={"max_file_length": 8192})
        transactions = home.adapter.transaction_store()
        await home.remove(home.adapter.queue_message_store(OTHER), *kept)
        (found,) = transactions.recovered_transactions()
        assert ([d for d, _ in found.added], found.removed) == ([OTHER], [])
    await home.send(home.adapter.queue_message_store(Q), 1)
    await home.done(transactions.commit(XA, prepared))
    home.adapter.queue_message_store(OTHER).mark_visible(added)
    await home.remove(home.adapter.queue_message_store(OTHER), added)
    await fill(home, OTHER, 300, 350)
    await home.adapter.checkpoint()
    for _ in range(2):
        left = home.adapter.queue_message_store(Q).next_messages(None, 9)
        assert [m.message.type for m in left] == ["1"]
        assert home.adapter.queue_message_store(OTHER).message_count == 51
        await home.rebuild(journal={"max_file_length": 8192})


async def test_prepared_work_outlives_the_messages_of_its_destination(home: Home) -> None:
    await home.open()
    store, transactions = home.adapter.queue_message_store(Q), home.adapter.transaction_store()
    await home.send(store, 1)
    store.add_message(home.within(XA), home.message(2, Q))
    await home.done(transactions.prepare(XA))
    await home.done(store.remove_all_messages(OperationContext()))
    await home.rebuild()
    await home.done(home.adapter.transaction_store().commit(XA, True))
    await home.rebuild()
    kept = home.adapter.queue_message_store(Q).next_messages(None, 9)
    assert [m.message.type for m in kept] == ["2"]


async def test_acknowledgements_of_a_removed_destination_do_not_make_it_in_a_replay(
    home: Home,
) -> None:
    """As journals have it that were written when the commit did them still."""
    await home.open()
    store, transactions = home.adapter.queue_message_store(Q), home.adapter.transaction_store()
    (old,) = await home.send(store, 1)
    store.remove_message(home.within(XA), old)
    await home.done(transactions.prepare(XA))
    db = home.adapter._require_open()
    kaha = store._kaha
    db.index.apply_destination_removal(
        kaha, db.journal.append(encode_command(KahaRemoveDestinationCommand(kaha)))
    )
    await home.done(transactions.commit(XA, True))
    assert home.adapter.destinations() == set()
    await home.rebuild()
    assert home.adapter.destinations() == set()


async def test_an_update_is_synced(home: Home) -> None:
    await home.open()
    store = home.adapter.queue_message_store(Q)
    await home.send(store, 1)
    before = home.adapter.journal.syncs
    await home.done(store.update_message(home.message(1, Q, redelivery_counter=1)))
    assert home.adapter.journal.syncs > before
    assert home.adapter.journal.synced == home.adapter.journal.written
