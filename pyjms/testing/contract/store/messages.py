"""The contract of message stores of queues."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.testing.contract.store.harness import StoreHarness
from pyjms.wire.openwire.commands import ProducerId
from pyjms_broker.api.message import OperationContext, Position, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription, StoreState

__all__ = ["QueueContract", "TopicContract"]


@pytest.mark.anyio
class QueueContract:
    """The contract of message stores of queues."""

    async def test_messages_are_kept_in_order_until_they_are_removed(
        self, harness: StoreHarness
    ) -> None:
        """Messages keep the order in which they were added, and the counts are kept up to date.

        (activemq-persistence S2)
        """
        store = harness.queue()
        assert harness.queue() is store
        references = await harness.send(store, 3, 1, 2)
        assert harness.texts(store) == ["3", "1", "2"]
        assert store.message_count == 3
        assert store.message_size == sum(r.size for r in references)
        await harness.remove(store, references[1], references[1])
        assert harness.texts(store) == ["3", "2"]
        assert store.message_size == references[0].size + references[2].size
        found = store.get_message(references[0].message_id)
        assert (found.position, found.message.type) == (references[0].position, "3")
        assert store.get_message(references[1].message_id) is None
        await harness.remove(store, references[0], references[2])
        assert (harness.texts(store), store.message_count, store.message_size) == ([], 0, 0)

    async def test_a_message_is_returned_unchanged(self, harness: StoreHarness) -> None:
        """Properties, body and headers survive storage."""
        store = harness.queue()
        properties = {"colour": "red", "number": 7}
        (sent,) = await harness.send(
            store, 1, priority=7, properties=properties, body=b"\0\0\0\2hi"
        )
        found = store.get_message(sent.message_id).message
        for name in ("content", "marshalled_properties", "priority", "type", "persistent"):
            assert getattr(found, name) == getattr(sent.message, name)
        assert found.message_id == sent.message_id
        assert found.message_id.broker_sequence_id == 101
        assert found.destination == Queue("Q")

    async def test_invisible_messages_are_not_returned(self, harness: StoreHarness) -> None:
        """A message is returned only after `mark_visible`."""
        store = harness.queue()
        first, second = harness.reference(1), harness.reference(2)
        for reference in (first, second):
            await harness.done(store.add_message(OperationContext(), reference))
        assert harness.texts(store) == []
        assert store.message_count == 2
        store.mark_visible(second)
        assert harness.texts(store) == ["2"]
        store.mark_visible(first)
        assert harness.texts(store) == ["1", "2"]

    async def test_a_page_starts_behind_a_position_and_skips(self, harness: StoreHarness) -> None:
        """`after`, `limit` and `skip` select the messages of a page (activemq-persistence S2)."""
        store = harness.queue()
        references = await harness.send(store, *range(1, 11))
        positions = [r.position for r in references]
        assert positions == sorted(positions)
        assert harness.texts(store, 3) == ["1", "2", "3"]
        assert harness.texts(store, 3, positions[2]) == ["4", "5", "6"]
        assert harness.texts(store, 3, positions[2], {positions[3], positions[5]}) == [
            "5",
            "7",
            "8",
        ]
        assert harness.texts(store, 5, positions[9]) == []
        await harness.remove(store, references[2])
        assert harness.texts(store, 2, positions[2]) == ["4", "5"]
        assert harness.texts(store, 0) == []

    async def test_a_stored_message_id_is_a_duplicate(self, harness: StoreHarness) -> None:
        """A message whose id is already stored gets no position (activemq-persistence S6)."""
        store = harness.queue()
        (first,) = await harness.send(store, 1)
        again = harness.reference(1, text="again")
        await harness.done(store.add_message(OperationContext(), again))
        assert again.position is None
        assert (harness.texts(store), store.message_count) == (["1"], 1)
        await harness.remove(store, first)
        (later,) = await harness.send(store, 1, text="later")
        assert later.position.arrival == 2
        assert harness.texts(store) == ["later"]
        other = await harness.send(harness.queue("OTHER"), 1)
        assert other[0].position.arrival == 1

    async def test_a_duplicate_id_is_accepted_once_in_a_queue(self, harness: StoreHarness) -> None:
        """The property `_AMQ_DUPL_ID` identifies duplicates within one destination."""
        store = harness.queue()
        (first,) = await harness.send(store, 1, properties={DUPLICATE_ID_PROPERTY: "d"})
        for number in (2, 3):
            again = harness.reference(number, properties={DUPLICATE_ID_PROPERTY: "d"})
            await harness.done(store.add_message(OperationContext(), again))
            assert again.position is None
            await harness.remove(store, first)
        assert store.message_count == 0
        await harness.send(store, 4, properties={DUPLICATE_ID_PROPERTY: "e"})
        await harness.send(harness.queue("OTHER"), 5, properties={DUPLICATE_ID_PROPERTY: "d"})

    @pytest.mark.parametrize("in_transaction", [False, True])
    async def test_a_duplicate_is_complete_when_the_original_is_durable(
        self, harness: StoreHarness, in_transaction: bool
    ) -> None:
        """The response to a duplicate waits until the first message is stored."""
        store, transactions = harness.queue(), harness.adapter.transaction_store()
        first, again = (
            harness.reference(n, properties={DUPLICATE_ID_PROPERTY: "d"}) for n in (1, 2)
        )
        answer = store.add_message(OperationContext(), first)
        if in_transaction:
            xid = harness.local()
            store.add_message(harness.within(xid), again)
            repeated = transactions.commit(xid, False)
        else:
            repeated = store.add_message(OperationContext(), again)
        assert repeated.done == answer.done
        await harness.done(repeated)
        assert answer.done
        assert again.position is None

    async def test_duplicates_are_detected_after_a_restart(
        self, durable_harness: StoreHarness
    ) -> None:
        """Message ids and duplicate ids survive a restart."""
        store = durable_harness.queue()
        (first, _) = await durable_harness.send(store, 1, 2)
        (third,) = await durable_harness.send(store, 3, properties={DUPLICATE_ID_PROPERTY: "d"})
        await durable_harness.remove(store, first, third)
        await durable_harness.restart()
        store = durable_harness.queue()
        for reference in (
            durable_harness.reference(2),
            durable_harness.reference(4, properties={DUPLICATE_ID_PROPERTY: "d"}),
        ):
            await durable_harness.done(store.add_message(OperationContext(), reference))
            assert reference.position is None
        assert durable_harness.texts(store) == ["2"]

    async def test_an_update_keeps_the_position(self, harness: StoreHarness) -> None:
        """`update_message` replaces the bytes of a stored message, and nothing else.

        (activemq-persistence S2)
        """
        store = harness.queue()
        first, _ = await harness.send(store, 1, 2)
        newer = harness.reference(1, text="newer", body=b"\0\0\0\2hi")
        await harness.done(store.update_message(newer))
        await harness.done(store.update_message(harness.reference(9)))
        assert harness.texts(store) == ["newer", "2"]
        assert store.message_count == 2
        assert store.get_message(first.message_id).position == first.position
        if harness.persistent:
            await harness.restart()
            assert harness.texts(harness.queue()) == ["newer", "2"]

    async def test_priorities_order_prioritized_queues_only(self, harness: StoreHarness) -> None:
        """Priorities take effect if the store was requested with `prioritized`.

        (activemq-persistence S2)
        """
        plain, store = harness.queue("PLAIN"), harness.queue("P", prioritized=True)
        for number, priority in enumerate((4, 0, 9, 4, 5, 9), start=1):
            for each in (plain, store):
                (sent,) = await harness.send(each, number, priority=priority)
                level = 9 - priority if each is store else 0
                assert sent.position == Position(level, number)
        assert harness.texts(plain) == ["1", "2", "3", "4", "5", "6"]
        assert harness.texts(store) == ["3", "6", "5", "1", "4", "2"]
        assert harness.texts(store, 2, Position(0, 6)) == ["5", "1"]
        if harness.persistent:
            await harness.restart()
            store = harness.queue("P", prioritized=True)
            assert harness.texts(store) == ["3", "6", "5", "1", "4", "2"]

    async def test_messages_survive_a_restart(self, durable_harness: StoreHarness) -> None:
        """Everything that was completed is still there after a restart, with the same positions.

        (activemq-persistence S4)
        """
        store, other = durable_harness.queue(), durable_harness.queue("OTHER")
        durable_harness.queue("EMPTY")
        references = await durable_harness.send(store, 1, 2, 3)
        await durable_harness.send(other, 1)
        await durable_harness.remove(store, references[1])
        sizes = store.message_size, other.message_size
        await durable_harness.restart()
        assert durable_harness.adapter.destinations() == {
            Queue("Q"),
            Queue("OTHER"),
            Queue("EMPTY"),
        }
        store = durable_harness.queue()
        assert durable_harness.texts(store) == ["1", "3"]
        assert durable_harness.texts(durable_harness.queue("OTHER")) == ["1"]
        assert store.message_count == 2
        assert (store.message_size, durable_harness.queue("OTHER").message_size) == sizes
        await durable_harness.restart()
        assert durable_harness.texts(durable_harness.queue()) == ["1", "3"]

    async def test_a_volatile_store_is_empty_after_a_restart(
        self, volatile_harness: StoreHarness
    ) -> None:
        """A store with `is_volatile` starts empty."""
        await volatile_harness.send(volatile_harness.queue(), 1)
        await volatile_harness.restart()
        assert volatile_harness.texts(volatile_harness.queue()) == []

    async def test_arrival_numbers_are_never_reused(self, harness: StoreHarness) -> None:
        """Arrival numbers keep increasing, also after removals and restarts."""
        store = harness.queue()
        assert store.last_arrival == 0
        references = await harness.send(store, 1, 2, 3)
        assert [r.position.arrival for r in references] == [1, 2, 3]
        await harness.remove(store, *references)
        epoch = store.epoch
        if harness.persistent:
            await harness.restart()
            store = harness.queue()
            assert store.epoch == epoch
        assert store.last_arrival == 3
        (fourth,) = await harness.send(store, 4)
        assert fourth.position.arrival == 4
        await harness.done(store.remove_all_messages(OperationContext()))
        (fifth,) = await harness.send(store, 5)
        assert (fifth.position.arrival, store.epoch) == (5, epoch)

    async def test_all_messages_of_a_queue_can_be_removed(self, harness: StoreHarness) -> None:
        """`remove_all_messages` does not reset the arrival numbers (activemq-persistence S2)."""
        store = harness.queue()
        await harness.send(store, 1, 2, properties=None)
        await harness.send(store, 3, properties={DUPLICATE_ID_PROPERTY: "d"})
        await harness.done(store.remove_all_messages(OperationContext()))
        await harness.done(store.remove_all_messages(OperationContext()))
        assert (harness.texts(store), store.message_count, store.message_size) == ([], 0, 0)
        await harness.send(store, 4)
        again = harness.reference(5, properties={DUPLICATE_ID_PROPERTY: "d"})
        await harness.done(store.add_message(OperationContext(), again))
        assert again.position is None
        if harness.persistent:
            await harness.restart()
            assert harness.texts(harness.queue()) == ["4"]

    async def test_destinations_are_created_and_removed(self, harness: StoreHarness) -> None:
        """A removed destination can be created again, empty."""
        adapter = harness.adapter
        assert adapter.destinations() == set()
        await harness.send(harness.queue(), 1)
        adapter.topic_message_store(Topic("T"))
        assert adapter.destinations() == {Queue("Q"), Topic("T")}
        adapter.remove_message_store(Queue("Q"))
        adapter.remove_message_store(Queue("Q"))
        assert adapter.destinations() == {Topic("T")}
        assert harness.queue().message_count == 0
        await harness.send(harness.queue(), 2)
        if harness.persistent:
            await harness.restart()
            assert harness.adapter.destinations() == {Queue("Q"), Topic("T")}
            assert harness.texts(harness.queue()) == ["2"]
        assert harness.adapter.size >= 0
        assert harness.adapter.state is StoreState.RUNNING

    async def test_the_highest_sequence_numbers_are_known(self, harness: StoreHarness) -> None:
        """Broker and producer sequence numbers are remembered."""
        adapter = harness.adapter
        other = ProducerId("ID:host-1", 2, 1)
        assert adapter.last_broker_sequence_id == 0
        assert adapter.last_producer_sequence_id(other) == -1
        store = harness.queue()
        references = await harness.send(store, 7, 3)
        references += await harness.send(store, 5, producer=other)
        await harness.remove(store, *references)
        if harness.persistent:
            await harness.restart()
            adapter = harness.adapter
            assert adapter.last_producer_sequence_id(other) == 5
            assert adapter.last_producer_sequence_id(references[0].message.producer_id) == 7
        assert adapter.last_broker_sequence_id == 107
        assert adapter.last_producer_sequence_id(ProducerId("none", 1, 1)) == -1

    async def test_a_checkpoint_changes_no_content(self, harness: StoreHarness) -> None:
        """`checkpoint` may run at any time between other calls."""
        store = harness.queue()
        references = await harness.send(store, *range(1, 301), body=bytes(1000))
        await harness.remove(store, *references[:290])
        hidden = harness.reference(301)
        await harness.done(store.add_message(OperationContext(), hidden))
        await harness.adapter.checkpoint()
        expected = [str(n) for n in range(291, 301)]
        assert harness.texts(store) == expected
        store.mark_visible(hidden)
        assert harness.texts(store) == [*expected, "301"]
        assert store.message_count == 11
        await harness.adapter.checkpoint()
        if harness.persistent:
            await harness.restart()
            store = harness.queue()
            assert harness.texts(store) == [*expected, "301"]
            assert [m.position.arrival for m in store.next_messages(None, 2)] == [291, 292]

    async def test_stop_is_idempotent_and_delete_all_messages_empties(
        self, harness: StoreHarness
    ) -> None:
        """`stop` may be called twice; `delete_all_messages` takes effect at `start`."""
        await harness.send(harness.queue(), 1)
        await harness.adapter.stop()
        await harness.adapter.stop()
        harness.adapter = harness.make()
        await harness.adapter.delete_all_messages()
        await harness.adapter.start()
        assert harness.adapter.destinations() == set()
        assert harness.adapter.last_broker_sequence_id == 0
        assert harness.texts(harness.queue()) == []


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
        await harness.done(store.acknowledge(harness.synchronous(), key, reference))


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
        """A subscription is returned as it was stored (activemq-persistence S3, S4, K33)."""
        store = harness.adapter.topic_message_store(T)
        first = StoredSubscription(KEY, T, "a = 1", no_local=True, owner="alice")
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
