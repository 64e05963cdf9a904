"""What only a plan shows, refused before anything runs. No broker is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pytest_mock import MockerFixture

from pyjms.errors import ConfigurationException
from pyjms.spark import Pipeline
from pyjms.spark.checkpoint import PipelineLocation
from pyjms.spark.query import start_query, stateful_operators

pytestmark = pytest.mark.timeout(300)
Refused = Callable[..., str]


@pytest.fixture
def refused(spark: SparkSession, tmp_path: Path) -> Refused:
    """Gives the sentence with which a pipeline is refused."""

    def refused(function: Any = None, **values: Any) -> str:
        base = {"name": "p", "source": "IN", "sink": "OUT", "schema": "a INT, at TIMESTAMP"}
        pipeline = Pipeline(**{**base, "function": function, **values})
        place = PipelineLocation(url="tcp://127.0.0.1:1", folder=tmp_path / "p")
        with pytest.raises(ConfigurationException) as caught:
            start_query(spark, pipeline, place, once=True)
        assert not list(place.checkpoint.glob("offsets/*"))
        assert [query.name for query in spark.streams.active] == []
        return str(caught.value)

    return refused


def reads_another(frame: DataFrame) -> DataFrame:
    other = frame.sparkSession.readStream.format("jms").option("url", "tcp://x").load("OTHER")
    return frame.join(other, F.col("a") == F.col("seq")).select("a")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"function": lambda f: f.repartition(2, "a"), "exactly_once": "ids"},
            (
                "Pipeline p: exactly_once ids without id_column numbers the rows, but its plan moves "
                "rows between partitions, so a batch that runs again gets other numbers; set "
                "id_column, or write exactly_once: epoch"
            ),
        ),
        (
            {"function": reads_another},
            (
                "Pipeline p: it reads queues that are not its sources; declare all of them as source="
                "{name: queue}, and take them as arguments"
            ),
        ),
        ({"function": lambda f: None}, "Pipeline p: its function returned NoneType, not a DataFrame (return a"),
        (
            {"function": lambda f: f.sparkSession.range(3)},
            "Pipeline p: its result is not a stream: derive it from the DataFrame that the function is given",
        ),
        (
            {"function": lambda f: f.select(F.lit("x").alias("text"), "a")},
            (
                "Pipeline p: its result has a column text, so its columns are those of a message, and "
                "a cannot be part of a message (the columns of a message are text, bytes, body, destination,"
            ),
        ),
        (
            {"function": lambda f: f.select(F.lit("x").alias("text"), F.lit(1).alias("properties"))},
            "Pipeline p: the column properties of its result is neither a map nor a struct",
        ),
        (
            {"function": lambda f: f.groupBy("a").count()},
            "Pipeline p: Spark cannot run it: ",
        ),
        ({"function": lambda f: f.select("b")}, "Pipeline p: Spark cannot run it: [UNRESOLVED_COLUMN"),
        ({"sql": "SELEC a FROM messages"}, "Pipeline p: Spark cannot run it: "),
        ({"sql": "SELECT a FROM messages", "schema": "a NO"}, "Pipeline p: schema is not valid DDL: "),
        ({"sql": "SELECT a FROM messages", "schema": "jms INT"}, "Pipeline p: schema has a field jms, which is the name"),
        (
            {"sql": "SELECT a FROM messages", "options": {"sink.selector": "x"}},
            "Pipeline p: jms: option selector has no effect in a sink (remove it: it is for batch, stream)",
        ),
        (
            {"function": lambda f: f.select("a"), "exactly_once": "ids", "id_column": "b"},
            "Pipeline p: Spark cannot run it: [UNRESOLVED_COLUMN",
        ),
    ],
    ids=map(str, range(13)),
)  # fmt: skip
def test_it_is_refused_with_a_sentence(
    refused: Refused, values: dict[str, Any], sentence: str
) -> None:
    assert refused(**values).startswith(sentence)


def test_speculation_sends_twice(
    spark: SparkSession, refused: Refused, mocker: MockerFixture
) -> None:
    real = spark.conf.get

    def get(key: str, *default: Any) -> str | None:
        return "true" if key == "spark.speculation" else real(key, *default)

    mocker.patch.object(type(spark.conf), "get", side_effect=get)
    assert "spark.speculation is on and would send rows twice" in refused(lambda f: f.select("a"))


def test_what_keeps_state_is_recognized_by_keys_and_functions(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    mapped = rows.where("value > 1")
    assert stateful_operators(mapped) == []
    summed = rows.groupBy("value").agg(F.sum("value"))
    again = rows.groupBy("value").agg(F.sum("value"))
    assert stateful_operators(summed) == stateful_operators(again)
    assert any(one.startswith("StateStoreSave [value]") for one in stateful_operators(summed))
    others = [
        rows.groupBy("value").agg(F.max("value")),
        rows.groupBy("value", "timestamp").agg(F.sum("value")),
        rows.dropDuplicatesWithinWatermark(["value"]),
        rows.join(rows.select("value"), "value"),
    ]
    found = [stateful_operators(frame) for frame in [summed, *others]]
    assert all(found)
    assert len({tuple(one) for one in found}) == 5
