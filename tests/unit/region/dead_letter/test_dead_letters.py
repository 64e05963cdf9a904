"""Dead letters: which messages, their destinations and their fields."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import AckType, Throwable
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.dead_letter import (
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    SharedDeadLetterStrategy,
)
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.store.api import StoreState
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q = Queue("Q")
CAUSE = Throwable(
    "java.lang.Throwable",
    "Delivery[7] exceeds redelivery policy limit:RedeliveryPolicy {...}, "
    "cause:java.lang.RuntimeException: boom",
)


def poison(
    client: Client, destination: Destination = Q, count: int = 1, **options: Any
) -> Subscription:
    """Send and refuse messages; return the consumer."""
    consumer = client.consume(destination)
    for number in range(count):
        client.send(destination, str(number), **options)
        client.ack(consumer, kind=AckType.POISON, cause=CAUSE)
    return consumer


def policy(
    strategy: SharedDeadLetterStrategy
    | IndividualDeadLetterStrategy
    | DiscardingDeadLetterStrategy,
) -> PolicyEntry:
    return PolicyEntry(dead_letter_strategy=strategy)


def letters(broker: Broker, name: str) -> list[str | None]:
    return broker.texts(Queue(name))


@pytest.mark.fact("activemq-broker R9")
def test_the_cause_is_a_property(broker: Broker, client: Client) -> None:
    poison(client, persistent=True)
    properties = decode_map(present(broker.dead_letters[0].marshalled_properties))
    assert properties["dlqDeliveryFailureCause"] == (
        "java.lang.Throwable: Delivery[7] exceeds redelivery policy limit:RedeliveryPolicy {...}, "
        "cause:java.lang.RuntimeException: boom"
    )


@pytest.mark.fact("activemq-broker L1")
@pytest.mark.parametrize(
    ("persistent", "non_persistent_too", "kept"),
    [(True, False, True), (False, False, False), (False, True, True)],
)
async def test_which_messages_are_dead_lettered(
    clock: ManualClock,
    make_broker: type[Broker],
    persistent: bool,
    non_persistent_too: bool,
    kept: bool,
) -> None:
    strategy = SharedDeadLetterStrategy(
        process_non_persistent=non_persistent_too, process_expired=False
    )
    broker = make_broker(policy(strategy))
    client = broker.client()
    consumer = poison(client, persistent=persistent)
    assert len(broker.dead_letters) == kept
    assert broker.texts(Q) == []
    # expired and not to be processed: no
    client.send(Q, "old", persistent=True, expiration=clock.time_ms() + 1000)
    await clock.advance(2)
    client.ack(consumer, kind=AckType.EXPIRED)
    assert len(broker.dead_letters) == kept
    # a second time the same id: no
    reference = broker.queue(Queue("ActiveMQ.DLQ")).browse()
    if reference:
        broker.queue(Queue("ActiveMQ.DLQ")).purge(client.context)
        again = client.message(Q, "again", persistent=True)
        again.message_id = reference[0].message_id
        client.send(Q, "", message=again)
        client.ack(consumer, kind=AckType.POISON)
        assert broker.dead_letters == []


@pytest.mark.fact("activemq-broker L2", "activemq-broker 2.1/deadLetterStrategy")
def test_the_default_is_one_queue_for_queues_and_topics(broker: Broker, client: Client) -> None:
    assert isinstance(PolicyEntry().dead_letter_strategy, SharedDeadLetterStrategy)
    poison(client, persistent=True)
    consumer = client.consume(Topic("T"), subscription_name="s")
    client.send(Topic("T"), "topic", persistent=True)
    client.ack(consumer, kind=AckType.POISON)
    assert letters(broker, "ActiveMQ.DLQ") == ["0", "topic"]


@pytest.mark.fact("activemq-broker L3")
@pytest.mark.parametrize(
    ("options", "queue_target", "topic_target"),
    [
        ({}, Queue("ActiveMQ.DLQ.Queue.Q"), Queue("ActiveMQ.DLQ.Topic.T")),
        (
            {
                "queue_prefix": "D.",
                "topic_prefix": "E.",
                "queue_suffix": ".q",
                "topic_suffix": ".t",
            },
            Queue("D.Q.q"),
            Queue("E.T.t"),
        ),
        (
            {"use_queue_for_queue_messages": False, "use_queue_for_topic_messages": False},
            Topic("ActiveMQ.DLQ.Queue.Q"),
            Topic("ActiveMQ.DLQ.Topic.T"),
        ),
        (
            {"destination_per_durable_subscriber": True},
            Queue("ActiveMQ.DLQ.Queue.Q"),
            Queue("ActiveMQ.DLQ.Topic.T.me:s"),
        ),
    ],
)
def test_individual_queues(
    make_broker: type[Broker],
    options: Any,
    queue_target: Queue | Topic,
    topic_target: Queue | Topic,
) -> None:
    strategy = IndividualDeadLetterStrategy(**options)
    assert strategy.max_destinations_to_audit == 10_000
    broker = make_broker(policy(strategy))
    client = broker.client("me")
    watcher = client.consume(Topic(">"))
    poison(client, persistent=True)
    durable = client.consume(Topic("T"), subscription_name="s")
    client.send(Topic("T"), "topic", persistent=True)
    client.ack(durable, kind=AckType.POISON)
    for target, text in ((queue_target, "0"), (topic_target, "topic")):
        if target.is_queue:
            assert broker.texts(target) == [text]
        else:
            assert text in client.received(watcher)
            assert target in broker.region.destinations()
        assert strategy.is_dead_letter_destination(target)


@pytest.mark.fact("activemq-broker L4")
def test_discarding(make_broker: type[Broker]) -> None:
    broker = make_broker(policy(DiscardingDeadLetterStrategy()))
    poison(broker.client(), persistent=True)
    assert list(broker.region.destinations()) == [Q]


@pytest.mark.fact("activemq-broker L5")
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("expiration", [0, 60])
async def test_the_fields_of_a_dead_letter(
    clock: ManualClock, make_broker: type[Broker], persistent: bool, expiration: int
) -> None:
    broker = make_broker(
        policy(SharedDeadLetterStrategy(process_non_persistent=True, expiration=expiration))
    )
    client = broker.client()
    consumer = client.consume(Q)
    until = clock.time_ms() + 100_000
    tx = client.begin()
    message = client.message(
        Q, "m", persistent=persistent, properties={"mine": Long(5)}, expiration=until
    )
    message.transaction_id = tx.xid
    client.send(Q, "", tx=tx, message=message)
    tx.commit(one_phase=True)
    client.close(consumer)
    consumer = client.consume(Q)
    assert client.dispatches[-1].redelivery_counter == 1
    client.ack(consumer, 0, kind=AckType.POISON)
    (letter,) = broker.dead_letters
    assert letter.destination == Queue("ActiveMQ.DLQ")
    assert letter.original_destination == Q
    assert letter.transaction_id is None
    assert letter.original_transaction_id == tx.xid
    assert letter.redelivery_counter == 0
    assert letter.persistent
    assert letter.message_id == message.message_id
    assert letter.expiration == (clock.time_ms() + 60_000 if expiration else 0)
    properties = decode_map(present(letter.marshalled_properties))
    assert properties["mine"] == Long(5)
    assert properties["originalExpiration"] == until
    assert isinstance(properties["originalExpiration"], Long)
    assert properties.get("originalDeliveryMode") == (None if persistent else "NON_PERSISTENT")
    assert letter.content == message.content
    reader = client.consume(Queue("ActiveMQ.DLQ"))
    assert client.received(reader) == ["m"]
    assert client.dispatches[-1].redelivery_counter == 0


def test_original_expiration_is_0_without_one(broker: Broker, client: Client) -> None:
    poison(client, persistent=True)
    properties = decode_map(present(broker.dead_letters[0].marshalled_properties))
    assert properties["originalExpiration"] == 0


@pytest.mark.fact("activemq-broker L6")
def test_a_dead_letter_is_not_dead_lettered_to_itself(make_broker: type[Broker]) -> None:
    broker = make_broker(policy(SharedDeadLetterStrategy(enable_audit=False)))
    client = broker.client()
    poison(client, persistent=True)
    dead = Queue("ActiveMQ.DLQ")
    assert broker.queue(dead).is_dead_letter_queue
    assert not broker.queue(Q).is_dead_letter_queue
    consumer = client.consume(dead)
    client.ack(consumer, 0, kind=AckType.POISON)
    assert broker.texts(dead) == []


def test_a_poisoned_message_may_be_sent_again(broker: Broker, client: Client) -> None:
    consumer = poison(client, persistent=True)
    (letter,) = broker.queue(Queue("ActiveMQ.DLQ")).browse()
    again = client.message(Q, "retried", persistent=True)
    again.message_id = letter.message_id
    client.send(Q, "", message=again)
    assert client.received(consumer) == ["0", "retried"]
    strategy = broker.queue(Q).policy.dead_letter_strategy
    strategy.rollback(broker.queue(Q).browse()[0])
    client.ack(consumer, kind=AckType.POISON)
    assert len(broker.dead_letters) == 1  # the DLQ still has the first copy under that id


def test_a_dead_letter_beyond_the_audit_window_is_kept(broker: Broker, client: Client) -> None:
    for number in range(2200):
        client.send(Q, str(number), persistent=True)
    late, others = broker.client(), broker.client()
    last = late.consume(Q, prefetch=1)
    poisoned = others.consume(Q, prefetch=2200)
    for number in range(2199):
        others.ack(poisoned, number, kind=AckType.POISON)
    late.ack(last, 0, kind=AckType.POISON)
    assert broker.queue(Q).statistics.messages == 0
    assert broker.queue(Queue("ActiveMQ.DLQ")).statistics.messages == 2200


def test_without_the_audit_the_same_id_is_kept_again(make_broker: type[Broker]) -> None:
    broker = make_broker(policy(SharedDeadLetterStrategy(enable_audit=False)))
    client = broker.client()
    consumer = client.consume(Q)
    message = client.message(Q, "a", persistent=True)
    client.send(Q, "", message=message)
    client.ack(consumer, kind=AckType.POISON)
    dead = broker.queue(Queue("ActiveMQ.DLQ"))
    (letter,) = dead.browse()
    dead.purge(client.context)
    dead.forget_duplicate(letter)
    again = client.message(Q, "a", persistent=True)
    again.message_id = message.message_id
    client.send(Q, "", message=again)
    client.ack(consumer, kind=AckType.POISON)
    assert [m.type for m in broker.dead_letters] == ["a"]


@pytest.mark.parametrize("error", [None, JMSException("no room")])
def test_with_several_journals_the_dead_letter_is_stored_before_the_removal(
    make_broker: type[Broker], paged: PagedAdapter, error: JMSException | None
) -> None:
    cast("Any", paged).has_several_journals = True
    broker = make_broker(store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    paged.answers_later = True
    answer = client.ack(consumer, kind=AckType.POISON)
    stored = paged.queue_message_store(Q)
    assert not answer.done
    assert len(stored.next_messages(None, 9)) == 1
    assert len(paged.queue_message_store(Queue("ActiveMQ.DLQ")).next_messages(None, 9)) == 1
    paged.complete(error)
    assert len(stored.next_messages(None, 9)) == (error is not None)
    if error is None:
        assert not answer.done
        paged.complete()
    assert answer.done
    assert answer.error is error  # type: ignore[unreachable]


def test_with_one_journal_nothing_waits(make_broker: type[Broker], paged: PagedAdapter) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    paged.answers_later = True
    client.ack(consumer, kind=AckType.POISON)
    assert len(paged.queue_message_store(Q).next_messages(None, 9)) == 0


def test_a_dead_letter_of_a_subscription_is_stored_before_the_acknowledgement(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    cast("Any", paged).has_several_journals = True
    broker = make_broker(store=paged)
    client = broker.client("me")
    topic = Topic("T")
    consumer = client.consume(topic, subscription_name="sub")
    client.send(topic, "a", persistent=True)
    paged.answers_later = True
    client.ack(consumer, kind=AckType.POISON)
    pending = paged.topic_message_store(topic).next_subscription_messages(
        SubscriptionKey("me", "sub"), None, 9
    )
    assert len(pending) == 1
    paged.complete()
    pending = paged.topic_message_store(topic).next_subscription_messages(
        SubscriptionKey("me", "sub"), None, 9
    )
    assert pending == []


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("state", [StoreState.RUNNING, StoreState.FAILED])
def test_a_dead_letter_that_is_not_stored_is_reported_with_its_outcome(
    make_broker: type[Broker],
    paged: PagedAdapter,
    caplog: pytest.LogCaptureFixture,
    persistent: bool,
    state: StoreState,
) -> None:
    strategy = SharedDeadLetterStrategy(process_non_persistent=True)
    broker = make_broker(PolicyEntry(dead_letter_strategy=strategy), store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=persistent)
    broker.queue(Queue("ActiveMQ.DLQ"))
    paged.answers_later = True
    client.ack(consumer, kind=AckType.POISON)
    paged.current_state = state
    with caplog.at_level(logging.ERROR):
        paged.complete(JMSException("the journal has failed"))
    (text,) = [r.getMessage() for r in caplog.records]
    found = "queue://ActiveMQ.DLQ: the dead letter of message c1:1:1:1 from queue://Q could not be"
    assert text.startswith(found)
    assert "the journal has failed (hint: " in text
    is_kept = persistent and state is StoreState.FAILED
    assert ("and is lost" in text) is not is_kept
    assert ("restart the broker: then either the message is on queue://Q again" in text) is is_kept
    assert client.errors == []


def test_a_dead_letter_that_another_journal_refuses_is_reported(
    make_broker: type[Broker], paged: PagedAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    cast("Any", paged).has_several_journals = True
    broker = make_broker(store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    client.send(Q, "a", persistent=True)
    paged.answers_later = True
    client.ack(consumer, kind=AckType.POISON)
    paged.complete(JMSException("no room"))
    assert "is lost" not in caplog.text
    assert "queue://Q: the dead letter of message c1:1:1:1 could not be stored: no room" in (
        caplog.text
    )
    assert "a stored message is not removed" in caplog.text
