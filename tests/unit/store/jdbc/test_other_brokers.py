"""What ActiveMQ wrote into the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.frames import encode_message
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.jdbc.database import Database
from pyjms_broker.store.jdbc.settings import JDBCSettings

KEY, OTHER = SubscriptionKey("me", "s"), SubscriptionKey("me", "t")
MESSAGE = (
    "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY)"
    " VALUES (?, ?, ?, ?, 0, ?, ?)"
)
SUBSCRIPTION = (
    "INSERT INTO ACTIVEMQ_ACKS (CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR,"
    " LAST_ACKED_ID, PRIORITY) VALUES ('topic://T', 'topic://T', 'me', ?, NULL, ?, ?)"
)


def write(
    sql: Callable[..., list[tuple[Any, ...]]],
    store: Any,
    number: int,
    where: Queue | Topic,
    row_id: int,
    priority: int = 4,
) -> None:
    reference = store.reference(number, where, priority=priority)
    producer = str(reference.message_id.producer_id)
    frame = encode_message(reference.message)
    sql(MESSAGE, row_id, where.qualified_name, producer, number, frame, priority)


async def test_a_database_of_activemqs_is_taken_over(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    made = await open_store(directory=tmp_path / "other")  # only to make messages
    directory = tmp_path / "store"
    directory.mkdir()
    database = Database(directory, JDBCSettings())
    database.create_tables()
    database.close()
    for number, where in ((1, Queue("Q")), (2, Topic("T")), (3, Queue("Q")), (4, Topic("T"))):
        write(sql, made, number, where, row_id=number * 10)
    sql(SUBSCRIPTION, "s", 20, 0)
    sql(SUBSCRIPTION, "t", 0, 0)
    for _ in range(2):
        store = await open_store()
        queue, topic = store.queue(), store.adapter.topic_message_store(Topic("T"))
        assert store.adapter.destinations() == {Queue("Q"), Topic("T")}
        assert store.texts(queue) == ["1", "3"]
        assert [m.position.arrival for m in queue.next_messages(None, 9)] == [1, 2]
        assert (queue.message_count, queue.last_arrival) == (2, 2)
        assert queue.message_size > 2048
        assert store.subscription_texts(topic, KEY) == ["4"]
        assert store.subscription_texts(topic, OTHER) == ["2", "4"]
        assert topic.subscription_message_count(OTHER) == 2
        assert store.adapter.last_broker_sequence_id == 40
        producer = store.reference(1).message_id.producer_id
        assert store.adapter.last_producer_sequence_id(producer) == 4
        await store.adapter.stop()
    store = await open_store()
    assert (await store.send(store.queue(), 5))[0].position.arrival == 3


async def test_what_activemq_wrote_between_two_of_our_starts(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store()
    queue = store.queue()
    first, _ = await store.send(queue, 1, 2)
    topic = store.adapter.topic_message_store(Topic("T"))
    await store.adapter.stop()
    highest = sql("SELECT MAX(ID) FROM ACTIVEMQ_MSGS")[0][0]
    sql("DELETE FROM ACTIVEMQ_MSGS WHERE MSGID_SEQ = 1")
    write(sql, store, 8, Topic("T"), highest + 1)
    write(sql, store, 9, Queue("Q"), highest + 2)
    sql(SUBSCRIPTION, "s", highest, 0)
    await store.start()
    queue, topic = store.queue(), store.adapter.topic_message_store(Topic("T"))
    assert store.texts(queue) == ["2", "9"]
    assert queue.message_count == 2
    assert store.subscription_texts(topic, KEY) == ["8"]
    (later,) = await store.send(queue, 10)
    assert store.texts(queue) == ["2", "9", "10"]
    assert later.position.arrival > first.position.arrival
