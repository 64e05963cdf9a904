"""Queue dispatch: order, windows, selectors, priorities, exclusive consumers, delayed start."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import InvalidSelectorException
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import AckType
from pyjms_broker.policy.entry import PolicyEntry
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q = Queue("Q")


def numbers(*values: int) -> list[str]:
    return [str(value) for value in values]


def send_all(client: Client, count: int, start: int = 1, **options: Any) -> None:
    for number in range(start, start + count):
        client.send(Q, str(number), **options)


@pytest.mark.fact("activemq-broker Q3")
def test_messages_are_numbered_broker_wide(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q)
    other = client.consume(Queue("R"))
    client.send(Q, "a")
    client.send(Queue("R"), "b")
    client.send(Q, "c")
    ids = [present(present(d.message).message_id).broker_sequence_id for d in client.dispatches]
    assert ids == sorted(set(ids))
    assert client.received(consumer) == ["a", "c"]
    assert client.received(other) == ["b"]
    assert broker.region.store.last_broker_sequence_id <= ids[-1]


async def test_sequence_numbers_continue_from_the_store(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    first = make_broker(store=paged)
    sender = first.client()
    send_all(sender, 3, persistent=True)
    highest = first.region.store.last_broker_sequence_id
    again = make_broker(store=paged)
    await again.region.start()
    consumer_client = again.client()
    consumer = consumer_client.consume(Q)
    consumer_client.send(Q, "new")
    assert consumer_client.received(consumer) == ["1", "2", "3", "new"]
    newest = present(present(consumer_client.dispatches[-1].message).message_id).broker_sequence_id
    assert newest == highest + 1
    await again.region.stop()


@pytest.mark.fact("activemq-broker Q5")
def test_the_first_matching_consumer_gets_the_message(broker: Broker) -> None:
    one = broker.client()
    picky = one.consume(Q, selector="JMSType = 'special'")
    small = one.consume(Q, prefetch=1)
    last = one.consume(Q)
    browser = one.consume(Q, browser=True)
    send_all(one, 1)
    one.send(Q, "special")
    send_all(one, 2, start=2)
    assert one.received(picky) == ["special"]
    assert one.received(small) == ["1"]
    assert one.received(last) == ["2", "3"]
    assert one.received(browser) == [None]


def test_consumers_get_messages_in_rotation(client: Client) -> None:
    consumers = [client.consume(Q) for _ in range(3)]
    send_all(client, 7)
    assert [client.received(c) for c in consumers] == [
        numbers(1, 4, 7),
        numbers(2, 5),
        numbers(3, 6),
    ]


@pytest.mark.fact("activemq-broker Q6")
def test_priority_comes_before_rotation(client: Client) -> None:
    low = client.consume(Q, priority=1)
    high = client.consume(Q, prefetch=2, priority=5)
    low_too = client.consume(Q, priority=1)
    send_all(client, 6)
    assert client.received(high) == numbers(1, 2)
    assert client.received(low) == numbers(3, 5)
    assert client.received(low_too) == numbers(4, 6)


def test_fewer_groups_come_first_among_equals(client: Client) -> None:
    first = client.consume(Q)
    second = client.consume(Q)
    client.send(Q, "1", group="A")  # to first
    client.send(Q, "2", group="B")  # to second: no group yet
    client.send(Q, "3", group="A")
    client.send(Q, "4", group="A")
    client.send(Q, "5", group="C")  # both have one group; first had the last turn
    client.send(Q, "6", group="D")  # first has fewer
    assert client.received(first) == numbers(1, 3, 4, 6)
    assert client.received(second) == numbers(2, 5)


def test_consumer_priority_can_be_switched_off(make_broker: type[Broker]) -> None:
    broker = make_broker(PolicyEntry(use_consumer_priority=False))
    client = broker.client()
    low = client.consume(Q, priority=1)
    high = client.consume(Q, priority=5)
    send_all(client, 2)
    assert (client.received(low), client.received(high)) == (["1"], ["2"])


@pytest.mark.fact("activemq-broker Q7")
def test_strict_order_fills_the_first_consumer_and_returns_to_the_head(
    make_broker: type[Broker],
) -> None:
    broker = make_broker(PolicyEntry(strict_order_dispatch=True))
    client = broker.client()
    first = client.consume(Q, prefetch=3)
    second = client.consume(Q, prefetch=3)
    send_all(client, 6)
    assert client.received(first) == numbers(1, 2, 3)
    assert client.received(second) == numbers(4, 5, 6)
    client.close(second)
    client.close(first)
    third = client.consume(Q)
    assert client.received(third) == numbers(1, 2, 3, 4, 5, 6)


def test_without_strict_order_returns_go_behind_earlier_returns(client: Client) -> None:
    first = client.consume(Q, prefetch=3)
    send_all(client, 3)
    second = client.consume(Q, prefetch=3)
    send_all(client, 3, start=4)
    client.close(second)
    client.close(first)
    third = client.consume(Q)
    assert client.received(third) == numbers(4, 5, 6, 1, 2, 3)


@pytest.mark.fact("activemq-broker Q8")
def test_later_messages_overtake_one_that_no_consumer_matches(client: Client) -> None:
    consumer = client.consume(Q, selector="JMSType <> 'stuck'")
    for text in ("a", "stuck", "b"):
        client.send(Q, text)
    assert client.received(consumer) == ["a", "b"]
    other = client.consume(Q, prefetch=1)
    client.send(Q, "c")
    assert client.received(other) == ["stuck"]
    assert client.received(consumer) == ["a", "b", "c"]


@pytest.mark.fact("activemq-broker Q9", "activemq-broker Q30")
def test_returned_messages_are_dispatched_first_in_their_order(client: Client) -> None:
    first = client.consume(Q, prefetch=3)
    send_all(client, 5)
    second = client.consume(Q, prefetch=4)  # takes 4 and 5, has room for two more
    assert client.received(second) == numbers(4, 5)
    client.close(first)
    assert client.received(second) == numbers(4, 5, 1, 2)
    client.send(Q, "6")
    client.ack(second, 0)
    assert client.received(second) == numbers(4, 5, 1, 2, 3)


@pytest.mark.fact("activemq-broker Q10")
def test_messages_behind_a_page_of_unmatched_ones_are_not_dispatched(
    broker: Broker, client: Client
) -> None:
    picky = client.consume(Q, selector="JMSType = 'wanted'")
    for _ in range(250):
        client.send(Q, "unwanted")
    client.send(Q, "wanted")
    assert client.received(picky) == []
    taker = client.consume(Q, prefetch=10, selector="JMSType = 'unwanted'")
    for index in range(60):
        client.ack(taker, index)
    assert client.received(picky) == ["wanted"]


def test_max_page_size_is_a_policy(make_broker: type[Broker]) -> None:
    client = make_broker(PolicyEntry(max_page_size=3)).client()
    picky = client.consume(Q, selector="JMSType = 'wanted'")
    for text in ("x", "x", "wanted", "x", "wanted"):
        client.send(Q, text)
    assert client.received(picky) == ["wanted"]


def test_nothing_is_paged_in_without_a_consumer_then_a_whole_page(
    broker: Broker, client: Client
) -> None:
    send_all(client, 300)
    dispatcher = broker.queue(Q).dispatcher
    assert (len(dispatcher.cursor), len(dispatcher.fresh)) == (300, 0)
    client.consume(Q, prefetch=3)
    assert len(dispatcher.cursor) + len(dispatcher.fresh) == 297
    assert len(dispatcher.fresh) == 200


@pytest.mark.fact("activemq-broker Q33")
@pytest.mark.parametrize(("lazy", "paged"), [(False, 200), (True, 0)])
def test_paging_with_and_without_lazy_dispatch(
    make_broker: type[Broker], lazy: bool, paged: int
) -> None:
    broker = make_broker(PolicyEntry(lazy_dispatch=lazy))
    client = broker.client()
    send_all(client, 300)
    dispatcher = broker.queue(Q).dispatcher
    assert len(dispatcher.fresh) == 0
    consumer = client.consume(Q, prefetch=3)
    assert client.received(consumer) == numbers(1, 2, 3)
    assert len(dispatcher.fresh) == paged
    client.ack(consumer, 0)
    assert client.received(consumer) == numbers(1, 2, 3, 4)


@pytest.mark.fact("activemq-broker Q11")
def test_a_selector_that_fails_does_not_match(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = client.consume(Q, selector="weight > 3 AND JMSPriority > 3")
    message = client.message(Q, "broken")
    message.marshalled_properties = b"\x00\x00\x00\x01\x00"  # damaged
    client.send(Q, "broken", message=message)
    client.send(Q, "fine", properties={"weight": 5})
    assert client.received(consumer) == ["fine"]
    assert "failed on message" in caplog.text


def test_an_invalid_selector_is_refused(client: Client) -> None:
    with pytest.raises(InvalidSelectorException):
        client.consume(Q, selector="a = = b")


@pytest.mark.fact("activemq-broker Q11")
def test_headers_can_be_selected(client: Client) -> None:
    by_group = client.consume(Q, selector="JMSXGroupID = 'A' AND JMSXGroupSeq = 7")
    by_mode = client.consume(Q, selector="JMSDeliveryMode = 'PERSISTENT' AND JMSPriority = 9")
    client.send(Q, "neither")
    client.send(Q, "group", group="A", group_sequence=7)
    client.send(Q, "mode", persistent=True, priority=9)
    assert client.received(by_group) == ["group"]
    assert client.received(by_mode) == ["mode"]


@pytest.mark.fact("activemq-broker Q16")
def test_the_election_of_the_exclusive_consumer(client: Client) -> None:
    plain = client.consume(Q)
    first = client.consume(Q, exclusive=True, priority=3)
    client.send(Q, "1")
    equal = client.consume(Q, exclusive=True, priority=3)
    client.send(Q, "2")
    higher = client.consume(Q, exclusive=True, priority=5)
    client.send(Q, "3")
    always = client.consume(Q, exclusive=True, priority=127)
    client.send(Q, "4")
    always_too = client.consume(Q, exclusive=True, priority=127)
    client.send(Q, "5")
    assert client.received(first) == numbers(1, 2)
    assert client.received(higher) == numbers(3)
    assert client.received(always) == numbers(4)
    assert client.received(always_too) == numbers(5)
    for consumer in (always_too, always, higher):
        for index in range(len(client.received(consumer))):
            client.ack(consumer, index)
        client.close(consumer)
    client.send(Q, "6")
    assert client.received(first) == numbers(1, 2, 6)
    assert client.received(equal) == []
    assert client.received(plain) == []


@pytest.mark.fact("activemq-broker Q17")
def test_a_full_exclusive_consumer_stays_exclusive(client: Client) -> None:
    plain = client.consume(Q)
    exclusive = client.consume(Q, exclusive=True, prefetch=2)
    send_all(client, 4)
    browser = client.consume(Q, browser=True)
    assert client.received(exclusive) == numbers(1, 2)
    assert client.received(plain) == []
    assert client.received(browser) == [*numbers(1, 2, 3, 4), None]
    client.ack(exclusive, 0)
    assert client.received(exclusive) == numbers(1, 2, 3)
    client.close(exclusive, last_delivered=-1)
    assert sorted(map(str, client.received(plain))) == numbers(2, 3, 4)


def test_all_consumers_can_be_exclusive(make_broker: type[Broker]) -> None:
    client = make_broker(PolicyEntry(all_consumers_exclusive_by_default=True)).client()
    first, second = client.consume(Q), client.consume(Q)
    send_all(client, 3)
    assert (client.received(first), client.received(second)) == (numbers(1, 2, 3), [])


@pytest.mark.fact("activemq-broker Q19")
@pytest.mark.parametrize("prioritized", [False, True])
def test_priority_counts_only_where_the_policy_says_so(
    make_broker: type[Broker], prioritized: bool
) -> None:
    client = make_broker(PolicyEntry(prioritized_messages=prioritized)).client()
    for text, priority in (("a", 4), ("b", 9), ("c", 0), ("d", 9), ("e", 5)):
        client.send(Q, text, priority=priority)
    consumer = client.consume(Q)
    assert client.received(consumer) == (list("bdeac") if prioritized else list("abcde"))


@pytest.mark.fact("activemq-broker Q13")
def test_full_means_dispatched_less_extension_reaches_the_prefetch(client: Client) -> None:
    consumer = client.consume(Q, prefetch=1)
    send_all(client, 4)
    assert client.received(consumer) == numbers(1)
    client.ack(consumer, kind=AckType.DELIVERED)
    assert client.received(consumer) == numbers(1, 2)
    client.ack(consumer, 0)
    assert client.received(consumer) == numbers(1, 2)
    client.ack(consumer, 1)
    assert client.received(consumer) == numbers(1, 2, 3)


@pytest.mark.fact("activemq-broker Q15")
def test_the_prefetch_can_be_changed(client: Client) -> None:
    consumer = client.consume(Q, prefetch=1)
    send_all(client, 4)
    client.set_prefetch(consumer, 3)
    assert client.received(consumer) == numbers(1, 2, 3)
    client.set_prefetch(consumer, 1)
    client.ack(consumer, 0)
    assert client.received(consumer) == numbers(1, 2, 3)


async def test_a_pull_dispatches_one_message(clock: ManualClock, client: Client) -> None:
    consumer = client.consume(Q, prefetch=0)
    send_all(client, 2)
    assert client.received(consumer) == []
    client.pull(consumer, 0)
    assert client.received(consumer) == numbers(1)
    client.pull(consumer, -1)
    assert client.received(consumer) == numbers(1, 2)
    client.pull(consumer, -1)
    assert client.received(consumer) == [*numbers(1, 2), None]
    client.send(Q, "3")
    assert client.received(consumer) == [*numbers(1, 2), None]


@pytest.mark.fact("activemq-broker 2.1/lazyDispatch")
def test_lazy_dispatch_pages_in_for_pulls(make_broker: type[Broker]) -> None:
    client = make_broker(PolicyEntry(lazy_dispatch=True)).client()
    consumer = client.consume(Q, prefetch=0)
    send_all(client, 2)
    client.pull(consumer, 0)
    assert client.received(consumer) == numbers(1)


async def test_a_pull_waits_for_its_timeout(clock: ManualClock, client: Client) -> None:
    consumer = client.consume(Q, prefetch=0)
    client.pull(consumer, 5000)
    await clock.advance(4.9)
    assert client.received(consumer) == []
    await clock.advance(0.2)
    assert client.received(consumer) == [None]
    client.pull(consumer, 5000)
    client.send(Q, "in time")
    await clock.advance(6)
    assert client.received(consumer) == [None, "in time"]
    client.pull(consumer, 0)
    await clock.advance(1_000_000)
    client.send(Q, "late")
    assert client.received(consumer) == [None, "in time", "late"]


@pytest.mark.fact(
    "activemq-broker Q21",
    "activemq-broker 2.1/timeBeforeDispatchStarts / consumersBeforeDispatchStarts",
)
async def test_dispatch_starts_with_enough_consumers_or_after_the_timeout(
    clock: ManualClock, make_broker: type[Broker]
) -> None:
    broker = make_broker(PolicyEntry(consumers_before_dispatch_starts=2))
    client = broker.client()
    send_all(client, 2)
    first = client.consume(Q, prefetch=1)
    assert client.received(first) == []
    second = client.consume(Q, prefetch=1)
    assert (client.received(first), client.received(second)) == (["1"], ["2"])
    client.close(first)
    client.close(second)
    alone = client.consume(Q)
    await clock.advance(0.9)
    assert client.received(alone) == []
    await clock.advance(0.2)
    assert client.received(alone) == numbers(1, 2)
    late = client.consume(Q)  # not the first on an empty list: no gate
    client.send(Q, "3")
    client.send(Q, "4")
    assert client.received(late) == ["4"]


async def test_dispatch_can_start_after_a_fixed_time(
    clock: ManualClock, make_broker: type[Broker]
) -> None:
    client = make_broker(PolicyEntry(time_before_dispatch_starts=3)).client()
    send_all(client, 2)
    consumers = [client.consume(Q) for _ in range(4)]
    await clock.advance(2.9)
    assert client.dispatches == []
    await clock.advance(0.1)
    assert [client.received(c) for c in consumers] == [["1"], ["2"], [], []]


@pytest.mark.fact("activemq-broker Q22")
async def test_a_paused_queue_accepts_messages_but_does_not_dispatch_or_expire(
    clock: ManualClock, broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)
    queue = broker.queue(Q)
    queue.pause()
    client.send(Q, "1")
    client.send(Q, "2", expiration=clock.time_ms() + 1000)
    browser = client.consume(Q, browser=True)
    assert client.received(consumer) == []
    assert client.received(browser) == ["1", "2", None]
    await clock.advance(2)
    queue.expire_messages()
    assert broker.texts(Q) == ["1", "2"]
    queue.resume()
    assert client.received(consumer) == ["1"]
    assert queue.statistics.expired == 1


def test_a_wildcard_consumer_uses_its_one_window_on_all_queues(client: Client) -> None:
    client.send(Queue("W.1"), "a")
    client.send(Queue("W.2"), "b")
    consumer = client.consume(Queue("W.*"), prefetch=2)
    client.send(Queue("W.1"), "c")
    client.send(Queue("W.2"), "d")
    client.send(Queue("W.3"), "e")
    assert sorted(map(str, client.received(consumer))) == ["a", "b"]
    client.ack(consumer, 0)
    client.ack(consumer, 1)
    client.set_prefetch(consumer, 10)
    assert sorted(map(str, client.received(consumer))) == list("abcde")


def test_acknowledging_from_inside_a_dispatch_is_safe(client: Client) -> None:
    consumer = client.consume(Q, prefetch=1)
    client.on_dispatch = lambda dispatch: client.ack(consumer)
    send_all(client, 50)
    assert client.received(consumer) == numbers(*range(1, 51))
