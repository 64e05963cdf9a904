"""A database that refuses, goes away, comes back, or is another's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import Topic
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.region.region_broker import StoreCapabilities
from pyjms_broker.store.api import StoredSubscription, StoreState
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter, load
from pyjms_broker.store.jdbc.database import (
    Database,
    DatabaseTakenException,
    DatabaseUnavailableException,
)
from pyjms_broker.store.jdbc.operations import AddContainer, Unit
from pyjms_broker.store.jdbc.schema import base_of
from pyjms_broker.store.jdbc.settings import JDBCSettings
from tests.kit.stores.jdbc import States

REFUSE = (
    "CREATE TRIGGER refuse BEFORE INSERT ON ACTIVEMQ_MSGS WHEN NEW.MSGID_SEQ = 13"
    " BEGIN SELECT RAISE(ABORT, 'no thirteen'); END"
)


class Busy:
    """Somebody has SQLite's file for itself, so that nobody can write."""

    def __init__(self, file: Any) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")

    def leave(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


async def test_one_refused_message_spoils_no_others(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    queue = store.queue()
    await store.send(queue, 1)
    sql(REFUSE)
    references = [store.reference(n) for n in (11, 12, 13, 14, 15)]
    answers = [queue.add_message(OperationContext(), r) for r in references]
    for reference, answer in zip(references, answers, strict=True):
        if reference.message_id.producer_sequence_id == 13:
            with pytest.raises(JMSException, match="refused") as caught:
                await store.done(answer)
            assert "no thirteen" in str(caught.value.__cause__)
        else:
            await store.done(answer)
            queue.mark_visible(reference)
    assert store.texts(queue) == ["1", "11", "12", "14", "15"]
    assert queue.message_count == 5
    assert queue.message_size == sum(r.size for r in references)
    await store.restart()
    assert store.texts(store.queue()) == ["1", "11", "12", "14", "15"]


async def test_a_transaction_that_is_refused_leaves_nothing(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    queue, transactions = store.queue(), store.adapter.transaction_store()
    (old,) = await store.send(queue, 1)
    sql(REFUSE)
    for number in (12, 13):
        queue.add_message(store.within(store.local()), store.reference(number))
    queue.remove_message(store.within(store.local()), old)
    with pytest.raises(JMSException, match="refused"):
        await store.done(transactions.commit(store.local(), False))
    assert (store.texts(queue), queue.message_count, queue.message_size) == (["1"], 1, old.size)
    await store.restart()
    assert store.texts(store.queue()) == ["1"]


async def test_a_database_that_is_away_is_waited_for(
    open_store: Callable[..., Any], tmp_path: Path, watch: type[States]
) -> None:
    store = await open_store(network_timeout=0.01, resume_check_sleep_period=0.01)
    states, queue = watch(store.adapter), store.queue()
    await store.send(queue, 1)
    busy = Busy(tmp_path / "store" / "activemq.db")
    second, third = store.reference(2), store.reference(3)
    waiting = queue.add_message(OperationContext(), second)
    await states.reached(StoreState.SUSPENDED)
    assert isinstance(states.told[0][1], DatabaseUnavailableException)
    also = queue.add_message(OperationContext(), third)
    assert not waiting.done
    with pytest.raises(JMSException, match="suspended"):
        queue.next_messages(None, 10)
    busy.leave()
    for answer in (waiting, also):
        await store.done(answer)
    assert states.names == [StoreState.SUSPENDED, StoreState.RUNNING]
    for reference in (second, third):
        queue.mark_visible(reference)
    assert store.texts(queue) == ["1", "2", "3"]


async def test_a_store_that_may_not_wait_fails(
    open_store: Callable[..., Any], tmp_path: Path, watch: type[States]
) -> None:
    store = await open_store(network_timeout=0.01, ignore_sql_exceptions=False)
    states, queue = watch(store.adapter), store.queue()
    await store.send(queue, 1)
    busy = Busy(tmp_path / "store" / "activemq.db")
    with pytest.raises(DatabaseUnavailableException):
        await store.done(queue.add_message(OperationContext(), store.reference(2)))
    assert (states.names, store.adapter.state) == ([StoreState.FAILED], StoreState.FAILED)
    with pytest.raises(DatabaseUnavailableException):
        await store.done(queue.add_message(OperationContext(), store.reference(3)))
    busy.leave()
    await store.restart()
    assert store.texts(store.queue()) == ["1"]


async def test_what_waits_at_the_end_is_tried_once_more(
    open_store: Callable[..., Any], tmp_path: Path, watch: type[States]
) -> None:
    settings = {"network_timeout": 0.01, "resume_check_sleep_period": 3600.0}
    store = await open_store(**settings)
    states, queue = watch(store.adapter), store.queue()
    await store.send(queue, 1)
    busy = Busy(tmp_path / "store" / "activemq.db")
    answer = queue.add_message(OperationContext(), store.reference(2))
    await states.reached(StoreState.SUSPENDED)
    busy.leave()
    await store.restart()
    assert (answer.done, answer.error) == (True, None)
    queue, states = store.queue(), watch(store.adapter)
    assert store.texts(queue) == ["1", "2"]
    busy = Busy(tmp_path / "store" / "activemq.db")
    answer = queue.add_message(OperationContext(), store.reference(3))
    await states.reached(StoreState.SUSPENDED)
    await store.adapter.stop()
    assert isinstance(answer.error, DatabaseUnavailableException)
    busy.leave()


async def test_a_database_that_goes_while_the_store_stops_does_not_hold_it_up(
    open_store: Callable[..., Any], tmp_path: Path, watch: type[States]
) -> None:
    store = await open_store(network_timeout=0.01, resume_check_sleep_period=3600.0)
    states, queue = watch(store.adapter), store.queue()
    await store.send(queue, 1)
    busy = Busy(tmp_path / "store" / "activemq.db")
    answer = queue.add_message(OperationContext(), store.reference(2))
    await store.adapter.stop()  # nothing is known of the trouble yet
    assert isinstance(answer.error, DatabaseUnavailableException)
    assert StoreState.SUSPENDED in states.names
    busy.leave()
    await store.start()
    assert store.texts(store.queue()) == ["1"]


async def test_two_who_write_are_one_too_many(
    open_store: Callable[..., Any], watch: type[States]
) -> None:
    first = await open_store(use_lock=False)
    queue = first.queue()
    states = watch(first.adapter)
    await first.send(queue, 1)
    second = await open_store(use_lock=False)
    with pytest.raises(DatabaseTakenException, match="taken over"):
        await first.done(queue.add_message(OperationContext(), first.reference(2)))
    assert states.names == [StoreState.FAILED]
    await second.send(second.queue(), 3)
    assert second.texts(second.queue()) == ["1", "3"]


async def test_a_congested_store_reports_it(
    open_store: Callable[..., Any], tmp_path: Path, watch: type[States]
) -> None:
    store = await open_store(network_timeout=0.01, resume_check_sleep_period=0.01, max_async_jobs=4)
    states, queue = watch(store.adapter), store.queue()
    answers = [queue.add_message(OperationContext(), store.reference(n)) for n in range(1, 10)]
    assert store.adapter.state is StoreState.CONGESTED
    for answer in answers:
        await store.done(answer)
    assert states.names == [StoreState.CONGESTED, StoreState.RUNNING]


async def test_reads_that_need_it_wait_for_writes(open_store: Callable[..., Any]) -> None:
    store = await open_store()
    queue = store.queue()
    for number in range(1, 6):
        reference = store.reference(number)
        queue.add_message(OperationContext(), reference)
        queue.mark_visible(reference)
    assert store.texts(queue) == ["1", "2", "3", "4", "5"]  # nothing is written yet
    queue.remove_all_messages(OperationContext())
    reference = store.reference(6)
    queue.add_message(OperationContext(), reference)
    queue.mark_visible(reference)
    assert store.texts(queue) == ["6"]
    assert queue.message_count == 1
    assert queue.get_message(store.reference(1).message_id) is None


@pytest.mark.parametrize(
    "url", ["nonsense", "sqlite://", "sqlite:///:memory:", "postgresql+nodriver://x/y"]
)
def test_data_sources_that_are_none(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigurationException):
        JDBCPersistenceAdapter(tmp_path, JDBCSettings(data_source=url))


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    url = f"postgresql+psycopg://user:secret@/db?host={tmp_path}"
    adapter = JDBCPersistenceAdapter(tmp_path, JDBCSettings(data_source=url, use_lock=False))
    with pytest.raises(JMSException) as caught:
        await adapter.start()
    assert "secret" not in str(caught.value)
    await adapter.stop()


async def test_a_lock_that_is_lost_while_the_database_is_away(
    open_store: Callable[..., Any], tmp_path: Path, watch: type[States]
) -> None:
    store = await open_store(network_timeout=0.01, resume_check_sleep_period=3600.0)
    states, queue = watch(store.adapter), store.queue()
    await store.send(queue, 1)
    busy = Busy(tmp_path / "store" / "activemq.db")
    answer = queue.add_message(OperationContext(), store.reference(2))
    later = queue.add_message(OperationContext(), store.reference(3))
    await states.reached(StoreState.SUSPENDED)
    store.adapter.writer.fail_with(JMSException("the lock is lost"))
    assert str(answer.error) == "the lock is lost"
    assert str(later.error) == "the lock is lost"
    busy.leave()
    await store.restart()
    assert store.texts(store.queue()) == ["1"]


async def test_work_on_topics_that_is_refused(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    topic = store.adapter.topic_message_store(Topic("T"))
    key, other = SubscriptionKey("me", "s"), SubscriptionKey("me", "t")
    await store.done(topic.add_subscription(StoredSubscription(key, topic.destination), False))
    (first,) = await store.send(topic, 1)
    sql(REFUSE)
    sql(
        "CREATE TRIGGER keep BEFORE UPDATE ON ACTIVEMQ_ACKS"
        " BEGIN SELECT RAISE(ABORT, 'not now'); END"
    )
    sql(
        "CREATE TRIGGER stay BEFORE DELETE ON ACTIVEMQ_ACKS"
        " BEGIN SELECT RAISE(ABORT, 'not now'); END"
    )
    sql(
        "CREATE TRIGGER no_more BEFORE INSERT ON ACTIVEMQ_ACKS"
        " BEGIN SELECT RAISE(ABORT, 'not now'); END"
    )
    for answer in (
        topic.add_message(OperationContext(), store.reference(13, topic.destination)),
        topic.acknowledge(store.synchronous(), key, first),
        topic.delete_subscription(key),
        topic.add_subscription(StoredSubscription(other, topic.destination), True),
    ):
        with pytest.raises(JMSException, match="refused"):
            await store.done(answer)
    assert topic.lookup_subscription(other) is None
    assert topic.lookup_subscription(key) is not None
    assert store.subscription_texts(topic, key) == ["1"]
    assert (topic.subscription_message_count(key), topic.message_count) == (1, 1)
    sql(
        "CREATE TRIGGER forever BEFORE DELETE ON ACTIVEMQ_MSGS"
        " BEGIN SELECT RAISE(ABORT, 'not now'); END"
    )
    with pytest.raises(JMSException, match="refused"):
        await store.done(topic.remove_all_messages(OperationContext()))
    assert store.subscription_texts(topic, key) == ["1"]
    assert (topic.subscription_message_count(key), topic.message_count) == (1, 1)


async def test_an_end_of_a_prepared_transaction_that_is_refused_can_be_tried_again(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    queue, transactions, xid = store.queue(), store.adapter.transaction_store(), store.xa()
    (old,) = await store.send(queue, 1)
    new = store.reference(2)
    queue.add_message(store.within(xid), new)
    queue.remove_message(store.within(xid), old)
    await store.done(transactions.prepare(xid))
    sql(
        "CREATE TRIGGER stay BEFORE DELETE ON ACTIVEMQ_MSGS"
        " BEGIN SELECT RAISE(ABORT, 'not now'); END"
    )
    for end in (partial(transactions.commit, xid, True), partial(transactions.rollback, xid)):
        with pytest.raises(JMSException, match="refused"):
            await store.done(end())
    sql("DROP TRIGGER stay")
    await store.done(transactions.commit(xid, True))
    queue.mark_visible(new)
    assert store.texts(queue) == ["2"]
    assert queue.message_count == 1
    await store.restart()
    assert store.texts(store.queue()) == ["2"]


def test_a_batch_whose_commit_got_no_answer_is_not_done_twice(tmp_path: Path) -> None:
    database = Database(tmp_path, JDBCSettings())
    database.create_tables()
    database.claim()
    load(database)
    unit = Unit((AddContainer("queue://Q", base_of(1), 7),), lambda _: None)
    outcome = database.transact([unit])
    # as if the connection had gone in the middle of the commit
    database._token, database._unconfirmed = database._token - 1, outcome
    assert database.transact([unit]) is outcome
    database._token -= 1
    with pytest.raises(DatabaseTakenException):
        database.transact([unit])
    database.close()


def test_a_dead_letter_is_stored_before_its_message_is_removed() -> None:
    assert StoreCapabilities.of(JDBCPersistenceAdapter(Path())).has_several_journals
