"""Duplicate audits of queues, topics and clients, and their windows."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pyjms.client.options import ClientOptions
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.policy.entry import PolicyEntry
from tests.kit.brokers.region import Broker, Client

WHERE = {"queue": Queue("Q"), "durable": Topic("T"), "topic": Topic("T")}


@pytest.mark.fact("activemq-broker T26")
@pytest.mark.parametrize("kind", WHERE)
@pytest.mark.parametrize("audited", [True, False])
def test_duplicates_are_dropped_within_each_producers_window(
    make_broker: type[Broker], caplog: pytest.LogCaptureFixture, kind: str, audited: bool
) -> None:
    policy = PolicyEntry(
        enable_audit=audited, max_audit_depth=64, max_queue_audit_depth=64, max_producers_to_audit=2
    )
    broker, where = make_broker(policy), WHERE[kind]
    client = broker.client("me")
    options: dict[str, Any] = {"subscription_name": "s"} if kind == "durable" else {}
    consumer = client.consume(where, **options)
    texts = iter(range(1000))

    def comes(number: int, producer: int = 1) -> bool:
        """Whether a message of that number gets through to the consumer."""
        text = str(next(texts))
        message = client.message(where, text)
        producer_id = type(client.producer_id)("p", producer, 1)
        message.producer_id = producer_id
        message.message_id = MessageId(None, producer_id, number)
        before = len(client.received(consumer))
        client.send(where, text, message=message)
        return len(client.received(consumer)) > before

    assert [comes(n) for n in (1, 2, 3)] == [True] * 3
    assert [comes(n) for n in (2, 1, 3)] == [not audited] * 3
    assert comes(2, producer=2)  # another's number is its own
    assert comes(2, producer=3)  # two producers are known, the first is forgotten
    assert comes(1)
    assert caplog.messages == []


@pytest.mark.fact("activemq-broker T26")
def test_the_audit_windows_of_brokers_and_clients() -> None:
    entry, none = PolicyEntry(), PolicyEntry.built_in()
    assert entry.enable_audit and none.enable_audit
    assert (entry.max_producers_to_audit, entry.max_audit_depth) == (64, 10_000)
    assert (none.max_producers_to_audit, none.max_audit_depth) == (1024, 2048)
    assert none.max_queue_audit_depth == 2048
    client = ClientOptions()
    assert (client.audit_maximum_producer_number, client.audit_depth) == (64, 2048)


def test_a_rolled_back_transaction_may_be_sent_again(client: Client, broker: Broker) -> None:
    messages = [client.message(Queue("Q"), str(number), persistent=True) for number in range(5000)]
    for attempt in (messages, [copy.copy(message) for message in messages]):
        tx = client.begin()
        for message in attempt:
            client.send(Queue("Q"), "", tx=tx, message=message)
        if attempt is messages:
            tx.rollback()
        else:
            tx.commit(True)
    assert broker.queue(Queue("Q")).statistics.messages == 5000


@pytest.mark.fact("activemq-broker D8")
@pytest.mark.parametrize("network", [True, False])
def test_what_a_network_consumer_has_taken_may_come_back(
    broker: Broker, client: Client, network: bool
) -> None:
    consumer = client.consume(WHERE["queue"], network_subscription=network)
    message = client.message(WHERE["queue"], "1")
    again = copy.copy(message)
    client.send(WHERE["queue"], "1", message=message)
    client.ack(consumer)
    client.send(WHERE["queue"], "1", message=again)
    assert client.received(consumer) == (["1", "1"] if network else ["1"])


@pytest.mark.fact("activemq-broker D8")
@pytest.mark.parametrize("field", ["dispatch_async", "no_range_acks"])
def test_other_fields_of_a_consumer_change_nothing(client: Client, field: str) -> None:
    results = []
    for value in (True, False):
        consumer = client.consume(WHERE["queue"], prefetch=2, **{field: value})
        for text in "abc":
            client.send(WHERE["queue"], text)
        client.ack(consumer, 1, first=0, count=2)
        client.ack(consumer, 2)
        results.append((client.received(consumer), consumer.dequeue_count, consumer.in_flight))
        client.close(consumer)
    assert results[0] == results[1] == (["a", "b", "c"], 3, 0)
