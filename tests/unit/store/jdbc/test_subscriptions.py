"""Durable subscriptions in ACKS, including values that do not fit into its columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.jms.destination import Topic
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.jdbc.schema import base_of

T = Topic("T")
KEY, OTHER = SubscriptionKey("me", "s"), SubscriptionKey("me", "t")
MARKS = "SELECT SUB_NAME, PRIORITY, LAST_ACKED_ID FROM ACTIVEMQ_ACKS ORDER BY 1, 2"


async def topic(
    store: Any, *keys: Any, prioritized: bool = False, retroactive: bool = False
) -> Any:
    found = store.adapter.topic_message_store(T, prioritized)
    for key in keys:
        await store.done(found.add_subscription(StoredSubscription(key, T, "a > 1"), retroactive))
    return found


async def acknowledge(store: Any, found: Any, key: Any, *references: Any) -> None:
    for reference in references:
        await store.done(found.acknowledge(store.synchronous(), key, reference))


def marks(sql: Callable[..., list[tuple[Any, ...]]]) -> Any:
    return {(name, priority): mark - base_of(1) for name, priority, mark in sql(MARKS)}


async def count(sql: Callable[..., list[tuple[Any, ...]]]) -> Any:
    return sql("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")[0][0]


@pytest.mark.fact("activemq-persistence J5")
async def test_acknowledgements_move_a_mark_and_the_clean_up_deletes(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    queue = store.queue("Q")  # destination 1 is the topic's
    found = await topic(store, KEY)
    (first,) = await store.send(found, 1)
    base = base_of(2)
    await topic(store, OTHER)
    starts = {name: mark - base for name, _, mark in sql(MARKS)}
    assert starts == {"s": 0, "t": 1}  # the newer one begins behind what there is
    second, third = await store.send(found, 2, 3)
    await acknowledge(store, found, KEY, first, second)
    await acknowledge(store, found, OTHER, second)
    assert {name: mark - base for name, _, mark in sql(MARKS)} == {"s": 2, "t": 2}
    assert await count(sql) == 3
    await store.adapter.checkpoint()
    assert sql("SELECT ID FROM ACTIVEMQ_MSGS") == [(base + 3,)]
    await acknowledge(store, found, KEY, third)
    await store.adapter.checkpoint()
    assert await count(sql) == 1  # the other has still to get it
    (mine,) = await store.send(queue, 9)
    await store.remove(queue, mine)
    assert sql("SELECT ID FROM ACTIVEMQ_MSGS") == [(base + 3,)]  # a queue's row goes at once


async def test_the_clean_up_heeds_priorities(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    found = await topic(store, KEY, prioritized=True)
    (low,) = await store.send(found, 1, priority=2)
    (high,) = await store.send(found, 2, priority=8)
    await acknowledge(store, found, KEY, high)
    await store.adapter.checkpoint()
    assert sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS") == [(1,)]
    await acknowledge(store, found, KEY, low)
    await store.adapter.checkpoint()
    assert await count(sql) == 0


@pytest.mark.fact("activemq-persistence J3")
async def test_one_row_or_one_for_each_priority(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    plain = await topic(store, KEY)
    (reference,) = await store.send(plain, 1)
    await acknowledge(store, plain, KEY, reference)
    row = sql("SELECT CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR FROM ACTIVEMQ_ACKS")
    assert row == [("topic://T", "topic://T", "me", "s", "a > 1")]
    assert marks(sql) == {("s", 5): 1}
    heeding = await topic(store, prioritized=True)
    assert heeding.subscription_message_count(KEY) == 0
    assert marks(sql) == {("s", priority): 1 for priority in range(10)}
    (late,) = await store.send(heeding, 2, priority=9)
    await acknowledge(store, heeding, KEY, late)
    assert marks(sql) == {("s", p): 2 if p == 9 else 1 for p in range(10)}


async def test_a_topic_that_no_longer_heeds_priorities_forgets_nothing(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    found = await topic(store, KEY, prioritized=True)
    (low,) = await store.send(found, 1, priority=1)
    (high,) = await store.send(found, 2, priority=9)
    (mid,) = await store.send(found, 3, priority=5)
    assert store.subscription_texts(found, KEY) == ["2", "3", "1"]
    await acknowledge(store, found, KEY, high)
    await store.restart()
    found = await topic(store, prioritized=False)
    assert store.subscription_texts(found, KEY) == ["1", "3"]
    assert marks(sql) == {("s", 5): 0}
    await acknowledge(store, found, KEY, low)
    assert marks(sql) == {("s", 5): 2}
    await acknowledge(store, found, KEY, mid)
    assert marks(sql) == {("s", 5): 3}
    assert sql("SELECT COUNT(*) FROM PYJMS_ACKED") == [(0,)]


async def test_what_is_passed_over_is_not_lost(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    """ActiveMQ moves the mark and loses it (activemq-persistence J6); here the mark waits."""
    store = await open_store()
    found = await topic(store, KEY)
    first, second, third = await store.send(found, 1, 2, 3)
    await acknowledge(store, found, KEY, third, second)
    assert marks(sql) == {("s", 5): 0}
    await store.restart()
    found = await topic(store)
    assert store.subscription_texts(found, KEY) == ["1"]
    assert (found.message_count, found.subscription_message_count(KEY)) == (1, 1)
    await acknowledge(store, found, KEY, first)
    assert marks(sql) == {("s", 5): 3}
    assert sql("SELECT COUNT(*) FROM PYJMS_ACKED") == [(0,)]


async def test_acknowledgements_of_nothing_change_no_counts(open_store: Callable[..., Any]) -> None:
    store = await open_store()
    found = await topic(store, KEY)
    first, _ = await store.send(found, 1, 2)
    await acknowledge(store, found, KEY, first, first, store.reference(77, T))
    assert found.subscription_message_count(KEY) == 1
    assert found.message_count == 1
    await store.done(found.acknowledge(store.synchronous(), OTHER, first))
    assert store.subscription_texts(found, OTHER) == []


async def test_messages_that_all_subscriptions_have_acknowledged(
    open_store: Callable[..., Any],
) -> None:
    store = await open_store()
    found = await topic(store, KEY, OTHER)
    first, _ = await store.send(found, 1, 2)
    await acknowledge(store, found, KEY, first)
    await store.remove(found, first, first)
    assert store.texts(found) == ["2"]
    assert found.subscription_message_count(KEY) == 1
    assert found.subscription_message_count(OTHER) == 1
    assert found.message_count == 1


async def test_a_subscription_without_a_separate_destination(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    found = store.adapter.topic_message_store(T)
    wild = StoredSubscription(KEY, Topic("T.>"), None, no_local=True, owner="alice")
    await store.done(found.add_subscription(wild, False))
    assert sql("SELECT SUB_NAME FROM PYJMS_NO_LOCAL") == [("s",)]
    assert sql("SELECT SUB_NAME, OWNER FROM PYJMS_OWNERS") == [("s", "alice")]
    await store.done(found.delete_subscription(KEY))
    assert sql("SELECT SUB_NAME FROM PYJMS_NO_LOCAL") == []
    assert sql("SELECT SUB_NAME FROM PYJMS_OWNERS") == []
    assert sql("SELECT * FROM ACTIVEMQ_ACKS") == []
