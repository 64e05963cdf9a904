"""Messages leave their store after their dead letters: never lost, never delivered twice."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import AckType
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import NO_TRANSACTION, SubscriptionKey
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.dead_letter import IndividualDeadLetterStrategy, SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q, T = Queue("Q"), Topic("T")
DEAD = Queue("ActiveMQ.DLQ")
SIZE = 1100
KEY = SubscriptionKey("me", "s")
LOST = JMSException("no room")


@pytest.fixture
def several(paged: PagedAdapter) -> PagedAdapter:
    """A store of several journals."""
    cast("Any", paged).has_several_journals = True
    return paged


def small_memory(prioritized: bool = False, **options: Any) -> PolicyEntry:
    """Return a policy with memory for about 14 messages, by arrival or by priority."""
    return PolicyEntry(
        memory_limit=20 * SIZE, max_page_size=5, prioritized_messages=prioritized, **options
    )


def numbers(first: int, last: int) -> Any:
    return [str(n) for n in range(first, last + 1)]


def with_deferred_store(store: PagedAdapter, work: Any) -> Any:
    """Run `work`, whose store calls complete later; return its result."""
    store.answers_later = True
    try:
        return work()
    finally:
        store.answers_later = False


def poison(store: PagedAdapter, client: Client, consumer: Subscription, last: int = -1) -> Any:
    return with_deferred_store(store, lambda: client.ack(consumer, last, kind=AckType.POISON))


def fail_dead_letter(store: PagedAdapter) -> None:
    """Fail the oldest store call, which stores a dead letter."""
    store.queue_message_store(DEAD).remove_all_messages(NO_TRANSACTION)
    store.complete(LOST)


def drain(client: Client, consumer: Subscription, done: int) -> list[str | None]:
    while done < len(client.received(consumer)):
        client.ack(consumer, done)
        done += 1
    return client.received(consumer)


def stored_texts(store: PagedAdapter, destination: Destination = Q) -> Any:
    page = store.queue_message_store(destination).next_messages(None, 999)
    return [stored.message.type for stored in page]


# a dead letter that failed is sent again
@pytest.mark.parametrize(
    ("strategy", "dead"),
    [
        (SharedDeadLetterStrategy, DEAD),
        (IndividualDeadLetterStrategy, Queue("ActiveMQ.DLQ.Queue.Q")),
    ],
)
def test_a_refused_dead_letter_is_sent_again(
    make_broker: type[Broker], paged: PagedAdapter, strategy: Any, dead: Queue
) -> None:
    broker = make_broker(PolicyEntry(dead_letter_strategy=strategy()), store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    paged.broken = {"add_message"}
    with pytest.raises(JMSException, match="add_message failed"):
        client.ack(consumer, kind=AckType.POISON)
    assert broker.texts(Q) == ["a"]
    paged.broken = set()
    client.ack(consumer, kind=AckType.POISON)
    assert (broker.texts(Q), broker.texts(dead)) == ([], ["a"])


def test_only_the_refused_dead_letters_are_sent_again(
    make_broker: type[Broker], several: PagedAdapter
) -> None:
    broker = make_broker(store=several)
    client = broker.client()
    consumer = client.consume(Q)
    for text in ("a", "b", "c"):
        client.send(Q, text, persistent=True)

    def poison_all() -> Completion:
        return client.ack(consumer, 2, first=0, count=3, kind=AckType.POISON)

    def refuse_more(queue: Any) -> None:
        if queue.statistics.messages == 2:
            several.broken = {"add_message"}

    broker.queue(DEAD).watchers.append(refuse_more)
    with pytest.raises(JMSException, match="add_message failed"):
        with_deferred_store(several, poison_all)
    several.broken = set()
    assert (broker.texts(Q), broker.texts(DEAD)) == (["a", "b", "c"], ["a", "b"])
    reader = client.consume(DEAD)
    client.ack(reader, 1, first=0, count=2)
    answer = client.ack(consumer, 2, first=0, count=3, kind=AckType.POISON)
    assert broker.texts(DEAD) == ["c"]
    assert stored_texts(several) == ["a", "b"]  # their dead letters are still being stored
    assert not answer.done
    several.complete()
    several.complete()
    assert answer.done
    assert answer.error is None  # type: ignore[unreachable]
    assert stored_texts(several) == broker.texts(Q) == []


def test_a_dead_letter_that_was_not_stored_is_sent_again(
    make_broker: type[Broker], several: PagedAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(store=several)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    answer = poison(several, client, consumer)
    fail_dead_letter(several)
    assert answer.error is LOST
    assert "no room" in caplog.text
    assert client.received(consumer) == ["a", "a"]
    assert client.dispatches[-1].redelivery_counter == 1
    assert (broker.texts(Q), broker.texts(DEAD)) == (["a"], [])
    answer = poison(several, client, consumer)
    assert not answer.done
    several.complete()
    assert answer.error is None
    assert stored_texts(several) == broker.texts(Q) == []
    assert broker.texts(DEAD) == ["a"]


def test_a_message_consumed_after_its_dead_letter_failed_is_removed(
    make_broker: type[Broker], several: PagedAdapter
) -> None:
    broker = make_broker(store=several)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    poison(several, client, consumer)
    fail_dead_letter(several)
    assert client.ack(consumer) is COMPLETED
    assert stored_texts(several) == broker.texts(Q) == broker.texts(DEAD) == []


# the message is not paged in while its dead letter is being stored
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
def test_a_message_is_not_paged_in_while_its_dead_letter_is_stored(
    make_broker: type[Broker], several: PagedAdapter, prioritized: bool, error: JMSException | None
) -> None:
    broker = make_broker(small_memory(prioritized, destination=Q), store=several)
    client = broker.client()
    for n in range(60):
        client.send(Q, str(n), persistent=True, priority=9 if n < 2 else 4)
    queue = broker.queue(Q)
    consumer = client.consume(Q, prefetch=2)
    answer = poison(several, client, consumer, 0)
    assert "0" not in broker.texts(Q)
    first = several.queue_message_store(Q).next_messages(None, 1)[0].message
    assert queue.get_message(present(first.message_id)) is None
    assert drain(client, consumer, 1) == numbers(0, 59)
    assert stored_texts(several) == ["0"]
    several.complete(error)
    assert answer.error is error
    if error is not None:
        assert drain(client, consumer, 60) == [*numbers(0, 59), "0"]
        assert client.dispatches[-1].redelivery_counter == 1
    assert stored_texts(several) == []
    assert (queue.statistics.messages, queue.memory.used, queue.dispatcher.pending_count) == (
        0,
        0,
        0,
    )
    assert not queue.contents.excluded
    assert not queue.contents.dead_letter_ordering.positions


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
async def test_an_expired_message_in_memory_is_removed_after_its_dead_letter(
    clock: ManualClock,
    make_broker: type[Broker],
    several: PagedAdapter,
    prioritized: bool,
    error: JMSException | None,
) -> None:
    broker = make_broker(small_memory(prioritized, destination=Q), store=several)
    client = broker.client()
    until = clock.time_ms() + 1000
    for n in range(40):
        client.send(Q, str(n), persistent=True, expiration=0 if n else until)
    await clock.advance(2)
    queue = broker.queue(Q)
    consumer = with_deferred_store(several, lambda: client.consume(Q, prefetch=1))
    assert broker.texts(DEAD) == ["0"]
    assert drain(client, consumer, 0) == numbers(1, 39)
    assert stored_texts(several) == ["0"]
    several.complete(error)
    # a message whose dead letter failed is available again after a restart
    assert stored_texts(several) == ([] if error is None else ["0"])
    queue.expire_messages()
    assert (queue.statistics.messages, queue.statistics.expired) == (0, 1)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
async def test_expired_paged_out_messages_are_removed_after_their_dead_letters(
    clock: ManualClock,
    make_broker: type[Broker],
    several: PagedAdapter,
    prioritized: bool,
    error: JMSException | None,
) -> None:
    broker = make_broker(
        small_memory(prioritized, destination=Q, max_expire_page_size=100), store=several
    )
    client = broker.client()
    until = clock.time_ms() + 1000
    for n in range(40):
        client.send(Q, str(n), persistent=True, expiration=until if n in {30, 31} else 0)
    await clock.advance(2)
    queue = broker.queue(Q)
    assert queue.contents.paged_out_count > 10
    with_deferred_store(several, queue.expire_messages)
    queue.expire_messages()
    remaining = [text for text in numbers(0, 39) if text not in {"30", "31"}]
    assert broker.texts(DEAD) == ["30", "31"]
    assert broker.texts(Q) == remaining
    assert len(stored_texts(several)) == 40
    assert (queue.statistics.messages, queue.statistics.expired) == (38, 2)
    for _ in range(2):
        several.complete(error)
    assert stored_texts(several) == (remaining if error is None else numbers(0, 39))
    queue.expire_messages()
    assert drain(client, client.consume(Q, prefetch=3), 0) == remaining
    assert (queue.statistics.messages, queue.memory.used) == (0, 0)


async def test_one_journal_removes_expired_messages_at_once(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(small_memory(destination=Q, max_expire_page_size=100), store=paged)
    client = broker.client()
    until = clock.time_ms() + 1000
    for n in range(40):
        client.send(Q, str(n), persistent=True, expiration=until if n == 30 else 0)
    await clock.advance(2)
    broker.queue(Q).expire_messages()
    assert broker.texts(DEAD) == ["30"]
    assert "30" not in stored_texts(paged)
    assert broker.queue(Q).statistics.messages == 39


# durable subscriptions
def stored_for(store: PagedAdapter, key: Any = KEY) -> Any:
    found = store.topic_message_store(T).next_subscription_messages(key, None, 999)
    return [stored.message.type for stored in found]


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
def test_a_subscription_does_not_page_in_while_the_dead_letter_is_stored(
    make_broker: type[Broker], several: PagedAdapter, prioritized: bool, error: JMSException | None
) -> None:
    broker = make_broker(small_memory(prioritized, destination=T), store=several)
    client, sender = broker.client("me"), broker.client()
    consumer = client.consume(T, prefetch=2, subscription_name="s")
    for n in range(60):
        sender.send(T, str(n), persistent=True, priority=9 if n < 2 else 4)
    answer = poison(several, client, consumer, 0)
    assert drain(client, consumer, 1) == numbers(0, 59)
    assert stored_for(several) == ["0"]
    several.complete(error)
    assert answer.error is error
    if error is not None:
        assert drain(client, consumer, 60) == [*numbers(0, 59), "0"]
        assert client.dispatches[-1].redelivery_counter == 1
    assert stored_for(several) == []
    assert (consumer.pending_count, broker.topic(T).memory.used) == (0, 0)


@pytest.mark.parametrize("prioritized", [False, True])
async def test_a_subscription_expires_a_paged_out_message_once(
    clock: ManualClock, make_broker: type[Broker], several: PagedAdapter, prioritized: bool
) -> None:
    broker = make_broker(
        small_memory(prioritized, destination=T, max_expire_page_size=100), store=several
    )
    client, sender = broker.client("me"), broker.client()
    consumer = client.consume(T, subscription_name="s")
    client.close(consumer)
    until = clock.time_ms() + 1000
    for n in range(40):
        sender.send(T, str(n), persistent=True, expiration=until if n == 30 else 0)
    await clock.advance(2)
    topic = broker.topic(T)
    with_deferred_store(several, topic.expire_messages)
    topic.expire_messages()
    assert (consumer.pending_count, topic.statistics.expired) == (39, 1)
    assert len(stored_for(several)) == 40
    several.complete()
    remaining = [text for text in numbers(0, 39) if text != "30"]
    assert stored_for(several) == remaining
    again = client.consume(T, prefetch=3, subscription_name="s")
    assert drain(client, again, 0) == remaining
    assert consumer.pending_count == 0


def test_a_failed_dead_letter_affects_only_the_rejecting_subscription(
    make_broker: type[Broker], several: PagedAdapter
) -> None:
    broker = make_broker(store=several)
    a, b, sender = broker.client("a"), broker.client("b"), broker.client()
    rejecting = a.consume(T, subscription_name="s")
    consuming = b.consume(T, subscription_name="s")
    sender.send(T, "m", persistent=True)
    answer = poison(several, a, rejecting)
    assert b.ack(consuming) is COMPLETED
    assert stored_for(several, SubscriptionKey("b", "s")) == []
    fail_dead_letter(several)
    assert answer.error is LOST
    assert a.received(rejecting) == ["m", "m"]
    assert b.received(consuming) == ["m"]
    a.ack(rejecting, kind=AckType.POISON)
    assert stored_for(several, SubscriptionKey("a", "s")) == []
    assert broker.texts(DEAD) == ["m"]


def test_a_second_rejecting_subscription_waits_for_the_same_dead_letter(
    make_broker: type[Broker], several: PagedAdapter
) -> None:
    broker = make_broker(store=several)
    clients = [broker.client("a"), broker.client("b")]
    consumers = [client.consume(T, subscription_name="s") for client in clients]
    broker.client().send(T, "m", persistent=True)
    answers = [
        poison(several, client, consumer)
        for client, consumer in zip(clients, consumers, strict=True)
    ]
    assert len(several.unanswered) == 1
    assert [answer.done for answer in answers] == [False, False]
    fail_dead_letter(several)
    for client, consumer in zip(clients, consumers, strict=True):
        assert client.received(consumer) == ["m", "m"]
        client.ack(consumer, kind=AckType.POISON)
    assert broker.texts(DEAD) == ["m"]
    assert present(broker.topic(T).store).message_count == 0


# a message that expires before it arrives is nowhere but in its dead letter
def test_a_sender_is_answered_when_the_dead_letter_is_stored(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    late = clock.time_ms() - 1
    answer = with_deferred_store(
        paged, lambda: client.send(Q, "late", persistent=True, expiration=late)
    )
    assert broker.texts(DEAD) == ["late"]
    assert not answer.done
    paged.complete()
    assert (answer.done, answer.error) == (True, None)
    (stored,) = paged.queue_message_store(DEAD).next_messages(None, 9)
    assert stored.message.response_required  # synced: nothing behind it is


async def test_so_is_one_whose_send_waited_for_space(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(PolicyEntry(memory_limit=1, destination=Q), store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "1", persistent=True)
    answer = client.send(Q, "late", persistent=True, expiration=clock.time_ms() + 1000)
    await clock.advance(2)
    paged.answers_later = True
    client.ack(consumer, 0)
    paged.complete()  # the acknowledgement
    assert broker.texts(DEAD) == ["late"]
    assert not answer.done
    paged.complete()
    assert (answer.done, answer.error) == (True, None)


def test_a_sender_learns_that_the_dead_letter_was_not_stored(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    answer = with_deferred_store(
        paged, lambda: client.send(Q, "late", persistent=True, expiration=clock.time_ms() - 1)
    )
    fail_dead_letter(paged)
    assert answer.error is LOST
