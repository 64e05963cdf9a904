"""The source and the sinks on a real ActiveMQ: they use the spool automatically, without loss.

What `exactlyOnce` promises there: `epoch` is exact always. `ids` drops what comes again while it
is still on its queue, over restarts too, and what was consumed while the broker runs and remembers
it: 2048 rows of a partition with row ids, 1024 rows of a queue with `idColumn` (its defaults; a
policy entry changes them). A restart forgets what was consumed. (spark-pipeline 5 D; broker activemq-broker P2,
T26)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyjms import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.spark.connections import close_connections, run_blocking
from pyjms.spark.options import JmsOptions, read_options
from pyjms.spark.sink import publish
from pyjms.spark.source import JmsStreamReader
from pyjms.spark.spool import SpoolStreamReader
from tests.kit.spark.brokers import SparkBroker
from tests.kit.spark.rows import send_rows, stage_rows

pytestmark = pytest.mark.timeout(400)
SPOOL = ("after consumer", "before pull", "after pull", "after partition", "before partition")
EPOCH = ("before stage", "after stage", "before epoch", "after epoch")
KILLS = [
    ("ids", "", SPOOL),
    ("key", "yes", SPOOL),
    ("epoch", "yes", EPOCH),
]


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    run_blocking(close_connections)


def reader_of(
    broker: SparkBroker, tmp_path: Path, kind: Any = JmsStreamReader, **options: str
) -> Any:
    spool = str(tmp_path / "spool")
    given = {"url": broker.url, "destination": "IN", "spool": spool, **options}
    return kind(read_options(given, "stream"))


def rows_between(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = reader.partitions(start, end)
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.activemq
def test_the_spool_is_chosen_automatically_and_logged_once(
    broker: SparkBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("IN", ["a", "b"])
    reader = reader_of(broker, tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert [row["text"] for row in rows_between(reader, start, end)] == ["a", "b"]
    assert rows_between(reader, start, end) == rows_between(reader, start, end)
    assert reader.latestOffset(end, ReadMaxRows(10)) == end
    assert isinstance(reader._reader, SpoolStreamReader)
    assert len([r for r in caplog.records if "is read through a spool" in r.message]) == 1
    assert broker.count("IN") == 0


@pytest.mark.activemq
def test_a_pull_takes_more_than_the_page_that_activemq_hands_out(
    broker: SparkBroker, tmp_path: Path
) -> None:
    broker.send("IN", [f"m{number}" for number in range(3000)])
    reader = reader_of(broker, tmp_path, mode="spool")
    ends = [reader.initialOffset()]
    while ends[-1]["seq"] < 3000:
        ends.append(reader.latestOffset(ends[-1], ReadMaxRows(1000)))
    sizes = [end["seq"] - start["seq"] for start, end in pairwise(ends)]
    # a pull that waits too long for the next message, on a busy machine, ends early
    assert 200 < max(sizes) <= 1000


@pytest.mark.activemq
def test_columns_are_those_that_our_broker_gives(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("IN"))
        text = session.create_text_message("hello")
        text.properties["n"] = 7
        text.correlation_id = "c"
        producer.send(text, priority=6)
        producer.send(
            session.create_bytes_message(b"\x00\x01"), delivery_mode=DeliveryMode.NON_PERSISTENT
        )
    reader = spark.readStream.format("jms").option("url", broker.url)
    query = (
        reader.option("spool", str(tmp_path / "spool"))
        .load("IN")
        .writeStream.format("memory")
        .queryName("activemq_columns")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    first, second = spark.table("activemq_columns").orderBy("seq").collect()
    assert (first.body_kind, first.text, first.properties) == ("text", "hello", {"n": "7"})
    assert (first.correlation_id, first.priority, first.delivery_mode) == ("c", 6, 2)
    assert (first.destination, first.redelivered, first.delivery_count) == ("queue://IN", False, 1)
    assert (second.bytes, second.delivery_mode) == (b"\x00\x01", 1)
    assert first.timestamp is not None


@pytest.mark.activemq
def test_a_durable_subscription_is_a_stream(broker: SparkBroker, tmp_path: Path) -> None:
    options = {"destination": "topic://T", "clientId": "spark", "subscription": "all"}
    reader = reader_of(broker, tmp_path, **options)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_topic("T"))
        for text in ("a", "b"):
            producer.send(session.create_text_message(text))
    end = start
    while end["seq"] - start["seq"] < 2:
        end = reader.latestOffset(end, ReadMaxRows(10))
    assert [row["text"] for row in rows_between(reader, start, end)] == ["a", "b"]


@pytest.mark.activemq
@pytest.mark.parametrize(
    ("sink", "shuffle", "point"),
    [
        pytest.param("ids", "", "after partition", marks=pytest.mark.nightly),
        ("epoch", "yes", "after epoch"),
        pytest.param("key", "yes", "after pull", marks=pytest.mark.nightly),
    ],
)
def test_a_killed_driver_loses_and_doubles_nothing(
    broker: SparkBroker,
    finish: Callable[..., Any],
    run_killed: Callable[..., bool],
    kills: ModuleType,
    sink: str,
    shuffle: str,
    point: str,
) -> None:
    how = {"mode": "auto", "sink": sink, "shuffle": shuffle}
    broker.send("IN", kills.TEXTS)
    assert run_killed(point, 2, **how)
    assert finish(**how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.activemq
def test_drivers_killed_at_every_point(
    broker: SparkBroker,
    finish: Callable[..., Any],
    run_killed: Callable[..., bool],
    kills: ModuleType,
    turn: Any,
) -> None:
    sink, shuffle, points = KILLS[turn % len(KILLS)]
    how = {"mode": "spool", "sink": sink, "shuffle": shuffle, "rows": "20"}
    broker.send("IN", kills.TEXTS)
    for place, point in enumerate(points):
        number = 1 if "consumer" in point else 1 + (turn + place) % 2
        assert run_killed(point, number, **how), point
    assert finish(**how) == (0, 0)


@pytest.mark.activemq
def test_a_batch_of_more_rows_than_a_page_is_published(broker: SparkBroker) -> None:
    options = JmsOptions(broker.url, "OUT", exactly_once="epoch")
    texts = [f"m{number}" for number in range(1500)]
    rows = [Row(text=text) for text in texts]
    staged = stage_rows(options, "q", 0, "a", iter(rows))
    run_blocking(publish, options, "q", 0, {"a": staged}, 2.0)
    stage_rows(options, "q", 0, "again", iter(rows))
    run_blocking(publish, options, "q", 0, {"again": staged}, 2.0)
    assert broker.texts("OUT") == texts


def send(broker: SparkBroker, numbers: Sequence[int], id_column: str | None = None) -> None:
    """Send rows as the task of one partition of one batch does."""
    options = JmsOptions(broker.url, "OUT", exactly_once="ids", id_column=id_column)
    send_rows(options, [Row(text=f"m{n}", id=str(n)) for n in numbers])


@pytest.mark.activemq
@pytest.mark.parametrize("id_column", [None, "id"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_ids_drop_what_is_still_there_over_restarts(
    broker: SparkBroker, end: str, id_column: str | None
) -> None:
    send(broker, range(100), id_column)
    getattr(broker, end)()
    run_blocking(close_connections)
    broker.start()
    send(broker, range(100), id_column)
    assert broker.texts("OUT") == [f"m{number}" for number in range(100)]


@pytest.mark.activemq
@pytest.mark.parametrize(("rows", "id_column"), [(2048, None), (1024, "id")])
def test_ids_drop_what_was_consumed_as_far_as_the_audit_goes(
    broker: SparkBroker, rows: int, id_column: str | None
) -> None:
    send(broker, range(rows), id_column)
    assert len(broker.texts("OUT")) == rows
    send(broker, range(rows), id_column)
    assert broker.count("OUT") == 0


@pytest.mark.activemq
@pytest.mark.parametrize(("rows", "id_column"), [(5000, None), (1100, "id")])
def test_ids_double_what_was_consumed_and_is_beyond_the_audit(
    broker: SparkBroker, rows: int, id_column: str | None
) -> None:
    send(broker, range(rows), id_column)
    assert len(broker.texts("OUT")) == rows
    send(broker, range(rows), id_column)
    assert broker.count("OUT") > 0


@pytest.mark.activemq
def test_ids_double_what_was_consumed_before_a_restart_and_epoch_does_not(
    broker: SparkBroker,
) -> None:
    send(broker, range(10))
    options = JmsOptions(broker.url, "EPOCH", exactly_once="epoch")
    rows = [Row(text=f"m{number}") for number in range(10)]
    run_blocking(publish, options, "q", 0, {"a": stage_rows(options, "q", 0, "a", iter(rows))})
    assert len(broker.texts("OUT")) == len(broker.texts("EPOCH")) == 10
    run_blocking(close_connections)
    broker.stop()
    broker.start()
    send(broker, range(10))
    run_blocking(publish, options, "q", 0, {"b": stage_rows(options, "q", 0, "b", iter(rows))})
    assert broker.count("OUT") == 10
    assert broker.count("EPOCH") == 0


@pytest.mark.activemq
def test_a_broker_killed_in_a_batch_comes_back(outage: Callable[..., tuple[int, int]]) -> None:
    how = {"mode": "spool", "sink": "epoch", "shuffle": "yes"}
    assert outage(3.0, **how) == (0, 0)


@pytest.mark.nightly
@pytest.mark.activemq
@pytest.mark.parametrize("sink", ["key", "epoch"])
def test_brokers_killed_in_batches_come_back(
    outage: Callable[..., tuple[int, int]], sink: str, turn: Any
) -> None:
    how = {"mode": "spool", "sink": sink, "shuffle": "yes"}
    away = 10.0 if turn == 0 else 0.1 + turn % 5
    assert outage(away, **how) == (0, 0)
