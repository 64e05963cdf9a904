"""Messages are sent only after the store has marked them as redelivered."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import AckType
from pyjms_broker.api.completion import wait_for
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from tests.kit.brokers.region import Broker, ManualClock, PagedAdapter
from tests.kit.values import present

Q, R = Queue("Q.marked"), Queue("Q.plain")
POLICY = PolicyEntry(destination=Q, persist_jms_redelivered=True)


@pytest.fixture
def stage(make_broker: type[Broker], paged: PagedAdapter) -> Broker:
    """A broker whose store has three messages, and completes its calls later from now on."""
    broker = make_broker(POLICY, store=paged)
    client = broker.client()
    for text in "123":
        client.send(Q, text, persistent=True)
    paged.answers_later = True
    return broker


def stored(adapter: PagedAdapter) -> Any:
    page = adapter.queue_message_store(Q).next_messages(None, 99)
    return [(m.message.type, m.message.redelivery_counter) for m in page]


@pytest.mark.fact("activemq-broker 2.1/persistJMSRedelivered")
def test_messages_are_sent_once_the_store_has_marked_them(
    stage: Broker, paged: PagedAdapter
) -> None:
    client = stage.client()
    consumer = client.consume(Q, prefetch=2)
    assert client.received(consumer) == []
    assert len(paged.unanswered) == 2  # the prefetch window has room for two
    paged.unanswered[1].complete()
    assert client.received(consumer) == []  # in dispatch order
    paged.unanswered[0].complete()
    assert client.received(consumer) == ["1", "2"]
    assert [d.redelivery_counter for d in client.dispatches] == [0, 0]
    assert stored(paged) == [("1", 1), ("2", 1), ("3", 0)]
    paged.unanswered.clear()
    paged.answers_later = False
    client.ack(consumer, 1, first=0, count=2)
    assert client.received(consumer) == ["1", "2", "3"]
    assert stage.texts(Q) == ["3"]


def test_an_unmarked_message_waits_for_earlier_ones(stage: Broker, paged: PagedAdapter) -> None:
    client = stage.client()
    consumer = client.consume(Queue("Q.>"))
    client.send(Q, "4")
    client.send(R, "5", persistent=False)
    assert client.received(consumer) == []
    for waiting in tuple(paged.unanswered):
        waiting.complete()
    assert client.received(consumer) == ["1", "2", "3", "4", "5"]
    client.send(R, "6")
    assert client.received(consumer)[5:] == ["6"]
    assert stored(paged) == [("1", 1), ("2", 1), ("3", 1)]


def test_a_redelivered_message_is_not_marked_again(stage: Broker, paged: PagedAdapter) -> None:
    first, second = stage.client(), stage.client()
    consumer = first.consume(Q, prefetch=1)
    paged.complete()
    first.ack(consumer, kind=AckType.DELIVERED)
    assert len(paged.unanswered) == 1  # of the second message
    first.close(
        consumer, present(present(first.dispatches[0].message).message_id).broker_sequence_id
    )
    again = second.consume(Q, prefetch=1)
    assert [d.redelivery_counter for d in second.dispatches] == [1]
    assert len(paged.unanswered) == 1
    assert second.received(again) == ["1"]


def test_messages_never_sent_to_a_closed_consumer_are_not_redelivered(
    stage: Broker, paged: PagedAdapter
) -> None:
    closed, other = stage.client(), stage.client()
    consumer = closed.consume(Q)
    paged.complete()
    assert closed.received(consumer) == ["1"]
    closed.close(consumer)  # it may have handled the message that it got
    open_marks, paged.unanswered = paged.unanswered, []
    next_one = other.consume(Q)
    for waiting in (*open_marks, *paged.unanswered):
        waiting.complete()
    assert closed.received(consumer) == ["1"]
    assert other.received(next_one) == ["1", "2", "3"]
    assert [d.redelivery_counter for d in other.dispatches] == [1, 0, 0]
    assert stage.queue(Q).statistics.inflight == 3


def test_a_pull_gets_one_message(stage: Broker, paged: PagedAdapter) -> None:
    client = stage.client()
    consumer = client.consume(Q, prefetch=0)
    client.pull(consumer, -1)
    assert client.received(consumer) == []
    assert len(paged.unanswered) == 1
    paged.complete()
    assert client.received(consumer) == ["1"]


def test_a_removed_queue_sends_nothing_more(stage: Broker, paged: PagedAdapter) -> None:
    client = stage.client()
    consumer = client.consume(Q)
    stage.region.remove_destination(stage.region.context, Q, 1)
    for waiting in paged.unanswered:
        waiting.complete()
    assert client.received(consumer) == []


@pytest.mark.parametrize("raises", [False, True])
async def test_a_failed_mark_is_retried(
    stage: Broker,
    paged: PagedAdapter,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    raises: bool,
) -> None:
    client = stage.client()
    paged.broken = {"update_message"} if raises else set()
    with caplog.at_level(logging.ERROR):
        consumer = client.consume(Q)
        for waiting in paged.unanswered:
            waiting.complete(JMSException("not now"))
    assert caplog.text.count("failed to mark messages as redelivered") == 1
    paged.unanswered.clear()
    assert client.received(consumer) == []
    await clock.advance(5)
    assert client.received(consumer) == []
    if raises:
        paged.broken.clear()
        await clock.advance(5)
    assert len(paged.unanswered) == 3
    for waiting in paged.unanswered:
        waiting.complete()
    assert client.received(consumer) == ["1", "2", "3"]
    await clock.advance(5)
    assert client.received(consumer) == ["1", "2", "3"]


async def test_marks_are_not_retried_after_the_broker_has_stopped(
    stage: Broker, paged: PagedAdapter, clock: ManualClock
) -> None:
    client = stage.client()
    paged.broken = {"update_message"}
    consumer = client.consume(Q)
    await anyio.wait_all_tasks_blocked()
    await stage.region.stop()
    paged.broken.clear()
    await clock.advance(10)
    assert (client.received(consumer), paged.unanswered) == ([], [])


async def test_the_journal_is_synced_before_the_message_is_sent(
    make_broker: type[Broker], tmp_path: Path
) -> None:
    store = KahaDBPersistenceAdapter(tmp_path)
    await store.start()
    broker = make_broker(POLICY, store=store)
    client = broker.client()
    client.send(Q, "1", persistent=True)
    await store.checkpoint()
    seen = []

    def record(dispatch: Any) -> None:
        seen.append((store.journal.syncs > before, store.journal.synced >= store.journal.written))

    client.on_dispatch = record
    before = store.journal.syncs
    client.consume(Q)
    await wait_for(store.journal.barrier(sync=True))
    assert seen == [(True, True)]
    await broker.region.stop()
    await store.stop()
