"""Durable subscriptions with open transactions when the consumer changes."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Topic
from pyjms.wire.openwire.commands import AckType, LocalTransactionId, XATransactionId
from pyjms_broker.api.completion import Completion
from pyjms_broker.filters.transactions import LocalTransaction, XATransaction
from pyjms_broker.policy.entry import PolicyEntry
from tests.kit.brokers.region import Broker, Client, PagedAdapter
from tests.kit.values import present

T = Topic("T")


class SlowCommits:
    """A transaction store whose commits are at the disk until told."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.answer = Completion()

    def prepare(self, xid: Any) -> Any:
        return self._store.prepare(xid)

    def commit(self, xid: Any, prepared: Any) -> Any:
        self._store.commit(xid, prepared)
        return self.answer

    def rollback(self, xid: Any) -> Any:
        return self._store.rollback(xid)


def subscribe(
    client: Client, prefetch: int = 1000, topic: Topic = T, name: str = "s", **options: Any
) -> Any:
    return client.consume(topic, prefetch, subscription_name=name, **options)


def send(client: Client, *texts: Any, topic: Topic = T, **options: Any) -> None:
    for text in texts:
        client.send(topic, text, persistent=True, **options)


def xa(broker: Broker, number: int = 1) -> XATransaction:
    xid = XATransactionId(1, bytes([number]), b"b")
    return XATransaction(xid, broker.store.transaction_store(), lambda _: None, None)


def counters(client: Client, consumer: Any) -> Any:
    return [(present(d.message).type, d.redelivery_counter) for d in client.dispatches_of(consumer)]


@pytest.fixture(params=["in memory", "paged"])
def any_broker(
    request: pytest.FixtureRequest, make_broker: type[Broker], paged: PagedAdapter
) -> Broker:
    return make_broker(store=paged if request.param == "paged" else None)


@pytest.mark.parametrize("last_delivered", [-2, -1])
@pytest.mark.parametrize("kind", ["local", "prepared"])
def test_a_rollback_redelivers_to_the_current_consumer(
    any_broker: Broker, kind: str, last_delivered: int
) -> None:
    client, sender = any_broker.client("me"), any_broker.client()
    first = subscribe(client, 10)
    send(sender, "0", "1", "2", "3", "4")
    tx = xa(any_broker) if kind == "prepared" else client.begin()
    client.ack(first, 0, tx=tx)
    if kind == "prepared":
        tx.prepare()
    client.close(first, last_delivered)
    client.dispatches.clear()
    again = subscribe(client, 10)
    seen = int(last_delivered == -2)
    assert counters(client, again) == [(text, seen) for text in "1234"]
    assert again.in_flight == 4
    tx.rollback()
    assert counters(client, again)[4:] == [("0", 1)]
    send(sender, "new")
    client.ack(again, 5, first=0, count=6)
    assert (again.in_flight, again.pending_count) == (0, 0)
    topic = any_broker.topic(T)
    assert (present(topic.store).message_count, topic.memory.used) == (0, 0)


@pytest.mark.parametrize("kind", ["local", "prepared"])
def test_a_commit_after_a_takeover_leaves_nothing_behind(any_broker: Broker, kind: str) -> None:
    client, sender = any_broker.client("me"), any_broker.client()
    first = subscribe(client, 2)
    send(sender, "0", "1", "2")
    tx = xa(any_broker) if kind == "prepared" else client.begin()
    client.ack(first, 1, first=0, count=2, tx=tx)
    if kind == "prepared":
        tx.prepare()
    client.close(first)
    client.dispatches.clear()
    again = subscribe(client, 2)
    send(sender, "3", "4")
    assert client.received(again) == ["2", "3"]
    client.ack(again, 0, kind=AckType.DELIVERED)
    assert client.received(again) == ["2", "3", "4"]
    if kind == "prepared":
        tx.commit(one_phase=False)
    else:
        tx.commit(one_phase=True)
    send(sender, "5")
    assert client.received(again) == ["2", "3", "4"], "its extension was not the last one's"
    client.ack(again, 2, first=0, count=3)
    client.ack(again, 3)
    topic = any_broker.topic(T)
    assert (present(topic.store).message_count, topic.memory.used) == (0, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_a_takeover_while_the_commit_is_being_stored(
    make_broker: type[Broker], paged: PagedAdapter, fails: bool
) -> None:
    broker = make_broker(store=paged)
    client, sender = broker.client("me"), broker.client()
    first = subscribe(client)
    send(sender, "0", "1", "2")
    slow: Any = SlowCommits(paged.transaction_store())
    tx = LocalTransaction(LocalTransactionId(1, None), slow, lambda _: None)
    client.ack(first, 0, tx=tx)
    ended = tx.commit(one_phase=True)
    client.close(first)
    with pytest.raises(JMSException, match="being committed"):
        tx.rollback()
    client.dispatches.clear()
    again = subscribe(client)
    assert counters(client, again) == [("1", 1), ("2", 1)]
    slow.answer.complete(JMSException("the disk is gone") if fails else None)
    assert (ended.error is not None) is fails
    assert counters(client, again)[2:] == ([("0", 1)] if fails else [])


def test_messages_return_in_their_order_whichever_transaction_ends_first(
    any_broker: Broker,
) -> None:
    client, sender = any_broker.client("me"), any_broker.client()
    first = subscribe(client)
    send(sender, *"0123456")
    branches = []
    for number in (1, 3, 4):
        branches.append(xa(any_broker, number))
        client.ack(first, number, kind=AckType.INDIVIDUAL, tx=branches[-1])
        branches[-1].prepare()
    client.close(first)
    client.dispatches.clear()
    branches[1].rollback()
    again = subscribe(client, 1)
    assert client.received(again) == ["0"]
    branches[2].rollback()
    branches[0].rollback()
    assert (again.in_flight, again.pending_count) == (1, 6)
    for number in range(7):
        client.ack(again, number)
    assert counters(client, again) == [(text, 1) for text in "0123456"]


def test_a_second_takeover_does_not_count_transacted_messages_again(any_broker: Broker) -> None:
    client = any_broker.client("me")
    first = subscribe(client)
    send(client, "0", "1")
    branch = xa(any_broker)
    client.ack(first, 0, tx=branch)
    branch.prepare()
    client.close(first)
    client.close(subscribe(client))
    client.dispatches.clear()
    again = subscribe(client)
    branch.rollback()
    assert counters(client, again) == [("1", 2), ("0", 1)]


@pytest.mark.parametrize("commit", [True, False])
def test_each_subscription_has_separate_transactions(any_broker: Broker, commit: bool) -> None:
    me, you, sender = any_broker.client("me"), any_broker.client("you"), any_broker.client()
    mine, yours = subscribe(me), subscribe(you)
    send(sender, "0", "1")
    store = any_broker.topic(T).store
    first, second = me.begin(), you.begin()
    me.ack(mine, 1, first=0, count=2, tx=first)
    you.ack(yours, 1, first=0, count=2, tx=second)
    if commit:
        first.commit(one_phase=True)
    else:
        first.rollback()
    second.commit(one_phase=True)
    assert (mine.in_flight, yours.in_flight) == (0 if commit else 2, 0)
    assert store is not None
    assert store.subscription_message_count(yours.key) == 0
    assert store is not None
    assert store.message_count == (0 if commit else 2)


def test_a_lost_consumer_returns_messages_that_others_have_acknowledged(any_broker: Broker) -> None:
    me, you, sender = any_broker.client("me"), any_broker.client("you"), any_broker.client()
    mine, yours = subscribe(me), subscribe(you)
    send(sender, "0")
    me.ack(mine, 0, tx=me.begin())
    you.close(yours)
    you.dispatches.clear()
    assert you.received(subscribe(you)) == ["0"]


def test_transacted_messages_cannot_be_acknowledged_outside_the_transaction(
    any_broker: Broker,
) -> None:
    client = any_broker.client("me")
    consumer = subscribe(client)
    send(client, "0")
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    with pytest.raises(JMSException, match="Expected message count"):
        client.ack(consumer, 0)
    tx.commit(one_phase=True)
    assert any_broker.topic(T).statistics.dequeues == 1
    assert any_broker.topic(T).memory.used == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_removed_subscription_leaves_no_work_to_a_transaction(
    any_broker: Broker, commit: bool
) -> None:
    client = any_broker.client("me")
    consumer = subscribe(client)
    send(client, "0", "1")
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    client.close(consumer)
    client.unsubscribe("s")
    if commit:
        tx.commit(one_phase=True)
    else:
        tx.rollback()
    topic = any_broker.topic(T)
    assert (topic.memory.used, present(topic.store).message_count) == (0, 0)
    assert client.received(subscribe(client, name="t")) == []


@pytest.mark.parametrize("commit", [True, False])
def test_a_removed_topic_frees_the_window_at_the_end(any_broker: Broker, commit: bool) -> None:
    client = any_broker.client("me")
    consumer = subscribe(client, 1, Topic("W.>"))
    send(client, "0", topic=Topic("W.1"))
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    any_broker.region.remove_destination(client.context, Topic("W.1"), 1)
    send(client, "1", topic=Topic("W.2"))
    assert client.received(consumer) == ["0"]
    if commit:
        tx.commit(one_phase=True)
    else:
        tx.rollback()
    assert client.received(consumer) == ["0", "1"]
    assert consumer.in_flight == 1


# what transactions send
def test_sends_before_the_subscription_are_stored_for_it_at_the_commit(any_broker: Broker) -> None:
    sender, client = any_broker.client(), any_broker.client("me")
    store = any_broker.topic(T).store
    tx = sender.begin()
    send(sender, "0", "1", tx=tx)
    sender.send(T, "passing", tx=tx)
    consumer = subscribe(client)
    send(sender, "2", tx=tx)
    send(sender, "first")
    tx.commit(one_phase=True)
    assert client.received(consumer) == ["first", "0", "1", "passing", "2"]
    assert store is not None
    stored = store.next_subscription_messages(consumer.key, None, 10)
    assert [each.message.type for each in stored] == ["first", "0", "1", "2"]
    client.ack(consumer, 4, first=0, count=5)
    topic = any_broker.topic(T)
    assert store is not None
    assert (store.message_count, topic.memory.used) == (0, 0)


def test_without_a_subscription_a_transaction_stores_nothing(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    sender, consumer = broker.client(), broker.client()
    live = consumer.consume(T)
    paged.broken.add("add_message")
    for end in ("commit", "rollback"):
        tx = sender.begin()
        send(sender, end, tx=tx)
        tx.commit(one_phase=True) if end == "commit" else tx.rollback()
    assert consumer.received(live) == ["commit"]
    consumer.ack(live, 0)
    assert broker.topic(T).memory.used == 0


def test_a_message_that_cannot_be_stored_at_the_commit_rolls_it_back(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    sender, client = broker.client(), broker.client("me")
    tx = sender.begin()
    send(sender, "0", tx=tx)
    consumer = subscribe(client)
    paged.broken.add("add_message")
    with pytest.raises(JMSException, match="rolled back"):
        tx.commit(one_phase=True)
    assert client.received(consumer) == []
    assert broker.topic(T).memory.used == 0
    assert sender.exchange.transaction is None


def test_a_prepared_message_is_not_for_later_subscriptions(any_broker: Broker) -> None:
    sender, client, other = any_broker.client(), any_broker.client("me"), any_broker.client()
    live = other.consume(T)
    tx = xa(any_broker)
    send(sender, "0", tx=tx)
    tx.prepare()
    late = subscribe(client)
    tx.commit(one_phase=False)
    assert other.received(live) == ["0"]
    assert client.received(late) == []
    assert present(any_broker.topic(T).store).message_count == 0
    send(sender, "1")
    assert client.received(late) == ["1"]


def test_a_message_being_stored_is_not_for_later_subscriptions(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(PolicyEntry(), store=paged)
    sender, early, late = broker.client(), broker.client("early"), broker.client("late")
    first = subscribe(early)
    paged.answers_later = True
    send(sender, "0")
    second = subscribe(late)
    send(sender, "1")
    paged.complete()
    paged.complete()
    assert early.received(first) == ["0", "1"]
    assert late.received(second) == ["1"]
    store = broker.topic(T).store
    assert store is not None
    assert store.subscription_message_count(first.key) == 2
    assert store is not None
    assert store.subscription_message_count(second.key) == 1
