"""What topics keep for retroactive consumers, and the limits of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Destination, Topic
from pyjms.wire.openwire.commands import ActiveMQTextMessage, ConsumerId, MessageId, ProducerId
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.recovery import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    QueryBasedSubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

T = Topic("T")
COUNT = FixedCountSubscriptionRecoveryPolicy(maximum_size=3)


def keeping(policy: Any, **attributes: Any) -> PolicyEntry:
    return PolicyEntry(subscription_recovery_policy=policy, **attributes)


def send_all(client: Client, texts: Any, topic: Topic = T, **options: Any) -> None:
    for text in texts:
        client.send(topic, text, **options)


def recovered(client: Client, topic: Topic = T, **options: Any) -> Any:
    return client.received(client.consume(topic, **{"retroactive": True, **options}))


@pytest.mark.fact(
    "activemq-broker 4.2/fixedCount",
    "activemq-broker 2.1/subscriptionRecoveryPolicy",
)
def test_the_last_messages_by_number(make_broker: type[Broker]) -> None:
    client = make_broker(keeping(COUNT)).client()
    assert recovered(client) == []
    send_all(client, "12")
    assert recovered(client) == ["1", "2"]
    send_all(client, "345")
    assert recovered(client) == ["3", "4", "5"]
    assert recovered(client, retroactive=False) == []
    assert FixedCountSubscriptionRecoveryPolicy().maximum_size == 100


@pytest.mark.fact("activemq-broker 4.2/fixedSized")
def test_the_last_messages_by_size(make_broker: type[Broker]) -> None:
    policy = FixedSizedSubscriptionRecoveryPolicy(maximum_size=2500)
    broker = make_broker(keeping(policy, minimum_message_size=1000))
    client = broker.client()
    send_all(client, "123")
    assert recovered(client) == ["2", "3"]
    large = client.message(T, "large")
    large.content = b"x" * 3000
    client.send(T, "", message=large)
    assert recovered(client) == []
    assert broker.topic(T).memory.used == 0
    assert FixedSizedSubscriptionRecoveryPolicy().maximum_size == 65536


@pytest.mark.fact("activemq-broker 4.2/lastImage")
def test_the_last_message(make_broker: type[Broker]) -> None:
    client = make_broker(keeping(LastImageSubscriptionRecoveryPolicy())).client()
    send_all(client, "12")
    assert recovered(client) == ["2"]


@pytest.mark.fact("activemq-broker 4.2/noSubscriptionRecoveryPolicy")
@pytest.mark.parametrize("policy", [None, NoSubscriptionRecoveryPolicy()])
def test_nothing(make_broker: type[Broker], policy: NoSubscriptionRecoveryPolicy | None) -> None:
    client = make_broker(keeping(policy)).client()
    send_all(client, "12")
    assert recovered(client) == []


@pytest.mark.fact("activemq-broker 4.2/timed")
async def test_messages_of_the_last_time(clock: ManualClock, make_broker: type[Broker]) -> None:
    broker = make_broker(keeping(TimedSubscriptionRecoveryPolicy(recover_duration=10)))
    client, topic = broker.client(), broker.topic(T)
    client.send(T, "1")
    await clock.advance(6)
    client.send(T, "2")
    assert recovered(client) == ["1", "2"]
    size = topic.memory.used // 2
    await clock.advance(4)
    assert topic.memory.used == size
    assert recovered(client) == ["2"]
    await clock.advance(6)
    assert topic.memory.used == 0
    client.send(T, "3")
    assert recovered(client) == ["3"]
    topic.dispose(client.context)
    assert TimedSubscriptionRecoveryPolicy().recover_duration == 60


class Prices:
    """A query that returns its own messages and refuses updates named `bad`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def execute(self, destination: Destination) -> Any:
        self.asked.append(destination)
        return [
            ActiveMQTextMessage(
                ProducerId("p", 1, 1),
                message_id=MessageId(None, ProducerId("p", 1, 1), 1),
                type=text,
            )
            for text in ("a", "b")
        ]

    def validate_update(self, message: Any) -> bool:
        return bool(message.type != "bad")


@pytest.mark.fact("activemq-broker 4.2/queryBased")
def test_messages_of_a_query(make_broker: type[Broker]) -> None:
    query = Prices()
    client = make_broker(keeping(QueryBasedSubscriptionRecoveryPolicy(query=query))).client()
    live = client.consume(Topic("*"))
    send_all(client, ["1", "bad", "2"])
    assert client.received(live) == ["1", "2"]
    consumer = client.consume(Topic("T"), retroactive=True)
    assert client.received(consumer) == ["a", "b"]
    messages = [dispatch.message for dispatch in client.dispatches_of(consumer)]
    assert len({str(present(message).message_id) for message in messages}) == 2
    assert {present(message).destination for message in messages} == {T}
    assert query.asked == [T]


def test_always_retroactive(make_broker: type[Broker]) -> None:
    for always in (True, False):
        client = make_broker(keeping(COUNT, always_retroactive=always)).client()
        send_all(client, "1")
        assert recovered(client, retroactive=False) == (["1"] if always else [])
        assert recovered(client, Topic("*"), retroactive=False) == (["1"] if always else [])


def test_patterns_and_composites_get_what_each_topic_keeps(make_broker: type[Broker]) -> None:
    client = make_broker(keeping(COUNT)).client()
    for name in ("a.x", "a.y"):
        send_all(client, [name], Topic(name))
    assert sorted(recovered(client, Topic("a.*"))) == ["a.x", "a.y"]
    assert sorted(recovered(client, Topic("a.x,a.y"))) == ["a.x", "a.y"]


def test_what_a_consumer_would_not_get_live_is_not_recovered(
    clock: ManualClock, make_broker: type[Broker]
) -> None:
    client = make_broker(keeping(COUNT)).client()
    client.send(T, "red", properties={"color": "red"})
    client.send(T, "brief", expiration=clock.time_ms() + 10)
    assert recovered(client, selector="color = 'red'") == ["red"]
    assert recovered(client, no_local=True) == []
    clock.seconds += 1
    assert recovered(client) == ["red"]


def test_recovered_messages_fill_the_window_before_new_ones(make_broker: type[Broker]) -> None:
    client = make_broker(keeping(COUNT)).client()
    send_all(client, "123")
    consumer = client.consume(T, 2, retroactive=True)
    client.send(T, "4")
    assert client.received(consumer) == ["1", "2"]
    client.ack(consumer, 1, first=0, count=2)
    assert client.received(consumer) == ["1", "2", "3", "4"]


def test_a_message_for_one_consumer_takes_no_space(make_broker: type[Broker]) -> None:
    client = make_broker(keeping(COUNT)).client()
    client.send(T, "1")
    for number in range(3):
        message = client.message(T, "targeted")
        message.target_consumer_id = ConsumerId("other", 1, number)
        client.send(T, "", message=message)
    assert recovered(client) == ["1"]


# memory
def test_what_is_kept_counts_as_used_memory_until_it_is_dropped(make_broker: type[Broker]) -> None:
    broker = make_broker(keeping(COUNT, minimum_message_size=1000))
    client, topic = broker.client(), broker.topic(T)
    send_all(client, "12345")
    kept = topic.memory.used
    assert kept >= 3000
    assert broker.region.system_usage.memory.used == kept
    consumer = client.consume(T, 1, retroactive=True)
    assert topic.memory.used == kept
    client.close(consumer)
    broker.region.remove_destination(client.context, T, -1)
    assert broker.region.system_usage.memory.used == 0


def test_what_is_kept_never_makes_senders_wait(make_broker: type[Broker]) -> None:
    policy = FixedCountSubscriptionRecoveryPolicy(maximum_size=100)
    broker = make_broker(keeping(policy, memory_limit=10_000, minimum_message_size=1000))
    client, topic = broker.client(), broker.topic(T)
    for number in range(50):
        client.send(T, str(number))
        assert not topic.memory.is_above(70)
    assert topic.statistics.blocked_sends == 0
    assert recovered(client)[-1] == "49"


def test_memory_of_others_makes_a_topic_keep_less(make_broker: type[Broker]) -> None:
    broker = make_broker(
        keeping(COUNT, memory_limit=10_000, minimum_message_size=1000, topic_prefetch=1)
    )
    client, topic = broker.client(), broker.topic(T)
    send_all(client, "12")
    topic.memory.increase(6500)
    client.send(T, "3")
    topic.memory.decrease(6500)
    assert topic.memory.used == 0
    assert recovered(client) == []


# retained messages
def retained(client: Client, text: str, content: bytes = b"body", value: object = True) -> None:
    message = client.message(T, text, properties={"ActiveMQ.Retain": value, "a": 1})
    message.content = content
    client.send(T, text, message=message)


def properties(client: Client, consumer: Subscription) -> Any:
    return [
        dict(decode_map(present(present(dispatch.message).marshalled_properties)))
        for dispatch in client.dispatches_of(consumer)
    ]


@pytest.mark.fact("activemq-broker 4.2/retained")
@pytest.mark.parametrize("policy", [None, COUNT])
def test_the_last_retained_message(
    make_broker: type[Broker], policy: FixedCountSubscriptionRecoveryPolicy | None
) -> None:
    broker = make_broker(keeping(policy))
    client = broker.client()
    live = client.consume(T)
    retained(client, "1")
    retained(client, "2", value="TRUE")
    retained(client, "not retained", value=False)
    assert properties(client, live)[:2] == [{"a": 1}] * 2
    late = client.consume(T, retroactive=True)
    others = [] if policy is None else ["1", "not retained"]  # one delivery for each id
    assert client.received(late) == ["2", *others]
    assert properties(client, late)[0] == {"a": 1, "ActiveMQ.Retained": True}
    retained(client, "", content=b"")
    later = client.consume(T, retroactive=True)
    assert {"a": 1, "ActiveMQ.Retained": True} not in properties(client, later)


def test_a_retained_message_counts_as_used_memory(make_broker: type[Broker]) -> None:
    broker = make_broker(PolicyEntry(memory_limit=4000, minimum_message_size=1000))
    client, topic = broker.client(), broker.topic(T)
    retained(client, "1")
    assert topic.memory.used >= 1000
    topic.memory.increase(2500)
    retained(client, "2")
    topic.memory.decrease(2500)
    assert topic.memory.used == 0
    assert recovered(client) == []


# durable subscriptions
@pytest.mark.fact("activemq-broker T19")
@pytest.mark.parametrize("is_paged", [True, False])
def test_a_new_retroactive_durable_subscription_gets_what_the_store_has(
    make_broker: type[Broker], paged: PagedAdapter, is_paged: bool
) -> None:
    client = make_broker(store=paged if is_paged else None).client("me")
    other = client.consume(T, subscription_name="other")
    send_all(client, "12", persistent=True)
    durable = client.consume(T, subscription_name="late", retroactive=True)
    assert client.received(durable) == ["1", "2"]
    plain = client.consume(T, subscription_name="plain")
    assert client.received(plain) == []
    assert client.received(other) == ["1", "2"]
    client.send(T, "3", persistent=True)
    assert client.received(durable) == ["1", "2", "3"]


@pytest.mark.fact("activemq-broker 4.2/fixedCount")
def test_a_retroactive_durable_subscription_gets_what_is_kept_at_each_activation(
    make_broker: type[Broker],
) -> None:
    broker = make_broker(keeping(COUNT))
    client = broker.client("me")
    send_all(client, "1234", persistent=True)
    for _ in range(2):
        durable = client.consume(T, subscription_name="s", retroactive=True)
        assert client.received(durable) == ["2", "3", "4"]
        client.ack(durable, 2, first=0, count=3)
        client.close(durable)
    client.send(T, "5", persistent=True)
    durable = client.consume(T, subscription_name="s", retroactive=True)
    assert client.received(durable) == ["5"]
    client.ack(durable, 0)
    client.close(durable)
    assert client.received(client.consume(T, subscription_name="s")) == []


async def test_nothing_runs_on_after_a_stop(make_broker: type[Broker]) -> None:
    """The task that drops what has become too old ran on, and kept the messages in memory."""
    before = running_tasks()
    broker = make_broker(keeping(TimedSubscriptionRecoveryPolicy(recover_duration=3600)))
    await broker.region.start()
    client, topic = broker.client(), broker.topic(T)
    client.send(T, "1")
    await anyio.wait_all_tasks_blocked()
    assert "recovery policy of topic://T" in running_tasks() - before
    await broker.region.stop()
    await anyio.wait_all_tasks_blocked()
    assert running_tasks() - before == set()
    assert topic.memory.used == 0


async def test_nothing_runs_on_after_a_topic_is_removed(make_broker: type[Broker]) -> None:
    before = running_tasks()
    broker = make_broker(keeping(TimedSubscriptionRecoveryPolicy(recover_duration=3600)))
    client = broker.client()
    client.send(T, "1")
    await anyio.wait_all_tasks_blocked()
    assert running_tasks() != before
    broker.region.remove_destination(client.context, T, 0)
    await anyio.wait_all_tasks_blocked()
    assert running_tasks() == before


def running_tasks() -> Any:
    return {task.name for task in anyio.get_running_tasks()}
