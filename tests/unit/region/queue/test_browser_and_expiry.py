"""Queue browsers and message expiry."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import AckType
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.store.api import StoreState
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q = Queue("Q")


@pytest.mark.fact("activemq-broker Q31")
def test_a_browser_gets_all_messages_and_removes_none(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q, prefetch=2)
    for text in ("in flight", "acked", "waiting", "unwanted", "waiting too"):
        client.send(Q, text)
    client.ack(consumer, 1)
    browser = client.consume(Q, browser=True, prefetch=500, selector="JMSType <> 'unwanted'")
    assert client.received(browser) == ["in flight", "waiting", "waiting too", None]
    assert client.dispatches_of(browser)[-1].destination is None
    client.ack(browser, 0)
    client.ack(browser, 2, first=0, count=3)
    assert broker.texts(Q) == ["in flight", "waiting", "unwanted", "waiting too"]
    assert client.received(browser).count("in flight") == 1
    client.close(browser)
    assert broker.queue(Q).statistics.consumers == 1


def test_a_browser_continues_as_it_acknowledges(client: Client) -> None:
    for number in range(5):
        client.send(Q, str(number))
    browser = client.consume(Q, browser=True, prefetch=2)
    assert client.received(browser) == ["0", "1"]
    client.ack(browser, 1, first=0, count=2)
    assert client.received(browser) == ["0", "1", "2", "3"]
    client.ack(browser, 2)
    assert client.received(browser) == ["0", "1", "2", "3", "4", None]


def test_a_pulling_browser(client: Client) -> None:
    client.send(Q, "1")
    client.send(Q, "2")
    browser = client.consume(Q, browser=True, prefetch=0)
    assert client.received(browser) == []
    for _ in range(3):
        client.pull(browser, 0)
    assert client.received(browser) == ["1", "2", None]


@pytest.mark.parametrize(
    ("policies", "seen"),
    [((), 700), ((PolicyEntry(),), 400), ((PolicyEntry(max_browse_page_size=5),), 5)],
)
def test_a_policy_limits_browsers(make_broker: type[Broker], policies: Any, seen: int) -> None:
    client = make_broker(*policies).client()
    for _ in range(700):
        client.send(Q, "x")
    browser = client.consume(Q, browser=True, prefetch=10_000)
    assert client.received(browser) == ["x"] * seen + [None]


def test_a_browser_of_many_queues_ends_once(client: Client) -> None:
    client.send(Queue("B.1"), "a")
    client.send(Queue("B.2"), "b")
    browser = client.consume(Queue("B.*"), browser=True)
    assert client.received(browser) == ["a", "b", None]


@pytest.mark.fact("activemq-broker Q1")
async def test_expired_on_arrival(clock: ManualClock, broker: Broker, client: Client) -> None:
    assert client.send(Q, "late", persistent=True, expiration=clock.time_ms() - 1) is COMPLETED
    statistics = broker.queue(Q).statistics
    assert (statistics.expired, statistics.enqueues, statistics.messages) == (1, 0, 0)
    assert [m.type for m in broker.dead_letters] == ["late"]


@pytest.mark.fact(
    "activemq-broker Q32",
    "activemq-broker 2.1/maxExpirePageSize",
    "activemq-broker 2.1/expireMessagesPeriod",
)
async def test_the_expiry_scan(clock: ManualClock, make_broker: type[Broker]) -> None:
    assert (PolicyEntry().max_expire_page_size, PolicyEntry().expire_messages_period) == (400, 30)
    broker = make_broker(
        PolicyEntry(max_expire_page_size=3, expire_messages_period=10),
        PolicyEntry(destination=Queue("never"), expire_messages_period=0),
    )
    await broker.region.start()
    client = broker.client()
    soon = clock.time_ms() + 5000
    consumer = client.consume(Q, prefetch=1)
    client.send(Q, "locked", expiration=soon)
    for text in ("1", "2", "3"):
        client.send(Q, text, expiration=soon)
    client.send(Q, "stays")
    client.send(Queue("never"), "1", expiration=soon)
    await clock.advance(9.9)
    assert broker.texts(Q) == ["locked", "1", "2", "3", "stays"]
    await clock.advance(0.2)
    assert broker.texts(Q) == ["locked", "3", "stays"]
    assert broker.queue(Q).statistics.expired == 2
    client.ack(consumer, 0, kind=AckType.EXPIRED)  # the client's affair; "3" expires at its turn
    assert client.received(consumer) == ["locked", "stays"]
    await clock.advance(100)
    assert broker.texts(Queue("never")) == ["1"]
    await broker.region.stop()


async def test_nothing_is_scanned_while_the_store_waits_for_space(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(PolicyEntry(expire_messages_period=10), store=paged)
    await broker.region.start()
    client = broker.client()
    client.send(Q, "1", persistent=True, expiration=clock.time_ms() + 1000)
    paged.change(StoreState.SUSPENDED)
    await clock.advance(30)
    assert broker.dead_letters == []
    paged.change(StoreState.RUNNING)
    await clock.advance(10)
    assert [m.type for m in broker.dead_letters] == ["1"]
    await broker.region.stop()


async def test_waiting_messages_expire_at_page_in_and_before_dispatch(
    clock: ManualClock, make_broker: type[Broker]
) -> None:
    broker = make_broker(PolicyEntry(max_page_size=2))
    client = broker.client()
    soon = clock.time_ms() + 1000
    first = client.consume(Q, prefetch=1)
    for text in ("locked", "paged in", "also", "not paged in"):
        client.send(Q, text, expiration=soon, persistent=True)
    await clock.advance(2)
    client.ack(first, 0)
    assert client.received(first) == ["locked"]
    assert broker.texts(Q) == []
    assert sorted(str(m.type) for m in broker.dead_letters) == ["also", "not paged in", "paged in"]


@pytest.mark.fact("activemq-broker L7")
@pytest.mark.parametrize("process_expired", [True, False])
async def test_expired_messages_are_dead_lettered_unless_switched_off(
    clock: ManualClock, make_broker: type[Broker], process_expired: bool
) -> None:
    from pyjms.wire.openwire.primitives import decode_map
    from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy

    broker = make_broker(
        PolicyEntry(dead_letter_strategy=SharedDeadLetterStrategy(process_expired=process_expired))
    )
    client = broker.client()
    expiration = clock.time_ms() + 1000
    client.send(Q, "persistent", persistent=True, expiration=expiration)
    client.send(Q, "not persistent", expiration=expiration)
    await clock.advance(2)
    broker.queue(Q).expire_messages()
    assert broker.texts(Q) == []
    letters = broker.dead_letters
    if not process_expired:
        assert letters == []
        return
    assert [m.type for m in letters] == ["persistent"]
    properties = decode_map(present(letters[0].marshalled_properties))
    assert (
        properties["dlqDeliveryFailureCause"]
        == f"java.lang.Throwable: Message Expired. Expiration:{expiration}"
    )


async def test_topics_expire_for_slow_consumers(
    clock: ManualClock, client: Client, broker: Broker
) -> None:
    topic = Topic("T")
    consumer = client.consume(topic, prefetch=1)
    client.send(topic, "1")
    client.send(topic, "2", expiration=clock.time_ms() + 1000)
    client.send(topic, "3")
    await clock.advance(2)
    client.ack(consumer, 0)
    assert client.received(consumer) == ["1", "3"]
    assert broker.topic(topic).statistics.expired == 1
    assert broker.region.system_usage.memory.used == 0
