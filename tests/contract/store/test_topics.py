"""What every store does with topics and their durable subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from broker.api.context import ConnectionContext
from broker.api.message import SubscriptionKey
from broker.store.api import StoredSubscription
from pyjms.jms.destination import Topic

T = Topic("T")
KEY, OTHER = SubscriptionKey("ID:me:1", "s"), SubscriptionKey("me", "t:t")


async def subscribe(
    opened: Any, store: Any, key: SubscriptionKey, *, retroactive: bool = False
) -> None:
    await opened.done(store.add_subscription(StoredSubscription(key, T), retroactive))


async def acknowledge(opened: Any, store: Any, key: SubscriptionKey, *references: Any) -> None:
    for reference in references:
        await opened.done(store.acknowledge(opened.answering(), key, reference))


@pytest.mark.fact("activemq-persistence S3")
async def test_a_message_stays_until_the_last_subscription_acknowledged_it(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    assert opened.adapter.topic_message_store(T) is store
    await subscribe(opened, store, KEY)
    (second,) = await opened.send(store, 2)
    await subscribe(opened, store, OTHER)
    (third,) = await opened.send(store, 3)
    assert opened.subscription_texts(store, KEY) == ["2", "3"]
    assert opened.subscription_texts(store, OTHER) == ["3"]
    assert store.message_count == 2
    await acknowledge(opened, store, KEY, second, second)
    assert opened.texts(store) == ["3"]
    await acknowledge(opened, store, KEY, third)
    assert opened.texts(store) == ["3"]
    assert store.subscription_message_count(KEY) == 0
    assert store.subscription_message_count(OTHER) == 1
    await acknowledge(opened, store, OTHER, third)
    assert (opened.texts(store), store.message_count, store.message_size) == ([], 0, 0)


@pytest.mark.fact("activemq-persistence K11")
async def test_without_subscriptions_nothing_is_kept(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    reference = opened.reference(1, T)
    await opened.done(store.add_message(ConnectionContext(), reference))
    assert reference.position is not None  # it is no duplicate
    store.mark_visible(reference)
    assert store.message_count == 0
    await subscribe(opened, store, KEY)
    assert opened.subscription_texts(store, KEY) == []
    await opened.send(store, 2)
    assert opened.subscription_texts(store, KEY) == ["2"]


@pytest.mark.fact("activemq-persistence S4")
@pytest.mark.fact("activemq-persistence S3")
async def test_subscriptions_are_kept_with_all_they_have(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    first = StoredSubscription(KEY, T, "a = 1", no_local=True)
    second = StoredSubscription(OTHER, Topic("T.>"))
    for subscription in (first, second):
        await opened.done(store.add_subscription(subscription, False))
    for restarts in range(2 if opened.persistent else 1):
        if restarts:
            await opened.restart()
            store = opened.adapter.topic_message_store(T)
        assert store.lookup_subscription(KEY) == first
        assert store.lookup_subscription(SubscriptionKey("x", "y")) is None
        assert sorted(store.subscriptions()) == sorted([first, second])
    await opened.done(store.delete_subscription(KEY))
    assert store.lookup_subscription(KEY) is None
    if opened.persistent:
        await opened.restart()
        store = opened.adapter.topic_message_store(T)
    assert store.subscriptions() == [second]


async def test_the_end_of_a_subscription_frees_what_only_it_had_to_get(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    await subscribe(opened, store, KEY)
    await opened.send(store, 1, 2)
    await subscribe(opened, store, OTHER)
    (third,) = await opened.send(store, 3)
    await opened.done(store.delete_subscription(KEY))
    await opened.done(store.delete_subscription(KEY))
    assert opened.texts(store) == ["3"]
    assert opened.subscription_texts(store, KEY) == []
    assert store.subscription_message_count(KEY) == 0
    await acknowledge(opened, store, KEY, third)
    assert opened.subscription_texts(store, OTHER) == ["3"]
    await opened.done(store.delete_subscription(OTHER))
    assert (opened.texts(store), store.message_count) == ([], 0)


@pytest.mark.fact("activemq-persistence S3")
async def test_a_retroactive_subscription_gets_what_is_there(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    await subscribe(opened, store, KEY)
    first, _ = await opened.send(store, 1, 2)
    await subscribe(opened, store, OTHER, retroactive=True)
    await opened.send(store, 3)
    assert opened.subscription_texts(store, OTHER) == ["1", "2", "3"]
    await acknowledge(opened, store, KEY, first)
    if opened.persistent:
        await opened.restart()
        store = opened.adapter.topic_message_store(T)
    assert opened.subscription_texts(store, OTHER) == ["1", "2", "3"]
    assert opened.subscription_texts(store, KEY) == ["2", "3"]


async def test_a_subscription_that_comes_again_begins_anew(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    await subscribe(opened, store, KEY)
    await opened.send(store, 1)
    changed = StoredSubscription(KEY, T, "a = 2")
    await opened.done(store.add_subscription(changed, False))
    await opened.send(store, 2)
    if opened.persistent:
        await opened.restart()
        store = opened.adapter.topic_message_store(T)
    assert store.lookup_subscription(KEY) == changed
    assert opened.subscription_texts(store, KEY) == ["2"]


@pytest.mark.fact("activemq-persistence S4")
async def test_acknowledgements_survive_in_any_order(kept: Any) -> None:
    store = kept.adapter.topic_message_store(T)
    await subscribe(kept, store, KEY)
    await subscribe(kept, store, OTHER)
    references = await kept.send(store, *range(1, 11))
    await acknowledge(kept, store, KEY, *(references[i] for i in (8, 2, 3, 0)))
    await acknowledge(kept, store, OTHER, *references[:5])
    await kept.restart()
    store = kept.adapter.topic_message_store(T)
    assert kept.subscription_texts(store, KEY) == ["2", "5", "6", "7", "8", "10"]
    assert kept.subscription_texts(store, OTHER) == ["6", "7", "8", "9", "10"]
    assert kept.texts(store) == ["2", "5", "6", "7", "8", "9", "10"]
    assert store.subscription_message_count(KEY) == 6


@pytest.mark.fact("activemq-persistence S3")
async def test_pages_of_a_subscription(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    await subscribe(opened, store, KEY)
    references = await opened.send(store, *range(1, 8))
    hidden = opened.reference(8, T)
    await opened.done(store.add_message(ConnectionContext(), hidden))
    await acknowledge(opened, store, KEY, references[1])
    assert opened.subscription_texts(store, KEY, 3) == ["1", "3", "4"]
    after = references[3].position
    assert opened.subscription_texts(store, KEY, 3, after) == ["5", "6", "7"]
    skip = {references[5].position}
    found = store.next_subscription_messages(KEY, after, 3, skip)
    assert [m.message.type for m in found] == ["5", "7"]
    store.mark_visible(hidden)
    assert opened.subscription_texts(store, KEY, 9, references[6].position) == ["8"]


async def test_all_messages_of_a_topic_can_be_removed(opened: Any) -> None:
    store = opened.adapter.topic_message_store(T)
    await subscribe(opened, store, KEY)
    first, *_ = await opened.send(store, 1, 2, 3)
    await opened.remove(store, first)
    assert opened.subscription_texts(store, KEY) == ["2", "3"]
    await opened.done(store.remove_all_messages(ConnectionContext()))
    assert opened.subscription_texts(store, KEY) == []
    assert store.subscription_message_count(KEY) == 0
    await opened.send(store, 4)
    if opened.persistent:
        await opened.restart()
        store = opened.adapter.topic_message_store(T)
    assert opened.subscription_texts(store, KEY) == ["4"]
