"""Messages that the connection of a consumer cannot carry: set aside, and the consumer stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from anyio import wait_all_tasks_blocked

from pyjms.errors import LocalProtocolError
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.failure_reason import FAILURE_CAUSE
from pyjms.wire.openwire.commands import MessageDispatch
from pyjms_broker.policy.entry import PolicyEntry
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter

Q = Queue("Q")
DEAD = Queue("ActiveMQ.DLQ")
BAD = "bad"


def cannot_carry(client: Client, text: str = BAD) -> None:
    """Let the client's connection refuse the messages with this text."""

    def refuse(dispatch: MessageDispatch) -> None:
        if dispatch.message is not None and dispatch.message.type == text:
            client.dispatches.remove(dispatch)
            raise LocalProtocolError("Frame of 9 bytes is larger than the 8 agreed on")

    client.on_dispatch = refuse


def send_three(client: Client, destination: Queue | Topic, *, persistent: bool = True) -> None:
    for text in ("1", BAD, "3"):
        client.send(destination, text, persistent=persistent)


Make = Callable[..., Broker]


@pytest.mark.fact("activemq-broker L8")
@pytest.mark.parametrize("prefetch", [1, 1000])
async def test_a_queue_dead_letters_it_with_the_reason(
    broker: Broker, client: Client, prefetch: int, caplog: pytest.LogCaptureFixture
) -> None:
    cannot_carry(client)
    consumer = client.consume(Q, prefetch)
    send_three(client, Q)
    if prefetch == 1:
        client.ack(consumer)
    await wait_all_tasks_blocked()
    assert client.received(consumer) == ["1", "3"]
    other = broker.client()
    (letter,) = [dispatch.message for dispatch in other.dispatches_of(other.consume(DEAD))]
    assert letter is not None
    assert letter.type == BAD
    assert b"larger than the 8 agreed on" in (letter.marshalled_properties or b"")
    assert FAILURE_CAUSE.encode() in (letter.marshalled_properties or b"")
    assert caplog.text.count("larger than the 8 agreed on") == 1
    assert broker.region.unwritable_count == 1


async def test_acknowledged_ranges_leave_it_out(broker: Broker, client: Client) -> None:
    cannot_carry(client)
    consumer = client.consume(Q)
    send_three(client, Q)
    client.ack(consumer, first=0, last=1, count=2)
    await wait_all_tasks_blocked()
    assert broker.region.region_destination(Q).statistics.messages == 0


async def test_a_pull_gets_the_next_message(client: Client) -> None:
    cannot_carry(client)
    consumer = client.consume(Q, prefetch=0)
    client.pull(consumer, 0)
    client.send(Q, BAD, persistent=True)
    client.send(Q, "next", persistent=True)
    assert client.received(consumer) == ["next"]


async def test_a_pull_ends_in_time_after_it(client: Client, clock: ManualClock) -> None:
    cannot_carry(client)
    consumer = client.consume(Q, prefetch=0)
    client.pull(consumer, 100)
    client.send(Q, BAD, persistent=True)
    await clock.advance(0.1)
    assert client.received(consumer) == [None]


@pytest.mark.fact("activemq-broker L8")
async def test_a_dead_letter_stays_for_consumers_that_can_get_it(
    broker: Broker, client: Client
) -> None:
    cannot_carry(client)
    consumer = client.consume(DEAD, prefetch=1)
    client.send(DEAD, BAD, persistent=True)
    client.send(DEAD, "next", persistent=True)
    await wait_all_tasks_blocked()
    assert client.received(consumer) == ["next"]
    client.close(consumer)
    other = broker.client()
    assert other.received(other.consume(DEAD)) == [BAD, "next"]


@pytest.mark.fact("activemq-broker L8")
async def test_a_subscriber_of_a_topic_misses_it(
    broker: Broker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    cannot_carry(client)
    several = [client.consume(Topic("T"), prefetch=2) for _ in range(3)]
    other = broker.client()
    able = other.consume(Topic("T"))
    send_three(client, Topic("T"), persistent=False)
    assert [client.received(each) for each in several] == [["1", "3"]] * 3
    assert other.received(able) == ["1", BAD, "3"]
    assert caplog.text.count("larger than the 8 agreed on") == 1


async def test_a_durable_subscription_dead_letters_it(
    make_broker: Make, paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    cannot_carry(client)
    consumer = client.consume(Topic("T"), prefetch=1, subscription_name="sub")
    send_three(client, Topic("T"))
    client.ack(consumer)
    await wait_all_tasks_blocked()
    assert client.received(consumer) == ["1", "3"]
    other = broker.client()
    assert other.received(other.consume(DEAD)) == [BAD]


async def test_a_browser_skips_it(client: Client) -> None:
    cannot_carry(client)
    send_three(client, Q)
    browser = client.consume(Q, prefetch=2, browser=True)
    assert client.received(browser) == ["1", "3", None]


async def test_marked_messages_are_set_aside_as_well(
    make_broker: Make, paged: PagedAdapter
) -> None:
    policy = PolicyEntry(destination=Queue(">"), persist_jms_redelivered=True)
    broker = make_broker(policy, store=paged)
    client = broker.client()
    cannot_carry(client)
    consumer = client.consume(Q, prefetch=1)
    send_three(client, Q)
    client.ack(consumer)
    await wait_all_tasks_blocked()
    assert client.received(consumer) == ["1", "3"]


@pytest.mark.parametrize(("sent", "seen"), [(-5, 0), (7, 7), (2**31 - 1, 2**30)])
@pytest.mark.fact("activemq-broker L9")
async def test_a_redelivery_counter_is_limited(
    broker: Broker, client: Client, sent: int, seen: int
) -> None:
    message = client.message(Q, "1")
    message.redelivery_counter = sent
    client.send(Q, "1", message=message)
    consumer = client.consume(Q)
    (first,) = client.dispatches_of(consumer)
    client.close(consumer)
    (again,) = client.dispatches_of(client.consume(Q))
    assert (first.redelivery_counter, again.redelivery_counter) == (seen, seen + 1)
