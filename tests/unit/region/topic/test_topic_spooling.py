"""Pending messages of topic consumers in the temp store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.eviction import (
    ConstantPendingMessageLimitStrategy,
    OldestMessageWithLowestPriorityEvictionStrategy,
)
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.temp import TempStore
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter

T, OTHER, Q = Topic("T"), Topic("U"), Queue("Q")
SIZE = 1100


@pytest.fixture
def make_tight(
    make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore
) -> Callable[..., Any]:
    """Make a broker whose memory holds 20 messages."""

    def make(*policies: Any, **usage: Any) -> Broker:
        limits = SystemUsage(20 * SIZE, **usage)
        default = policies or (PolicyEntry(max_page_size=5),)
        return make_broker(*default, usage=limits, store=paged, temp_store=temp_store)

    return make


def texts(first: int, last: Any) -> Any:
    return [str(n) for n in range(first, last + 1)]


def drain(client: Client, consumer: Subscription, done: int = 0) -> list[str | None]:
    while done < len(client.received(consumer)):
        client.ack(consumer, done)
        done += 1
    return client.received(consumer)


@pytest.mark.fact("activemq-broker T7")
async def test_a_consumer_that_does_not_acknowledge_stops_no_sender(
    make_tight: Callable[..., Any], temp_store: TempStore
) -> None:
    broker = make_tight()
    client, sender = broker.client(), broker.client()
    slow, quick = client.consume(T, prefetch=1), client.consume(T, prefetch=1000)
    for n in range(1, 301):
        sender.send(T, str(n), persistent=n % 2 == 0)
        sender.send(OTHER, str(n))
        sender.send(Q, str(n))
    for destination in (broker.topic(T), broker.topic(OTHER), broker.queue(Q)):
        assert destination.statistics.blocked_sends == 0
        assert destination.statistics.enqueues == 300
    assert broker.region.system_usage.memory.used < 20 * SIZE
    assert temp_store.size > 0
    assert client.received(quick) == texts(1, 300)
    assert slow.pending_count == 299
    assert drain(client, slow) == texts(1, 300)
    drain(client, client.consume(Q, prefetch=3))
    assert broker.region.system_usage.memory.used == 0
    assert temp_store.size == 0


async def test_without_flow_control_memory_is_bounded_too(make_tight: Callable[..., Any]) -> None:
    broker = make_tight(PolicyEntry(producer_flow_control=False, max_page_size=5))
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(1, 301):
        client.send(T, str(n))
    assert broker.topic(T).memory.used < 20 * SIZE
    assert drain(client, slow) == texts(1, 300)


async def test_a_consumer_of_a_pattern_gets_the_topics_in_their_common_order(
    make_tight: Callable[..., Any],
) -> None:
    broker = make_tight()
    client = broker.client()
    slow = client.consume(Topic(">"), prefetch=1)
    for n in range(1, 101):
        client.send(OTHER if n % 3 else T, str(n))
    assert drain(client, slow) == texts(1, 100)
    by_topic = {d.message.type: d.destination for d in client.dispatches_of(slow)}
    assert by_topic["99"] == T
    assert by_topic["100"] == OTHER
    assert broker.topic(T).memory.used == broker.topic(OTHER).memory.used == 0


async def test_messages_of_open_transactions_are_spooled_when_they_are_published(
    make_tight: Callable[..., Any],
) -> None:
    broker = make_tight()
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    transaction = client.begin()
    for n in range(1, 16):
        client.send(T, str(n), tx=transaction)
    transaction.commit(one_phase=True)
    for n in range(16, 31):
        client.send(T, str(n))
    assert drain(client, slow) == texts(1, 30)
    assert broker.topic(T).memory.used == 0


@pytest.mark.parametrize("ends", ["close", "remove"])
async def test_nothing_stays_spooled_of_a_consumer_that_has_left(
    make_tight: Callable[..., Any], temp_store: TempStore, ends: str
) -> None:
    broker = make_tight()
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(100):
        client.send(T, str(n))
    assert temp_store.size > 0
    client.close(slow)
    if ends == "remove":
        broker.region.remove_destination(client.context, T, 0)
    assert temp_store.size == broker.region.system_usage.memory.used == 0


@pytest.mark.fact("activemq-broker M3")
@pytest.mark.parametrize("persistent", [False, True])
async def test_a_full_temp_store_stops_only_senders_that_need_it(
    make_tight: Callable[..., Any], persistent: bool
) -> None:
    broker = make_tight(temp_limit=1)
    client, sender = broker.client(), broker.client()
    slow = client.consume(T, prefetch=1)
    sent = 0
    while not broker.topic(T).statistics.blocked_sends:
        sent += 1
        sender.send(T, str(sent), persistent=persistent)
        assert sent < 100
    sender.send(OTHER, "goes on", persistent=True)
    assert broker.topic(OTHER).statistics.blocked_sends == 0
    assert broker.topic(OTHER).statistics.enqueues == 1
    assert drain(client, slow)[: sent - 1] == texts(1, sent - 1)
    broker.region.system_usage.temp.admit_waiting()
    assert drain(client, slow, sent - 1) == texts(1, sent)


@pytest.mark.fact("activemq-broker T8")
async def test_the_limit_counts_spooled_messages_too(make_tight: Callable[..., Any]) -> None:
    limit = ConstantPendingMessageLimitStrategy(limit=50)
    broker = make_tight(PolicyEntry(pending_message_limit_strategy=limit, max_page_size=5))
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(1, 201):
        client.send(T, str(n))
    assert (slow.pending_count, slow.discarded_count) == (50, 149)
    assert drain(client, slow) == ["1", *texts(151, 200)]
    assert broker.topic(T).memory.used == 0


@pytest.mark.fact("activemq-broker T9")
async def test_the_eviction_strategy_chooses_from_what_memory_has(
    make_tight: Callable[..., Any],
) -> None:
    broker = make_tight(
        PolicyEntry(
            pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=50),
            message_eviction_strategy=OldestMessageWithLowestPriorityEvictionStrategy(),
        )
    )
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(1, 53):
        client.send(T, str(n), priority=0 if n == 10 else 4)
    assert drain(client, slow) == [t for t in texts(1, 52) if t != "10"]


async def test_expired_messages_come_back_from_the_spool_only_to_end(
    clock: ManualClock, make_tight: Callable[..., Any]
) -> None:
    broker = make_tight()
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(1, 101):
        client.send(T, str(n), expiration=clock.time_ms() + 1000 if n == 60 else 0)
    clock.seconds += 2
    assert drain(client, slow) == [t for t in texts(1, 100) if t != "60"]
    assert slow.expired_count == 1
    assert broker.topic(T).memory.used == 0


@pytest.mark.parametrize("state", [StoreState.SUSPENDED, StoreState.CONGESTED])
async def test_a_temp_store_that_takes_nothing_stops_the_topic(
    make_tight: Callable[..., Any], temp_store: TempStore, state: StoreState
) -> None:
    broker = make_tight()
    client = broker.client()
    client.consume(T, prefetch=1)
    for n in range(50):
        client.send(T, str(n))
    temp_store.state = state
    client.send(T, "waits")
    assert broker.topic(T).statistics.blocked_sends == 1
    temp_store.state = StoreState.RUNNING
    broker.region.system_usage.temp.admit_waiting()
    assert broker.topic(T).statistics.enqueues == 51


@pytest.mark.fact("activemq-broker M11")
async def test_the_vm_cursor_keeps_all_in_memory(
    make_tight: Callable[..., Any], temp_store: TempStore
) -> None:
    broker = make_tight(PolicyEntry(pending_subscriber_policy="vmCursor"))
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(1, 31):
        client.send(T, str(n))
    assert temp_store.size == 0
    assert broker.topic(T).statistics.blocked_sends > 0
    assert drain(client, slow) == texts(1, 30)


async def test_without_a_temp_store_all_is_in_memory(make_broker: type[Broker]) -> None:
    broker = make_broker(usage=SystemUsage(20 * SIZE))
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(1, 31):
        client.send(T, str(n))
    assert broker.topic(T).statistics.blocked_sends > 0
    assert drain(client, slow) == texts(1, 30)


@pytest.mark.fact(
    "activemq-broker M8",
    "activemq-broker 2.1/pendingQueuePolicy / pendingSubscriberPolicy / pendingDurableSubscriberPolicy",
)
@pytest.mark.parametrize("prioritized", [False, True])
async def test_the_vm_cursors_of_queues_and_durables_read_all_at_the_start(
    make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore, prioritized: bool
) -> None:
    policy = PolicyEntry(
        prioritized_messages=prioritized,
        pending_queue_policy="vmQueueCursor",
        pending_durable_subscriber_policy="vmDurableCursor",
        producer_flow_control=False,
        max_page_size=5,
    )
    before = make_broker(policy, store=paged, temp_store=temp_store, usage=SystemUsage(20 * SIZE))
    client = before.client("id")
    client.close(client.consume(T, subscription_name="s"))
    for n in range(1, 31):
        client.send(Q, str(n), persistent=True)
        client.send(T, str(n), persistent=True)
    assert before.queue(Q).memory.used > 30 * 1024
    assert before.topic(T).memory.used > 30 * 1024

    after = make_broker(policy, store=paged, temp_store=temp_store, usage=SystemUsage(20 * SIZE))
    await after.region.start()
    client = after.client("id")
    for n in range(31, 61):
        client.send(Q, str(n))
        client.send(T, str(n))
    assert after.queue(Q).memory.used > 60 * 1024
    assert after.topic(T).memory.used > 60 * 1024
    assert temp_store.size == 0
    assert drain(client, client.consume(Q, prefetch=1)) == texts(1, 60)
    assert drain(client, client.consume(T, prefetch=1, subscription_name="s")) == texts(1, 60)


async def test_what_waits_for_temp_space_does_not_overtake_for_a_durable_subscription(
    make_tight: Callable[..., Any],
) -> None:
    broker = make_tight(temp_limit=1)
    client = broker.client()
    durable = client.consume(T, prefetch=1, subscription_name="s")
    sent = 0
    while not broker.topic(T).statistics.blocked_sends:
        sent += 1
        client.send(T, str(sent))
    assert drain(client, durable) == texts(1, sent)


@pytest.mark.fact("activemq-broker M20")
@pytest.mark.parametrize(("consumer_limit", "most"), [(10 * SIZE, 10 * SIZE), (0, 400 * SIZE)])
async def test_the_portion_of_consumers_limits_what_waits_for_them_in_memory(
    make_broker: type[Broker], temp_store: TempStore, consumer_limit: int, most: int
) -> None:
    usage = SystemUsage(400 * SIZE, consumer_limit=consumer_limit)
    broker = make_broker(PolicyEntry(), usage=usage, temp_store=temp_store)
    client = broker.client()
    slow = client.consume(T, prefetch=1)
    for n in range(1, 101):
        client.send(T, str(n))
    assert usage.memory.used < most
    assert (temp_store.size > 0) is (consumer_limit > 0)
    assert drain(client, slow) == texts(1, 100)
