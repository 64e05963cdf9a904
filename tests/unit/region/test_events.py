"""Events that the region reports to the filter chain where the policy asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import ProducerInfo, Throwable
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.eviction import ConstantPendingMessageLimitStrategy
from pyjms_broker.region.region_broker import RegionBroker
from tests.kit.brokers.region import Broker, Client, ManualClock

Q, T = Queue("Q"), Topic("T")


class Listening(BrokerFilter):
    def __init__(self, next_broker: RegionBroker) -> None:
        super().__init__(next_broker)
        self.heard: list[Any] = []

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.heard.append(("consumed", reference.message.type))
        super().message_consumed(context, reference)

    def message_dispatched(
        self, context: ConnectionContext, reference: MessageReference, subscription: Subscription
    ) -> None:
        self.heard.append(("dispatched", reference.message.type, subscription))
        super().message_dispatched(context, reference, subscription)

    def message_discarded(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self.heard.append(("discarded", reference.message.type))
        super().message_discarded(context, reference, subscription)

    def message_delivered(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.heard.append(("delivered", reference.message.type))
        super().message_delivered(context, reference)

    def message_without_consumers(
        self, context: ConnectionContext, reference: MessageReference
    ) -> None:
        self.heard.append(("no consumer", reference.message.type))
        super().message_without_consumers(context, reference)

    def fast_producer(
        self, context: ConnectionContext, info: ProducerInfo, destination: BrokerDestination
    ) -> None:
        self.heard.append(("fast", info.producer_id, str(destination)))
        super().fast_producer(context, info, destination)

    def destination_full(
        self, context: ConnectionContext, destination: BrokerDestination, usage: MemoryUsage
    ) -> None:
        self.heard.append(("full", str(destination), usage.percent))
        super().destination_full(context, destination, usage)

    def slow_consumer(
        self, context: ConnectionContext, destination: BrokerDestination, subscription: Subscription
    ) -> None:
        self.heard.append(("slow", str(destination), subscription))
        super().slow_consumer(context, destination, subscription)

    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self.heard.append(("expired", reference.message.type))
        super().message_expired(context, reference, subscription)

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        done = super().send_to_dead_letter_queue(context, reference, subscription, cause)
        self.heard.append(("dead letter", reference.message.type, done))
        return done

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        self.heard.append(("destination", str(destination)))
        return super().add_destination(context, destination, create_temporary)


def listening(broker: Broker) -> Listening:
    broker.region.root = Listening(broker.region)
    return broker.region.root


def test_consumed(make_broker: type[Broker]) -> None:
    for wanted in (True, False):
        broker = make_broker(PolicyEntry(advisory_for_consumed=wanted))
        heard, client = listening(broker).heard, broker.client("me")
        consumer = client.consume(Q)
        client.send(Q, "q")
        client.ack(consumer)
        durable = client.consume(T, subscription_name="s")
        client.send(T, "t")
        client.ack(durable)
        consumed = [h for h in heard if h[0] == "consumed"]
        assert consumed == ([("consumed", "q"), ("consumed", "t")] if wanted else [])


def test_dispatched(make_broker: type[Broker]) -> None:
    for wanted in (True, False):
        broker = make_broker(PolicyEntry(advisory_for_dispatched=wanted))
        heard, client = listening(broker).heard, broker.client("me")
        client.send(Q, "q")
        dispatched = [client.consume(d) for d in (Q, T, Topic("ActiveMQ.Advisory.t"))][:2]
        durable = client.consume(T, subscription_name="s")
        client.send(T, "t")
        client.send(Topic("ActiveMQ.Advisory.t"), "advisory")
        on_queue, on_topic = dispatched
        events = [("q", on_queue), ("t", on_topic), ("t", durable)]
        assert [h[1:] for h in heard if h[0] == "dispatched"] == (events if wanted else [])


def test_discarded(make_broker: type[Broker]) -> None:
    for wanted in (True, False):
        broker = make_broker(
            PolicyEntry(
                advisory_for_discarding_messages=wanted,
                pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=0),
            )
        )
        heard, client = listening(broker).heard, broker.client()
        client.consume(T, prefetch=1)
        client.send(T, "1")
        client.send(T, "2")
        assert [h for h in heard if h[0] == "discarded"] == ([("discarded", "2")] if wanted else [])


def test_slow(make_broker: type[Broker]) -> None:
    for wanted in (True, False):
        broker = make_broker(PolicyEntry(advisory_for_slow_consumers=wanted))
        heard, client = listening(broker).heard, broker.client("me")
        on_queue = client.consume(Q, prefetch=1)
        on_topic = client.consume(T, prefetch=2)
        durable = client.consume(T, prefetch=2, subscription_name="s")
        for _ in range(6):
            client.send(Q, "x")
            client.send(T, "x")
        assert on_queue.is_slow
        assert on_topic.is_slow
        assert durable.is_slow
        slow = [h[1:] for h in heard if h[0] == "slow"]
        every = [("topic://T", durable), ("queue://Q", on_queue), ("topic://T", on_topic)]
        assert sorted(slow, key=str) == (sorted(every, key=str) if wanted else [])
        client.set_prefetch(on_queue, 10)
        assert not on_queue.is_slow
        client.send(Q, "x")  # type: ignore[unreachable]
        assert len([h for h in heard if h[0] == "slow"]) == len(slow)


@pytest.mark.fact("activemq-broker T12")
def test_a_queue_consumer_is_slow_from_the_first_message_that_waits(
    make_broker: type[Broker],
) -> None:
    broker = make_broker(PolicyEntry(advisory_for_slow_consumers=True))
    heard, client = listening(broker).heard, broker.client("me")
    consumer = client.consume(Q, prefetch=1)
    client.send(Q, "in flight")
    assert [h for h in heard if h[0] == "slow"] == []
    client.send(Q, "waits")
    assert [h for h in heard if h[0] == "slow"] == [("slow", "queue://Q", consumer)]


async def test_events_pass_the_chain_from_its_outer_end(
    clock: ManualClock, broker: Broker, client: Client
) -> None:
    heard = listening(broker).heard
    client.send(Q, "old", persistent=True, expiration=1)
    assert heard == [
        ("destination", "queue://Q"),
        ("expired", "old"),
        ("destination", "queue://ActiveMQ.DLQ"),
        ("dead letter", "old", True),
    ]


def test_delivered(make_broker: type[Broker]) -> None:
    for wanted in (True, False):
        broker = make_broker(PolicyEntry(advisory_for_delivery=wanted))
        heard, client = listening(broker).heard, broker.client()
        for destination in (Q, T, Topic("ActiveMQ.Advisory.t")):
            client.send(destination, str(destination))
        delivered = [h for h in heard if h[0] == "delivered"]
        assert delivered == (
            [("delivered", "queue://Q"), ("delivered", "topic://T")] if wanted else []
        )


def test_messages_of_a_transaction_are_delivered_at_its_commit(make_broker: type[Broker]) -> None:
    broker = make_broker(PolicyEntry(advisory_for_delivery=True))
    heard, client = listening(broker).heard, broker.client()
    for is_committed in (False, True):
        transaction = client.begin()
        client.send(Q, "q", tx=transaction)
        client.send(T, "t", tx=transaction)
        assert [h for h in heard if h[0] == "delivered"] == []
        if is_committed:
            transaction.commit(one_phase=True)
        else:
            transaction.rollback()
    assert [h for h in heard if h[0] == "delivered"] == [("delivered", "q"), ("delivered", "t")]


def test_without_consumers(make_broker: type[Broker]) -> None:
    for wanted in (True, False):
        broker = make_broker(PolicyEntry(send_advisory_if_no_consumers=wanted))
        heard, client = listening(broker).heard, broker.client()
        for destination in (Q, T):
            client.send(destination, "persistent", persistent=True)
            client.send(destination, str(destination))
            client.consume(destination)
            client.send(destination, "consumed")
        assert [h for h in heard if h[0] == "no consumer"] == (
            [("no consumer", "queue://Q"), ("no consumer", "topic://T")] if wanted else []
        )


def test_full_and_fast(make_broker: type[Broker]) -> None:
    for full, fast in ((True, False), (False, True), (False, False)):
        broker = make_broker(
            PolicyEntry(
                advisory_when_full=full,
                advisory_for_fast_producers=fast,
                memory_limit=1000,
                producer_flow_control=False,
            )
        )
        heard, client = listening(broker).heard, broker.client()
        client.exchange.info = ProducerInfo(client.producer_id)
        client.send(Q, "fills it")
        assert [h for h in heard if h[0] in ("full", "fast")] == []
        client.send(Q, "one more")
        assert [h[:2] for h in heard if h[0] in ("full", "fast")] == (
            [("full", "queue://Q")] if full else [("fast", client.producer_id)] if fast else []
        )
