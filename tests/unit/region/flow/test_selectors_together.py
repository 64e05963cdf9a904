"""All selectors together may take so much a second: then costly consumers are closed or wait."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.selector.budget import COSTLY, SelectorMeter
from tests.kit.brokers.region import Broker, ManualClock
from tests.kit.values import present

Q, T = Queue("q"), Topic("t")
RATE = 50_000
COSTLY_SELECTOR = "REGEX('(a|aa|aaa)*b', s)"
LONG = {"s": "a" * 500}
"""Takes thousands of steps, but fewer than one selector may take on a message."""


@pytest.fixture
def broker(clock: ManualClock, make_broker: type[Broker]) -> Broker:
    return make_broker(selector_meter=SelectorMeter(RATE, _clock.now))


def steps_of(broker: Broker) -> int:
    return present(broker.region.selector_meter).total


@pytest.fixture
def one(broker: Broker) -> int:
    """Return how many steps one evaluation takes."""
    client = broker.client()
    consumer = client.consume(T, selector=COSTLY_SELECTOR, prefetch=10)
    client.send(T, "first", properties=LONG)
    client.close(consumer)
    assert COSTLY < steps_of(broker) < broker.region.selector_limits.steps
    return steps_of(broker)


@pytest.mark.parametrize("destination", [Q, T])
async def test_a_message_for_many_costly_consumers_takes_a_second_at_most(
    broker: Broker, one: int, destination: Destination
) -> None:
    hostile, good = broker.client(), broker.client()
    count = 10 * RATE // one
    costly = [
        hostile.consume(destination, selector=COSTLY_SELECTOR, prefetch=10) for _ in range(count)
    ]
    plain = good.consume(destination, selector="REGEX('a*', t)", prefetch=10)
    before = steps_of(broker)
    good.send(destination, "m", properties={**LONG, "t": "aaa"})
    assert steps_of(broker) - before < RATE + one + 2 * COSTLY * count
    assert good.received(plain) == ["m"]
    assert count * 0.8 < len(hostile.controls) < count
    assert {control.close for control in hostile.controls} == {True}
    assert all("together take more than" in str(error) for error in hostile.errors)
    assert (good.errors, good.controls) == ([], [])
    assert len(costly) == count


async def test_later_everything_is_permitted_again(
    broker: Broker, one: int, clock: ManualClock
) -> None:
    client = broker.client()
    client.consume(T, selector=COSTLY_SELECTOR, prefetch=10)
    for _ in range(RATE // one - 1):
        client.send(T, "m", properties=LONG)
    await clock.advance(1)
    for _ in range(RATE // one - 1):
        client.send(T, "m", properties=LONG)
    assert client.errors == []
    for _ in range(3):
        client.send(T, "m", properties=LONG)
    assert len(client.errors) == 1


async def test_a_queue_rests_between_costly_messages(
    broker: Broker, one: int, clock: ManualClock
) -> None:
    client = broker.client()
    count = 3 * RATE // one
    for _ in range(count):
        client.send(Q, "long", properties=LONG)
    client.send(Q, "short", properties={"s": "b"})
    before = steps_of(broker)
    consumer = client.consume(Q, selector=COSTLY_SELECTOR, prefetch=10)
    assert steps_of(broker) - before < RATE / 10 + one
    client.send(Q, "another", properties={"s": "b"})
    assert client.received(consumer) == []
    for _ in range(60):
        await clock.advance(0.1)
    assert client.received(consumer) == ["short", "another"]
    assert client.errors == []


@pytest.mark.parametrize("active", [True, False])
async def test_a_durable_subscription_selects_later(
    broker: Broker, one: int, clock: ManualClock, active: bool
) -> None:
    client, hostile = broker.client("me"), broker.client()
    subscription: dict[str, Any] = {
        "subscription_name": "s",
        "selector": COSTLY_SELECTOR,
        "prefetch": 100,
    }
    consumer = client.consume(T, **subscription)
    if not active:
        client.close(consumer)
    for _ in range(3 * RATE // one):
        hostile.consume(T, selector=COSTLY_SELECTOR, prefetch=10)
    for text in ("no", "no", "yes", "no"):  # the first of them fills the account
        properties = {"s": "a" * 500 + "b" * (text == "yes")}
        client.send(T, text, persistent=True, properties=properties)
    client.send(T, "short", persistent=True, properties={"s": "b"})
    assert client.received(consumer) == []
    assert client.errors == []
    if not active:
        assert client.consume(T, **subscription) is consumer
    for _ in range(40):
        await clock.advance(0.1)
    assert client.received(consumer) == ["yes", "short"]
    assert consumer.pending_count == 0


async def test_what_no_store_has_cannot_be_selected_later(broker: Broker, one: int) -> None:
    client, hostile = broker.client("me"), broker.client()
    consumer = client.consume(T, subscription_name="s", selector=COSTLY_SELECTOR, prefetch=100)
    for _ in range(3 * RATE // one):
        hostile.consume(T, selector=COSTLY_SELECTOR, prefetch=10)
    hostile.send(T, "fills the account", properties=LONG)
    client.send(T, "lost", properties=LONG, persistent=False)
    assert client.received(consumer) == []
    assert len(client.controls) == 1
