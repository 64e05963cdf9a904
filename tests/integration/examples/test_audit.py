"""The audit explains every message from the journal of a broker that is stopped."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.audit.__main__ import QUEUE, handle
from examples.audit.journal import balance, bodies_between
from examples.board.records import departures, with_broken
from examples.messages import connected, make_queues, send_texts
from examples.processes import running_broker
from pyjms import Queue, Topic
from pyjms.jms.message import TextMessage
from tests.kit.clients.messages import text_of

pytestmark = pytest.mark.timeout(120)
DAY = date(2013, 1, 1)
COPIES = ("Consumer.a.VirtualTopic.t", "Consumer.b.VirtualTopic.t")


def test_the_journal_explains_every_message(spark: SparkSession, tmp_path: Path) -> None:
    flights = departures(DAY, DAY)[:60]
    with running_broker(tmp_path) as url, connected(url) as connection:
        send_texts(connection, Queue(QUEUE), with_broken(flights, 10))
        make_queues(connection, *COPIES)
        send_texts(connection, Topic("VirtualTopic.t"), ["one", "two", "three"])
        with connected(url + "?jms.redeliveryPolicy.maximumRedeliveries=0") as other:
            assert handle(other, 44) == (40, 4)
        session = connection.create_session(transacted=True)
        copies = session.create_consumer(Queue(COPIES[0]))
        one = copies.receive(5)
        # as a pipeline's dead letter names the message that it was
        assert isinstance(one, TextMessage)
        letter = session.create_text_message(one.text)
        assert one is not None
        letter.properties["PyJMSOriginalMessageID"] = one.message_id
        letter.properties["PyJMSOriginalDestination"] = f"queue://{COPIES[0]}"
        session.create_producer(Queue("invalid")).send(letter)
        session.commit()
        assert text_of(copies.receive(5)) == "two"
        session.create_producer(Queue(QUEUE)).send(session.create_text_message("never sent"))
        session.rollback()
    rows = [tuple(row) for row in balance(spark, tmp_path).collect()]
    assert rows == [
        ("queue://ActiveMQ.DLQ", 4, 0, 0, 4, 0),
        (f"queue://{COPIES[0]}", 3, 0, 1, 2, 0),
        (f"queue://{COPIES[1]}", 3, 0, 0, 3, 0),
        (f"queue://{QUEUE}", 66, 40, 4, 22, 0),
        ("queue://invalid", 1, 0, 0, 1, 0),
    ]
    hour = datetime(2013, 1, 1, 11, tzinfo=UTC)
    found = bodies_between(spark, tmp_path, QUEUE, "sched_dep", hour, hour + timedelta(hours=1))
    assert sorted(row.text for row in found.collect()) == sorted(
        flight.model_dump_json() for flight in flights if flight.sched_dep.hour == 11
    )
