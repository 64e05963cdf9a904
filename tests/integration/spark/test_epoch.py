"""Batches published by one transaction: once, whole, and only what their own tasks staged."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pyspark.sql import Row

from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.jms.message import TextMessage
from pyjms.spark.connections import close_connections, run_blocking
from pyjms.spark.options import JmsOptions
from pyjms.spark.sink import discard, publish
from tests.kit.spark.brokers import SparkBroker
from tests.kit.spark.rows import stage_rows
from tests.kit.values import present


@pytest.fixture
def options(broker: SparkBroker) -> Iterator[JmsOptions]:
    yield JmsOptions(broker.url, "OUT", exactly_once="epoch")
    run_blocking(close_connections)


def stage(options: JmsOptions, batch: int, name: str, *texts: str) -> None:
    rows = iter([Row(text=text) for text in texts])
    assert stage_rows(options, "q", batch, name, rows) == len(texts)


def test_a_batch_is_published_once(broker: SparkBroker, options: JmsOptions) -> None:
    stage(options, 0, "a", "1", "2")
    stage(options, 0, "b", "3")
    assert broker.count("OUT") == 0
    run_blocking(publish, options, "q", 0, {"a": 2, "b": 1})
    stage(options, 0, "c", "1", "2", "3")
    run_blocking(publish, options, "q", 0, {"c": 3})
    stage(options, 1, "d", "4")
    run_blocking(publish, options, "q", 1, {"d": 1})
    assert broker.texts("OUT") == ["1", "2", "3", "4"]
    assert broker.count("PyJMS.Stage.q") == 0
    assert broker.texts("PyJMS.Epoch.q") == ["1"]


def test_a_batch_before_the_last_one_is_an_error_and_loses_nothing(
    broker: SparkBroker, options: JmsOptions
) -> None:
    for batch in (0, 1):
        stage(options, batch, str(batch), f"old {batch}")
        run_blocking(publish, options, "q", batch, {str(batch): 1})
    stage(options, 0, "new", "another message")
    with pytest.raises(IllegalStateException, match="batch 0 begins, but batch 1 is published"):
        run_blocking(publish, options, "q", 0, {"new": 1})
    assert broker.texts("OUT") == ["old 0", "old 1"]
    assert broker.texts("PyJMS.Epoch.q") == ["1"]


def test_what_a_killed_driver_has_staged_is_dropped(
    broker: SparkBroker, options: JmsOptions
) -> None:
    stage(options, 0, "killed", "1", "2")
    stage(options, 0, "a", "1", "2")
    stage(options, 0, "killed too", "3")
    stage(options, 0, "b", "3")
    run_blocking(publish, options, "q", 0, {"a": 2, "b": 1})
    assert broker.texts("OUT") == ["1", "2", "3"]


def test_headers_and_routes_survive_the_stage(broker: SparkBroker, options: JmsOptions) -> None:
    row = Row(text="x", destination="OTHER", priority=8, correlation_id="c", properties={"k": "v"})
    stage_rows(options, "q", 0, "a", iter([row]))
    run_blocking(publish, options, "q", 0, {"a": 1})
    with broker.connected() as connection:
        session = connection.create_session()
        message = session.create_consumer(session.create_queue("OTHER")).receive(5)
    assert isinstance(message, TextMessage)
    assert (message.priority, message.correlation_id) == (8, "c")
    assert dict(message.properties) == {"k": "v"}


def test_orders_to_a_broker_wait_for_the_publication(
    broker: SparkBroker, options: JmsOptions
) -> None:
    row = Row(text="x", properties={"_AMQ_DUPL_ID": "one", "AMQ_SCHEDULED_CRON": "", "k": "v"})
    for attempt in ("killed", "again"):  # as a stage would drop it: it has that id already
        assert stage_rows(options, "q", 0, attempt, iter([row])) == 1
    run_blocking(publish, options, "q", 0, {"again": 1}, 2.0)
    with broker.connected() as connection:
        session = connection.create_session()
        message = session.create_consumer(session.create_queue("OUT")).receive(5)
    assert message is not None
    assert dict(message.properties) == {
        "_AMQ_DUPL_ID": "one", "AMQ_SCHEDULED_CRON": "", "k": "v",
    }  # fmt: skip


def test_a_delivery_is_delayed_from_the_publication_on(
    broker: SparkBroker, options: JmsOptions
) -> None:
    broker.attributes["scheduler_support"] = True
    broker.stop()
    broker.start()
    stage_rows(options, "q", 0, "a", [Row(text="late", delivery_delay=3600.0)])
    run_blocking(publish, options, "q", 0, {"a": 1})
    assert broker.count("OUT") == 0
    [job] = present(broker.service.stores.job_store).scheduler().jobs()
    assert job.delay == 3_600_000


def test_a_failed_batch_leaves_nothing(broker: SparkBroker, options: JmsOptions) -> None:
    stage(options, 3, "a", "1")
    stage(options, 4, "b", "2")
    run_blocking(discard, options, "q", 3)
    assert broker.count("PyJMS.Stage.q") == 1


def test_missing_rows_are_an_error_and_nothing_is_published(
    broker: SparkBroker, options: JmsOptions
) -> None:
    stage(options, 0, "a", "1")
    with pytest.raises(ResourceAllocationException, match="1 staged rows are missing"):
        run_blocking(publish, options, "q", 0, {"a": 2}, 0.2)
    assert broker.count("OUT") == 0
    assert broker.count("PyJMS.Stage.q") == 1


def test_a_marker_that_a_killed_driver_still_holds_is_waited_for(
    broker: SparkBroker, options: JmsOptions
) -> None:
    stage(options, 0, "a", "1")
    run_blocking(publish, options, "q", 0, {"a": 1})
    stage(options, 1, "b", "2")
    run_blocking(publish, options, "q", 1, {"b": 1})
    with broker.connected() as connection:
        session = connection.create_session(True)
        consumer = session.create_consumer(session.create_queue("PyJMS.Epoch.q"))
        assert consumer.receive(5) is not None
        stage(options, 1, "c", "2")
        again = threading.Thread(target=run_blocking, args=(publish, options, "q", 1, {"c": 1}))
        again.start()
        session.rollback()
        consumer.close()
    again.join(20)
    assert broker.texts("OUT") == ["1", "2"]
