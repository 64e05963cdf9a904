"""Messages to a topic, and acknowledgements, that arrive together have the effect of single ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import pytest

from pyjms.jms.destination import Topic
from pyjms.wire.openwire.commands import AckType, ActiveMQMessage, MessageAck
from pyjms.wire.openwire.fast_writer import marshal_body
from pyjms_broker.api.context import ConsumerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.eviction import ConstantPendingMessageLimitStrategy
from pyjms_broker.policy.recovery import FixedCountSubscriptionRecoveryPolicy
from tests.kit.brokers.region import Broker, Client, PagedAdapter
from tests.kit.values import present

T = Topic("T")
Send = Callable[[Client, list[ActiveMQMessage]], list[int]]
Settle = Callable[[Client, Subscription, deque[MessageAck]], None]


def messages(client: Client, *texts: str) -> list[ActiveMQMessage]:
    made: list[ActiveMQMessage] = []
    for text in texts:
        message = client.message(T, text)
        marshal_body(message)
        made.append(message)
    return made


def singly(client: Client, sent: list[ActiveMQMessage]) -> list[int]:
    for message in sent:
        client.broker.send(client.exchange, message)
    return [1] * len(sent)


def in_runs(client: Client, sent: list[ActiveMQMessage]) -> list[int]:
    """Send them as the connector does; return how many were accepted together each time."""
    counts = []
    while sent:
        count = client.broker.send_run(client.exchange, sent)
        if not count:
            client.broker.send(client.exchange, sent[0])
        counts.append(count or 1)
        sent = sent[counts[-1] :]
    return counts


def acks_of(client: Client, consumer: Subscription, count: int) -> deque[MessageAck]:
    """Return acknowledgements of the next messages, of the number that a consumer got."""
    due = client.dispatches_of(consumer)[consumer.dequeue_count :][:count]
    ids = [present(each.message).message_id for each in due]
    own = consumer.consumer_id
    return deque(MessageAck(T, None, own, AckType.STANDARD, each, each, 1) for each in ids)


def one_by_one(client: Client, _: Subscription, acks: deque[MessageAck]) -> None:
    for ack in acks:
        client.acknowledge(ack)


def together(client: Client, consumer: Subscription, acks: deque[MessageAck]) -> None:
    exchange = ConsumerExchange(client.context, consumer)
    while acks:
        before, ack = len(acks), acks[0]
        client.broker.acknowledge_run(exchange, acks)
        if len(acks) == before:
            acks.popleft()
            client.broker.acknowledge(exchange, ack)


def state(broker: Broker) -> tuple[int, ...]:
    topic = broker.topic(T)
    s = topic.statistics
    sizes = (topic.memory.used, s.total_size, s.min_size, s.max_size)
    return (s.enqueues, s.dispatched, s.dequeues, s.expired, *sizes)


def test_each_subscriber_gets_a_run_in_one_step(broker: Broker, client: Client) -> None:
    other = broker.client()
    client.run_limit = other.run_limit = 100
    first, second = client.consume(T), other.consume(T)
    assert in_runs(client, messages(client, *"abcd")) == [1, 3]
    assert client.received(first) == other.received(second) == list("abcd")
    assert client.runs == other.runs == [3]


@pytest.mark.parametrize(
    "policy",
    [
        PolicyEntry(),
        PolicyEntry(memory_limit=12 * 1100),
        PolicyEntry(pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=3)),
        PolicyEntry(enable_audit=True),
        PolicyEntry(dispatch_policy="round_robin"),
        PolicyEntry(
            subscription_recovery_policy=FixedCountSubscriptionRecoveryPolicy(maximum_size=2)
        ),
    ],
    ids=["usual", "tight", "evicting", "audited", "rotating", "keeping"],
)
@pytest.mark.parametrize("seed", range(4))
async def test_any_work_in_runs_has_the_effect_of_single_messages(
    make_broker: type[Broker], policy: PolicyEntry, seed: int
) -> None:
    """Sends of any size, while subscribers of all kinds come, read and go."""

    def outcome(send: Send, settle: Settle) -> list[object]:
        chance = Random(seed)
        broker = make_broker(policy, store=PagedAdapter())
        sender = broker.client()
        clients = [broker.client() for _ in range(3)]
        for each in clients:
            limit = chance.randint(1, 6)
            each.run_limit = 0 if send is singly else limit
        subscribers: list[tuple[Client, Subscription]] = []
        got: list[object] = []
        for step in range(50):
            count = chance.randint(1, 8)
            kind = chance.choice(("send", "send", "ack", "join", "leave"))
            if kind == "send":
                sent = messages(sender, *(f"{step}.{number}" for number in range(count)))
                sent[-1].expiration = chance.choice((0, 0, 1))
                sent[0].persistent = chance.random() < 0.3
                send(sender, sent)
            elif kind == "ack" and subscribers:
                client, subscriber = chance.choice(subscribers)
                settle(client, subscriber, acks_of(client, subscriber, count))
            elif kind == "join" and len(subscribers) < 5:
                client = chance.choice(clients)
                prefetch = chance.choice((1, 3, 1000))
                selector = chance.choice((None, None, "JMSType LIKE '%.1'"))
                subscriber = client.consume(T, prefetch=prefetch, selector=selector)
                subscribers.append((client, subscriber))
            elif kind == "leave" and subscribers:
                client, subscriber = subscribers.pop(chance.randrange(len(subscribers)))
                got.append(client.received(subscriber))
                client.close(subscriber)
        for client, subscriber in subscribers:
            counts = (subscriber.enqueue_count, subscriber.dequeue_count, subscriber.in_flight)
            got.append((client.received(subscriber), subscriber.pending_count, counts))
        return [got, len(sender.context.blocked_sends), state(broker)]

    assert outcome(in_runs, together) == outcome(singly, one_by_one)


@pytest.mark.fact("activemq-broker 4.2/retained")
def test_a_message_to_retain_is_published_by_itself(broker: Broker, client: Client) -> None:
    plain = messages(client, *"ab")
    kept = client.message(T, "c", properties={"ActiveMQ.Retain": True})
    marshal_body(kept)
    assert in_runs(client, [*plain, *messages(client, *"de"), kept, *messages(client, "f")]) == [
        1, 3, 1, 1,
    ]  # fmt: skip
    late = client.consume(T, retroactive=True)
    assert client.received(late) == ["c"]


def test_a_durable_subscription_gets_each_message_by_itself(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    client = make_broker(store=paged).client()
    client.run_limit = 100
    durable = client.consume(T, subscription_name="s")
    sent = messages(client, *"abc")
    sent[1].persistent = True
    assert in_runs(client, sent) == [1, 1, 1]
    assert client.received(durable) == list("abc")


def test_more_acknowledgements_than_messages_are_counted_one_by_one(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(T)
    singly(client, messages(client, *"ab"))
    acks = acks_of(client, consumer, 2)
    acks.append(acks[-1])
    client.broker.acknowledge_run(ConsumerExchange(client.context, consumer), acks)
    assert len(acks) == 1
    together(client, consumer, acks)
    assert (consumer.dequeue_count, consumer.in_flight, state(broker)[2]) == (2, 0, 2)
