"""Acknowledgements, transactions and statistics of queues."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerId,
    MessageAck,
    MessageId,
    Throwable,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.policy.entry import PolicyEntry
from tests.kit.brokers.region import Broker, Client, ManualClock
from tests.kit.values import present

Q = Queue("Q")


def numbers(*values: int) -> list[str]:
    return [str(value) for value in values]


def send_all(client: Client, count: int, start: int = 1, **options: Any) -> None:
    for number in range(start, start + count):
        client.send(Q, str(number), **options)


def counters(broker: Broker) -> tuple[int, int, int, int, int]:
    s = broker.queue(Q).statistics
    return (s.enqueues, s.dispatched, s.inflight, s.dequeues, s.messages)


@pytest.mark.fact("activemq-broker Q4")
async def test_statistics(clock: ManualClock, broker: Broker, client: Client) -> None:
    tx = client.begin()
    client.send(Q, "tx", tx=tx)
    assert counters(broker) == (0, 0, 0, 0, 0)
    tx.commit(one_phase=True)
    assert counters(broker) == (1, 0, 0, 0, 1)
    consumer = client.consume(Q, prefetch=1)
    send_all(client, 2)
    assert counters(broker) == (3, 1, 1, 0, 3)
    client.ack(consumer, 0)
    assert counters(broker) == (3, 2, 1, 1, 2)
    queue = broker.queue(Q)
    assert queue.purge(client.context) == 1
    assert counters(broker) == (3, 2, 1, 2, 1)
    client.send(Q, "short", expiration=clock.time_ms() + 1)
    await clock.advance(1)
    queue.expire_messages()
    assert counters(broker) == (4, 2, 1, 3, 1)


def test_watchers_are_notified_of_each_change(broker: Broker, client: Client) -> None:
    queue = broker.queue(Q)
    seen = []
    queue.watchers.append(lambda destination: seen.append(destination.statistics.messages))
    consumer = client.consume(Q)
    send_all(client, 2)
    client.ack(consumer, 0)
    client.ack(consumer, 1)
    assert seen == [1, 2, 1, 0]


def test_a_persistent_message_is_stored_until_acknowledged(broker: Broker, client: Client) -> None:
    store = broker.region.store.queue_message_store(Q)
    consumer = client.consume(Q)
    client.send(Q, "1", persistent=True)
    client.send(Q, "2", persistent=False)
    assert store.message_count == 1
    client.ack(consumer, 0)
    assert store.message_count == 0
    client.ack(consumer, 1)
    assert broker.texts(Q) == []


@pytest.mark.fact("activemq-broker 7.1/0 DELIVERED")
def test_delivered_only_enlarges_the_window(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q, prefetch=2)
    send_all(client, 5)
    client.ack(consumer, 1, first=0, count=2, kind=AckType.DELIVERED)
    assert client.received(consumer) == numbers(1, 2, 3, 4)
    assert broker.texts(Q) == numbers(1, 2, 3, 4, 5)


@pytest.mark.fact("activemq-broker 7.1/2 STANDARD")
def test_standard_removes_a_range(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q)
    send_all(client, 6)
    client.ack(consumer, 2, first=1, count=2)
    assert broker.texts(Q) == numbers(1, 4, 5, 6)
    got = client.dispatches_of(consumer)
    client.acknowledge(
        MessageAck(
            destination=Q,
            consumer_id=consumer.consumer_id,
            ack_type=AckType.STANDARD,
            last_message_id=present(got[3].message).message_id,
            message_count=2,
        )
    )
    assert broker.texts(Q) == numbers(5, 6)
    tx = client.begin()
    client.ack(consumer, 5, first=4, count=2, tx=tx)
    assert broker.queue(Q).statistics.messages == 2
    tx.commit(one_phase=True)
    assert broker.texts(Q) == []


@pytest.mark.fact("activemq-broker 7.1/3 REDELIVERED")
def test_a_redelivered_ack_changes_nothing_but_must_match(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q, prefetch=1)
    send_all(client, 2)
    before = counters(broker)
    client.ack(consumer, 0, kind=AckType.REDELIVERED)
    assert counters(broker) == before
    with pytest.raises(JMSException, match="Could not correlate"):
        client.acknowledge(
            MessageAck(
                destination=Q,
                consumer_id=consumer.consumer_id,
                ack_type=AckType.REDELIVERED,
                last_message_id=MessageId(None, client.producer_id, 99),
                message_count=1,
            )
        )


@pytest.mark.fact("activemq-broker 7.1/4 INDIVIDUAL")
def test_an_individual_ack_covers_exactly_one_message(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q)
    send_all(client, 4)
    client.ack(consumer, 1, kind=AckType.INDIVIDUAL)
    assert broker.texts(Q) == numbers(1, 3, 4)
    tx = client.begin()
    client.ack(consumer, 3, kind=AckType.INDIVIDUAL, tx=tx)
    tx.commit(one_phase=True)
    assert broker.texts(Q) == numbers(1, 3)


@pytest.mark.fact("activemq-broker 7.1/1 POISON")
def test_poison_dead_letters_a_range_and_is_never_transacted(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)
    send_all(client, 3, persistent=True)
    cause = Throwable("java.lang.Throwable", "Delivery[7] exceeds")
    with pytest.raises(JMSException, match="Poison ack cannot be transacted"):
        client.ack(consumer, 0, kind=AckType.POISON, tx=client.begin())
    client.ack(consumer, 1, first=0, count=2, kind=AckType.POISON, cause=cause)
    assert broker.texts(Q) == ["3"]
    assert [m.type for m in broker.dead_letters] == ["1", "2"]


@pytest.mark.fact("activemq-broker 7.1/6 EXPIRED")
def test_expired_dead_letters_persistent_messages_and_removes(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)
    client.send(Q, "kept", persistent=True)
    client.send(Q, "gone", persistent=False)
    client.ack(consumer, 1, first=0, count=2, kind=AckType.EXPIRED)
    assert broker.texts(Q) == []
    assert [m.type for m in broker.dead_letters] == ["kept"]
    assert broker.queue(Q).statistics.expired == 2


@pytest.mark.fact("activemq-broker A1")
@pytest.mark.parametrize("kind", [AckType.STANDARD, AckType.EXPIRED])
def test_the_count_must_match(broker: Broker, client: Client, kind: AckType) -> None:
    consumer = client.consume(Q)
    send_all(client, 3)
    with pytest.raises(JMSException, match=r"Unmatched acknowledge: .*message count"):
        client.ack(consumer, 1, first=0, count=3, kind=kind)
    with pytest.raises(JMSException, match=r"Unmatched acknowledge: .*message count"):
        client.ack(consumer, 2, first=0, count=2, kind=kind)
    assert broker.texts(Q) == numbers(1, 2, 3)


@pytest.mark.fact("activemq-broker A1")
@pytest.mark.parametrize(("last", "count"), [(2, 2), (1, 3), (2, 4)])
def test_a_wrong_count_makes_the_transaction_rollback_only(
    broker: Broker, client: Client, last: int, count: int
) -> None:
    consumer = client.consume(Q)
    send_all(client, 4)
    tx = client.begin()
    client.send(Queue("sent"), "never", tx=tx)
    client.ack(consumer, 0, tx=tx)
    with pytest.raises(JMSException, match=r"Unmatched acknowledge: .*message count"):
        client.ack(consumer, last + 1, first=1, count=count, tx=tx)
    with pytest.raises(TransactionRolledBackException, match="rollback only"):
        tx.commit(one_phase=True)
    assert broker.texts(Q) == numbers(1, 2, 3, 4)
    assert broker.texts(Queue("sent")) == []
    tx = client.begin()
    client.ack(consumer, 3, first=0, count=4, tx=tx)
    tx.commit(one_phase=True)
    assert broker.texts(Q) == []


@pytest.mark.fact("activemq-broker A2")
def test_an_ack_before_any_dispatch_is_ignored(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q, prefetch=0)
    client.send(Q, "1")
    client.acknowledge(
        MessageAck(
            destination=Q,
            consumer_id=consumer.consumer_id,
            ack_type=AckType.STANDARD,
            last_message_id=MessageId(None, client.producer_id, 1),
            message_count=1,
        )
    )
    assert broker.texts(Q) == ["1"]
    client.pull(consumer, -1)
    assert client.received(consumer) == ["1"]


@pytest.mark.fact("activemq-broker C7")
def test_acks_that_match_nothing(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    stray = MessageAck(
        destination=Q,
        consumer_id=ConsumerId("nobody", 1, 1),
        ack_type=AckType.STANDARD,
        last_message_id=MessageId(None, client.producer_id, 1),
        message_count=1,
    )
    client.acknowledge(stray)
    assert caplog.text == ""
    client.acknowledge(stray, client.begin())
    assert "unknown consumer" in caplog.text
    consumer = client.consume(Q)
    send_all(client, 1)
    stray.consumer_id = consumer.consumer_id
    stray.last_message_id = MessageId(None, client.producer_id, 99)
    with pytest.raises(JMSException, match=r"Unmatched acknowledge: .*Could not find Message-ID"):
        client.acknowledge(stray)
    send_all(client, 1, start=2)
    assert client.received(consumer) == numbers(1, 2)


@pytest.mark.fact("openwire-encoding 12/5 UNMATCHED", "activemq-broker 7.1/5 UNMATCHED")
def test_an_unknown_ack_type_is_an_error(client: Client) -> None:
    consumer = client.consume(Q)
    send_all(client, 1)
    with pytest.raises(JMSException, match="Invalid acknowledgment"):
        client.ack(consumer, kind=AckType.UNMATCHED)


@pytest.mark.fact("activemq-broker Q18", "activemq-broker 2.1/usePrefetchExtension")
def test_the_window_grows_by_delivered_and_shrinks_by_completion(make_broker: type[Broker]) -> None:
    client = make_broker().client()
    consumer: Any = client.consume(Q, prefetch=2)
    send_all(client, 20)
    tx = client.begin()
    client.ack(consumer, 1, first=0, count=2, kind=AckType.DELIVERED)
    assert (consumer.prefetch_extension, consumer.in_flight) == (2, 4)
    client.ack(consumer, 3, first=0, count=4, tx=tx)
    tx.commit(one_phase=True)
    assert (consumer.prefetch_extension, consumer.in_flight) == (0, 2)
    tx = client.begin()
    client.ack(consumer, 4, kind=AckType.INDIVIDUAL, tx=tx)
    assert (consumer.prefetch_extension, consumer.in_flight) == (1, 3)
    tx.rollback()
    assert (consumer.prefetch_extension, consumer.in_flight) == (0, 3)
    client.ack(consumer, 4)
    assert (consumer.prefetch_extension, consumer.in_flight) == (0, 2)
    client.ack(consumer, 5, kind=AckType.DELIVERED)
    client.ack(consumer, 5, kind=AckType.POISON)
    assert (consumer.prefetch_extension, consumer.in_flight) == (0, 2)
    client.ack(consumer, 6, kind=AckType.DELIVERED)
    client.ack(consumer, 6, kind=AckType.EXPIRED)
    assert (consumer.prefetch_extension, consumer.in_flight) == (0, 2)
    client.ack(consumer, 7, kind=AckType.DELIVERED)
    client.ack(consumer, 7, kind=AckType.INDIVIDUAL)
    assert (consumer.prefetch_extension, consumer.in_flight) == (0, 2)

    for policy, prefetch in ((PolicyEntry(use_prefetch_extension=False), 2), (PolicyEntry(), 0)):
        client = make_broker(policy).client()
        consumer = client.consume(Q, prefetch=prefetch)
        send_all(client, 5)
        client.pull(consumer, 0)
        got = len(client.received(consumer))
        client.ack(consumer, kind=AckType.DELIVERED)
        assert consumer.prefetch_extension == 0
        assert len(client.received(consumer)) == got  # a transaction stalls here


# transactions
@pytest.mark.fact("activemq-broker Q2")
def test_a_message_is_stored_before_it_is_dispatched(broker: Broker, client: Client) -> None:
    store = broker.region.store.queue_message_store(Q)
    seen = []
    queue = broker.queue(Q)
    client.on_dispatch = lambda d: seen.append(("dispatch", store.message_count))
    queue.watchers.append(lambda q: seen.append(("counted", q.statistics.enqueues)))
    consumer = client.consume(Q)
    assert client.send(Q, "1", persistent=True) is COMPLETED  # the response may go
    assert seen == [("dispatch", 1), ("counted", 1)]
    tx = client.begin()
    client.send(Q, "2", persistent=True, tx=tx)
    assert (store.message_count, len(seen)) == (1, 2)
    tx.commit(one_phase=True)
    assert seen[2:] == [("dispatch", 2), ("counted", 2)]
    assert client.received(consumer) == numbers(1, 2)


@pytest.mark.fact("activemq-broker X2")
def test_messages_become_visible_in_commit_order(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q)
    client.send(Q, "old", persistent=True)
    tx = client.begin()
    client.send(Q, "tx1", persistent=True, tx=tx)
    client.ack(consumer, 0, tx=tx)
    client.send(Q, "plain", persistent=True)
    client.send(Q, "tx2", persistent=True, tx=tx)
    assert client.received(consumer) == ["old", "plain"]
    assert broker.region.store.queue_message_store(Q).message_count == 2
    tx.commit(one_phase=True)
    assert client.received(consumer) == ["old", "plain", "tx1", "tx2"]
    assert broker.texts(Q) == ["plain", "tx1", "tx2"]
    assert broker.region.store.queue_message_store(Q).message_count == 3


@pytest.mark.fact("activemq-broker X3")
def test_rollback_forgets_sends_and_undoes_acks(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q, prefetch=2)
    send_all(client, 3, persistent=True)
    used = broker.region.system_usage.memory.used
    tx = client.begin()
    client.send(Q, "never", tx=tx, persistent=True)
    client.ack(consumer, 1, first=0, count=2, tx=tx)
    tx.rollback()
    assert broker.texts(Q) == numbers(1, 2, 3)
    assert broker.region.system_usage.memory.used == used
    assert client.received(consumer) == numbers(1, 2)  # still the consumer's: it redelivers itself
    tx = client.begin()
    client.ack(consumer, 1, first=0, count=2, tx=tx)
    client.close(consumer)
    other = client.consume(Q)
    tx.rollback()
    assert client.received(other) == numbers(3, 1, 2)


def test_a_lost_consumer_in_a_transaction_returns_its_messages_in_order(broker: Broker) -> None:
    lost, alive = broker.client(), broker.client()
    consumer = lost.consume(Q, prefetch=3)
    send_all(lost, 3)
    tx = lost.begin()
    lost.ack(consumer, 0, tx=tx)
    lost.close(consumer)
    other = alive.consume(Q)
    assert alive.received(other) == []
    tx.rollback()
    assert alive.received(other) == numbers(1, 2, 3)
    assert [d.redelivery_counter for d in alive.dispatches] == [1, 1, 1]


def test_a_commit_after_the_consumer_was_closed_takes_effect(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)
    send_all(client, 3)
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    client.close(consumer, last_delivered=-1)
    tx.commit(one_phase=True)
    other = client.consume(Q)
    assert client.received(other) == numbers(2, 3)


def test_what_an_xa_branch_acknowledged_stays_hidden_until_it_ends(
    broker: Broker, client: Client
) -> None:
    consumer = client.consume(Q)
    send_all(client, 3)
    tx = client.begin()
    tx.xid = XATransactionId(1, b"g", b"b")
    client.ack(consumer, 0, tx=tx)
    client.close(consumer, last_delivered=-1)
    other = client.consume(Q)
    assert client.received(other) == numbers(2, 3)
    tx.rollback()
    assert client.received(other) == numbers(2, 3, 1)


def test_repeated_acks_in_one_transaction_count_once(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q)
    send_all(client, 3)
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    client.ack(consumer, 2, first=0, count=3, tx=tx)
    with pytest.raises(JMSException, match="acknowledged before"):
        client.ack(consumer, 0, kind=AckType.INDIVIDUAL, tx=tx)
    tx.commit(one_phase=True)
    assert broker.texts(Q) == []
    assert consumer.dequeue_count == 3


@pytest.mark.parametrize(("enabled", "expected"), [(True, ["a"]), (False, ["a", "a"])])
def test_a_queue_drops_duplicate_ids(
    make_broker: type[Broker], enabled: bool, expected: Any
) -> None:
    client = make_broker(PolicyEntry(enable_audit=enabled)).client()
    consumer = client.consume(Q)
    first = client.message(Q, "a", persistent=True)
    client.send(Q, "", message=first)
    client.ack(consumer, 0)
    again = client.message(Q, "a", persistent=True)
    again.message_id = first.message_id
    assert client.send(Q, "", message=again) is COMPLETED
    assert client.received(consumer) == expected


# consumers that leave
@pytest.mark.fact("activemq-broker Q29")
@pytest.mark.parametrize(
    ("last", "counts"),
    [(-2, [1, 1, 1]), (-1, [0, 0, 0]), ("first", [1, 0, 0]), ("second", [1, 1, 0])],
)
def test_redelivery_counts_when_a_consumer_leaves(client: Client, last: Any, counts: Any) -> None:
    consumer = client.consume(Q)
    send_all(client, 3)
    sequence = {
        name: present(present(d.message).message_id).broker_sequence_id
        for name, d in zip(("first", "second"), client.dispatches, strict=False)
    }
    client.close(consumer, sequence.get(last, last))
    other = client.consume(Q)
    assert [d.redelivery_counter for d in client.dispatches_of(other)] == counts
    client.close(other, -2)
    third = client.consume(Q)
    first, *behind = counts  # the first is the one that was handled: only it is counted again
    assert [d.redelivery_counter for d in client.dispatches_of(third)] == [
        first + 1,
        *(max(count, 1) for count in behind),
    ]


def test_removing_an_unknown_consumer_is_ignored(client: Client) -> None:
    consumer = client.consume(Q)
    client.close(consumer)
    client.close(consumer)


def test_a_consumer_of_several_queues_acknowledges_each_copy_separately(
    broker: Broker, client: Client
) -> None:
    one, two = Queue("one"), Queue("two")
    broker.queue(one)
    broker.queue(two)
    consumer = client.consume(Queue("one,two"))
    message = client.message(one, "copy")
    twin = client.message(two, "copy")
    twin.message_id = MessageId(
        None,
        present(message.message_id).producer_id,
        present(message.message_id).producer_sequence_id,
    )
    client.send(one, "", message=message)
    client.send(two, "", message=twin)
    assert client.received(consumer) == ["copy", "copy"]
    client.ack(consumer, 1, kind=AckType.INDIVIDUAL)
    assert (broker.texts(one), broker.texts(two)) == (["copy"], [])
    client.ack(consumer, 0)
    assert broker.texts(one) == []
