"""The contract of transaction stores."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.testing.contract.store.harness import KEY, OTHER, StoreHarness, T
from pyjms_broker.api.message import OperationContext
from pyjms_broker.store.api import StoredSubscription

__all__ = ["TransactionContract"]


@pytest.mark.anyio
class TransactionContract:
    """The contract of transaction stores."""

    async def test_a_transaction_is_atomic(self, harness: StoreHarness) -> None:
        """Nothing is visible before the commit, everything after it."""
        store, transactions = harness.queue(), harness.adapter.transaction_store()
        (old,) = await harness.send(store, 1)
        xid = harness.local()
        inside = harness.within(xid)
        await harness.done(store.add_message(inside, harness.reference(2)))
        await harness.done(store.remove_message(inside, old))
        assert (harness.texts(store), store.message_count) == (["1"], 1)
        await harness.done(transactions.rollback(xid))
        await harness.done(transactions.commit(xid, False))
        assert (harness.texts(store), store.message_count) == (["1"], 1)
        added: Any = harness.reference(2)
        store.add_message(inside, added)
        store.remove_message(inside, old)
        await harness.send(store, 3)
        assert [added.position] == [None]
        await harness.done(transactions.commit(xid, False))
        assert added.position.arrival == 3
        assert harness.texts(store) == ["3"]
        store.mark_visible(added)
        assert harness.texts(store) == ["3", "2"]
        await harness.done(transactions.rollback(xid))
        assert harness.texts(store) == ["3", "2"]
        if harness.persistent:
            await harness.restart()
            assert harness.texts(harness.queue()) == ["3", "2"]

    async def test_arrival_numbers_follow_the_order_of_commits(self, harness: StoreHarness) -> None:
        """A message gets its position when its transaction commits."""
        store, transactions = harness.queue(), harness.adapter.transaction_store()
        first, second = harness.local(1), harness.local(2)
        references = [harness.reference(n) for n in range(1, 6)]
        for xid, reference in zip((first, second, first, second, first), references, strict=True):
            store.add_message(harness.within(xid), reference)
        await harness.done(transactions.commit(second, False))
        await harness.done(transactions.commit(first, False))
        assert [r.position.arrival for r in references] == [3, 1, 4, 2, 5]
        for reference in references:
            store.mark_visible(reference)
        assert harness.texts(store) == ["2", "4", "1", "3", "5"]

    async def test_duplicates_in_transactions_are_dropped(self, harness: StoreHarness) -> None:
        """A commit drops messages that are already stored, or repeated within the transaction."""
        store, transactions = harness.queue(), harness.adapter.transaction_store()
        await harness.send(store, 1)
        xid = harness.local()
        inside = harness.within(xid)
        again, twice = harness.reference(1, text="again"), harness.reference(3, text="twice")
        new, repeated = (
            harness.reference(2),
            harness.reference(4, properties={DUPLICATE_ID_PROPERTY: "d"}),
        )
        marked = harness.reference(3, properties={DUPLICATE_ID_PROPERTY: "d"})
        for reference in (again, new, marked, twice, repeated):
            store.add_message(inside, reference)
        await harness.done(transactions.commit(xid, False))
        positions = [r.position for r in (again, new, marked, twice, repeated)]
        assert [p and p.arrival for p in positions] == [None, 2, 3, None, None]
        assert store.message_count == 3
        if harness.persistent:
            await harness.restart()
            assert harness.texts(harness.queue()) == ["1", "2", "3"]

    async def test_open_transactions_are_rolled_back_by_a_restart(
        self, durable_harness: StoreHarness
    ) -> None:
        """Only prepared transactions survive (activemq-persistence S4)."""
        store = durable_harness.queue()
        (old,) = await durable_harness.send(store, 1)
        for xid in (durable_harness.local(), durable_harness.xa()):
            store.add_message(durable_harness.within(xid), durable_harness.reference(2))
            store.remove_message(durable_harness.within(xid), old)
        await durable_harness.restart()
        assert durable_harness.texts(durable_harness.queue()) == ["1"]
        assert durable_harness.adapter.transaction_store().recovered_transactions() == []

    async def test_a_large_transaction(self, harness: StoreHarness) -> None:
        """A transaction may be larger than what should be held in memory."""
        store, transactions = harness.queue(), harness.adapter.transaction_store()
        first, second = harness.local(1), harness.local(2)
        references = [harness.reference(n, body=bytes(60_000)) for n in range(1, 121)]
        for reference in references:
            store.add_message(harness.within(first), reference)
            store.add_message(harness.within(second), harness.reference(
                reference.message_id.producer_sequence_id + 1000, body=bytes(60_000)))  # fmt: skip
        assert store.message_count == 0
        await harness.done(transactions.rollback(second))
        await harness.done(transactions.commit(first, False))
        assert [r.position.arrival for r in references] == list(range(1, 121))
        for reference in references:
            store.mark_visible(reference)
        expected = [str(n) for n in range(1, 121)]
        assert harness.texts(store) == expected
        if harness.persistent:
            await harness.restart()
            store = harness.queue()
            assert harness.texts(store) == expected
            assert store.last_arrival == 120

    @pytest.mark.parametrize("commit", [True, False])
    async def test_prepared_work_is_hidden_until_it_ends(
        self, harness: StoreHarness, commit: bool
    ) -> None:
        """Messages that a prepared transaction has acknowledged are not returned."""
        xid, added = await harness.prepare_branch()
        queue, topic = harness.queue(), harness.adapter.topic_message_store(T)
        transactions = harness.adapter.transaction_store()
        if commit:
            await harness.done(transactions.commit(xid, True))
            queue.mark_visible(added)
            assert harness.texts(queue) == ["2", "3"]
            assert topic.subscription_message_count(KEY) == 0
        else:
            await harness.done(transactions.rollback(xid))
            assert harness.texts(queue) == ["1", "2"]
            assert harness.subscription_texts(topic, KEY) == ["11"]
        assert harness.subscription_texts(topic, OTHER) == ["11"]
        assert transactions.recovered_transactions() == []

    @pytest.mark.parametrize("restarts", [1, 2])
    @pytest.mark.parametrize("commit", [True, False])
    async def test_prepared_transactions_survive_restarts(
        self, durable_harness: StoreHarness, commit: bool, restarts: int
    ) -> None:
        """A prepared transaction can be ended after restarts (activemq-persistence S4)."""
        xid, added = await durable_harness.prepare_branch()
        for _ in range(restarts):
            await durable_harness.restart()
        queue, topic = durable_harness.queue(), durable_harness.adapter.topic_message_store(T)
        transactions = durable_harness.adapter.transaction_store()
        (found,) = transactions.recovered_transactions()
        assert found.xid == xid
        assert [(d, m.type) for d, m in found.added] == [(Queue("Q"), "3")]
        removed = {(d, k, m.message.type) for d, k, m in found.removed}
        assert removed == {(Queue("Q"), None, "1"), (T, KEY, "11")}
        positions = {m.message.type: m.position for _, _, m in found.removed}
        assert positions["1"].arrival == 1
        assert durable_harness.texts(queue) == ["2"]
        assert durable_harness.subscription_texts(topic, KEY) == []
        assert transactions.position_of(Queue("Q"), added.message_id) is None
        if commit:
            await durable_harness.done(transactions.commit(xid, True))
            added.position = transactions.position_of(Queue("Q"), added.message_id)
            assert added.position.arrival == 3
            queue.mark_visible(added)
        else:
            await durable_harness.done(transactions.rollback(xid))
        for again in range(2):
            if again:
                await durable_harness.restart()
                queue, topic = (
                    durable_harness.queue(),
                    durable_harness.adapter.topic_message_store(T),
                )
            assert durable_harness.texts(queue) == (["2", "3"] if commit else ["1", "2"])
            assert durable_harness.subscription_texts(topic, KEY) == ([] if commit else ["11"])
            assert durable_harness.subscription_texts(topic, OTHER) == ["11"]
            assert durable_harness.adapter.transaction_store().recovered_transactions() == []

    async def test_a_subscription_acknowledges_in_transactions(self, harness: StoreHarness) -> None:
        """Acknowledgements of durable subscriptions take part in transactions."""
        store, transactions = (
            harness.adapter.topic_message_store(T),
            harness.adapter.transaction_store(),
        )
        await harness.done(store.add_subscription(StoredSubscription(KEY, T), False))
        first, second = await harness.send(store, 1, 2)
        xid = harness.local()
        store.acknowledge(harness.within(xid), KEY, first)
        assert harness.subscription_texts(store, KEY) == ["1", "2"]
        await harness.done(transactions.rollback(xid))
        store.acknowledge(harness.within(xid), KEY, second)
        await harness.done(transactions.commit(xid, False))
        assert harness.subscription_texts(store, KEY) == ["1"]
        assert store.message_count == 1
        if harness.persistent:
            await harness.restart()
            store = harness.adapter.topic_message_store(T)
            assert harness.subscription_texts(store, KEY) == ["1"]

    async def test_topic_messages_in_transactions(self, harness: StoreHarness) -> None:
        """Messages of topics take part in transactions."""
        store, transactions = (
            harness.adapter.topic_message_store(T),
            harness.adapter.transaction_store(),
        )
        unneeded, needed = harness.reference(1, T), harness.reference(2, T)
        store.add_message(harness.within(harness.local(1)), unneeded)
        await harness.done(transactions.commit(harness.local(1), False))
        assert unneeded.position is not None
        await harness.done(store.add_subscription(StoredSubscription(KEY, T), False))
        store.add_message(harness.within(harness.local(2)), needed)
        await harness.done(transactions.commit(harness.local(2), False))
        store.mark_visible(needed)
        assert harness.subscription_texts(store, KEY) == ["2"]

    @pytest.mark.parametrize("prepared", [False, True])
    async def test_a_subscription_added_before_the_commit_gets_the_messages(
        self, harness: StoreHarness, prepared: bool
    ) -> None:
        """Messages exist from the commit on, not from the call of `add_message`."""
        store, transactions = (
            harness.adapter.topic_message_store(T),
            harness.adapter.transaction_store(),
        )
        await harness.done(store.add_subscription(StoredSubscription(KEY, T), False))
        (before,) = await harness.send(store, 1)
        xid = harness.xa()
        added = harness.reference(2, T)
        store.add_message(harness.within(xid), added)
        if prepared:
            await harness.done(transactions.prepare(xid))
        await harness.done(store.add_subscription(StoredSubscription(OTHER, T), False))
        start = store.last_arrival
        await harness.done(transactions.commit(xid, prepared))
        assert before.position.arrival <= start < added.position.arrival
        store.mark_visible(added)
        for again in range(2 if harness.persistent else 1):
            if again:
                await harness.restart()
                store = harness.adapter.topic_message_store(T)
            assert harness.subscription_texts(store, KEY) == ["1", "2"]
            assert harness.subscription_texts(store, OTHER) == ["2"]

    async def test_a_transaction_on_a_topic_without_subscriptions(
        self, harness: StoreHarness
    ) -> None:
        """Messages that no subscription needs get a position that precedes all others."""
        store, transactions = (
            harness.adapter.topic_message_store(T),
            harness.adapter.transaction_store(),
        )
        alone, inside = harness.reference(1, T), harness.reference(2, T)
        await harness.done(store.add_message(OperationContext(), alone))
        store.add_message(harness.within(harness.local()), inside)
        await harness.done(transactions.commit(harness.local(), False))
        await harness.done(store.add_subscription(StoredSubscription(KEY, T), False))
        assert max(alone.position.arrival, inside.position.arrival) <= store.last_arrival
        assert harness.subscription_texts(store, KEY) == []

    async def test_empty_and_unknown_transactions(self, harness: StoreHarness) -> None:
        """Unknown transactions are ignored."""
        transactions = harness.adapter.transaction_store()
        for xid in (harness.local(), harness.xa()):
            await harness.done(transactions.prepare(xid))
            await harness.done(transactions.commit(xid, False))
            await harness.done(transactions.rollback(xid))
        assert transactions.recovered_transactions() == []
        context = OperationContext()
        assert context.xid is None

    async def test_position_of_messages_of_a_recovered_transaction(
        self, durable_harness: StoreHarness
    ) -> None:
        """`position_of` returns the positions after the commit, once each."""
        queue, topic, xid = (
            durable_harness.queue(),
            durable_harness.adapter.topic_message_store(T),
            durable_harness.xa(),
        )
        again, new, published = (
            durable_harness.reference(1),
            durable_harness.reference(2),
            durable_harness.reference(3, T),
        )
        await durable_harness.done(topic.add_subscription(StoredSubscription(KEY, T), False))
        for store, reference in ((queue, again), (queue, new), (topic, published)):
            store.add_message(durable_harness.within(xid), reference)
        await durable_harness.done(durable_harness.adapter.transaction_store().prepare(xid))
        await durable_harness.restart()
        queue, transactions = durable_harness.queue(), durable_harness.adapter.transaction_store()
        await durable_harness.send(queue, 1, text="came otherwise")
        await durable_harness.done(
            durable_harness.adapter.topic_message_store(T).delete_subscription(KEY)
        )
        await durable_harness.done(transactions.commit(xid, True))
        assert transactions.position_of(Queue("Q"), again.message_id) is None
        new.position = transactions.position_of(Queue("Q"), new.message_id)
        assert new.position.arrival == 2
        assert transactions.position_of(Queue("Q"), new.message_id) is None
        assert (
            transactions.position_of(T, published.message_id).arrival == 0
        )  # no subscription needs it
        queue.mark_visible(new)
        assert durable_harness.texts(queue) == ["came otherwise", "2"]
        await durable_harness.restart()
        assert durable_harness.texts(durable_harness.queue()) == ["came otherwise", "2"]

    @pytest.mark.parametrize("again", [False, True])
    @pytest.mark.parametrize("how", ["local", "large", "prepared"])
    async def test_removing_a_destination_removes_its_transactional_work(
        self, harness: StoreHarness, how: str, again: bool
    ) -> None:
        """Open transactions commit without the work for a destination that was removed."""
        adapter, transactions = harness.adapter, harness.adapter.transaction_store()
        queue, other, topic = harness.queue(), harness.queue("R"), adapter.topic_message_store(T)
        await harness.done(topic.add_subscription(StoredSubscription(KEY, T), False))
        (old,), (published,), (unchanged,) = [
            await harness.send(s, 1) for s in (queue, topic, other)
        ]
        xid = harness.xa() if how == "prepared" else harness.local()
        inside, size = harness.within(xid), 5 << 20 if how == "large" else 0
        lost = [
            harness.reference(n, w, body=bytes(size)) for n, w in ((2, queue.destination), (3, T))
        ]
        for store, reference in zip((queue, topic), lost, strict=True):
            store.add_message(inside, reference)
        queue.remove_message(inside, old)
        topic.acknowledge(inside, KEY, published)
        other.remove_message(inside, unchanged)
        added = harness.reference(4, other.destination)
        other.add_message(inside, added)
        if how == "prepared":
            await harness.done(transactions.prepare(xid))
        for store in (queue, topic):
            adapter.remove_message_store(store.destination)
        late = harness.reference(5)
        queue.add_message(inside, late)
        queue.remove_message(inside, old)
        if again:
            await harness.send(harness.queue(), 1, 7)
        await harness.done(transactions.commit(xid, how == "prepared"))
        assert [r.position for r in (*lost, late)] == [None] * 3
        other.mark_visible(added)

        def check() -> None:
            expected = {Queue("Q"), Queue("R")} if again else {Queue("R")}
            assert harness.adapter.destinations() == expected
            assert harness.texts(harness.queue("R")) == ["4"]
            if again:
                assert harness.texts(harness.queue()) == ["1", "7"]
                assert harness.queue().message_count == 2

        check()
        if harness.persistent:
            await harness.restart()
            check()

    async def test_work_of_a_removed_destination_is_not_recovered(
        self, durable_harness: StoreHarness
    ) -> None:
        """The work stays removed after a restart."""
        await durable_harness.prepare_branch()
        durable_harness.adapter.remove_message_store(Queue("Q"))
        durable_harness.adapter.remove_message_store(T)
        await durable_harness.send(
            durable_harness.queue(), 1
        )  # as one that the transaction has acknowledged
        for _ in range(2):
            await durable_harness.restart()
            assert durable_harness.texts(durable_harness.queue()) == ["1"]
        transactions = durable_harness.adapter.transaction_store()
        for found in transactions.recovered_transactions():
            assert (found.added, found.removed) == ([], [])
            await durable_harness.done(transactions.commit(found.xid, True))
        for _ in range(2):
            assert durable_harness.adapter.destinations() == {Queue("Q")}
            assert durable_harness.texts(durable_harness.queue()) == ["1"]
            await durable_harness.restart()

    @pytest.mark.parametrize("restarts", [0, 1])
    async def test_remove_all_messages_keeps_prepared_work(
        self, durable_harness: StoreHarness, restarts: int
    ) -> None:
        """`remove_all_messages` does not affect prepared transactions."""
        xid, added = await durable_harness.prepare_branch()
        await durable_harness.done(durable_harness.queue().remove_all_messages(OperationContext()))
        for _ in range(restarts):
            await durable_harness.restart()
        transactions = durable_harness.adapter.transaction_store()
        await durable_harness.done(transactions.commit(xid, True))
        if restarts:
            added.position = transactions.position_of(Queue("Q"), added.message_id)
        durable_harness.queue().mark_visible(added)
        assert durable_harness.texts(durable_harness.queue()) == ["3"]
        await durable_harness.restart()
        assert durable_harness.texts(durable_harness.queue()) == ["3"]
