"""Memory accounting and producer flow control."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.jms.destination import Queue, Topic
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.system_usage import MAIN_MEMORY_LIMIT, SystemUsage
from tests.kit.brokers.region import Broker, ManualClock, PagedAdapter

Q, T = Queue("Q"), Topic("T")


@pytest.fixture
def tight(make_broker: type[Broker]) -> Broker:
    """A broker whose queues hold one message."""
    return make_broker(PolicyEntry(memory_limit=1000))


def test_embedded_defaults() -> None:
    usage = SystemUsage()
    assert usage.memory.limit == MAIN_MEMORY_LIMIT == 1024**3
    assert usage.send_fail_if_no_space is False
    assert usage.send_fail_if_no_space_after_timeout == 0


@pytest.mark.fact("activemq-broker M1", "activemq-broker 2.1/minimumMessageSize")
def test_the_usage_tree_and_message_sizes(make_broker: type[Broker]) -> None:
    main = MemoryUsage("main", 100)
    one, two = MemoryUsage("one", 50, main), MemoryUsage("two", 0, main)
    one.increase(50)
    assert (one.is_full, main.is_full, two.is_full) == (True, False, False)
    two.increase(50)
    assert (main.used, main.is_full, two.is_full, main.percent) == (100, True, True, 100)
    one.decrease(50)
    assert (one.is_full, two.is_full) == (False, False)
    broker = make_broker(PolicyEntry(destination=Queue("small"), minimum_message_size=10))
    client = broker.client()
    client.send(Q, "abc", properties={"k": True})
    body = 4 + 3
    properties = 4 + 2 + 1 + 2
    assert broker.queue(Q).memory.used == 1024 + body + properties
    client.send(Queue("small"), "abc")
    assert broker.queue(Queue("small")).memory.used == 10 + body
    assert broker.region.system_usage.memory.used == 1024 + body + properties + 10 + body


@pytest.mark.fact("activemq-broker M2")
def test_senders_wait_in_order_until_there_is_room(tight: Broker) -> None:
    client = tight.client()
    assert client.send(Q, "1") is COMPLETED
    parked = [client.send(Q, text) for text in ("2", "3")]
    assert [p.done for p in parked] == [False, False]
    assert tight.queue(Q).statistics.blocked_sends == 2
    assert tight.texts(Q) == ["1"]
    consumer = client.consume(Q)
    client.ack(consumer, 0)
    assert [p.done for p in parked] == [True, False]
    client.ack(consumer, 1)
    assert [(p.done, p.error) for p in parked] == [(True, None), (True, None)]
    assert client.received(consumer) == ["1", "2", "3"]


@pytest.mark.fact("activemq-broker M2")
async def test_fail_at_once_or_after_a_time(clock: ManualClock, make_broker: type[Broker]) -> None:
    broker = make_broker(PolicyEntry(memory_limit=1000, send_fail_if_no_space=True))
    client = broker.client()
    client.send(Q, "1")
    with pytest.raises(
        ResourceAllocationException,
        match=r"^MemoryUsage Manager Memory Limit reached on queue://Q\.",
    ):
        client.send(Q, "2")
    broker = make_broker(PolicyEntry(memory_limit=1000), usage=SystemUsage(1024**3, False, 5))
    client = broker.client()
    client.send(Q, "1")
    parked = client.send(Q, "2")
    consumer = client.consume(Q)
    await clock.advance(4)
    assert not parked.done
    await clock.advance(1.5)
    assert isinstance(parked.error, ResourceAllocationException)
    client.ack(consumer, 0)
    assert broker.texts(Q) == []
    client.send(Q, "3")
    parked = client.send(Q, "4")
    client.ack(consumer, 1)
    await clock.advance(10)
    assert (parked.done, parked.error) == (True, None)
    network = broker.client()
    network.context.network_connection = True
    waiting = network.send(Q, "5")
    await clock.advance(10)
    assert not waiting.done  # bridges are never failed


@pytest.mark.fact("activemq-broker 2.1/sendFailIfNoSpace / ...AfterTimeout")
async def test_a_policy_overrides_the_system(clock: ManualClock, make_broker: type[Broker]) -> None:
    assert PolicyEntry().send_fail_if_no_space is None
    assert PolicyEntry().send_fail_if_no_space_after_timeout is None
    broker = make_broker(
        PolicyEntry(destination=Queue("waits"), memory_limit=1, send_fail_if_no_space=False),
        PolicyEntry(destination=Queue("inherits"), memory_limit=1),
        PolicyEntry(
            destination=Queue("short"),
            memory_limit=1,
            send_fail_if_no_space=False,
            send_fail_if_no_space_after_timeout=1,
        ),
        usage=SystemUsage(send_fail_if_no_space=True),
    )
    client = broker.client()
    for name in ("waits", "inherits", "short"):
        client.send(Queue(name), "1")
    waits = client.send(Queue("waits"), "2")
    short = client.send(Queue("short"), "2")
    with pytest.raises(ResourceAllocationException):
        client.send(Queue("inherits"), "2")
    await clock.advance(2)
    assert not waits.done
    assert isinstance(short.error, ResourceAllocationException)


@pytest.mark.fact("activemq-broker 2.1/memoryLimit", "activemq-broker 2.1/producerFlowControl")
def test_memory_limits_and_flow_control(make_broker: type[Broker]) -> None:
    assert (PolicyEntry().memory_limit, PolicyEntry().producer_flow_control) == (0, True)
    unlimited = make_broker(PolicyEntry())
    client = unlimited.client()
    assert all(client.send(Q, "x") is COMPLETED for _ in range(100))
    off = make_broker(PolicyEntry(memory_limit=1, producer_flow_control=False))
    client = off.client()
    assert all(client.send(Q, "x") is COMPLETED for _ in range(100))
    assert len(off.texts(Q)) == 100
    on = make_broker(PolicyEntry(memory_limit=2000))
    client = on.client()
    assert [client.send(Q, "x") is COMPLETED for _ in range(3)] == [True, True, False]
    assert client.send(Queue("R"), "x") is COMPLETED


def test_a_full_queue_blocks_its_own_senders_and_full_main_memory_all(
    make_broker: type[Broker],
) -> None:
    broker = make_broker(usage=SystemUsage(memory_limit=2000))
    client = broker.client()
    client.send(Q, "1")
    client.send(Q, "2")
    waiting = client.send(Queue("other"), "3")
    assert not waiting.done
    consumer = client.consume(Q)
    client.ack(consumer, 0)
    assert waiting.done
    assert broker.texts(Queue("other")) == ["3"]  # type: ignore[unreachable]


@pytest.mark.fact("activemq-broker M5")
async def test_blocked_sends_of_finished_transactions_and_expired_ones(
    clock: ManualClock, tight: Broker
) -> None:
    client = tight.client()
    client.send(Q, "1")
    tx = client.begin()
    in_transaction = client.send(Q, "2", tx=tx, persistent=True)
    live = client.begin()
    also = client.send(Q, "3", tx=live, persistent=True)
    expires = client.send(Q, "4", persistent=True, expiration=clock.time_ms() + 1000)
    tx.rollback()
    await clock.advance(2)
    consumer = client.consume(Q)
    client.ack(consumer, 0)
    assert isinstance(in_transaction.error, JMSException)
    assert in_transaction.error.reason == "Send transaction completed while waiting for space"
    assert (also.done, also.error) == (True, None)
    live.commit(one_phase=True)
    client.ack(consumer, 1)
    assert client.received(consumer) == ["1", "3"]
    assert (expires.done, expires.error) == (True, None)
    assert [m.type for m in tight.dead_letters] == ["4"]


@pytest.mark.fact("activemq-broker M7", "activemq-broker 2.1/blockedProducerWarningInterval")
async def test_warnings_are_rare(
    clock: ManualClock, make_broker: type[Broker], caplog: pytest.LogCaptureFixture
) -> None:
    assert PolicyEntry().blocked_producer_warning_interval == 30
    broker = make_broker(
        PolicyEntry(memory_limit=1),
        PolicyEntry(
            destination=Queue("quiet"), memory_limit=1, blocked_producer_warning_interval=0
        ),
    )
    client = broker.client()
    for _ in range(5):
        client.send(Q, "x")
        client.send(Queue("quiet"), "x")
    assert len(caplog.records) == 1
    await clock.advance(29)
    client.send(Q, "x")
    assert len(caplog.records) == 1
    await clock.advance(2)
    client.send(Q, "x")
    assert len(caplog.records) == 2
    assert all("queue://Q" in record.getMessage() for record in caplog.records)


@pytest.mark.fact("activemq-broker T11")
def test_a_full_topic_blocks_its_publishers(tight: Broker) -> None:
    client = tight.client()
    slow = client.consume(T, prefetch=1)
    assert client.send(T, "1") is COMPLETED
    assert client.send(T, "2") is COMPLETED  # waits for the consumer, in memory
    parked = client.send(T, "3")
    assert not parked.done
    client.ack(slow, 0)
    assert parked.done
    assert client.received(slow) == ["1", "2"]  # type: ignore[unreachable]
    client.ack(slow, 1)
    assert client.received(slow) == ["1", "2", "3"]


@pytest.mark.fact("activemq-broker T11")
def test_a_slow_consumer_blocks_the_publishers_of_its_topic(make_broker: type[Broker]) -> None:
    stalled = make_broker(PolicyEntry(memory_limit=1000))
    client, other = stalled.client(), stalled.client()
    quick, slow = client.consume(T, prefetch=100), client.consume(T, prefetch=1)
    assert [client.send(T, str(n)) for n in (1, 2)] == [COMPLETED, COMPLETED]
    waiting = other.send(T, "3")
    assert not waiting.done
    assert client.received(quick) == ["1", "2"]
    client.ack(slow, 0)
    assert waiting.done
    free = make_broker(PolicyEntry(memory_limit=1000, producer_flow_control=False)).client()  # type: ignore[unreachable]
    slow = free.consume(T, prefetch=1)
    assert all(free.send(T, str(n)) is COMPLETED for n in range(50))
    for n in range(50):
        free.ack(slow, n)
    assert free.received(slow) == [str(n) for n in range(50)]


def test_advisory_topics_and_the_broker_itself_never_wait(make_broker: type[Broker]) -> None:
    broker = make_broker(PolicyEntry(memory_limit=1))
    client = broker.client()
    advisory = Topic("ActiveMQ.Advisory.Connection")
    client.consume(advisory, prefetch=1)
    assert all(client.send(advisory, "x") is COMPLETED for _ in range(5))
    client.context = broker.region.context
    client.exchange.context = broker.region.context
    assert all(client.send(Q, "x") is COMPLETED for _ in range(5))


def test_a_removed_queue_fails_its_blocked_sends(tight: Broker) -> None:
    client = tight.client()
    client.send(Q, "1")
    parked = client.send(Q, "2")
    tight.region.remove_destination(client.context, Q, 1)
    assert isinstance(parked.error, ResourceAllocationException)
    assert tight.region.system_usage.memory.used == 0


def test_a_deferred_store_completes_sends_once_they_are_stored(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    paged.answers_later = True
    client = make_broker(store=paged).client()
    consumer = client.consume(Q)
    first = client.send(Q, "1", persistent=True)
    assert client.received(consumer) == ["1"]
    assert not first.done
    paged.complete()
    assert first.done
    acknowledged = client.ack(consumer, 0)  # type: ignore[unreachable]
    paged.complete()
    assert acknowledged.done
    client.send(Q, "2", persistent=True)
    client.send(Q, "3", persistent=True)
    both = client.ack(consumer, 2, first=1, count=2)
    for _ in range(3):
        paged.complete()
    assert not both.done
    paged.complete()
    assert both.done
