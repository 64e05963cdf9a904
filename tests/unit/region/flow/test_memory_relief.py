"""Stored messages leave memory while it is short: in flight, returned, of queues and topics."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import AckType, ActiveMQMessage
from pyjms_broker.api.message import NO_TRANSACTION
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.cursor.memory import PAGING_RETRY_DELAY
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.store.temp import TempStore
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q, OTHER, T = Queue("Q"), Queue("other"), Topic("T")
BODY = 20_000
LIMIT = 100 * BODY


@pytest.fixture
def tight(make_broker: type[Broker], paged: PagedAdapter) -> Broker:
    """A broker that can keep 70 messages before memory is short, and a store."""
    return make_broker(usage=SystemUsage(memory_limit=LIMIT), store=paged)


def long(client: Client, to: Destination, n: int, *, persistent: bool = True) -> ActiveMQMessage:
    message = client.message(to, str(n), persistent=persistent)
    message.content = b"%08d" % n + b"x" * (BODY - 8)
    return message


def send(client: Client, to: Destination, count: int, *, persistent: bool = True) -> list[bool]:
    """Send long messages; return whether each was accepted at once."""
    messages = (long(client, to, n, persistent=persistent) for n in range(count))
    return [client.send(to, "", message=message).done for message in messages]


def bodies(client: Client, consumer: Subscription) -> list[tuple[int, int]]:
    """Return the number and the length of each body that a consumer got."""
    found = [present(d.message).content or b"" for d in client.dispatches_of(consumer)]
    return [(int(content[:8] or b"-1"), len(content)) for content in found]


def whole(*numbers: int) -> list[tuple[int, int]]:
    return [(n, BODY) for n in numbers]


def used(broker: Broker) -> int:
    return broker.region.system_usage.memory.used


@pytest.mark.fact("activemq-broker M12")
def test_a_consumer_that_does_not_acknowledge_stops_no_sender(tight: Broker) -> None:
    consumer = tight.client().consume(Q, prefetch=1000)
    assert all(send(tight.client(), Q, 500))
    assert all(send(tight.client(), OTHER, 1))
    assert consumer.in_flight == 500


@pytest.mark.fact("activemq-broker M12")
def test_it_holds_less_memory_than_the_mark(tight: Broker) -> None:
    tight.client().consume(Q, prefetch=1000)
    send(tight.client(), Q, 500)
    assert used(tight) <= LIMIT * 70 // 100 + BODY


@pytest.mark.parametrize("prioritized", [False, True])
def test_what_it_returns_reaches_the_next_consumer_whole(
    make_broker: type[Broker], paged: PagedAdapter, prioritized: bool
) -> None:
    policy = PolicyEntry(prioritized_messages=prioritized)
    tight = make_broker(policy, usage=SystemUsage(memory_limit=LIMIT), store=paged)
    slow, next_one = tight.client(), tight.client()
    leaving = slow.consume(Q, prefetch=1000)
    send(tight.client(), Q, 300)
    slow.close(leaving)
    consumer = next_one.consume(Q, prefetch=1000)
    assert bodies(next_one, consumer) == whole(*range(300))
    assert {d.redelivery_counter for d in next_one.dispatches_of(consumer)} == {1}


def test_what_it_returns_does_not_fill_memory(tight: Broker) -> None:
    slow = tight.client()
    leaving = slow.consume(Q, prefetch=1000)
    send(tight.client(), Q, 500)
    slow.close(leaving)
    assert all(send(tight.client(), OTHER, 200))
    assert used(tight) <= LIMIT * 70 // 100 + BODY


def test_all_memory_is_free_once_everything_is_consumed(tight: Broker) -> None:
    slow, client = tight.client(), tight.client()
    leaving = slow.consume(Q, prefetch=1000)
    send(tight.client(), Q, 300)
    slow.close(leaving)
    consumer = client.consume(Q, prefetch=1000)
    client.ack(consumer, -1, first=0, count=300)
    assert used(tight) == 0
    assert tight.queue(Q).statistics.messages == 0


def test_a_rolled_back_acknowledgement_of_one_that_left_memory(tight: Broker) -> None:
    client, next_one = tight.client(), tight.client()
    consumer = client.consume(Q, prefetch=1000)
    send(tight.client(), Q, 100)
    transaction = client.begin()
    client.ack(consumer, -1, first=0, count=100, tx=transaction)
    transaction.rollback()
    client.close(consumer)
    assert bodies(next_one, next_one.consume(Q, prefetch=1000)) == whole(*range(100))


@pytest.mark.parametrize("subscribers", [1, 2])
@pytest.mark.fact("activemq-broker M12")
def test_durable_subscriptions_stop_no_sender(tight: Broker, subscribers: int) -> None:
    clients = [tight.client(f"s{n}") for n in range(subscribers)]
    consumers = [c.consume(T, prefetch=1000, subscription_name="s") for c in clients]
    assert all(send(tight.client(), T, 500))
    assert [consumer.in_flight for consumer in consumers] == [500] * subscribers
    assert used(tight) <= LIMIT * 70 // 100 + BODY


def test_a_durable_subscription_gets_what_it_returned_whole(tight: Broker) -> None:
    client = tight.client("s")
    client.close(client.consume(T, prefetch=1000, subscription_name="s"))
    consumer = client.consume(T, prefetch=1000, subscription_name="s")
    send(tight.client(), T, 300)
    client.close(consumer)
    again = client.consume(T, prefetch=1000, subscription_name="s")
    assert bodies(client, again) == whole(*range(300))


def test_a_subscriber_beside_a_durable_one_gets_whole_messages(tight: Broker) -> None:
    """The durable one acknowledges, so that the store has the messages no more."""
    durable, plain = tight.client("s"), tight.client()
    consumer = durable.consume(T, prefetch=1000, subscription_name="s")
    slow = plain.consume(T, prefetch=1)
    send(tight.client(), T, 40)
    durable.ack(consumer, -1, first=0, count=40)
    send(tight.client(), Q, 100)  # memory is short
    for n in range(40):
        plain.ack(slow, n)
    assert bodies(plain, slow) == whole(*range(40))


def test_a_dead_letter_has_the_body_of_a_message_that_left_memory(tight: Broker) -> None:
    client = tight.client()
    consumer = client.consume(Q, prefetch=1000)
    send(tight.client(), Q, 100)
    client.ack(consumer, 5, kind=AckType.POISON)
    assert [len(letter.content or b"") for letter in tight.dead_letters] == [BODY]


async def test_messages_that_are_in_no_store_stay_in_flight_up_to_the_mark(
    make_broker: type[Broker], paged: PagedAdapter, temp_store: TempStore
) -> None:
    usage = SystemUsage(memory_limit=LIMIT)
    tight = make_broker(usage=usage, store=paged, temp_store=temp_store)
    client = tight.client()
    consumer = client.consume(Q, prefetch=1000)
    assert all(send(tight.client(), Q, 300, persistent=False))
    assert used(tight) <= LIMIT * 70 // 100 + BODY
    for n in range(300):
        client.ack(consumer, n)
    assert bodies(client, consumer) == whole(*range(300))


def test_many_queues_with_slow_consumers_stop_no_sender(tight: Broker) -> None:
    """As behind a virtual topic."""
    queues = [Queue(f"c.{n}") for n in range(100)]
    for queue in queues:
        tight.client().consume(queue, prefetch=1000)
    client = tight.client()
    assert all(accepted for _ in range(30) for to in queues for accepted in send(client, to, 1))


@pytest.mark.fact("activemq-broker M14")
def test_a_backlog_elsewhere_does_not_stop_a_consumer_that_acknowledges_in_batches(
    tight: Broker,
) -> None:
    send(tight.client(), OTHER, 200)
    consumer = tight.client().consume(Q, prefetch=1000)
    client = tight.client()
    for n in range(15):
        client.send(Q, str(n), persistent=True)
    assert consumer.in_flight == 15


@pytest.mark.fact("activemq-broker M14")
def test_a_page_has_only_as_many_messages_as_memory_has_room_for(tight: Broker) -> None:
    send(tight.client(), Q, 500)
    client = tight.client()
    consumer = client.consume(Q, prefetch=1)
    for n in range(499):
        client.ack(consumer, n)
        assert used(tight) < LIMIT
    assert bodies(client, consumer) == whole(*range(500))


def test_a_message_that_its_store_has_lost_does_not_stop_the_others(
    tight: Broker, paged: PagedAdapter
) -> None:
    slow, client = tight.client(), tight.client()
    leaving = slow.consume(Q, prefetch=1000)
    send(tight.client(), Q, 100)
    slow.close(leaving)
    first = next(iter(tight.queue(Q).references))
    paged.queue_message_store(Q).remove_message(NO_TRANSACTION, first)
    assert bodies(client, client.consume(Q, prefetch=1000)) == whole(*range(1, 100))
    assert tight.queue(Q).statistics.messages == 99


async def test_a_message_that_cannot_be_read_is_read_later(
    tight: Broker, paged: PagedAdapter, clock: ManualClock
) -> None:
    slow, client = tight.client(), tight.client()
    leaving = slow.consume(Q, prefetch=1000)
    send(tight.client(), Q, 100)
    slow.close(leaving)
    paged.broken.add("get_message")
    consumer = client.consume(Q, prefetch=1000)
    paged.broken.clear()
    await clock.advance(PAGING_RETRY_DELAY)
    assert sorted(bodies(client, consumer)) == whole(*range(100))


def test_a_browser_whose_message_cannot_be_read_says_so(tight: Broker, paged: PagedAdapter) -> None:
    tight.client().consume(Q, prefetch=1000)
    send(tight.client(), Q, 100)
    paged.broken.add("get_message")
    with pytest.raises(JMSException, match="get_message failed"):
        tight.texts(Q)
