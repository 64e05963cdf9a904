"""Keys of a policy with two values, and what a broker does with each of them."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import MessageId, ProducerId
from pyjms_broker.policy.dead_letter import IndividualDeadLetterStrategy, SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.policy.eviction import (
    ConstantPendingMessageLimitStrategy,
    OldestMessageEvictionStrategy,
    OldestMessageWithLowestPriorityEvictionStrategy,
    UniquePropertyMessageEvictionStrategy,
)
from tests.kit.brokers.region import Broker, ManualClock

Q, T = Queue("Q"), Topic("T")


@pytest.mark.parametrize(
    "strategy",
    [
        OldestMessageEvictionStrategy,
        OldestMessageWithLowestPriorityEvictionStrategy,
        lambda **options: UniquePropertyMessageEvictionStrategy(property_name="p", **options),
    ],
)
@pytest.mark.parametrize(("watermark", "expired"), [(2, 1), (3, 0)])
@pytest.mark.fact("activemq-broker T9")
async def test_expired_messages_are_evicted_above_the_watermark(
    clock: ManualClock, make_broker: type[Broker], strategy: Any, watermark: int, expired: int
) -> None:
    policy = PolicyEntry(
        pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=10),
        message_eviction_strategy=strategy(evict_expired_messages_high_watermark=watermark),
    )
    client = make_broker(policy).client()
    consumer: Any = client.consume(T, prefetch=1)
    client.send(T, "in flight")
    client.send(T, "expires", expiration=clock.time_ms() + 10)
    await clock.advance(1)
    client.send(T, "1")
    assert consumer.expired_count == 0
    client.send(T, "2")
    assert (consumer.expired_count, consumer.discarded_count) == (expired, 0)
    client.send(T, "expires later", expiration=clock.time_ms() + 10)
    await clock.advance(1)
    client.send(T, "3")
    assert (consumer.expired_count, consumer.discarded_count) == (2, 0)


@pytest.mark.parametrize("name", ["dead", "other"])
def test_the_shared_dead_letter_queue_has_a_name(make_broker: type[Broker], name: str) -> None:
    strategy = SharedDeadLetterStrategy(dead_letter_queue=Queue(name))
    broker = make_broker(PolicyEntry(dead_letter_strategy=strategy))
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "x", persistent=True)
    client.ack(consumer, kind=1)
    assert broker.texts(Queue(name)) == ["x"]
    assert broker.dead_letters == []


STRATEGIES = pytest.mark.parametrize(
    "make", [SharedDeadLetterStrategy, IndividualDeadLetterStrategy]
)


class Refused:
    """Messages that a strategy is asked about."""

    def __init__(self, broker: Any, strategy: Any) -> None:
        self.broker, self.client, self.strategy = broker, broker.client(), strategy

    def is_kept(self, number: int, *, producer: int = 1, queue: str = "Q") -> bool:
        message = self.client.message(Queue(queue), "x", persistent=True)
        message.producer_id = ProducerId("p", producer, 1)
        message.message_id = MessageId(None, message.producer_id, number)
        reference = self.broker.queue(Queue(queue)).reference_to(message)
        return bool(self.strategy.is_send_to_dead_letter_queue(reference))


@STRATEGIES
@pytest.mark.parametrize("enable_audit", [True, False])
def test_a_message_is_dead_lettered_once_where_it_is_audited(
    broker: Broker, make: Any, enable_audit: bool
) -> None:
    refused = Refused(broker, make(enable_audit=enable_audit))
    assert [refused.is_kept(1), refused.is_kept(1)] == [True, not enable_audit]


@STRATEGIES
@pytest.mark.parametrize("max_audit_depth", [64, 2048])
def test_the_audit_of_dead_letters_is_so_deep(
    broker: Broker, make: Any, max_audit_depth: int
) -> None:
    refused = Refused(broker, make(max_audit_depth=max_audit_depth))
    assert refused.is_kept(1)
    assert refused.is_kept(1000)
    assert refused.is_kept(1) is (max_audit_depth == 64)


@STRATEGIES
@pytest.mark.parametrize("max_producers_to_audit", [1, 2])
def test_the_audit_of_dead_letters_has_so_many_producers(
    broker: Broker, make: Any, max_producers_to_audit: int
) -> None:
    refused = Refused(broker, make(max_producers_to_audit=max_producers_to_audit))
    assert refused.is_kept(1)
    assert refused.is_kept(1, producer=2)
    assert refused.is_kept(1) is (max_producers_to_audit == 1)


@pytest.mark.parametrize("max_destinations_to_audit", [1, 2])
def test_the_audit_of_dead_letters_has_so_many_queues(
    broker: Broker, max_destinations_to_audit: int
) -> None:
    strategy = IndividualDeadLetterStrategy(max_destinations_to_audit=max_destinations_to_audit)
    refused = Refused(broker, strategy)
    assert refused.is_kept(1)
    assert refused.is_kept(1, queue="R")
    assert refused.is_kept(1) is (max_destinations_to_audit == 1)


@pytest.mark.parametrize(
    ("where", "key"), [(Q, "max_queue_audit_depth"), (T, "max_audit_depth")], ids=str
)
@pytest.mark.parametrize("depth", [64, 2048])
def test_the_audit_of_duplicates_is_so_deep(
    make_broker: type[Broker], where: Any, key: str, depth: int
) -> None:
    depths: dict[str, Any] = {"max_audit_depth": 128, "max_queue_audit_depth": 128, key: depth}
    client = make_broker(PolicyEntry(**depths)).client()
    consumer = client.consume(where)
    for text, number in (("first", 1), ("far", 1000), ("again", 1)):
        message = client.message(where, text)
        message.message_id = MessageId(None, client.producer_id, number)
        client.send(where, "", message=message)
        if text != "again":
            client.ack(consumer)
    assert client.received(consumer) == ["first", "far", "again"][: 3 if depth == 64 else 2]


@pytest.mark.parametrize("max_page_size", [5, 200])
def test_pages_have_so_many_messages(make_broker: type[Broker], max_page_size: int) -> None:
    broker = make_broker(PolicyEntry(max_page_size=max_page_size))
    client = broker.client()
    for number in range(300):
        client.send(Q, str(number))
    client.consume(Q, prefetch=3)
    assert len(broker.queue(Q).dispatcher.fresh) == max_page_size
