"""What every store does with local and XA transactions."""

from __future__ import annotations

from typing import Any

import pytest

from broker.api.context import ConnectionContext
from broker.api.message import SubscriptionKey
from broker.store.api import StoredSubscription
from pyjms.jms.destination import Queue, Topic

T = Topic("T")
KEY, OTHER = SubscriptionKey("me", "s"), SubscriptionKey("me", "t")


async def test_a_transaction_does_all_or_nothing(opened: Any) -> None:
    store, transactions = opened.queue(), opened.adapter.transaction_store()
    (old,) = await opened.send(store, 1)
    xid = opened.local()
    inside = opened.within(xid)
    await opened.done(store.add_message(inside, opened.reference(2)))
    await opened.done(store.remove_message(inside, old))
    assert (opened.texts(store), store.message_count) == (["1"], 1)
    await opened.done(transactions.rollback(xid))
    await opened.done(transactions.commit(xid, False))
    assert (opened.texts(store), store.message_count) == (["1"], 1)
    added = opened.reference(2)
    store.add_message(inside, added)
    store.remove_message(inside, old)
    await opened.send(store, 3)
    assert added.position is None
    await opened.done(transactions.commit(xid, False))
    assert added.position.arrival == 3
    assert opened.texts(store) == ["3"]
    store.mark_visible(added)
    assert opened.texts(store) == ["3", "2"]
    await opened.done(transactions.rollback(xid))
    assert opened.texts(store) == ["3", "2"]
    if opened.persistent:
        await opened.restart()
        assert opened.texts(opened.queue()) == ["3", "2"]


async def test_numbers_come_in_the_order_of_commits(opened: Any) -> None:
    store, transactions = opened.queue(), opened.adapter.transaction_store()
    first, second = opened.local(1), opened.local(2)
    references = [opened.reference(n) for n in range(1, 6)]
    for xid, reference in zip((first, second, first, second, first), references, strict=True):
        store.add_message(opened.within(xid), reference)
    await opened.done(transactions.commit(second, False))
    await opened.done(transactions.commit(first, False))
    assert [r.position.arrival for r in references] == [3, 1, 4, 2, 5]
    for reference in references:
        store.mark_visible(reference)
    assert opened.texts(store) == ["2", "4", "1", "3", "5"]


async def test_duplicates_in_transactions_are_left_out(opened: Any) -> None:
    store, transactions = opened.queue(), opened.adapter.transaction_store()
    await opened.send(store, 1)
    xid = opened.local()
    inside = opened.within(xid)
    again, twice = opened.reference(1, text="again"), opened.reference(3, text="twice")
    new, repeated = opened.reference(2), opened.reference(4, properties={"_AMQ_DUPL_ID": "d"})
    marked = opened.reference(3, properties={"_AMQ_DUPL_ID": "d"})
    for reference in (again, new, marked, twice, repeated):
        store.add_message(inside, reference)
    await opened.done(transactions.commit(xid, False))
    positions = [r.position for r in (again, new, marked, twice, repeated)]
    assert [p and p.arrival for p in positions] == [None, 2, 3, None, None]
    assert store.message_count == 3
    if opened.persistent:
        await opened.restart()
        assert opened.texts(opened.queue()) == ["1", "2", "3"]


@pytest.mark.fact("activemq-persistence S4")
async def test_what_was_not_committed_is_gone_after_a_restart(kept: Any) -> None:
    store = kept.queue()
    (old,) = await kept.send(store, 1)
    for xid in (kept.local(), kept.xa()):
        store.add_message(kept.within(xid), kept.reference(2))
        store.remove_message(kept.within(xid), old)
    await kept.restart()
    assert kept.texts(kept.queue()) == ["1"]
    assert kept.adapter.transaction_store().recovered() == []


async def test_a_large_transaction(opened: Any) -> None:
    store, transactions = opened.queue(), opened.adapter.transaction_store()
    first, second = opened.local(1), opened.local(2)
    references = [opened.reference(n, body=bytes(60_000)) for n in range(1, 121)]
    for reference in references:
        store.add_message(opened.within(first), reference)
        store.add_message(opened.within(second), opened.reference(
            reference.message_id.producer_sequence_id + 1000, body=bytes(60_000)))  # fmt: skip
    assert store.message_count == 0
    await opened.done(transactions.rollback(second))
    await opened.done(transactions.commit(first, False))
    assert [r.position.arrival for r in references] == list(range(1, 121))
    for reference in references:
        store.mark_visible(reference)
    expected = [str(n) for n in range(1, 121)]
    assert opened.texts(store) == expected
    if opened.persistent:
        await opened.restart()
        store = opened.queue()
        assert opened.texts(store) == expected
        assert store.last_arrival == 120


async def prepare(opened: Any) -> Any:
    """Prepare a branch: it adds 3 to Q and acknowledges 1, on T it acknowledges 11 for KEY."""
    queue, topic = opened.queue(), opened.adapter.topic_message_store(T)
    first, _ = await opened.send(queue, 1, 2)
    for key in (KEY, OTHER):
        await opened.done(topic.add_subscription(StoredSubscription(key, T), False))
    (news,) = await opened.send(topic, 11)
    xid = opened.xa()
    inside = opened.within(xid)
    added = opened.reference(3)
    queue.add_message(inside, added)
    queue.remove_message(inside, first)
    topic.acknowledge(inside, KEY, news)
    await opened.done(opened.adapter.transaction_store().prepare(xid))
    assert opened.texts(queue) == ["2"]
    assert opened.subscription_texts(topic, KEY) == []
    assert opened.subscription_texts(topic, OTHER) == ["11"]
    return xid, added


@pytest.mark.parametrize("commit", [True, False])
async def test_prepared_work_is_hidden_until_its_end(opened: Any, commit: bool) -> None:
    xid, added = await prepare(opened)
    queue, topic = opened.queue(), opened.adapter.topic_message_store(T)
    transactions = opened.adapter.transaction_store()
    if commit:
        await opened.done(transactions.commit(xid, True))
        queue.mark_visible(added)
        assert opened.texts(queue) == ["2", "3"]
        assert topic.subscription_message_count(KEY) == 0
    else:
        await opened.done(transactions.rollback(xid))
        assert opened.texts(queue) == ["1", "2"]
        assert opened.subscription_texts(topic, KEY) == ["11"]
    assert opened.subscription_texts(topic, OTHER) == ["11"]
    assert transactions.recovered() == []


@pytest.mark.fact("activemq-persistence S4")
@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_prepared_work_waits_for_its_end_over_restarts(
    kept: Any, commit: bool, restarts: int
) -> None:
    xid, added = await prepare(kept)
    for _ in range(restarts):
        await kept.restart()
    queue, topic = kept.queue(), kept.adapter.topic_message_store(T)
    transactions = kept.adapter.transaction_store()
    (found,) = transactions.recovered()
    assert found.xid == xid
    assert [(d, m.type) for d, m in found.added] == [(Queue("Q"), "3")]
    removed = {(d, k, m.message.type) for d, k, m in found.removed}
    assert removed == {(Queue("Q"), None, "1"), (T, KEY, "11")}
    positions = {m.message.type: m.position for _, _, m in found.removed}
    assert positions["1"].arrival == 1
    assert kept.texts(queue) == ["2"]
    assert kept.subscription_texts(topic, KEY) == []
    assert transactions.position_of(Queue("Q"), added.message_id) is None
    if commit:
        await kept.done(transactions.commit(xid, True))
        added.position = transactions.position_of(Queue("Q"), added.message_id)
        assert added.position.arrival == 3
        queue.mark_visible(added)
    else:
        await kept.done(transactions.rollback(xid))
    for again in range(2):
        if again:
            await kept.restart()
            queue, topic = kept.queue(), kept.adapter.topic_message_store(T)
        assert kept.texts(queue) == (["2", "3"] if commit else ["1", "2"])
        assert kept.subscription_texts(topic, KEY) == ([] if commit else ["11"])
        assert kept.subscription_texts(topic, OTHER) == ["11"]
        assert kept.adapter.transaction_store().recovered() == []


async def test_acknowledgements_of_a_subscription_in_transactions(opened: Any) -> None:
    store, transactions = opened.adapter.topic_message_store(T), opened.adapter.transaction_store()
    await opened.done(store.add_subscription(StoredSubscription(KEY, T), False))
    first, second = await opened.send(store, 1, 2)
    xid = opened.local()
    store.acknowledge(opened.within(xid), KEY, first)
    assert opened.subscription_texts(store, KEY) == ["1", "2"]
    await opened.done(transactions.rollback(xid))
    store.acknowledge(opened.within(xid), KEY, second)
    await opened.done(transactions.commit(xid, False))
    assert opened.subscription_texts(store, KEY) == ["1"]
    assert store.message_count == 1
    if opened.persistent:
        await opened.restart()
        store = opened.adapter.topic_message_store(T)
        assert opened.subscription_texts(store, KEY) == ["1"]


async def test_messages_of_a_topic_in_transactions(opened: Any) -> None:
    store, transactions = opened.adapter.topic_message_store(T), opened.adapter.transaction_store()
    unneeded, needed = opened.reference(1, T), opened.reference(2, T)
    store.add_message(opened.within(opened.local(1)), unneeded)
    await opened.done(transactions.commit(opened.local(1), False))
    assert unneeded.position is not None
    await opened.done(store.add_subscription(StoredSubscription(KEY, T), False))
    store.add_message(opened.within(opened.local(2)), needed)
    await opened.done(transactions.commit(opened.local(2), False))
    store.mark_visible(needed)
    assert opened.subscription_texts(store, KEY) == ["2"]


@pytest.mark.parametrize("prepared", [False, True])
async def test_who_subscribes_before_the_commit_gets_what_it_brings(
    opened: Any, prepared: bool
) -> None:
    store, transactions = opened.adapter.topic_message_store(T), opened.adapter.transaction_store()
    await opened.done(store.add_subscription(StoredSubscription(KEY, T), False))
    (before,) = await opened.send(store, 1)
    xid = opened.xa()
    added = opened.reference(2, T)
    store.add_message(opened.within(xid), added)
    if prepared:
        await opened.done(transactions.prepare(xid))
    await opened.done(store.add_subscription(StoredSubscription(OTHER, T), False))
    start = store.last_arrival
    await opened.done(transactions.commit(xid, prepared))
    assert before.position.arrival <= start < added.position.arrival
    store.mark_visible(added)
    for again in range(2 if opened.persistent else 1):
        if again:
            await opened.restart()
            store = opened.adapter.topic_message_store(T)
        assert opened.subscription_texts(store, KEY) == ["1", "2"]
        assert opened.subscription_texts(store, OTHER) == ["2"]


async def test_what_nobody_needed_has_a_place_before_the_first_subscription(opened: Any) -> None:
    store, transactions = opened.adapter.topic_message_store(T), opened.adapter.transaction_store()
    alone, inside = opened.reference(1, T), opened.reference(2, T)
    await opened.done(store.add_message(ConnectionContext(), alone))
    store.add_message(opened.within(opened.local()), inside)
    await opened.done(transactions.commit(opened.local(), False))
    await opened.done(store.add_subscription(StoredSubscription(KEY, T), False))
    assert max(alone.position.arrival, inside.position.arrival) <= store.last_arrival
    assert opened.subscription_texts(store, KEY) == []


async def test_transactions_without_work(opened: Any) -> None:
    transactions = opened.adapter.transaction_store()
    for xid in (opened.local(), opened.xa()):
        await opened.done(transactions.prepare(xid))
        await opened.done(transactions.commit(xid, False))
        await opened.done(transactions.rollback(xid))
    assert transactions.recovered() == []
    context = ConnectionContext()
    assert context.transaction is None


async def test_a_recovered_transaction_says_where_its_messages_stand(kept: Any) -> None:
    queue, topic, xid = kept.queue(), kept.adapter.topic_message_store(T), kept.xa()
    again, new, news = kept.reference(1), kept.reference(2), kept.reference(3, T)
    await kept.done(topic.add_subscription(StoredSubscription(KEY, T), False))
    for store, reference in ((queue, again), (queue, new), (topic, news)):
        store.add_message(kept.within(xid), reference)
    await kept.done(kept.adapter.transaction_store().prepare(xid))
    await kept.restart()
    queue, transactions = kept.queue(), kept.adapter.transaction_store()
    await kept.send(queue, 1, text="came otherwise")
    await kept.done(kept.adapter.topic_message_store(T).delete_subscription(KEY))
    await kept.done(transactions.commit(xid, True))
    assert transactions.position_of(Queue("Q"), again.message_id) is None
    new.position = transactions.position_of(Queue("Q"), new.message_id)
    assert new.position.arrival == 2
    assert transactions.position_of(Queue("Q"), new.message_id) is None
    assert transactions.position_of(T, news.message_id).arrival == 0  # nobody needs it stored
    queue.mark_visible(new)
    assert kept.texts(queue) == ["came otherwise", "2"]
    await kept.restart()
    assert kept.texts(kept.queue()) == ["came otherwise", "2"]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("how", ["local", "large", "prepared"])
async def test_a_removed_destination_takes_the_work_of_open_transactions_with_it(
    opened: Any, how: str, again: bool
) -> None:
    adapter, transactions = opened.adapter, opened.adapter.transaction_store()
    queue, other, topic = opened.queue(), opened.queue("R"), adapter.topic_message_store(T)
    await opened.done(topic.add_subscription(StoredSubscription(KEY, T), False))
    (old,), (news,), (kept,) = [await opened.send(s, 1) for s in (queue, topic, other)]
    xid = opened.xa() if how == "prepared" else opened.local()
    inside, size = opened.within(xid), 5 << 20 if how == "large" else 0
    lost = [opened.reference(n, w, body=bytes(size)) for n, w in ((2, queue.destination), (3, T))]
    for store, reference in zip((queue, topic), lost, strict=True):
        store.add_message(inside, reference)
    queue.remove_message(inside, old)
    topic.acknowledge(inside, KEY, news)
    other.remove_message(inside, kept)
    added = opened.reference(4, other.destination)
    other.add_message(inside, added)
    if how == "prepared":
        await opened.done(transactions.prepare(xid))
    for store in (queue, topic):
        adapter.remove_message_store(store.destination)
    late = opened.reference(5)
    queue.add_message(inside, late)
    queue.remove_message(inside, old)
    if again:
        await opened.send(opened.queue(), 1, 7)
    await opened.done(transactions.commit(xid, how == "prepared"))
    assert [r.position for r in (*lost, late)] == [None] * 3
    other.mark_visible(added)

    def check() -> None:
        expected = {Queue("Q"), Queue("R")} if again else {Queue("R")}
        assert opened.adapter.destinations() == expected
        assert opened.texts(opened.queue("R")) == ["4"]
        if again:
            assert opened.texts(opened.queue()) == ["1", "7"]
            assert opened.queue().message_count == 2

    check()
    if opened.persistent:
        await opened.restart()
        check()


async def test_prepared_work_of_a_removed_destination_does_not_come_back(kept: Any) -> None:
    await prepare(kept)
    kept.adapter.remove_message_store(Queue("Q"))
    kept.adapter.remove_message_store(T)
    await kept.send(kept.queue(), 1)  # as one that the transaction has acknowledged
    for _ in range(2):
        await kept.restart()
        assert kept.texts(kept.queue()) == ["1"]
    transactions = kept.adapter.transaction_store()
    for found in transactions.recovered():
        assert (found.added, found.removed) == ([], [])
        await kept.done(transactions.commit(found.xid, True))
    for _ in range(2):
        assert kept.adapter.destinations() == {Queue("Q")}
        assert kept.texts(kept.queue()) == ["1"]
        await kept.restart()


@pytest.mark.parametrize("restarts", [0, 1])
async def test_prepared_work_outlives_the_messages_of_its_destination(
    kept: Any, restarts: int
) -> None:
    xid, added = await prepare(kept)
    await kept.done(kept.queue().remove_all_messages(ConnectionContext()))
    for _ in range(restarts):
        await kept.restart()
    transactions = kept.adapter.transaction_store()
    await kept.done(transactions.commit(xid, True))
    if restarts:
        added.position = transactions.position_of(Queue("Q"), added.message_id)
    kept.queue().mark_visible(added)
    assert kept.texts(kept.queue()) == ["3"]
    await kept.restart()
    assert kept.texts(kept.queue()) == ["3"]
