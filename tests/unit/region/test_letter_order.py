"""Messages whose dead letters are still being stored, or could not be: neither lost nor twice."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import AckType
from pyjms_broker.api.message import NO_TRANSACTION, SubscriptionKey
from pyjms_broker.policy.dead_letter import IndividualDeadLetterStrategy, SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry

Q, T = Queue("Q"), Topic("T")
DEAD = Queue("ActiveMQ.DLQ")
SIZE = 1100
KEY = SubscriptionKey("me", "s")
LOST = JMSException("no room")


@pytest.fixture
def several(paged):
    """A store of several journals."""
    paged.has_several_journals = True
    return paged


def tight(prioritized=False, **options):
    """Memory for about 14 messages, of both kinds of order."""
    return PolicyEntry(
        memory_limit=20 * SIZE, max_page_size=5, prioritized_messages=prioritized, **options
    )


def numbers(first, last):
    return [str(n) for n in range(first, last + 1)]


def later(store, work):
    """Do work whose store calls are answered later; return its answer."""
    store.answers_later = True
    try:
        return work()
    finally:
        store.answers_later = False


def poison(store, client, consumer, last=-1):
    return later(store, lambda: client.ack(consumer, last, kind=AckType.POISON))


def lose_letter(store):
    """Have the oldest call fail, which stores a dead letter."""
    store.queue_message_store(DEAD).remove_all_messages(NO_TRANSACTION)
    store.complete(LOST)


def drain(client, consumer, done):
    while done < len(client.received(consumer)):
        client.ack(consumer, done)
        done += 1
    return client.received(consumer)


def stored_texts(store, destination=Q):
    page = store.queue_message_store(destination).next_messages(None, 999)
    return [stored.message.type for stored in page]


# what was lost once is tried again
@pytest.mark.parametrize(
    ("strategy", "dead"),
    [
        (SharedDeadLetterStrategy, DEAD),
        (IndividualDeadLetterStrategy, Queue("ActiveMQ.DLQ.Queue.Q")),
    ],
)
def test_a_letter_that_was_refused_is_sent_at_the_next_try(make_broker, paged, strategy, dead):
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


def test_of_several_letters_the_refused_ones_are_sent_at_the_next_try(make_broker, several):
    broker = make_broker(store=several)
    client = broker.client()
    consumer = client.consume(Q)
    for text in ("a", "b", "c"):
        client.send(Q, text, persistent=True)

    def poison_all():
        return client.ack(consumer, 2, first=0, count=3, kind=AckType.POISON)

    def refuse_more(queue):
        if queue.statistics.messages == 2:
            several.broken = {"add_message"}

    broker.queue(DEAD).watchers.append(refuse_more)
    with pytest.raises(JMSException, match="add_message failed"):
        later(several, poison_all)
    several.broken = set()
    assert (broker.texts(Q), broker.texts(DEAD)) == (["a", "b", "c"], ["a", "b"])
    reader = client.consume(DEAD)
    client.ack(reader, 1, first=0, count=2)
    answer = client.ack(consumer, 2, first=0, count=3, kind=AckType.POISON)
    assert broker.texts(DEAD) == ["c"]
    assert stored_texts(several) == ["a", "b"]  # whose first letters are still on their way
    assert not answer.done
    several.complete()
    several.complete()
    assert answer.done
    assert answer.error is None
    assert stored_texts(several) == broker.texts(Q) == []


def test_a_letter_that_was_lost_on_its_way_is_sent_at_the_next_try(make_broker, several, caplog):
    broker = make_broker(store=several)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    answer = poison(several, client, consumer)
    lose_letter(several)
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


def test_what_is_handled_after_its_letter_was_lost_is_gone(make_broker, several):
    broker = make_broker(store=several)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    poison(several, client, consumer)
    lose_letter(several)
    assert client.ack(consumer) is None
    assert stored_texts(several) == broker.texts(Q) == broker.texts(DEAD) == []


# while the letter is on its way, the message is not read again
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
def test_a_message_is_not_paged_in_while_its_letter_is_stored(
    make_broker, several, prioritized, error
):
    broker = make_broker(tight(prioritized, destination=Q), store=several)
    client = broker.client()
    for n in range(60):
        client.send(Q, str(n), persistent=True, priority=9 if n < 2 else 4)
    queue = broker.queue(Q)
    consumer = client.consume(Q, prefetch=2)
    answer = poison(several, client, consumer, 0)
    assert "0" not in broker.texts(Q)
    first = several.queue_message_store(Q).next_messages(None, 1)[0].message
    assert queue.get_message(first.message_id) is None
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
    assert not queue.contents.held
    assert not queue.contents.leaving


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
async def test_an_expired_one_in_memory_goes_behind_its_letter(
    clock, make_broker, several, prioritized, error
):
    broker = make_broker(tight(prioritized, destination=Q), store=several)
    client = broker.client()
    until = clock.time_ms() + 1000
    for n in range(40):
        client.send(Q, str(n), persistent=True, expiration=0 if n else until)
    await clock.advance(2)
    queue = broker.queue(Q)
    consumer = later(several, lambda: client.consume(Q, prefetch=1))
    assert broker.texts(DEAD) == ["0"]
    assert drain(client, consumer, 0) == numbers(1, 39)
    assert stored_texts(several) == ["0"]
    several.complete(error)
    # one whose letter is lost is there again after a restart
    assert stored_texts(several) == ([] if error is None else ["0"])
    queue.expire_messages()
    assert (queue.statistics.messages, queue.statistics.expired) == (0, 1)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
async def test_expired_ones_outside_go_behind_their_letters(
    clock, make_broker, several, prioritized, error
):
    broker = make_broker(tight(prioritized, destination=Q, max_expire_page_size=100), store=several)
    client = broker.client()
    until = clock.time_ms() + 1000
    for n in range(40):
        client.send(Q, str(n), persistent=True, expiration=until if n in {30, 31} else 0)
    await clock.advance(2)
    queue = broker.queue(Q)
    assert queue.contents.outside_count > 10
    later(several, queue.expire_messages)
    queue.expire_messages()
    there = [text for text in numbers(0, 39) if text not in {"30", "31"}]
    assert broker.texts(DEAD) == ["30", "31"]
    assert broker.texts(Q) == there
    assert len(stored_texts(several)) == 40
    assert (queue.statistics.messages, queue.statistics.expired) == (38, 2)
    for _ in range(2):
        several.complete(error)
    assert stored_texts(several) == (there if error is None else numbers(0, 39))
    queue.expire_messages()
    assert drain(client, client.consume(Q, prefetch=3), 0) == there
    assert (queue.statistics.messages, queue.memory.used) == (0, 0)


async def test_expired_ones_outside_go_with_their_letters_in_one_journal(clock, make_broker, paged):
    broker = make_broker(tight(destination=Q, max_expire_page_size=100), store=paged)
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
def waiting_for(store, key=KEY):
    found = store.topic_message_store(T).next_subscription_messages(key, None, 999)
    return [stored.message.type for stored in found]


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("error", [None, LOST])
def test_a_subscription_does_not_read_again_what_has_its_letter_stored(
    make_broker, several, prioritized, error
):
    broker = make_broker(tight(prioritized, destination=T), store=several)
    client, sender = broker.client("me"), broker.client()
    consumer = client.consume(T, prefetch=2, subscription_name="s")
    for n in range(60):
        sender.send(T, str(n), persistent=True, priority=9 if n < 2 else 4)
    answer = poison(several, client, consumer, 0)
    assert drain(client, consumer, 1) == numbers(0, 59)
    assert waiting_for(several) == ["0"]
    several.complete(error)
    assert answer.error is error
    if error is not None:
        assert drain(client, consumer, 60) == [*numbers(0, 59), "0"]
        assert client.dispatches[-1].redelivery_counter == 1
    assert waiting_for(several) == []
    assert (consumer.pending_count, broker.topic(T).memory.used) == (0, 0)


@pytest.mark.parametrize("prioritized", [False, True])
async def test_a_subscription_expires_what_is_outside_once(
    clock, make_broker, several, prioritized
):
    broker = make_broker(tight(prioritized, destination=T, max_expire_page_size=100), store=several)
    client, sender = broker.client("me"), broker.client()
    consumer = client.consume(T, subscription_name="s")
    client.close(consumer)
    until = clock.time_ms() + 1000
    for n in range(40):
        sender.send(T, str(n), persistent=True, expiration=until if n == 30 else 0)
    await clock.advance(2)
    topic = broker.topic(T)
    later(several, topic.expire_messages)
    topic.expire_messages()
    assert (consumer.pending_count, topic.statistics.expired) == (39, 1)
    assert len(waiting_for(several)) == 40
    several.complete()
    there = [text for text in numbers(0, 39) if text != "30"]
    assert waiting_for(several) == there
    again = client.consume(T, prefetch=3, subscription_name="s")
    assert drain(client, again, 0) == there
    assert consumer.pending_count == 0


def test_a_letter_concerns_only_the_subscription_that_refused_the_message(make_broker, several):
    broker = make_broker(store=several)
    a, b, sender = broker.client("a"), broker.client("b"), broker.client()
    refuses = a.consume(T, subscription_name="s")
    handles = b.consume(T, subscription_name="s")
    sender.send(T, "m", persistent=True)
    answer = poison(several, a, refuses)
    assert b.ack(handles) is None
    assert waiting_for(several, SubscriptionKey("b", "s")) == []
    lose_letter(several)
    assert answer.error is LOST
    assert a.received(refuses) == ["m", "m"]
    assert b.received(handles) == ["m"]
    a.ack(refuses, kind=AckType.POISON)
    assert waiting_for(several, SubscriptionKey("a", "s")) == []
    assert broker.texts(DEAD) == ["m"]


def test_who_refuses_it_too_waits_for_the_same_letter(make_broker, several):
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
    lose_letter(several)
    for client, consumer in zip(clients, consumers, strict=True):
        assert client.received(consumer) == ["m", "m"]
        client.ack(consumer, kind=AckType.POISON)
    assert broker.texts(DEAD) == ["m"]
    assert broker.topic(T).store.message_count == 0
