"""What every store's adapter knows and does as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from broker.api.context import ConnectionContext
from broker.api.message import SubscriptionKey
from broker.store.api import StoredSubscription, StoreState
from broker.store.jobs import KahaDBJobSchedulerStore, MemoryJobSchedulerStore, ScheduledJob
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ProducerId

Q, R, T = Queue("Q"), Queue("R"), Topic("T")
KEY = SubscriptionKey("me", "s")
OTHER = ProducerId("ID:host-2", 1, 1)


@pytest.mark.fact("activemq-persistence S1")
async def test_destinations_are_made_listed_and_removed(opened: Any) -> None:
    adapter = opened.adapter
    assert adapter.destinations() == set()
    for name in ("Q", "R"):
        await opened.send(opened.queue(name), 1)
    topic = adapter.topic_message_store(T)
    await opened.done(topic.add_subscription(StoredSubscription(KEY, T), False))
    assert adapter.destinations() == {Q, R, T}
    adapter.remove_message_store(R)
    assert adapter.destinations() == {Q, T}
    if opened.persistent:
        await opened.restart()
        assert opened.adapter.destinations() == {Q, T}
        assert opened.texts(opened.queue()) == ["1"]
    assert opened.texts(opened.queue("R")) == []


@pytest.mark.fact("activemq-persistence S1")
async def test_one_transaction_store_groups_the_calls_of_a_context(opened: Any) -> None:
    transactions = opened.adapter.transaction_store()
    assert opened.adapter.transaction_store() is transactions
    one, other = opened.queue("Q"), opened.queue("R")
    (old,) = await opened.send(one, 1)
    ends = ((opened.local(1), transactions.rollback), (opened.local(2), None))
    for number, (xid, rollback) in enumerate(ends, 2):
        inside = opened.within(xid)
        added = [opened.reference(number, Q), opened.reference(number, R)]
        for store, reference in zip((one, other), added, strict=True):
            store.add_message(inside, reference)
        one.remove_message(inside, old)
        assert (opened.texts(one), opened.texts(other)) == (["1"], [])
        await opened.done(rollback(xid) if rollback else transactions.commit(xid, False))
    for store, reference in zip((one, other), added, strict=True):
        store.mark_visible(reference)
    assert (opened.texts(one), opened.texts(other)) == (["3"], ["3"])


@pytest.mark.fact("activemq-persistence S1")
async def test_it_knows_the_last_numbers_of_the_broker_and_of_producers(opened: Any) -> None:
    adapter = opened.adapter
    assert adapter.last_broker_sequence_id == 0
    assert adapter.last_producer_sequence_id(OTHER) == -1
    queue, second = opened.queue("Q"), opened.queue("R")
    references = await opened.send(queue, 4, 7)
    await opened.send(second, 5, producer=OTHER)
    await opened.remove(queue, *references)
    for restart in (False, True):
        if restart:
            if not opened.persistent:
                break
            await opened.adapter.checkpoint()
            await opened.restart()
        found = [
            opened.adapter.last_producer_sequence_id(producer)
            for producer in (OTHER, references[0].message.producer_id)
        ]
        # in memory the queues' own audit finds what a producer sends again
        assert found == ([5, 7] if opened.persistent else [-1, -1])
        assert opened.adapter.last_broker_sequence_id == 107


@pytest.mark.fact("activemq-persistence S1")
async def test_its_size_checkpoints_and_a_new_beginning(opened: Any) -> None:
    queue = opened.queue()
    await opened.send(queue, *range(1, 30), body=bytes(2000))
    await opened.adapter.checkpoint()
    assert opened.adapter.state is StoreState.RUNNING
    assert opened.texts(queue, limit=2) == ["1", "2"]
    if not opened.persistent:
        assert opened.adapter.size == 0
        return
    elsewhere = not opened.adapter.directory.exists()  # a database server's, as in ActiveMQ
    assert opened.adapter.size == 0 if elsewhere else opened.adapter.size > 29 * 2000
    await opened.adapter.stop()
    adapter = opened.adapter = opened.make()
    await adapter.delete_all_messages()
    await adapter.start()
    assert adapter.destinations() == set()
    await opened.restart()
    assert opened.adapter.destinations() == set()
    assert opened.texts(opened.queue()) == []


@pytest.mark.fact("activemq-persistence S1")
async def test_the_store_of_jobs_lies_beside_it(opened: Any, tmp_path: Any) -> None:
    make = (
        (lambda: KahaDBJobSchedulerStore(tmp_path / "scheduler"))
        if opened.persistent
        else MemoryJobSchedulerStore
    )
    jobs: Any = make()
    await jobs.start()
    message = opened.reference(1).message
    answer = jobs.scheduler().add(ScheduledJob("a", 1, 2), message)
    opened.queue().add_message(ConnectionContext(), opened.reference(2))
    await opened.done(answer)
    await opened.restart()
    assert jobs.scheduler().message("a").type == "1"
    await jobs.stop()
    again: Any = make()
    await again.start()
    assert len(again.scheduler()) == (1 if opened.persistent else 0)
    await again.stop()
