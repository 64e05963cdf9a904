"""Pipelines against a real broker: good and bad apart, state, SQL, joins, modes, and replays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pyjms.errors import ConfigurationException
from pyjms.spark import Pipeline
from pyjms.spark.checkpoint import PipelineLocation
from pyjms.spark.query import start_query
from tests.kit.spark.brokers import SparkBroker

pytestmark = pytest.mark.timeout(300)
DAY = datetime(2013, 1, 1, tzinfo=UTC)


class Flight(BaseModel):
    origin: str
    delay: float | None = None
    at: datetime = DAY


class Script(BaseModel):
    origin: str


Script.__module__ = "__main__"  # as in a script that was started


@pytest.fixture
def run(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> Callable[..., Any]:
    """Runs a pipeline until all is done, and returns its query."""

    def run(pipeline: Pipeline) -> Any:
        place = PipelineLocation(
            url=broker.url, folder=tmp_path / "all pipelines" / pipeline.checkpoint_name
        )
        query = start_query(spark, pipeline, place, once=True)
        assert query.name == pipeline.name
        query.awaitTermination(120)
        assert not query.isActive
        return query

    return run


def flight(origin: str, delay: object = 1, **more: object) -> str:
    return json.dumps({"origin": origin, "delay": delay, **more})


def messages(broker: SparkBroker, queue: str) -> list[Any]:
    with broker.connected() as connection:
        session = connection.create_session(True)
        consumer = session.create_consumer(session.create_queue(queue))
        found = [consumer.receive(5) for _ in range(broker.count(queue))]
        session.commit()
    return found


def late(flights: DataFrame) -> DataFrame:
    return flights.where("delay > 5").select("origin", "delay")


def forget_last_commit(folder: Path) -> None:
    commits = [f for f in (folder / "checkpoint" / "commits").iterdir() if f.name.isdigit()]
    last = max(commits, key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def test_good_rows_and_bad_messages_go_their_ways(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    pipeline = Pipeline(
        name="late", function=late, source="IN", sink="OUT", dead_letter="BAD", schema=Flight
    )
    broker.send("IN", [flight("JFK", 9), flight("EWR", "7.5"), flight("LGA", 1), "{broken"])
    with broker.connected() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("IN"))
        data = session.create_bytes_message(b"\xff\x00")
        data.properties["n"] = 7
        data.correlation_id = "c"
        data.type = "t"
        producer.send(data)
        sent = data.message_id
    query = run(pipeline)
    assert query.exception() is None
    rows = [json.loads(text) for text in sorted(broker.texts("OUT"))]
    assert rows == [{"origin": "EWR", "delay": 7.5}, {"origin": "JFK", "delay": 9.0}]
    first, second = sorted(messages(broker, "BAD"), key=lambda m: m.correlation_id or "")
    assert first.text == "{broken"
    assert first.properties["dlqDeliveryFailureCause"].startswith("the body: Invalid JSON: ")
    assert first.properties["PyJMSPipeline"] == "late"
    assert second.data == b"\xff\x00"
    assert (second.correlation_id, second.type, second.properties["n"]) == ("c", "t", "7")
    assert second.properties["PyJMSOriginalMessageID"] == sent
    assert second.properties["PyJMSOriginalDestination"] == "queue://IN"
    assert broker.count("IN") == 0
    (counted,) = [
        p.observedMetrics["pyjms_messages"] for p in query.recentProgress if p.numInputRows
    ]
    assert counted.asDict() == {"messages": 5, "dead_letters": 2}


@pytest.mark.fact("spark-pipeline 5/Paimon sink")
@pytest.mark.parametrize("mode", ["ranges", pytest.param("spool", marks=pytest.mark.nightly)])
def test_a_repeated_batch_publishes_neither_rows_nor_dead_letters_twice(
    broker: SparkBroker, run: Callable[..., Any], tmp_path: Path, mode: str
) -> None:
    pipeline = Pipeline(
        name="again", function=late, source="IN", sink="OUT", dead_letter="BAD", schema=Flight,
        max_messages_per_trigger=20, options={"ackOn": "commit", "mode": mode},
    )  # fmt: skip
    texts = [flight(f"F{n}", 9) if n % 5 else f"bad {n}" for n in range(60)]
    broker.send("IN", texts)
    assert run(pipeline).exception() is None
    assert (broker.count("OUT"), broker.count("BAD")) == (48, 12)
    forget_last_commit(tmp_path / "all pipelines" / "again")
    broker.send("IN", [flight("late", 9), "bad late"])
    assert run(pipeline).exception() is None
    assert sorted(json.loads(t)["origin"] for t in broker.texts("OUT")) == sorted(
        [*(f"F{n}" for n in range(60) if n % 5), "late"]
    )
    bad = [f"bad {n}" for n in range(0, 60, 5)]
    assert sorted(broker.texts("BAD")) == sorted([*bad, "bad late"])


def test_windows_are_sent_when_the_watermark_has_passed_and_state_outlives_the_run(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    def hourly(flights: DataFrame) -> DataFrame:
        hours = flights.withWatermark("at", "1 hour").groupBy(F.window("at", "1 hour"), "origin")
        return hours.agg(F.avg("delay").alias("delay"), F.count("*").alias("n"))

    pipeline = Pipeline(
        name="hourly",
        function=hourly,
        source="IN",
        sink="OUT",
        schema=Flight,
        partitions=1,
        dead_letter="BAD",
    )
    first = [flight("JFK", n, at=(DAY + timedelta(minutes=n)).isoformat()) for n in (1, 3)]
    broker.send("IN", [*first, "bad"])
    run(pipeline)
    assert broker.texts("OUT") == []
    clock = flight("LGA", 0, at=(DAY + timedelta(hours=9)).isoformat())
    broker.send("IN", [flight("JFK", 5, at=(DAY + timedelta(minutes=30)).isoformat()), clock])
    run(pipeline)
    (window,) = map(json.loads, broker.texts("OUT"))
    assert window == {
        "window": {"start": "2013-01-01T00:00:00.000000Z", "end": "2013-01-01T01:00:00.000000Z"},
        "origin": "JFK",
        "delay": 3.0,
        "n": 3,
    }
    assert broker.texts("BAD") == ["bad"]

    def longest(flights: DataFrame) -> DataFrame:
        hours = flights.withWatermark("at", "1 hour").groupBy(F.window("at", "1 hour"), "origin")
        return hours.agg(F.max("delay").alias("delay"), F.count("*").alias("n"))

    with pytest.raises(ConfigurationException, match=r"does not fit: sink was .* state was .*avg"):
        run(replace(pipeline, function=longest, sink="OTHER"))


def test_sql_pipelines_read_the_view_messages_and_choose_columns_of_a_message(
    broker: SparkBroker, run: Callable[..., Any], spark: SparkSession
) -> None:
    sql = """
        SELECT to_json(struct(origin, delay)) AS text, origin AS correlation_id, 'x' AS type,
               concat('queue://', origin) AS destination, map('late', 'yes') AS properties
        FROM messages WHERE delay > 5
    """
    broker.send("IN", [flight("JFK", 9), flight("EWR", 2)])
    schema = "origin STRING NOT NULL, delay DOUBLE"
    run(Pipeline(name="sql", sql=sql, source="IN", sink="OUT", schema=schema))
    (message,) = messages(broker, "JFK")
    assert message.text == '{"origin":"JFK","delay":9.0}'
    assert (message.correlation_id, message.type) == ("JFK", "x")
    assert dict(message.properties) == {"late": "yes"}
    assert broker.count("OUT") == 0
    assert not spark.catalog.tableExists("messages")


class Upper(BaseModel):
    origin: str

    @field_validator("origin")
    @classmethod
    def upper(cls, origin: str) -> str:
        if origin == "none":
            raise ValueError("there is no origin")
        return origin.upper()


def test_validators_of_a_model_run_in_the_source(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    pipeline = Pipeline(
        name="upper", function=lambda m: m.select("origin"), source="IN", sink="OUT",
        dead_letter="BAD", schema=Upper,
    )  # fmt: skip
    broker.send("IN", ['{"origin": "jfk"}', '{"origin": "none"}'])
    run(pipeline)
    assert broker.texts("OUT") == ['{"origin":"JFK"}']
    (bad,) = messages(broker, "BAD")
    assert bad.properties["dlqDeliveryFailureCause"] == "origin: Value error, there is no origin"


def test_variants_and_binary_are_columns(broker: SparkBroker, run: Callable[..., Any]) -> None:
    schema = "a VARIANT, b DECIMAL(3,2), c STRING COLLATE UTF8_LCASE, e BINARY NOT NULL"
    sql = "SELECT to_json(a) AS a, b, c, cast(e AS STRING) AS e FROM messages"
    bodies = ['{"a": {"x": [1.10, "1.10", "{"]}, "b": 1.10, "c": "{A", "e": "aGk="}',
              '{"b": 1.101, "e": "aGk="}', '{"a": 1}', '{"e": 1234}']  # fmt: skip
    broker.send("IN", bodies)
    run(Pipeline(name="native", sql=sql, source="IN", sink="OUT", dead_letter="BAD", schema=schema))
    (row,) = map(json.loads, broker.texts("OUT"))
    assert row == {"a": '{"x":[1.1,"1.10","{"]}', "b": 1.10, "c": "{A", "e": "hi"}
    reasons = [m.properties["dlqDeliveryFailureCause"] for m in messages(broker, "BAD")]
    assert sorted(reasons) == [
        "b: the number has more digits than decimal(3,2)",
        "e: Field required",
        "e: the value is not a text in Base64",
    ]


@pytest.mark.fact("spark-pipeline 3.7.8")
def test_a_schema_of_a_script_is_sent_to_sparks_processes(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    class Local(BaseModel):  # it keeps the variables of this function
        origin: str

    broker.send("IN", [flight("JFK"), "{}"])
    pipeline = Pipeline(
        name="local", sql="SELECT origin FROM messages", source="IN", sink="OUT", schema=Local,
        dead_letter="BAD",
    )  # fmt: skip
    with pytest.raises(ConfigurationException, match="schema cannot be sent to Spark's processes"):
        run(pipeline)
    run(replace(pipeline, schema=Script))
    assert broker.texts("OUT") == ['{"origin":"JFK"}']
    assert broker.texts("BAD") == ["{}"]


def test_two_sources_are_joined_and_both_have_dead_letters(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    def windy(flights: DataFrame, weather: DataFrame) -> DataFrame:
        left = flights.withWatermark("at", "1 hour").alias("f")
        right = weather.withWatermark("hour", "1 hour").alias("w")
        same = "f.origin = w.origin AND at >= hour AND at < hour + INTERVAL 1 HOUR"
        return left.join(right, F.expr(same)).select("f.origin", "delay", "wind")

    pipeline = Pipeline(
        name="windy",
        function=windy,
        source={"flights": "F", "weather": "W"},
        schema={"flights": Flight, "weather": "origin STRING, hour TIMESTAMP NOT NULL, wind INT"},
        sink="OUT",
        dead_letter="BAD",
    )
    broker.send("F", [flight("JFK", 9, at="2013-01-01T05:30:00Z"), flight("EWR"), "bad flight"])
    broker.send(
        "W", ['{"origin": "JFK", "hour": "2013-01-01T05:00:00Z", "wind": 30}', '{"wind": 1}']
    )
    query = run(pipeline)
    assert [json.loads(t) for t in broker.texts("OUT")] == [
        {"origin": "JFK", "delay": 9.0, "wind": 30}
    ]
    assert sorted(broker.texts("BAD")) == ["bad flight", '{"wind": 1}']
    assert len(query.lastProgress.sources) == 2


def test_a_source_joined_with_itself_is_read_once(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    def pairs(flights: DataFrame) -> DataFrame:
        arriving = flights.select("origin", F.col("delay").alias("other"))
        return flights.join(arriving, "origin").where("delay < other").select("origin", "delay")

    broker.send("IN", [flight("JFK", 1), flight("JFK", 2), flight("EWR", 3)])
    query = run(
        Pipeline(name="pairs", function=pairs, source="IN", sink="OUT", schema=Flight, partitions=1)
    )
    assert broker.texts("OUT") == ['{"origin":"JFK","delay":1.0}']
    assert len(query.lastProgress.sources) == 1

    def plain(them: DataFrame) -> DataFrame:
        replies = them.selectExpr("correlation_id AS of", "text AS reply")
        return them.join(replies, F.expr("of = text")).selectExpr("concat(text, reply) AS text")

    with broker.connected() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("IN2"))
        for text, of in (("a", None), ("b", "a")):
            message = session.create_text_message(text)
            message.correlation_id = of
            producer.send(message)
    run(Pipeline(name="replies", function=plain, source="IN2", sink="OUT2"))
    assert broker.texts("OUT2") == ["ab"]


def test_update_mode_sends_what_changed_once(
    broker: SparkBroker, run: Callable[..., Any], tmp_path: Path
) -> None:
    def counts(flights: DataFrame) -> DataFrame:
        return flights.groupBy("origin").count()

    pipeline = Pipeline(
        name="counts", function=counts, source="IN", sink="OUT", schema=Flight, partitions=1, dead_letter="BAD",
        output_mode="update", options={"ackOn": "commit"},
    )  # fmt: skip
    broker.send("IN", [flight("JFK"), flight("JFK"), flight("EWR"), "bad"])
    run(pipeline)
    forget_last_commit(tmp_path / "all pipelines" / "counts")
    broker.send("IN", [flight("JFK")])
    run(pipeline)
    assert sorted(broker.texts("OUT")) == [
        '{"origin":"EWR","count":1}', '{"origin":"JFK","count":2}', '{"origin":"JFK","count":3}'
    ]  # fmt: skip
    assert broker.texts("BAD") == ["bad"]


def test_complete_mode_sends_the_whole_result_with_every_batch(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    pipeline = Pipeline(
        name="all", sql="SELECT origin, count(*) AS n FROM messages GROUP BY origin",
        source="IN", sink="OUT", schema="origin STRING", output_mode="complete",
    )  # fmt: skip
    broker.send("IN", [flight("JFK")])
    run(pipeline)
    broker.send("IN", [flight("EWR")])
    run(pipeline)
    assert sorted(broker.texts("OUT")) == ['{"origin":"EWR","n":1}'] + 2 * [
        '{"origin":"JFK","n":1}'
    ]


def test_a_parquet_folder_holds_each_batch_once(
    broker: SparkBroker, run: Callable[..., Any], spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    pipeline = Pipeline(
        name="archive", function=lambda flights: flights.drop("jms"), source="IN", schema=Flight, partitions=1,
        sink=f"parquet:{folder}", dead_letter="BAD", max_messages_per_trigger=4,
        options={"ackOn": "commit", "sink.compression": "none"},
    )  # fmt: skip
    broker.send("IN", [flight(f"F{n}") if n != 3 else "bad" for n in range(10)])
    run(pipeline)
    forget_last_commit(tmp_path / "all pipelines" / "archive")
    run(pipeline)
    rows = spark.read.parquet(str(folder)).orderBy("origin").collect()
    assert [row.origin for row in rows] == [f"F{n}" for n in range(10) if n != 3]
    assert {row.batch for row in rows} == {0, 1, 2}
    assert set(rows[0].asDict()) == {"origin", "delay", "at", "query", "batch"}
    assert broker.texts("BAD") == ["bad"]


def test_another_format_is_written_by_its_options(
    broker: SparkBroker, run: Callable[..., Any], spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(
        name="table", sql="SELECT origin FROM messages", source="IN", schema="origin STRING",
        sink="format:parquet", options={"sink.path": str(tmp_path / "table")},
    )  # fmt: skip
    for origin in ("JFK", "EWR"):
        broker.send("IN", [flight(origin)])
        run(pipeline)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(row.origin for row in rows) == ["EWR", "JFK"]


@pytest.mark.fact("spark-pipeline 3.7.6")
def test_a_bad_message_stops_the_pipeline_if_it_is_configured_so(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    pipeline = Pipeline(
        name="strict",
        function=late,
        source="IN",
        sink="OUT",
        schema=Flight,
        partitions=1,
        dead_letter="fail",
    )
    broker.send("IN", [flight("JFK", 9), '{"delay": 3}'])
    query = None
    with pytest.raises(StreamingQueryException) as caught:
        query = run(pipeline)
    assert query is None
    assert "Pipeline strict: message seq 2 (ID:" in str(caught.value)
    assert "of queue://IN: origin: Field required; dead_letter is `fail`" in str(caught.value)
    assert broker.count("OUT") == 0
    assert broker.count("IN") == 2


def test_without_a_schema_messages_pass_as_they_are(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    with broker.connected() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("IN"))
        text = session.create_text_message("hello")
        text.properties["k"] = "v"
        text.correlation_id = "c"
        producer.send(text, priority=7)
        producer.send(session.create_bytes_message(b"\x01\xff"))
    query = run(Pipeline(name="move", function=lambda m: m, source="IN", sink="OUT"))
    assert query.exception() is None
    first, second = sorted(messages(broker, "OUT"), key=lambda m: -m.priority)
    assert (first.text, first.correlation_id, first.priority) == ("hello", "c", 7)
    assert dict(first.properties) == {"k": "v"}
    assert second.data == b"\x01\xff"
    (counted,) = [
        p.observedMetrics["pyjms_messages"] for p in query.recentProgress if p.numInputRows
    ]
    assert counted.messages == 2


def test_ids_of_pipelines_with_one_sink_are_their_own(
    broker: SparkBroker, run: Callable[..., Any]
) -> None:
    def origins(messages: DataFrame) -> DataFrame:
        return messages.select("text", F.lit("1").alias("id"))

    for name in ("one", "other"):
        broker.send(name, [f"of {name}"])
        pipeline = Pipeline(
            name=name, function=origins, source=name, sink="OUT", exactly_once="ids", id_column="id"
        )
        run(pipeline)
    assert broker.texts("OUT") == ["of one", "of other"]


@pytest.mark.parametrize("id_column", [None, "id"])
def test_ids_detect_duplicates(
    broker: SparkBroker, run: Callable[..., Any], tmp_path: Path, id_column: str | None
) -> None:
    def origins(flights: DataFrame) -> DataFrame:
        return flights.select("origin", F.col("jms.message_id").alias("id"))

    pipeline = Pipeline(
        name="ids", function=origins, source="IN", sink="OUT", schema=Flight, partitions=1, dead_letter="BAD",
        exactly_once="ids", id_column=id_column, options={"ackOn": "commit"},
    )  # fmt: skip
    broker.send("IN", [flight("JFK", 9), flight("EWR", 9), "bad"])
    run(pipeline)
    forget_last_commit(tmp_path / "all pipelines" / "ids")
    run(pipeline)
    assert sorted(json.loads(t)["origin"] for t in broker.texts("OUT")) == ["EWR", "JFK"]
    assert broker.texts("BAD") == ["bad"]
