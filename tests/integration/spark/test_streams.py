"""Spark reads and writes queues: both sources, the sinks, repeated batches."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.streaming.query import StreamingQuery

from pyjms.enums import DeliveryMode
from tests.kit.spark.brokers import SparkBroker

pytestmark = pytest.mark.timeout(300)
TEXTS = [f"m{number}" for number in range(120)]


def finished(query: StreamingQuery) -> None:
    query.awaitTermination(60)
    assert query.exception() is None
    assert not query.isActive


def rows_of(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, name: str, **options: str
) -> Any:
    reader = spark.readStream.format("jms").option("url", broker.url)
    for option, value in options.items():
        reader = reader.option(option, value)
    return (
        reader.load("IN")
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )


@pytest.mark.parametrize("mode", ["ranges", "spool"])
def test_both_sources_give_the_same_columns_and_leave_nothing(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, mode: str
) -> None:
    with broker.connected() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("IN"))
        text = session.create_text_message("hello")
        text.properties["n"] = 7
        text.correlation_id = "c"
        producer.send(text, priority=6)
        producer.send(session.create_bytes_message(b"\x00\x01"))
        body = session.create_map_message()
        body["a"] = 1
        producer.send(body, delivery_mode=DeliveryMode.NON_PERSISTENT)
    options = {"mode": mode} | ({"spool": str(tmp_path / "spool")} if mode == "spool" else {})
    query = rows_of(spark, broker, tmp_path, f"columns_{mode}", **options)
    finished(query.trigger(availableNow=True).start())
    rows = spark.table(f"columns_{mode}").orderBy("seq").collect()
    assert [(row.body_kind, row.text, row.bytes) for row in rows] == [
        ("text", "hello", None),
        ("bytes", None, b"\x00\x01"),
        ("map", '{"a": 1}', None),
    ]
    first = rows[0]
    assert (first.properties, first.correlation_id, first.priority) == ({"n": "7"}, "c", 6)
    assert (first.destination, first.redelivered, first.delivery_count) == ("queue://IN", False, 1)
    assert [row.delivery_mode for row in rows] == [2, 2, 1]
    assert [row.seq - first.seq for row in rows] == [0, 1, 2]
    assert len({row.message_id for row in rows}) == 3
    assert broker.count("IN") == 0


@pytest.mark.parametrize(
    ("mode", "sink", "shuffle"),
    [
        pytest.param("ranges", "ids", "", marks=pytest.mark.nightly),
        ("ranges", "epoch", "yes"),
        ("spool", "key", "yes"),
    ],
)
def test_a_repeated_batch_is_neither_lost_nor_doubled(
    spark: SparkSession,
    broker: SparkBroker,
    tmp_path: Path,
    driver: ModuleType,
    mode: str,
    sink: str,
    shuffle: str,
) -> None:
    broker.send("IN", TEXTS)
    # what is finished is removed, so that it can be read again only where removal waits
    how = {"mode": mode, "sink": sink, "shuffle": shuffle, "ack": "commit"}
    finished(driver.start(spark, broker.url, tmp_path, **how))
    assert broker.count("OUT") == len(TEXTS)
    assert forget_last_commit(tmp_path) >= 2
    broker.send("IN", ["late"])
    finished(driver.start(spark, broker.url, tmp_path, **how))
    assert sorted(broker.texts("OUT")) == sorted([*TEXTS, "late"])


@pytest.mark.fact("spark-pipeline 2.3")
def test_a_repeated_batch_replaces_the_state_of_its_first_attempt(
    spark: SparkSession, tmp_path: Path
) -> None:
    def total(name: str, factor: int) -> int:
        rows = spark.readStream.schema("n LONG").json(str(tmp_path / "rows"))
        sums = rows.agg(F.sum(F.col("n") * factor).alias("total"))
        writer = sums.writeStream.format("memory").queryName(name).outputMode("complete")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        finished(writer.trigger(availableNow=True).start())
        (row,) = spark.table(name).collect()
        return int(row.total)

    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.json").write_text('{"n": 1}')
    assert total("attempt", 1) == 1
    assert forget_last_commit(tmp_path) == 0
    state = tmp_path / "checkpoint" / "state"
    sums = list(state.rglob(".1.zip.crc"))
    assert sums
    for file in sums:  # a kill between the renames of a file and of its checksums
        file.write_bytes(b"crc\0\0\0\2\0other")
    assert total("repetition", 10) == 10  # as with a function that was corrected
    (tmp_path / "rows" / "2.json").write_text('{"n": 1}')
    assert total("continued", 10) == 20
    assert not [file.name for file in state.rglob("*") if ".tmp" in file.name]


@pytest.mark.fact("spark-pipeline 1.3", "spark-pipeline 5/Pulsar")
def test_a_finished_batch_is_removed_and_an_older_checkpoint_is_reported(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, driver: ModuleType
) -> None:
    broker.send("IN", TEXTS)
    finished(driver.start(spark, broker.url, tmp_path))
    assert broker.count("IN") == 0
    assert forget_last_commit(tmp_path) >= 2
    query = driver.start(spark, broker.url, tmp_path)
    with pytest.raises(StreamingQueryException, match="starts with"):
        query.awaitTermination(60)
    finished(driver.start(spark, broker.url, tmp_path, loss="false"))
    assert sorted(broker.texts("OUT")) == sorted(TEXTS)


def test_a_stream_continues_with_new_messages_and_waits_for_them(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    query = rows_of(spark, broker, tmp_path, "going_on", mode="auto", pollTimeout="100ms").start()
    try:
        for some in (["a", "b"], ["c"]):
            broker.send("IN", some)
            query.processAllAvailable()
        rows = spark.table("going_on").orderBy("seq").collect()
        assert [row.text for row in rows] == ["a", "b", "c"]
        assert query.lastProgress.sources[0].latestOffset is not None
    finally:
        query.stop()


def test_batches_are_written_and_looked_at(spark: SparkSession, broker: SparkBroker) -> None:
    rows = spark.createDataFrame(
        [("a", "OUT", {"k": "v"}, 7), ("b", "OTHER", None, None)],
        "text string, destination string, properties map<string,string>, priority int",
    )
    rows.write.format("jms").option("url", broker.url).mode("append").save()
    found = spark.read.format("jms").option("url", broker.url).load("OUT").collect()
    assert [(row.text, row.properties, row.priority) for row in found] == [("a", {"k": "v"}, 7)]
    ranges = spark.read.format("jms").option("url", broker.url).option("mode", "ranges")
    assert ranges.load("OUT").count() == 1
    assert ranges.load("EMPTY").count() == 0
    assert broker.texts("OTHER") == ["b"]
    assert broker.texts("OUT") == ["a"]


@pytest.mark.fact("spark-pipeline 3.7.1", "spark-pipeline 3.7.2", "spark-pipeline 3.7.3")
def test_a_view_in_sql_is_read_and_written_and_a_table_is_refused(
    spark: SparkSession, broker: SparkBroker
) -> None:
    broker.send("OUT", ["zero"])
    using = f"USING jms OPTIONS (url '{broker.url}', destination 'OUT')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders {using}")
    assert [row.text for row in spark.sql("SELECT text FROM orders").collect()] == ["zero"]
    spark.sql("INSERT INTO orders BY NAME SELECT 'one' AS text, CAST(7 AS TINYINT) AS priority")
    copy = spark.table("orders").write.format("jms").option("url", broker.url)
    copy.mode("append").save("COPY")
    assert broker.texts("COPY") == ["zero", "one"]
    assert broker.texts("OUT") == ["zero", "one"]
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW name USING jms"):
        spark.sql(f"CREATE TABLE refused {using}")


def forget_last_commit(folder: Path) -> int:
    commits = [f for f in (folder / "checkpoint" / "commits").iterdir() if f.name.isdigit()]
    last = max(commits, key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    return int(last.name)
