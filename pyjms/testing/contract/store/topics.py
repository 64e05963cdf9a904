"""The contract of message stores of topics and their durable subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Topic
from pyjms.testing.contract.store.harness import StoreHarness
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription

__all__ = ["TopicContract"]

T = Topic("T")
KEY, OTHER = SubscriptionKey("ID:me:1", "s"), SubscriptionKey("me", "t:t")


async def subscribe(
    harness: StoreHarness, store: Any, key: SubscriptionKey, *, retroactive: bool = False
) -> None:
    """Add a durable subscription; returns when the store has it."""
    await harness.done(store.add_subscription(StoredSubscription(key, T), retroactive))


async def acknowledge(
    harness: StoreHarness, store: Any, key: SubscriptionKey, *references: Any
) -> None:
    """Acknowledge messages for a subscription one by one; returns when the store has done so."""
    for reference in references:
        await harness.done(store.acknowledge(harness.synced(), key, reference))


@pytest.mark.anyio
class TopicContract:
    """The contract of message stores of topics and their durable subscriptions."""

    async def test_a_message_is_kept_until_all_subscriptions_acknowledged_it(
        self, harness: StoreHarness
    ) -> None:
        """The last acknowledgement removes the message (activemq-persistence S3)."""
        store = harness.adapter.topic_message_store(T)
        assert harness.adapter.topic_message_store(T) is store
        await subscribe(harness, store, KEY)
        (second,) = await harness.send(store, 2)
        await subscribe(harness, store, OTHER)
        (third,) = await harness.send(store, 3)
        assert harness.subscription_texts(store, KEY) == ["2", "3"]
        assert harness.subscription_texts(store, OTHER) == ["3"]
        assert store.message_count == 2
        await acknowledge(harness, store, KEY, second, second)
        assert harness.texts(store) == ["3"]
        await acknowledge(harness, store, KEY, third)
        assert harness.texts(store) == ["3"]
        assert store.subscription_message_count(KEY) == 0
        assert store.subscription_message_count(OTHER) == 1
        await acknowledge(harness, store, OTHER, third)
        assert (harness.texts(store), store.message_count, store.message_size) == ([], 0, 0)

    async def test_without_subscriptions_nothing_is_kept(self, harness: StoreHarness) -> None:
        """A topic without durable subscriptions accepts messages but does not keep them.

        (activemq-persistence K11)
        """
        store = harness.adapter.topic_message_store(T)
        reference = harness.reference(1, T)
        await harness.done(store.add_message(OperationContext(), reference))
        assert reference.position is not None  # it is not a duplicate
        store.mark_visible(reference)
        assert store.message_count == 0
        await subscribe(harness, store, KEY)
        assert harness.subscription_texts(store, KEY) == []
        await harness.send(store, 2)
        assert harness.subscription_texts(store, KEY) == ["2"]

    async def test_subscriptions_keep_selector_and_pattern(self, harness: StoreHarness) -> None:
        """A subscription is returned as it was stored (activemq-persistence S3, S4)."""
        store = harness.adapter.topic_message_store(T)
        first = StoredSubscription(KEY, T, "a = 1", no_local=True)
        second = StoredSubscription(OTHER, Topic("T.>"))
        for subscription in (first, second):
            await harness.done(store.add_subscription(subscription, False))
        for restarts in range(2 if harness.persistent else 1):
            if restarts:
                await harness.restart()
                store = harness.adapter.topic_message_store(T)
            assert store.lookup_subscription(KEY) == first
            assert store.lookup_subscription(SubscriptionKey("x", "y")) is None
            assert sorted(store.subscriptions()) == sorted([first, second])
        await harness.done(store.delete_subscription(KEY))
        assert store.lookup_subscription(KEY) is None
        if harness.persistent:
            await harness.restart()
            store = harness.adapter.topic_message_store(T)
        assert store.subscriptions() == [second]

    async def test_deleting_a_subscription_removes_its_backlog(self, harness: StoreHarness) -> None:
        """Messages that no other subscription needs are removed together with the subscription."""
        store = harness.adapter.topic_message_store(T)
        await subscribe(harness, store, KEY)
        await harness.send(store, 1, 2)
        await subscribe(harness, store, OTHER)
        (third,) = await harness.send(store, 3)
        await harness.done(store.delete_subscription(KEY))
        await harness.done(store.delete_subscription(KEY))
        assert harness.texts(store) == ["3"]
        assert harness.subscription_texts(store, KEY) == []
        assert store.subscription_message_count(KEY) == 0
        await acknowledge(harness, store, KEY, third)
        assert harness.subscription_texts(store, OTHER) == ["3"]
        await harness.done(store.delete_subscription(OTHER))
        assert (harness.texts(store), store.message_count) == ([], 0)

    async def test_a_retroactive_subscription_gets_stored_messages(
        self, harness: StoreHarness
    ) -> None:
        """`retroactive` includes the messages that are still there (activemq-persistence S3)."""
        store = harness.adapter.topic_message_store(T)
        await subscribe(harness, store, KEY)
        first, _ = await harness.send(store, 1, 2)
        await subscribe(harness, store, OTHER, retroactive=True)
        await harness.send(store, 3)
        assert harness.subscription_texts(store, OTHER) == ["1", "2", "3"]
        await acknowledge(harness, store, KEY, first)
        if harness.persistent:
            await harness.restart()
            store = harness.adapter.topic_message_store(T)
        assert harness.subscription_texts(store, OTHER) == ["1", "2", "3"]
        assert harness.subscription_texts(store, KEY) == ["2", "3"]

    async def test_a_replaced_subscription_starts_again(self, harness: StoreHarness) -> None:
        """Storing a subscription again drops its pending messages."""
        store = harness.adapter.topic_message_store(T)
        await subscribe(harness, store, KEY)
        await harness.send(store, 1)
        changed = StoredSubscription(KEY, T, "a = 2")
        await harness.done(store.add_subscription(changed, False))
        await harness.send(store, 2)
        if harness.persistent:
            await harness.restart()
            store = harness.adapter.topic_message_store(T)
        assert store.lookup_subscription(KEY) == changed
        assert harness.subscription_texts(store, KEY) == ["2"]

    async def test_acknowledgements_survive_in_any_order(
        self, durable_harness: StoreHarness
    ) -> None:
        """Each message is acknowledged individually (activemq-persistence S4)."""
        store = durable_harness.adapter.topic_message_store(T)
        await subscribe(durable_harness, store, KEY)
        await subscribe(durable_harness, store, OTHER)
        references = await durable_harness.send(store, *range(1, 11))
        await acknowledge(durable_harness, store, KEY, *(references[i] for i in (8, 2, 3, 0)))
        await acknowledge(durable_harness, store, OTHER, *references[:5])
        await durable_harness.restart()
        store = durable_harness.adapter.topic_message_store(T)
        assert durable_harness.subscription_texts(store, KEY) == ["2", "5", "6", "7", "8", "10"]
        assert durable_harness.subscription_texts(store, OTHER) == ["6", "7", "8", "9", "10"]
        assert durable_harness.texts(store) == ["2", "5", "6", "7", "8", "9", "10"]
        assert store.subscription_message_count(KEY) == 6

    async def test_pages_of_a_subscription(self, harness: StoreHarness) -> None:
        """A subscription is read in pages like a queue (activemq-persistence S3)."""
        store = harness.adapter.topic_message_store(T)
        await subscribe(harness, store, KEY)
        references = await harness.send(store, *range(1, 8))
        hidden = harness.reference(8, T)
        await harness.done(store.add_message(OperationContext(), hidden))
        await acknowledge(harness, store, KEY, references[1])
        assert harness.subscription_texts(store, KEY, 3) == ["1", "3", "4"]
        after = references[3].position
        assert harness.subscription_texts(store, KEY, 3, after) == ["5", "6", "7"]
        skip = {references[5].position}
        found = store.next_subscription_messages(KEY, after, 3, skip)
        assert [m.message.type for m in found] == ["5", "7"]
        store.mark_visible(hidden)
        assert harness.subscription_texts(store, KEY, 9, references[6].position) == ["8"]

    async def test_all_messages_of_a_topic_can_be_removed(self, harness: StoreHarness) -> None:
        """Removed messages are pending for no subscription; subscriptions stay."""
        store = harness.adapter.topic_message_store(T)
        await subscribe(harness, store, KEY)
        first, *_ = await harness.send(store, 1, 2, 3)
        await harness.remove(store, first)
        assert harness.subscription_texts(store, KEY) == ["2", "3"]
        await harness.done(store.remove_all_messages(OperationContext()))
        assert harness.subscription_texts(store, KEY) == []
        assert store.subscription_message_count(KEY) == 0
        await harness.send(store, 4)
        if harness.persistent:
            await harness.restart()
            store = harness.adapter.topic_message_store(T)
        assert harness.subscription_texts(store, KEY) == ["4"]
