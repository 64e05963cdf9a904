"""Topics: fan-out, windows, pending limits, eviction, noLocal."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import AckType, ConsumerId
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.eviction import (
    ConstantPendingMessageLimitStrategy,
    OldestMessageEvictionStrategy,
    OldestMessageWithLowestPriorityEvictionStrategy,
    PrefetchRatePendingMessageLimitStrategy,
    UniquePropertyMessageEvictionStrategy,
)
from tests.kit.brokers.region import Broker, Client, ManualClock
from tests.kit.values import present

T = Topic("T")


def send_all(client: Client, count: int, **options: Any) -> None:
    for number in range(1, count + 1):
        client.send(T, str(number), **options)


def numbers(*values: int) -> list[str]:
    return [str(value) for value in values]


def test_every_matching_subscription_gets_or_keeps_the_message(
    broker: Broker, client: Client
) -> None:
    quick = client.consume(T)
    slow = client.consume(T, prefetch=1)
    picky = client.consume(T, selector="JMSType = '2'")
    send_all(client, 3)
    assert client.received(quick) == numbers(1, 2, 3)
    assert client.received(slow) == numbers(1)
    assert slow.pending_count == 2
    assert client.received(picky) == numbers(2)
    client.ack(slow, 0)
    assert client.received(slow) == numbers(1, 2)
    client.send(Topic("nobody"), "x")
    assert broker.topic(Topic("nobody")).statistics.enqueues == 1


@pytest.mark.fact("activemq-broker T3")
def test_one_delivery_per_subscription(client: Client) -> None:
    wide = client.consume(Topic("T.>"))
    overlapping = client.consume(Topic("T.*,T.a"))
    plain = client.consume(Topic("T.a"))
    client.send(Topic("T.a"), "x")
    assert [client.received(c) for c in (wide, overlapping, plain)] == [["x"], ["x"], ["x"]]


def test_no_local(broker: Broker) -> None:
    one, two = broker.client(), broker.client()
    own = one.consume(T, no_local=True)
    other = two.consume(T, no_local=True)
    any_ = one.consume(T)
    one.send(T, "x")
    assert [one.received(own), two.received(other), one.received(any_)] == [[], ["x"], ["x"]]


@pytest.mark.fact("activemq-broker T4")
def test_no_local_of_a_durable_subscription_follows_its_connection(broker: Broker) -> None:
    first = broker.client("me")
    durable = first.consume(T, subscription_name="s", no_local=True)
    first.send(T, "own", persistent=True)
    assert first.received(durable) == []
    first.close(durable)
    again = broker.client("me")
    again.producer_id = type(again.producer_id)("me-2", 1, 1)
    again._consumers = 7
    info_context = again.context
    info_context.client_id = "me"
    consumer = again.consume(T, subscription_name="s", no_local=True)
    assert consumer is durable
    again.send(T, "other connection's id", persistent=True)
    assert again.received(consumer) == ["other connection's id"]


@pytest.mark.fact("activemq-broker T5")
def test_a_topic_has_no_size_but_its_subscriptions_have(broker: Broker, client: Client) -> None:
    slow = client.consume(T, prefetch=2)
    send_all(client, 5)
    client.ack(slow, 0)
    statistics = broker.topic(T).statistics
    assert statistics.messages == 0
    assert broker.topic(T).browse() == []
    assert (statistics.enqueues, statistics.dispatched, statistics.dequeues) == (5, 3, 1)
    assert (slow.enqueue_count, slow.dispatched_count, slow.dequeue_count) == (5, 3, 1)
    assert (slow.pending_count, slow.in_flight) == (2, 2)


@pytest.mark.fact("activemq-broker T6")
def test_nothing_is_stored_without_durable_subscriptions(broker: Broker, client: Client) -> None:
    store = broker.region.store.topic_message_store(T)
    consumer = client.consume(T, prefetch=1)
    send_all(client, 2, persistent=True)
    assert store.message_count == 0
    client.ack(consumer, 0)
    assert client.received(consumer) == numbers(1, 2)
    assert store.message_count == 0


def test_transacted_topic_messages_and_acks(client: Client) -> None:
    consumer = client.consume(T, prefetch=1)
    tx = client.begin()
    client.send(T, "1", tx=tx)
    client.send(T, "2", tx=tx)
    assert client.received(consumer) == []
    tx.commit(one_phase=True)
    assert client.received(consumer) == ["1"]
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    assert client.received(consumer) == ["1"]
    tx.commit(one_phase=True)
    assert client.received(consumer) == ["1", "2"]
    tx = client.begin()
    client.send(T, "3", tx=tx)
    tx.rollback()
    client.ack(consumer, 1)
    assert client.received(consumer) == ["1", "2"]


@pytest.mark.parametrize(
    "kind",
    [AckType.STANDARD, AckType.INDIVIDUAL, AckType.POISON, AckType.EXPIRED, AckType.DELIVERED],
)
def test_all_acks_free_the_window(client: Client, kind: AckType) -> None:
    consumer = client.consume(T, prefetch=1)
    send_all(client, 3)
    client.ack(consumer, 0, kind=kind)
    assert client.received(consumer) == numbers(1, 2)


def test_other_acks_do_not(client: Client) -> None:
    consumer = client.consume(T, prefetch=1)
    send_all(client, 3)
    client.ack(consumer, 0, kind=AckType.REDELIVERED)
    with pytest.raises(JMSException, match="Invalid acknowledgment"):
        client.ack(consumer, 0, kind=AckType.UNMATCHED)
    assert client.received(consumer) == numbers(1)


async def test_topics_can_be_pulled(clock: ManualClock, client: Client) -> None:
    consumer = client.consume(T, prefetch=0)
    send_all(client, 2)
    client.pull(consumer, 0)
    assert client.received(consumer) == numbers(1)
    client.pull(consumer, 1000)
    client.pull(consumer, 1000)
    await clock.advance(2)
    assert client.received(consumer) == [*numbers(1, 2), None]


def test_only_the_target_consumer_gets_the_message(client: Client) -> None:
    one, two = client.consume(T), client.consume(T)
    message = client.message(T, "replay")
    assert one.consumer_id is not None
    message.target_consumer_id = ConsumerId(
        one.consumer_id.connection_id, one.consumer_id.session_id, one.consumer_id.value
    )
    client.send(T, "", message=message)
    assert (client.received(one), client.received(two)) == (["replay"], [])


@pytest.mark.fact("activemq-broker T8")
def test_pending_limits(make_broker: type[Broker]) -> None:
    def arrived(
        strategy: ConstantPendingMessageLimitStrategy
        | PrefetchRatePendingMessageLimitStrategy
        | None,
        prefetch: Any,
        own: int = 0,
        count: int = 10,
    ) -> list[str | None]:
        client = make_broker(PolicyEntry(pending_message_limit_strategy=strategy)).client()
        consumer = client.consume(T, prefetch=prefetch, maximum_pending_message_limit=own)
        send_all(client, count)
        while consumer.pending_count:
            client.ack(consumer)
        return client.received(consumer)

    constant = ConstantPendingMessageLimitStrategy
    assert arrived(constant(limit=3), 2) == numbers(1, 2, 8, 9, 10)
    assert arrived(constant(limit=0), 2) == numbers(1, 2)
    assert arrived(constant(limit=-1), 2) == numbers(*range(1, 11))
    assert arrived(constant(), 2) == numbers(*range(1, 11))
    assert arrived(None, 2) == numbers(*range(1, 11))
    assert arrived(PrefetchRatePendingMessageLimitStrategy(), 4) == numbers(1, 2, 3, 4, 9, 10)
    assert arrived(PrefetchRatePendingMessageLimitStrategy(multiplier=1), 2) == numbers(1, 2, 9, 10)
    assert arrived(constant(limit=3), 2, own=1) == numbers(1, 2, 10)
    assert arrived(constant(limit=1), 2, own=3) == numbers(1, 2, 10)
    assert arrived(None, 2, own=1) == numbers(1, 2, 10)


@pytest.mark.fact(
    "activemq-broker T9",
    "activemq-broker 2.1/pendingMessageLimitStrategy, messageEvictionStrategy",
)
async def test_evictions(clock: ManualClock, make_broker: type[Broker]) -> None:
    def with_strategy(
        strategy: OldestMessageEvictionStrategy
        | OldestMessageWithLowestPriorityEvictionStrategy
        | UniquePropertyMessageEvictionStrategy,
        limit: int = 2,
    ) -> Any:
        broker = make_broker(
            PolicyEntry(
                pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=limit),
                message_eviction_strategy=strategy,
            )
        )
        client = broker.client()
        return client, client.consume(T, prefetch=1)

    def rest(client: Client, consumer: Any) -> list[str | None]:
        while consumer.pending_count:
            client.ack(consumer)
        return client.received(consumer)[1:]

    assert PolicyEntry().pending_message_limit_strategy is None
    assert isinstance(PolicyEntry().message_eviction_strategy, OldestMessageEvictionStrategy)
    client, consumer = with_strategy(OldestMessageEvictionStrategy())
    send_all(client, 5)
    assert rest(client, consumer) == numbers(4, 5)

    client, consumer = with_strategy(OldestMessageWithLowestPriorityEvictionStrategy())
    for text, priority in (("first", 4), ("a", 4), ("b", 1), ("c", 1), ("d", 9)):
        client.send(T, text, priority=priority)
    assert rest(client, consumer) == ["a", "d"]

    client, consumer = with_strategy(UniquePropertyMessageEvictionStrategy(property_name="sym"))
    client.send(T, "first")
    for text, sym in (("x1", "x"), ("y1", "y"), ("x2", "x")):
        await clock.advance(1)
        client.send(T, text, properties={"sym": sym})
    assert rest(client, consumer) == ["y1", "x2"]
    client, consumer = with_strategy(UniquePropertyMessageEvictionStrategy(property_name="sym"))
    client.send(T, "first")
    for text in ("old", "newer", "newest"):
        client.send(T, text)
    assert rest(client, consumer) == ["newer", "newest"]

    # expired ones go first, once more than min(limit, watermark) wait
    assert OldestMessageEvictionStrategy().evict_expired_messages_high_watermark == 1000
    client, consumer = with_strategy(OldestMessageEvictionStrategy())
    client.send(T, "first")
    client.send(T, "keeps")
    client.send(T, "expires", expiration=clock.time_ms() + 10)
    await clock.advance(1)
    client.send(T, "last")
    assert (consumer.discarded_count, consumer.expired_count) == (0, 1)
    assert rest(client, consumer) == ["keeps", "last"]


@pytest.mark.fact("activemq-broker T10")
@pytest.mark.parametrize("persistent", [True, False])
def test_an_evicted_persistent_message_is_dead_lettered(
    make_broker: type[Broker], persistent: bool
) -> None:
    broker = make_broker(
        PolicyEntry(pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=1))
    )
    client = broker.client()
    consumer = client.consume(T, prefetch=1)
    send_all(client, 3, persistent=persistent)
    assert consumer.discarded_count == 1
    letters = broker.dead_letters
    assert [m.type for m in letters] == (["2"] if persistent else [])
    if persistent:
        properties = decode_map(present(letters[0].marshalled_properties))
        assert (
            properties["dlqDeliveryFailureCause"]
            == f"java.lang.Throwable: TopicSubDiscard. ID:{consumer.consumer_id}"
        )


@pytest.mark.fact("activemq-broker T12")
def test_a_slow_consumer_is_flagged_until_it_catches_up(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = client.consume(T, prefetch=2)
    never = client.consume(T, prefetch=1)
    send_all(client, 5)
    assert not consumer.is_slow
    send_all(client, 1)
    assert consumer.is_slow
    assert not never.is_slow  # type: ignore[unreachable]
    assert caplog.text.count("has twice its prefetch limit pending") == 1
    for index in range(3):
        assert consumer.is_slow
        client.ack(consumer, index)
    assert not consumer.is_slow


@pytest.mark.fact("activemq-broker T12")
@pytest.mark.parametrize("durable", [False, True])
def test_queue_and_durable_consumers_are_slow_while_full_with_more_waiting(
    broker: Broker, durable: bool
) -> None:
    client = broker.client("me")
    where = T if durable else Queue("Q")
    options = {"subscription_name": "s"} if durable else {}
    consumer = client.consume(where, prefetch=2, **options)
    for text, slow in (("1", False), ("2", False), ("3", True), ("4", True)):
        client.send(where, text, persistent=True)
        assert consumer.is_slow is slow
    for acknowledged, slow in ((0, True), (1, False)):
        client.ack(consumer, acknowledged)
        assert consumer.is_slow is slow


def test_duplicate_ids_are_dropped_only_under_a_policy(make_broker: type[Broker]) -> None:
    for policies, expected in (((), ["a", "a"]), ((PolicyEntry(),), ["a"])):
        client = make_broker(*policies).client()
        consumer = client.consume(T)
        first = client.message(T, "a")
        client.send(T, "", message=first)
        again = client.message(T, "a")
        again.message_id = first.message_id
        client.send(T, "", message=again)
        assert client.received(consumer) == expected


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("simple", ["abc", "abc"]),
        ("strict_order", ["abc", "abc"]),
        ("round_robin", ["abc", "bca"]),
        ("priority", ["bac", "bac"]),
    ],
)
def test_dispatch_policies(make_broker: type[Broker], name: str, order: Any) -> None:
    client = make_broker(PolicyEntry(dispatch_policy=name)).client()
    consumers = {
        client.consume(T, priority=priority).consumer_id: label
        for label, priority in (("a", 0), ("b", 5), ("c", 0))
    }
    for expected in order:
        client.dispatches.clear()
        client.send(T, "x")
        got = "".join(consumers[d.consumer_id] for d in client.dispatches)
        assert got == expected


@pytest.mark.fact("activemq-broker T2")
def test_of_bridges_to_one_consumer_the_highest_priority_gets_the_message(
    make_broker: type[Broker],
) -> None:
    broker = make_broker(PolicyEntry(dispatch_policy="priority_network"))
    client = broker.client()
    remote, other = ConsumerId("remote", 1, 1), ConsumerId("other", 1, 1)
    bridges = {
        label: client.consume(
            T, priority=priority, network_subscription=True, network_consumer_path=path
        ).consumer_id
        for label, priority, path in (
            ("far", -7, [remote, ConsumerId("between", 1, 1)]),
            ("near", -5, [remote]),
            ("same", -5, [remote]),
            ("another", -7, [other]),
        )
    }
    local = client.consume(T, priority=-9).consumer_id
    client.send(T, "x")
    got = [dispatch.consumer_id for dispatch in client.dispatches]
    assert got == [bridges["near"], bridges["another"], local]


@pytest.mark.fact("activemq-broker T2")
@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        ("orders.PTP", None, ["a", "b"]),
        ("orders.PTP", "b", ["b"]),
        ("orders.PTP", "c", []),
        ("orders", "b", []),
    ],
)
def test_a_message_for_one_client(
    make_broker: type[Broker], name: str, wanted: str | None, expected: list[str]
) -> None:
    broker = make_broker(PolicyEntry(dispatch_policy="client_id_filter"))
    clients = [broker.client(each) for each in "ab"]
    for client in clients:
        client.consume(Topic(name))
    properties: dict[str, object] = {} if wanted is None else {"PTP_CLIENTID": wanted}
    broker.client("sender").send(Topic(name), "x", properties=properties)
    assert [client.name for client in clients if client.dispatches] == expected


def test_an_unknown_dispatch_policy_is_an_error(make_broker: type[Broker]) -> None:
    with pytest.raises(ValueError, match="unknown dispatch_policy 'random'"):
        make_broker(PolicyEntry(dispatch_policy="random")).client().consume(T)


def test_closing_a_slow_subscription_frees_its_memory(broker: Broker, client: Client) -> None:
    consumer = client.consume(T, prefetch=1)
    send_all(client, 5)
    assert broker.topic(T).memory.used > 0
    client.close(consumer)
    assert broker.topic(T).memory.used == 0
    assert broker.topic(T).statistics.consumers == 0
