"""A selector that exceeds its limits: its consumer gets the error, and nobody else waits."""

from __future__ import annotations

import logging

import pytest

from pyjms.errors import InvalidSelectorException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from tests.kit.brokers.region import Broker, Client

Q, T = Queue("q"), Topic("t")
COSTLY = "REGEX('(a|aa|aaa)*b', s)"
EVIL = {"s": "a" * 20_000}


@pytest.mark.parametrize("destination", [Q, T])
def test_its_consumer_is_closed_with_an_error(broker: Broker, destination: Destination) -> None:
    hostile, good = broker.client(), broker.client()
    costly = hostile.consume(destination, selector=COSTLY, prefetch=10)
    plain = good.consume(destination, prefetch=10)
    hostile.send(destination, "evil", properties=EVIL)
    hostile.send(destination, "b", properties={"s": "b"})
    assert good.received(plain) == ["evil", "b"]
    assert hostile.received(costly) == []
    (error,) = hostile.errors
    assert isinstance(error, InvalidSelectorException)
    assert str(costly.consumer_id) in str(error)
    assert [(c.consumer_id, c.close) for c in hostile.controls] == [(costly.consumer_id, True)]
    assert (good.errors, good.controls) == ([], [])


def test_a_browser_ends(broker: Broker) -> None:
    client = broker.client()
    client.send(Q, "evil", properties=EVIL)
    browser = client.consume(Q, selector=COSTLY, browser=True, prefetch=10)
    assert client.received(browser) == [None]  # the end
    assert [control.close for control in client.controls] == [True]


def test_a_message_within_the_limits_is_selected(broker: Broker) -> None:
    client = broker.client()
    consumer = client.consume(Q, selector=COSTLY, prefetch=10)
    client.send(Q, "b", properties={"s": "aab"})
    assert client.received(consumer) == ["b"]
    assert client.errors == []


def test_a_durable_subscription_continues_until_it_has_exceeded_often(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    client = broker.client("me")
    consumer = client.consume(T, subscription_name="s", selector=COSTLY, prefetch=100)
    client.send(T, "evil", properties=EVIL)
    client.send(T, "b", properties={"s": "b"})
    assert client.received(consumer) == ["b"]
    assert len(client.errors) == len(client.controls) == 1
    client.close(consumer)
    for _ in range(9):
        client.send(T, "evil", properties=EVIL)
    assert "selects nothing until" in caplog.text
    client.send(T, "missed", properties={"s": "b"})
    again = client.consume(T, subscription_name="s", selector=COSTLY, prefetch=100)
    client.send(T, "next", properties={"s": "b"})
    assert again is consumer
    assert [type_ for type_ in client.received(again) if type_ != "b"] == ["next"]
    assert len(client.errors) == 1


async def test_a_stored_selector_that_is_refused_stops_no_start(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    key = SubscriptionKey("me", "s")
    store = broker.region.store.topic_message_store(T)
    store.add_subscription(StoredSubscription(key, T, "n = " + "9" * 5_000, False), False)
    await broker.region.start()
    broker.client().send(T, "1")
    assert "selects nothing" in caplog.text
    (subscription,) = broker.region.subscriptions.durable_subscriptions()
    assert subscription.pending_count == 0


def test_a_failing_selector_is_logged_once(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = client.consume(Q, selector="weight > 3", prefetch=10)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            message = client.message(Q, "broken")
            message.marshalled_properties = b"\x00\x00\x00\x01\x00"  # damaged
            client.send(Q, "broken", message=message)
    assert client.received(consumer) == []
    assert caplog.text.count("failed on message") == 1
