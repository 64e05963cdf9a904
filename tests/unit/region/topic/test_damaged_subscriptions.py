"""Stored subscriptions that cannot be restored do not stop a start."""

from __future__ import annotations

import logging

import pytest

from pyjms.jms.destination import Topic
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from tests.kit.brokers.region import Broker, PagedAdapter

T = Topic("T")


@pytest.mark.parametrize("selector", ["((", "x" * 100_000 + " =", "a = 'b"])
async def test_a_stored_selector_that_is_invalid(
    make_broker: type[Broker], paged: PagedAdapter, selector: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = paged.topic_message_store(T)
    topic.add_subscription(StoredSubscription(SubscriptionKey("c", "bad"), T, selector), False)
    topic.add_subscription(StoredSubscription(SubscriptionKey("c", "good"), T), False)
    broker = make_broker(store=paged)
    await broker.region.start()
    found = [s.key.subscription_name for s in broker.region.subscriptions.durable_subscriptions()]
    await broker.region.stop()
    assert found == ["bad", "good"]  # a client can unsubscribe the bad one
    (error,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert "bad" in error and "selects nothing" in error
