"""What every store must do; runs for each implementation."""

from __future__ import annotations

import pytest

from broker.context import ConnectionContext
from broker.policy.entry import PolicyEntry
from broker.region.message import MessageReference
from broker.region.region_broker import RegionBroker
from broker.store.api import PersistenceAdapter, StoredSubscription, SubscriptionKey
from broker.store.memory import MemoryPersistenceAdapter
from broker.transaction.local import LocalTransaction
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    LocalTransactionId,
    MessageId,
    ProducerId,
)

STORES = {"memory": MemoryPersistenceAdapter}
PRODUCER = ProducerId("c", 1, 1)
Q, T = Queue("Q"), Topic("T")


@pytest.fixture(params=STORES)
def adapter(request: pytest.FixtureRequest) -> PersistenceAdapter:
    return STORES[request.param]()


@pytest.fixture
def context() -> ConnectionContext:
    return ConnectionContext()


def reference(adapter: PersistenceAdapter, number: int, where: Destination = Q) -> MessageReference:
    message = ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=where,
        message_id=MessageId(None, PRODUCER, number, 100 + number),
        persistent=True,
        type=str(number),
    )
    destination = RegionBroker(MemoryPersistenceAdapter()).add_destination(
        ConnectionContext(), where
    )
    return MessageReference(message, destination, PolicyEntry().minimum_message_size)


def texts(store) -> list[str | None]:
    found = []
    store.recover(lambda message: found.append(message.type) or True)
    return found


def begin(adapter: PersistenceAdapter, context: ConnectionContext) -> LocalTransaction:
    tx = LocalTransaction(LocalTransactionId(1), adapter.transaction_store(), lambda _: None)
    context.transaction = tx
    return tx


async def test_messages_are_kept_in_order_until_removed(adapter, context):
    await adapter.start()
    store = adapter.queue_message_store(Q)
    assert adapter.queue_message_store(Q) is store
    references = [reference(adapter, n) for n in (1, 2, 3)]
    for each in references:
        store.add_message(context, each)
    assert texts(store) == ["1", "2", "3"]
    assert store.message_count == 3
    assert store.message_size == sum(r.size for r in references)
    store.remove_message(context, references[1])
    store.remove_message(context, references[1])
    assert texts(store) == ["1", "3"]
    assert store.message_size == references[0].size + references[2].size
    assert store.get_message(references[0].message_id).type == "1"
    assert store.get_message(references[1].message_id) is None
    store.remove_all_messages(context)
    assert (texts(store), store.message_count, store.message_size) == ([], 0, 0)
    await adapter.stop()
    await adapter.stop()


async def test_recovery_can_stop(adapter, context):
    await adapter.start()
    store = adapter.queue_message_store(Q)
    for n in (1, 2, 3):
        store.add_message(context, reference(adapter, n))
    seen = []

    def visitor(message):
        seen.append(message.type)
        return len(seen) < 2

    store.recover(visitor)
    assert seen == ["1", "2"]
    await adapter.stop()


async def test_a_message_can_be_updated(adapter, context):
    await adapter.start()
    store = adapter.queue_message_store(Q)
    first, newer = reference(adapter, 1), reference(adapter, 1)
    newer.message.type = "newer"
    store.add_message(context, first)
    store.add_message(context, reference(adapter, 2))
    store.update_message(newer)
    assert texts(store) == ["newer", "2"]
    store.update_message(reference(adapter, 9))
    assert store.message_count == 2
    await adapter.stop()


async def test_destinations(adapter, context):
    await adapter.start()
    assert adapter.destinations() == set()
    adapter.queue_message_store(Q).add_message(context, reference(adapter, 1))
    adapter.topic_message_store(T)
    assert adapter.destinations() == {Q, T}
    adapter.remove_message_store(Q)
    adapter.remove_message_store(Q)
    assert adapter.destinations() == {T}
    assert adapter.queue_message_store(Q).message_count == 0
    await adapter.stop()


async def test_the_highest_sequence_number(adapter, context):
    await adapter.start()
    assert adapter.last_broker_sequence_id == 0
    store = adapter.queue_message_store(Q)
    store.add_message(context, reference(adapter, 7))
    store.add_message(context, reference(adapter, 3))
    store.remove_all_messages(context)
    assert adapter.last_broker_sequence_id == 107
    assert adapter.last_producer_sequence_id(ProducerId("other", 1, 1)) == -1
    await adapter.stop()


async def test_a_transaction_does_all_or_nothing(adapter, context):
    await adapter.start()
    store, transactions = adapter.queue_message_store(Q), adapter.transaction_store()
    old = reference(adapter, 1)
    store.add_message(context, old)
    tx = begin(adapter, context)
    store.add_message(context, reference(adapter, 2))
    store.remove_message(context, old)
    context.transaction = None
    assert texts(store) == ["1"]
    transactions.rollback(tx.xid)
    assert texts(store) == ["1"]
    transactions.commit(tx.xid, False)
    assert texts(store) == ["1"]
    begin(adapter, context)
    store.add_message(context, reference(adapter, 2))
    store.remove_message(context, old)
    context.transaction = None
    store.add_message(context, reference(adapter, 3))
    transactions.prepare(tx.xid)
    assert texts(store) == ["1", "3"]
    transactions.commit(tx.xid, True)
    assert texts(store) == ["3", "2"]
    await adapter.stop()


KEY, OTHER = SubscriptionKey("me", "s"), SubscriptionKey("me", "t")


def subscription_texts(store, key):
    found = []
    store.recover_subscription(key, lambda message: found.append(message.type) or True)
    return found


async def test_durable_subscriptions(adapter, context):
    await adapter.start()
    store = adapter.topic_message_store(T)
    assert adapter.topic_message_store(T) is store
    store.add_message(context, reference(adapter, 1, T))
    assert store.message_count == 0
    kept = StoredSubscription(KEY, T, "a = 1", True)
    store.add_subscription(kept, False)
    assert store.lookup_subscription(KEY) == kept
    assert store.lookup_subscription(OTHER) is None
    second, third = reference(adapter, 2, T), reference(adapter, 3, T)
    store.add_message(context, second)
    store.add_subscription(StoredSubscription(OTHER, T), False)
    store.add_message(context, third)
    assert subscription_texts(store, KEY) == ["2", "3"]
    assert subscription_texts(store, OTHER) == ["3"]
    assert [s.key for s in store.subscriptions()] == [KEY, OTHER]
    store.acknowledge(context, KEY, second.message_id)
    store.acknowledge(context, KEY, second.message_id)
    assert texts(store) == ["3"]
    store.acknowledge(context, KEY, third.message_id)
    assert (texts(store), store.subscription_message_count(KEY)) == (["3"], 0)
    store.delete_subscription(OTHER)
    store.delete_subscription(OTHER)
    assert texts(store) == []
    assert store.subscription_message_count(OTHER) == 0
    await adapter.stop()


async def test_a_retroactive_subscription_gets_what_is_there(adapter, context):
    await adapter.start()
    store = adapter.topic_message_store(T)
    store.add_subscription(StoredSubscription(KEY, T), False)
    store.add_message(context, reference(adapter, 1, T))
    store.add_subscription(StoredSubscription(OTHER, T), True)
    assert subscription_texts(store, OTHER) == ["1"]
    store.remove_all_messages(context)
    assert subscription_texts(store, KEY) == []
    await adapter.stop()


async def test_acknowledgements_in_transactions(adapter, context):
    await adapter.start()
    store = adapter.topic_message_store(T)
    store.add_subscription(StoredSubscription(KEY, T), False)
    message = reference(adapter, 1, T)
    store.add_message(context, message)
    tx = begin(adapter, context)
    store.acknowledge(context, KEY, message.message_id)
    context.transaction = None
    assert subscription_texts(store, KEY) == ["1"]
    adapter.transaction_store().commit(tx.xid, False)
    assert texts(store) == []
    store.add_message(context, message)
    store.remove_message(context, message)
    assert store.subscription_message_count(KEY) == 0
    await adapter.stop()
