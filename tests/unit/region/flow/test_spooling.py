"""Non-persistent messages in the temp store, and full disks."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.temp import TempStore
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q, T = Queue("Q"), Topic("T")
SIZE = 1100


@pytest.fixture
def tight(make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore) -> Broker:
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5)
    return make_broker(policy, store=paged, temp_store=temp_store)


def texts(first: int, last: int) -> Any:
    return [str(n) for n in range(first, last + 1)]


def drain(client: Client, consumer: Subscription, done: int = 0) -> Any:
    while done < len(client.received(consumer)):
        client.ack(consumer, done)
        done += 1
    return client.received(consumer)


async def test_non_persistent_messages_go_to_the_temp_store(
    tight: Broker, temp_store: TempStore
) -> None:
    client = tight.client()
    for n in range(1, 301):
        client.send(Q, str(n))
    queue = tight.queue(Q)
    assert queue.memory.used < 20 * SIZE
    assert temp_store.size > 0
    assert queue.statistics.messages == 300
    assert [r.message.type for r in queue.browse()] == texts(1, 300)
    assert drain(client, client.consume(Q, prefetch=3)) == texts(1, 300)
    assert (queue.statistics.messages, queue.memory.used, temp_store.size) == (0, 0, 0)


@pytest.mark.fact("activemq-broker M9")
async def test_both_kinds_are_drained_alternately(tight: Broker) -> None:
    client = tight.client()
    for n in range(200):
        client.send(Q, f"{n}", persistent=n < 100)
    got = drain(client, client.consume(Q, prefetch=1))
    assert sorted(got, key=int) == [str(n) for n in range(200)]
    kinds = [int(t) >= 100 for t in got]
    assert kinds.index(True) < 60  # not behind all persistent ones
    for kind in (True, False):
        same = [int(t) for t in got if (int(t) >= 100) is kind]
        assert same == sorted(same)


async def test_priorities_in_the_spool(
    make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore
) -> None:
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5, prioritized_messages=True)
    broker = make_broker(policy, store=paged, temp_store=temp_store)
    client = broker.client()
    for n in range(100):
        client.send(Q, str(n), priority=n % 10)
    got = [int(t) for t in drain(client, client.consume(Q, prefetch=1))]
    assert got[6:] == sorted(got[6:], key=lambda n: (-(n % 10), n))
    assert sorted(got) == list(range(100))


async def test_without_a_temp_store_messages_stay_in_memory(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5, producer_flow_control=False)
    broker = make_broker(policy, store=paged)
    client = broker.client()
    for n in range(1, 101):
        client.send(Q, str(n))
    queue = broker.queue(Q)
    assert len(queue.references) == 100
    assert queue.remove_message(client.context, queue.browse()[49])
    consumer = client.consume(Q, prefetch=1)
    assert drain(client, consumer) == [t for t in texts(1, 100) if t != "50"]
    assert queue.memory.used == 0


async def test_temporary_queues_keep_all_in_memory(tight: Broker, temp_store: TempStore) -> None:
    client = tight.client()
    mine = TemporaryQueue("c1:1")
    tight.region.add_destination(client.context, mine, True)
    for n in range(1, 16):
        client.send(mine, str(n), persistent=True)
    assert temp_store.size == 0
    assert len(client.received(client.consume(mine))) == 15


async def test_removing_and_purging_spooled_messages(tight: Broker, temp_store: TempStore) -> None:
    client = tight.client()
    for n in range(1, 101):
        client.send(Q, str(n))
    queue = tight.queue(Q)
    far = queue.browse()[80]
    found = queue.get_message(far.message_id)
    assert found is not None
    assert queue.remove_message(client.context, found)
    assert not queue.remove_message(client.context, found)
    assert queue.get_message(far.message_id) is None
    assert queue.statistics.messages == 99
    assert queue.purge(client.context) == 99
    assert (queue.statistics.messages, queue.memory.used, temp_store.size) == (0, 0, 0)


async def test_expiry_in_the_spool(clock: ManualClock, tight: Broker) -> None:
    client = tight.client()
    for n in range(1, 101):
        client.send(Q, str(n), expiration=clock.time_ms() + 1000)
    clock.seconds += 2
    queue = tight.queue(Q)
    queue.expire_messages()
    assert (queue.statistics.expired, queue.statistics.messages) == (100, 0)


async def test_redelivery_counters_survive_the_spool(tight: Broker) -> None:
    client = tight.client()
    for n in range(1, 41):
        message = client.message(Q, str(n))
        message.redelivery_counter = n
        client.send(Q, str(n), message=message)
    drain(client, client.consume(Q, prefetch=1))
    assert [d.redelivery_counter for d in client.dispatches] == list(range(1, 41))


async def test_durable_subscriptions_spool_too(tight: Broker, temp_store: TempStore) -> None:
    client, sender = tight.client("me"), tight.client()
    client.close(client.consume(T, subscription_name="s"))
    for n in range(1, 101):
        sender.send(T, str(n))
    assert temp_store.size > 0
    consumer = client.consume(T, subscription_name="s", prefetch=2)
    assert drain(client, consumer) == texts(1, 100)
    client.close(consumer)
    for n in range(101, 201):
        sender.send(T, str(n))
    client.unsubscribe("s")
    assert (tight.topic(T).memory.used, temp_store.size) == (0, 0)


# full disks
@pytest.mark.fact("activemq-broker M3")
@pytest.mark.parametrize("what", ["size", "state"])
async def test_a_full_store_makes_persistent_sends_wait(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter, what: str
) -> None:
    usage = SystemUsage(store_limit=1000)
    broker = make_broker(usage=usage, store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    if what == "size":
        paged.bytes = 1000
    else:
        paged.change(StoreState.CONGESTED)
    first = client.send(Q, "1", persistent=True)
    second = client.send(Q, "2", persistent=True)
    client.send(Q, "np")
    assert client.received(consumer) == ["np"]
    assert not first.done
    assert broker.queue(Q).statistics.blocked_sends == 2
    if what == "size":
        paged.bytes = 999
        await clock.advance(1)  # it is looked at each second
    else:
        paged.change(StoreState.RUNNING)  # it is heard of
    assert first.done
    assert second.error is None  # type: ignore[unreachable]
    assert client.received(consumer) == ["np", "1", "2"]
    await broker.region.stop()


@pytest.mark.fact("activemq-broker M3")
@pytest.mark.parametrize("persistent", [True, False])
async def test_full_disks_fail_sends_at_once_or_after_a_time(
    clock: ManualClock,
    make_broker: type[Broker],
    paged: PagedAdapter,
    temp_store: TempStore,
    persistent: bool,
) -> None:
    usage = SystemUsage(store_limit=1000, temp_limit=1)
    at_once = PolicyEntry(destination=Queue("fast"), send_fail_if_no_space=True)
    later = PolicyEntry(destination=Q, send_fail_if_no_space_after_timeout=5)
    broker = make_broker(at_once, later, usage=usage, store=paged, temp_store=temp_store)
    client = broker.client()
    paged.bytes = 2000
    spool = temp_store.spool("other")
    spool.append(broker.queue(Q).reference_to(client.message(Q, "x")))
    expected = (
        r"^Persistent store is Full, 100% of 1000\. Stopping producer \(c1:1:1\) to prevent "
        if persistent
        else r"^Temp Store is Full, 100% of 1\. Stopping producer \(c1:1:1\) to prevent "
    )
    with pytest.raises(ResourceAllocationException, match=expected + "flooding queue://fast"):
        client.send(Queue("fast"), "1", persistent=persistent)
    waiting = client.send(Q, "2", persistent=persistent)
    await clock.advance(4)
    assert not waiting.done
    await clock.advance(2)
    assert isinstance(waiting.error, ResourceAllocationException)
    spool.clear()
    paged.bytes = 0
    assert client.send(Q, "3", persistent=persistent) is COMPLETED
    await broker.region.stop()


async def test_freed_space_of_the_temp_store_admits_sends(
    make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore
) -> None:
    usage = SystemUsage(temp_limit=1)
    broker = make_broker(usage=usage, store=paged, temp_store=temp_store)
    client = broker.client()
    consumer = client.consume(Q)
    spool = temp_store.spool("other")
    spool.append(broker.queue(Q).reference_to(client.message(Q, "x")))
    client.send(Q, "1")
    assert client.received(consumer) == []
    spool.pop(1)
    assert client.received(consumer) == ["1"]
    await broker.region.stop()


@pytest.mark.fact("activemq-broker M4")
async def test_without_flow_control_memory_never_blocks_but_disks_do(
    make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore
) -> None:
    policy = PolicyEntry(memory_limit=5 * SIZE, producer_flow_control=False, max_page_size=5)
    usage = SystemUsage(store_limit=1000)
    broker = make_broker(policy, usage=usage, store=paged, temp_store=temp_store)
    client = broker.client()
    for n in range(1, 101):
        assert client.send(Q, str(n)) is COMPLETED
    for n in range(101, 201):
        assert client.send(Q, str(n), persistent=True) is COMPLETED
    queue = broker.queue(Q)
    assert queue.memory.used < 10 * SIZE
    assert temp_store.size > 0
    assert present(queue.store).message_count == 100
    paged.bytes = 1000
    waiting = client.send(Q, "201", persistent=True)
    assert not waiting.done
    assert sorted(drain(client, client.consume(Q)), key=int) == texts(1, 200)
    paged.bytes = 0
    usage.store.admit_waiting()
    assert waiting.done
    await broker.region.stop()  # type: ignore[unreachable]


@pytest.mark.fact("activemq-broker 2.1/storeUsageHighWaterMark")
async def test_the_high_water_mark_of_a_policy(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    assert PolicyEntry().store_usage_high_water_mark == 100
    usage = SystemUsage(store_limit=1000)
    policy = PolicyEntry(destination=Q, store_usage_high_water_mark=80)
    broker = make_broker(policy, usage=usage, store=paged)
    client = broker.client()
    paged.bytes = 800
    waiting = client.send(Q, "1", persistent=True)
    assert client.send(Queue("other"), "1", persistent=True) is COMPLETED
    assert (usage.store.percent, usage.store.used) == (80, 800)
    assert not waiting.done
    paged.bytes = 799
    usage.store.admit_waiting()
    assert waiting.done
    await broker.region.stop()  # type: ignore[unreachable]


async def test_a_send_may_wait_for_memory_and_then_for_the_store(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    usage = SystemUsage(store_limit=1000)
    policy = PolicyEntry(memory_limit=1)
    broker = make_broker(policy, usage=usage, store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "1")
    waiting = client.send(Q, "2", persistent=True)
    paged.bytes = 1000
    client.ack(consumer)
    assert not waiting.done
    paged.bytes = 0
    usage.store.admit_waiting()
    assert waiting.done
    assert client.received(consumer) == ["1", "2"]  # type: ignore[unreachable]
    await broker.region.stop()


async def test_a_topic_needs_the_store_for_durable_subscriptions_only(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    usage = SystemUsage(store_limit=1000)
    broker = make_broker(usage=usage, store=paged)
    client, sender = broker.client("me"), broker.client()
    paged.bytes = 1000
    assert sender.send(T, "1", persistent=True) is COMPLETED
    consumer = client.consume(T, subscription_name="s")
    waiting = sender.send(T, "2", persistent=True)
    assert client.received(consumer) == []
    client.close(consumer)
    client.unsubscribe("s")
    usage.store.admit_waiting()
    assert not waiting.done  # it waits for the store that it needed when it came
    paged.bytes = 0
    usage.store.admit_waiting()
    assert waiting.done
    assert sender.send(T, "3", persistent=True) is COMPLETED  # type: ignore[unreachable]
    await broker.region.stop()


async def test_a_closed_connection_ends_its_waits(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    usage = SystemUsage(store_limit=1000)
    broker = make_broker(usage=usage, store=paged)
    client = broker.client()
    paged.bytes = 1000
    waiting = client.send(Q, "1", persistent=True)
    broker.region.remove_connection(client.context, ConnectionInfo(), None)
    assert str(waiting.error) == "Connection closed, send aborted."
    paged.bytes = 0
    usage.store.admit_waiting()
    assert broker.texts(Q) == []
    await anyio.lowlevel.checkpoint()
    await broker.region.stop()


async def test_sends_do_not_wait_for_a_failed_store(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    policy = PolicyEntry(destination=Queue("fast"), send_fail_if_no_space=True)
    broker = make_broker(policy, store=paged)
    client = broker.client()
    paged.change(StoreState.SUSPENDED)
    with pytest.raises(ResourceAllocationException, match=r"^Persistent store is suspended\."):
        client.send(Queue("fast"), "1", persistent=True)
    waiting = client.send(Q, "1", persistent=True)
    paged.broken.add("add_message")
    paged.change(StoreState.FAILED)
    assert str(waiting.error) == "add_message failed"
    await broker.region.stop()


async def test_earlier_state_listeners_are_still_called(
    make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore
) -> None:
    heard = []
    paged.on_state = lambda state, error: heard.append(state)
    broker = make_broker(store=paged, temp_store=temp_store)
    paged.change(StoreState.CONGESTED)
    assert heard == [StoreState.CONGESTED]
    assert broker.region.system_usage.store.is_full()


class Part:
    """A part of a store, as a filter of mKahaDB has one."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.state = StoreState.RUNNING

    def __str__(self) -> str:
        return "queue://orders.>"


@pytest.mark.fact("activemq-persistence K25")
async def test_a_partition_of_the_store_has_its_own_limit(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter
) -> None:
    orders, new = Queue("orders.old"), Queue("orders.new")
    part, unlimited = Part(1000), Part(0)
    parts = {orders: part, new: part, Q: unlimited}
    cast("Any", paged).partition_of = parts.get
    usage = SystemUsage(store_limit=5000)
    policy = PolicyEntry(destination=Queue("orders.new"), send_fail_if_no_space=True)
    broker = make_broker(policy, usage=usage, store=paged)
    client = broker.client()
    assert client.send(orders, "1", persistent=True) is COMPLETED
    part.size = unlimited.size = 1000
    waiting = client.send(orders, "2", persistent=True)
    assert not waiting.done
    with pytest.raises(
        ResourceAllocationException,
        match=r"^Persistent store of queue://orders\.> is Full, 100% of 1000\. Stopping producer",
    ):
        client.send(new, "1", persistent=True)
    assert client.send(new, "2") is COMPLETED  # memory takes it
    assert client.send(Q, "3", persistent=True) is COMPLETED
    assert client.send(Queue("other"), "4", persistent=True) is COMPLETED
    part.size = 999
    await clock.advance(1)
    assert waiting.done and broker.texts(orders) == ["1", "2"]  # type: ignore[unreachable]
    # the store's own limit and state count for all parts, too
    paged.bytes = 5000  # type: ignore[unreachable]
    for name in (orders, Q):
        assert not client.send(name, "5", persistent=True).done
    paged.bytes = 0
    usage.store.admit_waiting()
    assert broker.texts(orders) == ["1", "2", "5"]
    paged.change(StoreState.SUSPENDED)
    suspended = client.send(orders, "6", persistent=True)
    assert not suspended.done
    part.size = 1000
    paged.change(StoreState.RUNNING)
    assert not suspended.done  # the store works again, its part is full
    part.size = 0
    await clock.advance(1)
    assert suspended.done
    await broker.region.stop()
