"""Queues with more messages than fit in memory: paged in from the store."""

from __future__ import annotations

import logging
from typing import Any, cast

import anyio
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import AckType, TransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import NO_TRANSACTION, Position
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.cursor.memory import PAGING_RETRY_DELAY
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.store.memory import MemoryTransactionStore
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

Q = Queue("Q")
SIZE = 1100  # a short message with its overhead


@pytest.fixture
def tight(make_broker: type[Broker], paged: PagedAdapter) -> Broker:
    """A queue that keeps about 14 messages in memory."""
    return make_broker(PolicyEntry(memory_limit=20 * SIZE, max_page_size=5), store=paged)


def texts(first: int, last: int) -> list[str]:
    return [str(n) for n in range(first, last + 1)]


def send(client: Client, first: int, last: int, **options: Any) -> None:
    for n in range(first, last + 1):
        client.send(Q, str(n), persistent=True, **options)


def drain(client: Client, consumer: Subscription) -> Any:
    """Acknowledge what comes, one by one, until nothing comes."""
    return drain_from(client, consumer, 0)


def drain_from(client: Client, consumer: Subscription, done: Any) -> Any:
    while done < len(client.received(consumer)):
        client.ack(consumer, done)
        done += 1
    return client.received(consumer)


def test_memory_is_bounded_and_no_message_is_lost_or_duplicated(tight: Broker) -> None:
    client = tight.client()
    queue = tight.queue(Q)
    send(client, 1, 500)
    assert queue.statistics.messages == 500
    assert len(queue.references) <= 15
    assert queue.memory.used < 20 * SIZE
    assert not queue.memory.is_full
    assert queue.dispatcher.pending_count == 500
    consumer = client.consume(Q, prefetch=3)
    assert drain(client, consumer) == texts(1, 500)
    assert (queue.statistics.messages, queue.memory.used, len(queue.references)) == (0, 0, 0)
    assert present(queue.store).message_count == 0
    # empty: the cache is on again, what comes is handed on from memory
    paged = tight.store.paged
    send(client, 501, 503)
    assert client.received(consumer)[500:] == texts(501, 503)
    assert tight.store.paged == paged


def test_messages_that_arrive_while_the_queue_is_drained(tight: Broker) -> None:
    client = tight.client()
    send(client, 1, 40)
    consumer = client.consume(Q, prefetch=2)
    for n in range(200):
        client.ack(consumer, n)
        if n < 160:
            client.send(Q, str(41 + n), persistent=True)
    assert client.received(consumer) == texts(1, 200)
    assert tight.queue(Q).statistics.messages == 0


def test_unacknowledged_messages_are_not_paged_in_again(tight: Broker) -> None:
    client, other = tight.client(), tight.client()
    send(client, 1, 60)
    consumer = client.consume(Q, prefetch=5)
    assert client.received(consumer) == texts(1, 5)
    helper = other.consume(Q, prefetch=8)
    assert other.received(helper) == texts(6, 13)
    client.close(consumer)
    assert sorted(drain(other, helper), key=int) == texts(1, 60)
    assert tight.queue(Q).statistics.messages == 0


def test_unacknowledged_messages_leave_memory_to_others(tight: Broker) -> None:
    client = tight.client()
    send(client, 1, 60)
    queue = tight.queue(Q)
    consumer = client.consume(Q, prefetch=1000)
    assert 14 <= len(client.received(consumer)) <= 20
    assert queue.memory.used <= 20 * SIZE
    assert drain(client, consumer) == texts(1, 60)
    assert queue.memory.used == 0


@pytest.mark.fact("activemq-broker 2.1/useCache")
def test_a_small_cache_with_use_cache_off(make_broker: type[Broker], paged: PagedAdapter) -> None:
    assert PolicyEntry().use_cache
    broker = make_broker(PolicyEntry(use_cache=False, max_page_size=5), store=paged)
    client = broker.client()
    send(client, 1, 50)
    assert len(broker.queue(Q).references) == 0
    assert drain(client, client.consume(Q, prefetch=1)) == texts(1, 50)


@pytest.mark.fact("activemq-broker 2.1/useCache", "activemq-broker 2.1/cursorMemoryHighWaterMark")
@pytest.mark.parametrize(("mark", "kept"), [(70, 14), (40, 8), (100, 20), (110, 22)])
def test_memory_is_used_up_to_the_high_water_mark(
    make_broker: type[Broker], paged: PagedAdapter, mark: int, kept: int
) -> None:
    assert PolicyEntry().cursor_memory_high_water_mark == 70
    policy = PolicyEntry(
        memory_limit=20 * SIZE, cursor_memory_high_water_mark=mark, producer_flow_control=False
    )
    broker = make_broker(policy, store=paged)
    client = broker.client()
    send(client, 1, 60)
    held = len(broker.queue(Q).references)
    assert kept <= held <= kept + 2
    assert drain(client, client.consume(Q, prefetch=1)) == texts(1, 60)


@pytest.mark.fact("activemq-broker M11")
def test_an_idle_queue_may_keep_others_from_caching(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    usage = SystemUsage(20 * SIZE)
    broker = make_broker(PolicyEntry(max_page_size=5), usage=usage, store=paged)
    client = broker.client()
    send(client, 1, 100)
    other = Queue("other")
    for n in range(1, 21):
        client.send(other, str(n), persistent=True)
    assert len(broker.queue(other).references) == 0
    consumer = client.consume(other, prefetch=1)
    assert drain(client, consumer) == texts(1, 20)
    in_memory = make_broker(usage=SystemUsage(20 * SIZE)).client()
    answers = [in_memory.send(Q, str(n), persistent=True) for n in range(1, 30)]
    assert not answers[-1].done
    there = in_memory.consume(other)
    assert not in_memory.send(other, "stuck", persistent=True).done
    assert in_memory.received(there) == []


def test_after_a_restart_messages_are_paged_in_on_demand(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    before = make_broker(store=paged).client()
    send(before, 1, 300)
    broker = make_broker(PolicyEntry(max_page_size=5), store=paged)
    client = broker.client("later")
    queue = broker.queue(Q)
    assert (queue.statistics.messages, len(queue.references), paged.paged) == (300, 0, 0)
    client.send(Q, "301", persistent=True)
    consumer = client.consume(Q, prefetch=1)
    assert len(queue.references) < 12
    assert drain(client, consumer) == texts(1, 301)


def test_a_message_numbered_before_paging_and_visible_after_it(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    """Its transaction is committed while others are paged in behind it."""
    late = Completion()

    class AnsweringLate(MemoryTransactionStore):
        def commit(self, xid: TransactionId, prepared: bool) -> Completion:
            super().commit(xid, prepared)
            return late

    paged.transactions = AnsweringLate()
    broker = make_broker(PolicyEntry(memory_limit=10 * SIZE, max_page_size=5), store=paged)
    client, sender = broker.client(), broker.client()
    tx = sender.begin()
    sender.send(Q, "late", persistent=True, tx=tx)
    tx.commit(one_phase=True)
    send(client, 1, 30)
    consumer = client.consume(Q, prefetch=1)
    for n in range(12):
        client.ack(consumer, n)
    late.complete()
    for n in range(12, 31):
        client.ack(consumer, n)
    got = client.received(consumer)
    assert sorted(map(str, got)) == sorted([*texts(1, 30), "late"])
    assert [text for text in got if text != "late"] == texts(1, 30)
    assert broker.queue(Q).statistics.messages == 0


@pytest.mark.parametrize("prefetch", [1, 7])
async def test_priorities(make_broker: type[Broker], paged: PagedAdapter, prefetch: int) -> None:
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5, prioritized_messages=True)
    broker = make_broker(policy, store=paged)
    client = broker.client()
    for n in range(200):
        client.send(Q, str(n), persistent=True, priority=n % 10)
    queue = broker.queue(Q)
    assert queue.memory.used <= 20 * SIZE
    consumer = client.consume(Q, prefetch=prefetch)
    for n in range(50):
        client.ack(consumer, n)
    client.send(Q, "urgent", persistent=True, priority=9)
    got = drain_from(client, consumer, 50)
    places = {text: place for place, text in enumerate(got)}
    assert places["urgent"] <= 51 + prefetch + 10  # behind what was paged in and offered only
    del got[places["urgent"]]
    assert sorted(got, key=int) == texts(0, 199)
    behind = got[prefetch + 5 :]
    assert [int(t) % 10 for t in behind] == sorted((int(t) % 10 for t in behind), reverse=True)
    for level in range(10):
        same = [int(t) for t in got if int(t) % 10 == level]
        assert same == sorted(same)
    assert (queue.statistics.messages, len(present(queue.contents.excluded))) == (0, 0)
    await broker.region.stop()


# looking at what is outside
def test_browsing_reads_all_messages_page_by_page(tight: Broker) -> None:
    client, looker = tight.client(), tight.client()
    send(client, 1, 100)
    browser = looker.consume(Q, browser=True, prefetch=1000)
    assert looker.received(browser) == [*texts(1, 100), None]
    queue = tight.queue(Q)
    assert len(queue.references) <= 15
    assert [r.message.type for r in queue.browse()] == texts(1, 100)
    limited = tight.client()
    first = limited.consume(Q, browser=True, prefetch=2)
    assert limited.received(first) == ["1", "2"]


def test_a_browser_continues_as_its_window_has_space(tight: Broker) -> None:
    client, looker = tight.client(), tight.client()
    send(client, 1, 100)
    browser = looker.consume(Q, browser=True, prefetch=20)
    paged = tight.store.paged
    assert paged <= 10
    looker.ack(browser, 19, first=0, count=20)
    assert looker.received(browser) == texts(1, 40)
    consumer = client.consume(Q, prefetch=1)
    drain(client, consumer)
    looker.ack(browser, 39, first=20, count=20)
    assert looker.received(browser)[-1] is None


async def test_a_browser_with_few_matches_yields_to_other_tasks(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(PolicyEntry(memory_limit=20 * SIZE, max_browse_page_size=2), store=paged)
    client, looker = broker.client(), broker.client()
    send(client, 1, 6000)
    for n in (1, 2, 3):
        client.send(Q, "wanted", persistent=True, priority=n)
    looker.consume(Q, browser=True, selector="JMSType = 'wanted'")
    assert looker.dispatches == []
    await anyio.wait_all_tasks_blocked()
    assert [d.message and d.message.priority for d in looker.dispatches] == [1, 2, None]
    gone = looker.consume(Q, browser=True, selector="JMSType = 'wanted'")
    looker.close(gone)
    await anyio.wait_all_tasks_blocked()
    assert looker.dispatches_of(gone) == []


def test_removing_and_finding_single_messages(tight: Broker) -> None:
    client = tight.client()
    send(client, 1, 60)
    queue = tight.queue(Q)
    near, far = queue.browse()[3], queue.browse()[50]
    assert queue.get_message(near.message_id) is near
    found = queue.get_message(far.message_id)
    assert found is not None
    assert (found.position, found.message.type) == (Position(0, 51), "51")
    assert queue.remove_message(client.context, found)
    assert not queue.remove_message(client.context, found)
    assert queue.remove_message(client.context, near)
    assert not queue.remove_message(client.context, near)
    assert queue.get_message(far.message_id) is None
    assert (queue.statistics.messages, present(queue.store).message_count) == (58, 58)
    expected = [t for t in texts(1, 60) if t not in {"4", "51"}]
    assert drain(client, client.consume(Q, prefetch=5)) == expected


def test_a_failed_removal_of_a_paged_out_message_changes_nothing(tight: Broker) -> None:
    client = tight.client()
    send(client, 1, 60)
    queue = tight.queue(Q)
    far = queue.browse()[50]
    tight.store.broken.add("remove_message")
    with pytest.raises(JMSException, match="remove_message failed"):
        queue.remove_message(client.context, far)
    tight.store.broken.clear()
    assert queue.statistics.messages == 60
    assert drain(client, client.consume(Q, prefetch=5)) == texts(1, 60)


def test_purging_keeps_dispatched_messages(tight: Broker) -> None:
    client = tight.client()
    send(client, 1, 100)
    consumer = client.consume(Q, prefetch=4)
    queue = tight.queue(Q)
    queue.pause()
    assert queue.purge(client.context) == 96
    assert (queue.statistics.messages, present(queue.store).message_count) == (4, 4)
    queue.resume()
    send(client, 101, 110)
    drain(client, consumer)
    assert client.received(consumer) == [*texts(1, 4), *texts(101, 110)]
    assert queue.purge(client.context) == 0


async def test_the_expiry_scan_reads_one_page(
    clock: ManualClock, make_broker: type[Broker], paged: PagedAdapter
) -> None:
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5, max_expire_page_size=30)
    broker = make_broker(policy, store=paged)
    client = broker.client()
    send(client, 1, 100, expiration=clock.time_ms() + 1000)
    await clock.advance(2)
    queue = broker.queue(Q)
    queue.expire_messages()
    assert (queue.statistics.expired, queue.statistics.messages) == (30, 70)
    assert client.received(client.consume(Q)) == []
    assert (queue.statistics.expired, queue.statistics.messages) == (100, 0)
    assert present(queue.store).message_count == 0
    assert len(broker.dead_letters) == 100


def test_removing_the_queue(tight: Broker) -> None:
    client = tight.client()
    send(client, 1, 100)
    queue = tight.queue(Q)
    tight.region.remove_destination(client.context, Q, 0)
    assert (queue.statistics.messages, tight.region.system_usage.memory.used) == (0, 0)
    assert tight.queue(Q).statistics.messages == 0


# failures
async def test_a_failed_page_in_is_retried(tight: Broker, caplog: pytest.LogCaptureFixture) -> None:
    client = tight.client()
    send(client, 1, 50)
    tight.store.broken.add("next_messages")
    consumer = client.consume(Q, prefetch=5)
    with caplog.at_level(logging.CRITICAL):
        for n in range(14):
            client.ack(consumer, n)
    assert len(client.received(consumer)) < 20
    tight.store.broken.clear()
    tight.queue(Q).expire_messages()  # or any other occasion
    assert drain_from(client, consumer, 14) == texts(1, 50)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("urgent", ["in memory", "in the store"])
async def test_what_is_in_memory_is_dispatched_while_the_store_cannot_be_read(
    clock: ManualClock,
    make_broker: type[Broker],
    paged: PagedAdapter,
    caplog: pytest.LogCaptureFixture,
    prioritized: bool,
    urgent: str,
) -> None:
    policy = PolicyEntry(memory_limit=20 * SIZE, max_page_size=5, prioritized_messages=prioritized)
    broker = make_broker(policy, store=paged)
    client = broker.client()
    first, second = (9, 4) if urgent == "in memory" else (4, 9)
    send(client, 1, 10, priority=first)
    send(client, 11, 40, priority=second)
    in_memory = len(broker.queue(Q).references)
    assert 10 < in_memory < 20
    paged.broken.add("next_messages")
    with caplog.at_level(logging.ERROR):
        consumer = client.consume(Q, prefetch=100)
        assert len(client.received(consumer)) == in_memory, "without any time passing"
        client.send(Q, "not stored")
        for done in range(in_memory):
            client.ack(consumer, done)
        assert client.received(consumer)[in_memory:] == ["not stored"]
        errors = [record.getMessage() for record in caplog.records]
        assert len(errors) == len(set(errors)), "each is logged once, not at each attempt"
        paged.broken.clear()
        await clock.advance(PAGING_RETRY_DELAY)
    received = drain_from(client, consumer, in_memory)
    assert sorted(received) == sorted([*texts(1, 40), "not stored"])


def test_a_write_that_fails_at_once(make_broker: type[Broker], paged: PagedAdapter) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    message = client.message(Q, "1", persistent=True)
    paged.broken.add("add_message")
    with pytest.raises(JMSException, match="add_message failed"):
        client.send(Q, "1", message=message)
    assert broker.region.system_usage.memory.used == 0
    paged.broken.clear()
    client.send(Q, "1", message=message)
    assert broker.texts(Q) == ["1"]


@pytest.mark.parametrize("concurrent", [True, False])
def test_a_write_that_fails_later(
    make_broker: type[Broker], paged: PagedAdapter, concurrent: bool
) -> None:
    paged.answers_later = True
    paged.concurrent_store_and_dispatch_queues = concurrent
    broker = make_broker(store=paged)
    client = broker.client()
    answer = client.send(Q, "1", persistent=True)
    paged.complete(JMSException("no"))
    assert str(answer.error) == "no"
    assert (broker.texts(Q), broker.region.system_usage.memory.used) == ([], 0)
    client.send(Q, "2", persistent=True)
    assert client.received(client.consume(Q)) == (["2"] if concurrent else [])
    paged.complete()
    assert broker.texts(Q) == ["2"]


@pytest.mark.parametrize("concurrent", [True, False])
def test_a_sender_without_a_response_does_not_wait_for_the_store(
    make_broker: type[Broker],
    paged: PagedAdapter,
    concurrent: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    paged.answers_later = True
    paged.concurrent_store_and_dispatch_queues = concurrent
    broker = make_broker(store=paged)
    client = broker.client()
    for text in ("1", "2"):
        message = client.message(Q, text, persistent=True)
        message.response_required = False
        assert client.send(Q, text, message=message) is COMPLETED
    paged.complete()
    with caplog.at_level(logging.ERROR):
        paged.complete(JMSException("no room"))
    assert broker.texts(Q) == ["1"]
    assert "queue://Q: message c1:1:1:2 is lost: no room" in caplog.text
    assert list(map(str, client.errors)) == ["no room"]


@pytest.mark.fact("activemq-broker Q2")
def test_without_concurrent_dispatch_messages_are_stored_first(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    paged.answers_later = True
    paged.concurrent_store_and_dispatch_queues = False
    broker = make_broker(store=paged)
    client = broker.client()
    consumer = client.consume(Q)
    first = client.send(Q, "1", persistent=True)
    client.send(Q, "2", persistent=True)
    client.send(Q, "3")  # not persistent, and behind the others all the same
    assert client.received(consumer) == []
    assert (broker.queue(Q).statistics.enqueues, first.done) == (0, False)
    order: list[object] = []
    broker.queue(Q).watchers.append(lambda queue: order.append(queue.statistics.enqueues))
    first.then(lambda done: order.append("answer"))
    paged.complete()
    assert client.received(consumer) == ["1"]
    assert order == [1, "answer"]
    paged.complete()
    assert client.received(consumer) == ["1", "2", "3"]
    tx = client.begin()
    client.send(Q, "4", persistent=True, tx=tx)
    assert client.received(consumer) == ["1", "2", "3"]
    tx.commit(one_phase=True)
    assert client.received(consumer) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("kind", [AckType.STANDARD, AckType.INDIVIDUAL])
def test_a_removal_that_fails(
    make_broker: type[Broker], paged: PagedAdapter, kind: AckType
) -> None:
    broker = make_broker(store=paged)
    client, other = broker.client(), broker.client()
    consumer = client.consume(Q)
    send(client, 1, 3)
    paged.broken.add("remove_message")
    with pytest.raises(JMSException, match="remove_message failed"):
        client.ack(consumer, 0, kind=kind)
    queue = broker.queue(Q)
    assert (queue.statistics.messages, queue.statistics.inflight) == (3, 3)
    paged.broken.clear()
    client.ack(consumer, 1, first=0, count=2)
    assert queue.statistics.messages == 1
    paged.answers_later = True
    client.ack(consumer, 2, kind=kind)
    assert queue.statistics.messages == 0
    paged.complete(JMSException("later"))
    assert (queue.statistics.messages, queue.statistics.dequeues) == (1, 2)
    assert client.received(consumer) == ["1", "2", "3", "3"]
    assert client.dispatches[-1].redelivery_counter == 1
    client.close(consumer, -1)
    assert other.received(other.consume(Q)) == ["3"]


@pytest.mark.fact("activemq-persistence S6")
def test_a_duplicate_of_a_stored_message_is_dropped(
    make_broker: type[Broker], paged: PagedAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(PolicyEntry(enable_audit=False), store=paged)
    client = broker.client()
    message = client.message(Q, "1", persistent=True)
    assert client.send(Q, "1", message=message) is COMPLETED
    with caplog.at_level(logging.WARNING):
        assert client.send(Q, "1", message=message) is COMPLETED
        tx = client.begin()
        client.send(Q, "1", message=message, tx=tx)
        tx.commit(one_phase=True)
    assert caplog.text.count("the duplicate is dropped") == 2
    queue = broker.queue(Q)
    assert broker.texts(Q) == ["1"]
    assert (queue.statistics.messages, queue.statistics.enqueues) == (1, 1)
    client.send(Q, "a", persistent=True, properties={"_AMQ_DUPL_ID": "x"})
    client.send(Q, "b", persistent=True, properties={"_AMQ_DUPL_ID": "x"})
    assert broker.texts(Q) == ["1", "a"]
    assert queue.memory.used == sum(r.size for r in queue.references)


@pytest.mark.fact("activemq-broker 2.1/persistJMSRedelivered")
def test_persist_jms_redelivered(make_broker: type[Broker], paged: PagedAdapter) -> None:
    assert PolicyEntry().persist_jms_redelivered is False
    broker = make_broker(PolicyEntry(persist_jms_redelivered=True), store=paged)
    client = broker.client()
    send(client, 1, 2)
    client.consume(Q, prefetch=1)
    assert client.dispatches[0].redelivery_counter == 0
    again = make_broker(store=paged).client()
    again.consume(Q)
    assert [d.redelivery_counter for d in again.dispatches] == [1, 0]
    # without it nobody knows after a restart, and topics never do
    third = make_broker(store=paged).client()
    third.consume(Q)
    assert [d.redelivery_counter for d in third.dispatches] == [1, 0]


# prepared transactions from before the start
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("place", [2, 40])
def test_messages_acknowledged_by_a_recovered_transaction(
    make_broker: type[Broker], paged: PagedAdapter, committed: bool, place: int
) -> None:
    send(make_broker(store=paged).client(), 1, 50)
    broker = make_broker(PolicyEntry(memory_limit=20 * SIZE, max_page_size=5), store=paged)
    client = broker.client()
    queue = broker.queue(Q)
    stored = present(queue.store).next_messages(Position(0, place - 1), 1)[0]
    entry = cast("Any", queue.store)._entries[stored.message.message_id]
    entry.is_visible = False  # as the store does for such messages
    hidden = queue.hide(stored, None)
    assert queue.statistics.messages == 49
    consumer = client.consume(Q, prefetch=3)
    others = [t for t in texts(1, 50) if t != str(place)]
    if committed:
        present(queue.store).remove_message(NO_TRANSACTION, hidden)
        queue.forget_hidden(hidden, None)
        assert drain(client, consumer) == others
    else:
        entry.is_visible = True
        queue.restore(hidden, None)
        assert sorted(drain(client, consumer), key=int) == texts(1, 50)
    assert (queue.statistics.messages, queue.memory.used) == (0, 0)


def test_a_message_of_a_recovered_transaction_is_visible_after_the_commit(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    broker = make_broker(store=paged)
    client = broker.client()
    queue = broker.queue(Q)
    reference = queue.reference_to(client.message(Q, "sent", persistent=True))
    present(queue.store).add_message(NO_TRANSACTION, reference)
    consumer = client.consume(Q)
    queue.publish(reference)
    assert client.received(consumer) == ["sent"]
    client.ack(consumer)
    assert queue.memory.used == 0


def test_memory_that_a_full_consumer_frees_is_used_for_the_others(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    policy = PolicyEntry(memory_limit=5000, max_page_size=1, producer_flow_control=False)
    client = make_broker(policy, store=paged).client()
    large = client.message(Q, "1", persistent=True)
    large.content = bytes(5000)
    client.send(Q, "1", message=large)
    for text in ("2", "3"):
        client.send(Q, text, persistent=True)
    pulling = client.consume(Q, prefetch=0)
    client.pull(pulling, 0)
    assert client.received(pulling) == ["1"]
    waiting = client.consume(Q)
    assert client.received(waiting) == []
    client.ack(pulling)
    assert client.received(waiting) == ["2", "3"]
