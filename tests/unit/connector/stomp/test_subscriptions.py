"""The effects of SUBSCRIBE headers, and the contents of acknowledgements."""

from __future__ import annotations

import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerId,
    ConsumerInfo,
    LocalTransactionId,
    MessageId,
    ProducerId,
)
from pyjms_broker.connector.stomp.session import Subscription, consumer_info

CONSUMER = ConsumerId("ID:c", 1, 1)


def info(headers: dict[str, str], destination: Destination | None = None) -> ConsumerInfo:
    return consumer_info(headers, destination or Topic("t"), CONSUMER)


@pytest.mark.fact("activemq-edges ST7", "activemq-edges ST15")
@pytest.mark.parametrize(
    ("header", "value", "field", "expected"),
    [
        ("activemq.exclusive", "true", "exclusive", True),
        ("activemq.maximumPendingMessageLimit", "10", "maximum_pending_message_limit", 10),
        ("activemq.noLocal", "true", "no_local", True),
        ("activemq.prefetchSize", "7", "prefetch_size", 7),
        ("activemq.priority", "3", "priority", 3),
        ("activemq.retroactive", "true", "retroactive", True),
        ("activemq.subscriptionName", "n", "subscription_name", "n"),
        ("activemq.dispatchAsync", "false", "dispatch_async", True),
        ("browser", "true", "browser", True),
        ("selector", "a > 3", "selector", "convert_string_expressions:a > 3"),
    ],
)
def test_headers(header: str, value: str, field: str, expected: bool | int | str) -> None:
    assert getattr(info({header: value}), field) == expected


@pytest.mark.fact("activemq-edges ST7")
@pytest.mark.parametrize(
    ("headers", "destination", "prefetch"),
    [
        ({}, Queue("q"), 1000),
        ({}, Topic("t"), 32767),
        ({"activemq.subscriptionName": "n"}, Topic("t"), 100),
        ({"browser": "true"}, Queue("q"), 500),
    ],
)
def test_prefetch(headers: dict[str, str], destination: Destination, prefetch: int) -> None:
    assert info(headers, destination).prefetch_size == prefetch


@pytest.mark.parametrize(
    "header",
    [
        "activemq.priority",
        "activemq.subscriptionName",
        "activemq.Exclusive",
        "activemq.",
        "browser",
    ],
)
def test_what_is_refused(header: str) -> None:
    with pytest.raises(RemoteProtocolError):
        info({header: ""})


def message_ids(count: int) -> list[MessageId]:
    return [MessageId(None, ProducerId("ID:p", 1, 1), number) for number in range(count)]


def test_auto_acknowledges_in_ranges() -> None:
    subscription = Subscription(info({}), "s", "/queue/a,/queue/b", "auto")
    first, second, third = message_ids(3)
    for message_id, name in ((first, "a"), (second, "a"), (third, "b")):
        assert subscription.deliver(message_id, Queue(name)) is None
    acks = subscription.take_unsent()
    assert [(a.first_message_id, a.last_message_id, a.message_count) for a in acks] == [
        (first, second, 2),
        (third, third, 1),
    ]
    assert subscription.take_unsent() == []


def test_client_acknowledges_what_no_transaction_has() -> None:
    subscription = Subscription(info({}), "s", "/queue/q", "client")
    ids = message_ids(4)
    acks = [subscription.deliver(message_id, Queue("q")) for message_id in ids]
    transaction = LocalTransactionId(1)
    second = subscription.find(ack_id=acks[1])
    last = subscription.find(message_id=str(ids[3]))
    assert second is not None
    assert last is not None
    inside, _ = subscription.acknowledge(second, transaction)
    assert (inside.first_message_id, inside.message_count) == (ids[0], 2)
    outside, _ = subscription.acknowledge(last, None)
    assert (outside.first_message_id, outside.last_message_id) == (ids[2], ids[3])
    assert (outside.ack_type, outside.message_count) == (AckType.STANDARD, 2)
    assert subscription.find(ack_id=acks[0]) is None
    subscription.end_transaction(transaction, committed=False)
    assert subscription.find(ack_id=acks[0]) is not None
