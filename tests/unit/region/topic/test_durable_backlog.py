"""Durable subscriptions with more messages than fit in memory, and after a restart."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import AckType, RemoveSubscriptionInfo
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import NO_TRANSACTION, SubscriptionKey
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.store.api import StoredSubscription
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

T, U, BOTH = Topic("T.1"), Topic("T.2"), Topic("T.*")
SIZE = 1100
KEY = SubscriptionKey("me", "s")


@pytest.fixture
def tight(make_broker: type[Broker], paged: PagedAdapter) -> Broker:
    """Topics that keep about 14 messages in memory."""
    return make_broker(PolicyEntry(memory_limit=20 * SIZE, max_page_size=5), store=paged)


def texts(first: int, last: int) -> Any:
    return [str(n) for n in range(first, last + 1)]


def send(client: Client, first: int, last: int, topic: Topic = T, **options: Any) -> None:
    for n in range(first, last + 1):
        client.send(topic, str(n), persistent=True, **options)


def subscribe(client: Client, topic: Topic = T, **options: Any) -> Any:
    return client.consume(topic, subscription_name="s", **options)


def drain(client: Client, consumer: DurableTopicSubscription, done: int = 0) -> Any:
    while done < len(client.received(consumer)):
        client.ack(consumer, done)
        done += 1
    return client.received(consumer)


def test_messages_for_an_inactive_subscription(tight: Broker) -> None:
    client, sender = tight.client("me"), tight.client()
    sender.send(T, "before", persistent=True)
    consumer = subscribe(client, selector="JMSType <> '7'")
    client.close(consumer)
    send(sender, 1, 200)
    sender.send(T, "non-persistent")
    topic = tight.topic(T)
    assert topic.memory.used < 20 * SIZE
    assert consumer.pending_count == 200
    assert present(topic.store).subscription_message_count(KEY) == 199  # one did not match
    got = drain(client, subscribe(client, prefetch=3, selector="JMSType <> '7'"))
    assert [t for t in got if t != "non-persistent"] == [t for t in texts(1, 200) if t != "7"]
    assert "non-persistent" in got
    assert (topic.memory.used, present(topic.store).message_count) == (0, 0)
    send(sender, 201, 203)
    assert client.received(consumer)[200:] == texts(201, 203)


def test_unacknowledged_messages_are_redelivered_first(tight: Broker) -> None:
    client, sender = tight.client("me"), tight.client()
    consumer = subscribe(client, prefetch=10)
    send(sender, 1, 60)
    assert client.received(consumer) == texts(1, 10)
    client.ack(consumer, 2, first=0, count=3)
    client.close(consumer)
    client.dispatches.clear()
    again = subscribe(client, prefetch=4)
    assert drain(client, again) == texts(4, 60)
    assert {d.redelivery_counter for d in client.dispatches[10:]} == {0}
    assert client.dispatches[0].redelivery_counter == 1


@pytest.mark.fact("activemq-broker T23")
def test_after_a_restart(make_broker: type[Broker], paged: PagedAdapter) -> None:
    before = make_broker(store=paged)
    client = before.client("me")
    for topic in (T, U):
        before.topic(topic)
    consumer = subscribe(client, BOTH, selector="JMSType <> '3'", no_local=True)
    client.close(consumer)
    sender = before.client("sender")
    send(sender, 1, 30, T)
    send(sender, 31, 60, U)
    before.region.subscriptions.close()

    broker = make_broker(PolicyEntry(max_page_size=5), store=paged)
    for destination in paged.destinations():
        broker.region.add_destination(broker.region.context, destination)
    for stored in paged.topic_message_store(U).subscriptions():
        broker.region.subscriptions.recover(stored)
        broker.region.subscriptions.recover(stored)
    (found,) = broker.region.subscriptions.durable_subscriptions()
    assert (found.key, found.is_active, found.pending_count) == (KEY, False, 59)
    client = broker.client("me")
    later = broker.client("later")
    later.send(Topic("T.3"), "new topic", persistent=True)
    later.send(T, "61", persistent=True)
    consumer = subscribe(client, BOTH, selector="JMSType <> '3'", no_local=True, prefetch=2)
    assert consumer is found
    got = drain(client, consumer)
    first = [t for t in got if t.isdigit() and (int(t) <= 30 or t == "61")]
    assert first == [t for t in [*texts(1, 30), "61"] if t != "3"]
    assert [t for t in got if t.isdigit() and 30 < int(t) < 61] == texts(31, 60)
    assert "new topic" in got
    assert len(got) == 61
    assert broker.region.system_usage.memory.used == 0


async def test_subscriptions_are_recovered_at_the_start(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    paged.topic_message_store(T).add_subscription(StoredSubscription(KEY, T, "a = 1", True), False)
    broker = make_broker(store=paged)
    await broker.region.start()
    (found,) = broker.region.subscriptions.durable_subscriptions()
    assert found.stored == StoredSubscription(KEY, T, "a = 1", True)
    assert broker.topic(T).consumers == [found]
    await broker.region.stop()


def test_priorities(make_broker: type[Broker], paged: PagedAdapter) -> None:
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5, prioritized_messages=True)
    broker = make_broker(policy, store=paged)
    client, sender = broker.client("me"), broker.client()
    client.close(subscribe(client))
    for n in range(100):
        sender.send(T, str(n), persistent=True, priority=n % 10)
    got = [int(t) for t in drain(client, subscribe(client, prefetch=1))]
    assert got == sorted(range(100), key=lambda n: (-(n % 10), n))
    assert broker.topic(T).memory.used == 0


async def test_expiry_of_paged_out_messages(clock: ManualClock, tight: Broker) -> None:
    client, sender = tight.client("me"), tight.client()
    consumer = subscribe(client, prefetch=1)
    send(sender, 1, 100, expiration=clock.time_ms() + 1000)
    await clock.advance(2)
    topic = tight.topic(T)
    topic.expire_messages()
    assert topic.statistics.expired == 0  # active
    client.close(consumer)
    topic.expire_messages()
    assert topic.statistics.expired == 100
    assert (consumer.pending_count, topic.memory.used, present(topic.store).message_count) == (
        0,
        0,
        0,
    )
    assert len(tight.dead_letters) == 100


def test_a_removed_topic_releases_its_messages(tight: Broker) -> None:
    client, sender = tight.client("me"), tight.client()
    for topic in (T, U):
        tight.topic(topic)
    consumer = subscribe(client, BOTH, prefetch=2)
    send(sender, 1, 50, T)
    send(sender, 51, 100, U)
    tight.region.remove_destination(client.context, T, 1)
    assert consumer.pending_count <= 50
    client.dispatches = [d for d in client.dispatches if d.destination == U]
    assert drain(client, consumer) == texts(51, 100)
    assert tight.region.system_usage.memory.used == 0


async def test_a_failed_page_in_is_retried(tight: Broker, caplog: pytest.LogCaptureFixture) -> None:
    client, sender = tight.client("me"), tight.client()
    consumer = subscribe(client, prefetch=1)
    send(sender, 1, 50)
    tight.store.broken.add("next_messages")
    with caplog.at_level(logging.CRITICAL):
        drain(client, consumer)
        assert len(client.received(consumer)) < 20
        tight.store.broken.clear()
        client.set_prefetch(consumer, 1)
    assert drain(client, consumer, len(client.received(consumer)) - 1) == texts(1, 50)


def test_an_acknowledgement_that_fails(make_broker: type[Broker], paged: PagedAdapter) -> None:
    broker = make_broker(store=paged)
    client, sender = broker.client("me"), broker.client()
    consumer = subscribe(client)
    send(sender, 1, 2)
    paged.broken.add("acknowledge")
    with pytest.raises(JMSException, match="acknowledge failed"):
        client.ack(consumer, 0)
    paged.broken.clear()
    paged.answers_later = True
    client.ack(consumer, 1, first=0, count=2)
    paged.complete()
    paged.complete(JMSException("later"))
    assert client.received(consumer) == ["1", "2", "2"]
    assert client.dispatches[-1].redelivery_counter == 1
    assert broker.topic(T).statistics.dequeues == 1


@pytest.mark.parametrize("concurrent", [True, False])
def test_messages_are_dispatched_once_they_are_stored(
    make_broker: type[Broker], paged: PagedAdapter, concurrent: bool
) -> None:
    paged.answers_later = True
    paged.concurrent_store_and_dispatch_topics = concurrent
    broker = make_broker(store=paged)
    client, sender = broker.client("me"), broker.client()
    consumer, plain = subscribe(client), client.consume(T)
    send(sender, 1, 2)
    sender.send(T, "3")
    assert client.received(consumer) == (["1", "2", "3"] if concurrent else [])
    paged.complete()
    paged.complete(None if concurrent else JMSException("no"))
    expected = ["1", "2", "3"] if concurrent else ["1", "3"]
    assert client.received(consumer) == client.received(plain) == expected
    used = broker.topic(T).memory.used
    assert used == sum(r.size for r in consumer.dispatched.values())


@pytest.mark.parametrize("concurrent", [True, False])
def test_a_sender_without_a_response_does_not_wait_for_the_store(
    make_broker: type[Broker],
    paged: PagedAdapter,
    concurrent: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    paged.answers_later = True
    paged.concurrent_store_and_dispatch_topics = concurrent
    broker = make_broker(store=paged)
    client, sender = broker.client("me"), broker.client()
    consumer = subscribe(client)
    for text in ("1", "2", "3"):
        message = sender.message(T, text, persistent=True)
        message.response_required = False
        assert sender.send(T, text, message=message) is COMPLETED
    paged.complete()
    with caplog.at_level(logging.ERROR):
        paged.complete(JMSException("no room"))
    paged.complete()
    assert client.received(consumer) == (["1", "2", "3"] if concurrent else ["1", "3"])
    assert caplog.text.count("is lost: no room") == 1
    assert list(map(str, sender.errors)) == ["no room"]


def test_a_subscription_is_confirmed_once_it_is_stored(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client("me")
    topic = broker.topic(T)
    added, deleted = Completion(), Completion()
    present(topic.store).add_subscription = lambda subscription, retroactive: added  # type: ignore[method-assign]
    consumer = subscribe(client)
    assert not consumer.saved.done
    added.complete()
    assert consumer.saved.done
    client.close(consumer)
    present(topic.store).delete_subscription = lambda key: deleted  # type: ignore[method-assign]
    answer = broker.region.remove_subscription(
        client.context, RemoveSubscriptionInfo(client.context.connection_id, "s", "me")
    )
    assert not answer.done
    deleted.complete()
    assert answer.done


@pytest.mark.fact("activemq-persistence S6")
def test_duplicate_messages_are_dropped(
    make_broker: type[Broker], paged: PagedAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(PolicyEntry(enable_audit=False), store=paged)
    client, sender = broker.client("me"), broker.client()
    consumer = subscribe(client)
    message = sender.message(T, "1", persistent=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert sender.send(T, "1", message=message) is COMPLETED
        tx = sender.begin()
        sender.send(T, "1", message=message, tx=tx)
        tx.commit(one_phase=True)
    assert client.received(consumer) == ["1"]
    assert caplog.text.count("the duplicate is dropped") == 2
    assert broker.topic(T).memory.used == consumer.dispatched.popitem()[1].size


@pytest.mark.fact("activemq-broker T25")
@pytest.mark.parametrize("committed", [True, False])
def test_messages_acknowledged_by_a_prepared_transaction(
    make_broker: type[Broker], paged: PagedAdapter, committed: bool
) -> None:
    before = make_broker(store=paged)
    client = before.client("me")
    client.close(subscribe(client))
    send(before.client("sender"), 1, 5)
    broker = make_broker(store=paged)
    topic = broker.topic(T)
    store: Any = topic.store
    broker.region.subscriptions.recover(present(store.lookup_subscription(KEY)))
    stored = store.next_subscription_messages(KEY, None, 5)[1]
    entry = store._entries[stored.message.message_id]
    entry.is_visible = False
    hidden = topic.hide(stored, KEY)
    client = broker.client("me")
    consumer = subscribe(client)
    assert client.received(consumer) == ["1", "3", "4", "5"]
    if committed:
        assert store is not None
        store.acknowledge(NO_TRANSACTION, KEY, hidden)
        topic.forget_hidden(hidden, KEY)
    else:
        entry.is_visible = True
        topic.restore(hidden, KEY)
        assert client.received(consumer) == ["1", "3", "4", "5", "2"]
    client.ack(consumer, -1, first=0, count=4 if committed else 5)
    assert (topic.memory.used, store.message_count) == (0, 0)
    assert topic.statistics.dequeues == 5


def test_work_on_a_removed_subscription_is_ignored(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    topic, client = broker.topic(T), broker.client("me")
    subscribe(client)
    send(client, 1, 1)
    (stored,) = present(topic.store).next_messages(None, 1)
    gone = SubscriptionKey("me", "gone")
    hidden = topic.hide(stored, gone)
    topic.forget_hidden(hidden, gone)
    topic.restore(hidden, gone)
    assert topic.memory.used == hidden.size


def test_duplicates_found_by_the_audit_are_removed_from_the_store(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(PolicyEntry(), store=paged)
    client, sender = broker.client("me"), broker.client()
    consumer = subscribe(client)
    message = sender.message(T, "1", persistent=True)
    sender.send(T, "1", message=message)
    client.ack(consumer)
    sender.send(T, "1", message=message)  # sent again after it was consumed
    assert client.received(consumer) == ["1"]
    assert present(broker.topic(T).store).message_count == 0


def test_poison_of_paged_in_messages(tight: Broker) -> None:
    client, sender = tight.client("me"), tight.client()
    consumer = subscribe(client, prefetch=1)
    send(sender, 1, 50)
    for n in range(50):
        client.ack(consumer, n, kind=AckType.POISON)
    assert tight.texts(Queue("ActiveMQ.DLQ")) == texts(1, 50)


async def test_messages_leave_memory_once_they_are_stored(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    """Memory is full of what is being stored; nobody reads, and still all senders get in."""
    paged.answers_later = True
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5)
    broker = make_broker(policy, store=paged)
    client, sender = broker.client("me"), broker.client()
    consumer = subscribe(client, prefetch=1)
    answers = [sender.send(T, str(n), persistent=True) for n in range(1, 101)]
    assert broker.topic(T).memory.is_full
    while paged.unanswered:
        paged.complete()
    assert all(answer.done and answer.error is None for answer in answers)
    assert consumer.pending_count == 99
    paged.answers_later = False
    assert drain(client, consumer) == texts(1, 100)
    await broker.region.stop()


@pytest.mark.fact("activemq-broker T19")
def test_a_subscription_that_is_not_kept_active_has_its_messages_in_the_store_only(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    broker.region.keep_durable_subs_active = False
    client, sender = broker.client("me"), broker.client()
    client.close(subscribe(client))
    send(sender, 1, 5)
    sender.send(T, "non-persistent")
    assert broker.topic(T).memory.used < 2 * SIZE  # a cursor always has its first message
    consumer = subscribe(client)
    assert client.received(consumer) == texts(1, 5)
    sender.send(T, "while active")
    assert client.received(consumer)[5:] == ["while active"]
