"""The contract of persistence adapters as a whole."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.testing.contract.store.harness import StoreHarness
from pyjms.wire.openwire.commands import ProducerId
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import StoredSubscription, StoreState

__all__ = ["AdapterContract"]

Q, R, T = Queue("Q"), Queue("R"), Topic("T")


KEY = SubscriptionKey("me", "s")


OTHER = ProducerId("ID:host-2", 1, 1)


@pytest.mark.anyio
class AdapterContract:
    """The contract of persistence adapters as a whole."""

    async def test_destinations_are_listed(self, harness: StoreHarness) -> None:
        """`destinations` returns the destinations with content (activemq-persistence S1)."""
        adapter = harness.adapter
        assert adapter.destinations() == set()
        for name in ("Q", "R"):
            await harness.send(harness.queue(name), 1)
        topic = adapter.topic_message_store(T)
        await harness.done(topic.add_subscription(StoredSubscription(KEY, T), False))
        assert adapter.destinations() == {Q, R, T}
        adapter.remove_message_store(R)
        assert adapter.destinations() == {Q, T}
        if harness.persistent:
            await harness.restart()
            assert harness.adapter.destinations() == {Q, T}
            assert harness.texts(harness.queue()) == ["1"]
        assert harness.texts(harness.queue("R")) == []

    async def test_a_transaction_spans_destinations(self, harness: StoreHarness) -> None:
        """One transaction store groups the calls of a context (activemq-persistence S1)."""
        transactions = harness.adapter.transaction_store()
        assert harness.adapter.transaction_store() is transactions
        one, other = harness.queue("Q"), harness.queue("R")
        (old,) = await harness.send(one, 1)
        ends = ((harness.local(1), transactions.rollback), (harness.local(2), None))
        for number, (xid, rollback) in enumerate(ends, 2):
            inside = harness.within(xid)
            added = [harness.reference(number, Q), harness.reference(number, R)]
            for store, reference in zip((one, other), added, strict=True):
                store.add_message(inside, reference)
            one.remove_message(inside, old)
            assert (harness.texts(one), harness.texts(other)) == (["1"], [])
            await harness.done(rollback(xid) if rollback else transactions.commit(xid, False))
        for store, reference in zip((one, other), added, strict=True):
            store.mark_visible(reference)
        assert (harness.texts(one), harness.texts(other)) == (["3"], ["3"])

    async def test_last_sequence_numbers_survive(self, harness: StoreHarness) -> None:
        """The last sequence numbers survive removals and restarts (activemq-persistence S1)."""
        adapter = harness.adapter
        assert adapter.last_broker_sequence_id == 0
        assert adapter.last_producer_sequence_id(OTHER) == -1
        queue, second = harness.queue("Q"), harness.queue("R")
        references = await harness.send(queue, 4, 7)
        await harness.send(second, 5, producer=OTHER)
        await harness.remove(queue, *references)
        for restart in (False, True):
            if restart:
                if not harness.persistent:
                    break
                await harness.adapter.checkpoint()
                await harness.restart()
            found = [
                harness.adapter.last_producer_sequence_id(producer)
                for producer in (OTHER, references[0].message.producer_id)
            ]
            # in memory, the queues' own audit detects what a producer sends again
            assert found == ([5, 7] if harness.persistent else [-1, -1])
            assert harness.adapter.last_broker_sequence_id == 107

    async def test_size_checkpoint_and_deletion(self, harness: StoreHarness) -> None:
        """`size`, `checkpoint` and `delete_all_messages` work together.

        (activemq-persistence S1)
        """
        queue = harness.queue()
        await harness.send(queue, *range(1, 30), body=bytes(2000))
        await harness.adapter.checkpoint()
        assert harness.adapter.state is StoreState.RUNNING
        assert harness.texts(queue, limit=2) == ["1", "2"]
        if not harness.persistent:
            assert harness.adapter.size == 0
            return
        elsewhere = not harness.adapter.directory.exists()  # on a database server, as in ActiveMQ
        assert harness.adapter.size == 0 if elsewhere else harness.adapter.size > 29 * 2000
        await harness.adapter.stop()
        adapter = harness.adapter = harness.make()
        await adapter.delete_all_messages()
        await adapter.start()
        assert adapter.destinations() == set()
        await harness.restart()
        assert harness.adapter.destinations() == set()
        assert harness.texts(harness.queue()) == []
