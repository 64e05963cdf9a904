"""All that is wrong with pipelines that shall run together, before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pytest_mock import MockerFixture

from pyjms.spark import Pipeline
from pyjms.spark.checks import check_pipelines, ddl_problems

pytest.importorskip("pyspark")


DDL = (
    "origin STRING, delay DOUBLE",
    "a int not null comment 'an INTT, it''s said', b: long, `c d` timestamp_ntz",
    "STRUCT<a: INT, b: ARRAY<STRING>>",
    "m MAP<STRING, ARRAY<STRUCT<x: DECIMAL(10, 2), y: VARIANT>>>, n Tinyint",
    "s STRUCT<>, t STRING COLLATE UTF8_BINARY, v VARIANT",
    "struct STRING, d DEC(3), x ARRAY<TIMESTAMP WITHOUT TIME ZONE> -- INTT\n, y BYTE",
)
"""Spark reads each of them, see tests/integration/spark."""


class Loose(BaseModel):
    anything: object


def made(name: str, **values: Any) -> Pipeline:
    base = {"sql": "SELECT * FROM messages", "source": f"IN.{name}", "sink": f"OUT.{name}"}
    return Pipeline(name=name, **{**base, **values})


@pytest.fixture
def java(tmp_path: Path) -> str:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.1"\n')
    return str(tmp_path)


def test_nothing_is_wrong_with_these(java: str) -> None:
    first = made("a", sink="IN.b", broker="main", options={"selector": "x = 1"})
    chained = made(
        "b",
        schema="n INT",
        dead_letter="fail",
        sink="parquet:/x",
        options={"sink.compression": "zstd", "startingOffset": "latest"},
    )
    assert check_pipelines([first, chained], brokers=["main"], java=java) == []


@pytest.mark.parametrize(
    ("pipelines", "sentence"),
    [
        ([made("a"), made("a", source="X")], "name a is used 2 times, by a; give each its own"),
        (
            [made("a", checkpoint="c"), made("b", checkpoint="c")],
            "checkpoint c is used 2 times, by a and b; give each its own",
        ),
        (
            [made("a", source="X"), made("b", source="queue://X")],
            (
                "source queue://X is read 2 times, by a and b, but a queue has one reader; send to a "
                "virtual topic, and read Consumer.NAME.VirtualTopic.X in each"
            ),
        ),
        (
            [made("a", source="X.>"), made("b", source="Y,X.1")],
            (
                "source queue://X.1 is read 2 times, by a and b, but a queue has one reader; send to "
                "a virtual topic, and read Consumer.NAME.VirtualTopic.X in each"
            ),
        ),
        (
            [made("a", source="X.>", sink="X.out")],
            (
                "Pipeline a: sink queue://X.out is also its source, so it would read what it sends; "
                "use another"
            ),
        ),
        (
            [made("a", broker="maim")],
            "Pipeline a: broker maim is not in `brokers`; did you mean main?",
        ),
        (
            [made("a", sink="queue://IN.a")],
            (
                "Pipeline a: sink queue://IN.a is also its source, so it would read what it sends; "
                "use another"
            ),
        ),
        (
            [made("a", schema="n INT", dead_letter="IN.a")],
            (
                "Pipeline a: dead_letter queue://IN.a is also its source, so it would read what it "
                "sends; use another"
            ),
        ),
        (
            [made("a", source="ActiveMQ.DLQ", schema="n INT")],
            (
                "Pipeline a: dead_letter queue://ActiveMQ.DLQ is also its source, so it would read "
                "what it sends; use another"
            ),
        ),
        (
            [made("a", source="Consumer.a.VirtualTopic.x", sink="topic://VirtualTopic.x")],
            (
                "Pipeline a: sink topic://VirtualTopic.x is copied to its source "
                "queue://Consumer.a.VirtualTopic.x, so it would read what it sends; use another"
            ),
        ),
        (
            [
                made(
                    "a",
                    source={"s": "topic://s", "t": "topic://t"},
                    sql="SELECT * FROM s JOIN t",
                    options={"clientId": "c", "subscription": "d"},
                )
            ],
            (
                "Pipeline a: sources topic://s and topic://t are topics, which would share one "
                "durable subscription; replace all but one by the queue of a virtual topic"
            ),
        ),
        (
            [made("a", source="topic://t", options={"clientid": "c"})],
            (
                "Pipeline a: source topic://t is a topic, which needs the options subscription for a "
                "durable subscription; set them, or read the queue of a virtual topic"
            ),
        ),
        (
            [made("a", sql="SELECT 'messages' FROM message -- messages")],
            "Pipeline a: its sql does not read messages; write FROM messages",
        ),
        (
            [made("a", source={"x": "X", "y": "Y"}, sql="SELECT * FROM x")],
            "Pipeline a: its sql does not read y; write FROM y, or remove that source",
        ),
        (
            [made("a", options={"selectr": "x"})],
            "Pipeline a: jms: unknown option selectr (did you mean selector?)",
        ),
        (
            [made("a", options={"mode": "spool", "startingOffset": "7"})],
            (
                "Pipeline a: jms: startingOffset 7 has no effect through a spool, which starts with "
                "all messages on the queue (remove it; only ranges, with a broker that serves them, can start elsewhere)"
            ),
        ),
        (
            [made("a", options={"mode": "spool", "startingOffset": "first"})],
            (
                "Pipeline a: jms: option startingOffset is not earliest, latest or a sequence "
                "number"
            ),
        ),
        (
            [made("a", options={"sink.selector": "x"})],
            "Pipeline a: jms: option selector has no effect in a sink (remove it: it is for batch, stream)",
        ),
        (
            [made("a", schema="t TIMESTAMP, delay INTT")],
            "Pipeline a: schema: INTT of delay is not a type of bodies; did you mean INT?",
        ),
        (
            [
                made(
                    "a",
                    source={"x": "X", "y": "Y"},
                    sql="SELECT * FROM x JOIN y",
                    schema={"x": "n INT", "y": "n"},
                )
            ],
            "Pipeline a: schema of y: n has no type; write for example `n STRING`",
        ),
    ],
)  # fmt: skip
def test_a_problem_is_a_sentence(pipelines: list[Pipeline], sentence: str, java: str) -> None:
    assert check_pipelines(pipelines, brokers=["main"], java=java) == [sentence]


def test_a_selector_is_read_before_spark_starts(java: str) -> None:
    (sentence,) = check_pipelines([made("a", options={"Selector": "a == 1"})], java=java)
    assert sentence.startswith("Pipeline a: selector 'a == 1' is not valid: ")
    assert check_pipelines([made("a", options={"selector": ""})], java=java) == []


@pytest.mark.parametrize("text", DDL)
def test_ddl_that_spark_reads_is_let_through(text: str) -> None:
    assert ddl_problems(text) == []


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("INT", ["INT has no type; write for example `INT STRING`"]),
        ("a: strings", ["strings of a is not a type of bodies; did you mean STRING?"]),
        ("a whatsoever", ["whatsoever of a is not a type of bodies"]),
        (
            "a ARRAY<MAP<STRINGS, STRUCT<x: INTT, y INT>>> NOT NULL, b, c DOUBLES",
            [
                "STRINGS of a is not a type of bodies; did you mean STRING?",
                "INTT of x is not a type of bodies; did you mean INT?",
                "b has no type; write for example `b STRING`",
                "DOUBLES of c is not a type of bodies; did you mean DOUBLE?",
            ],
        ),
        ("a struct<b: int, c>", ["c has no type; write for example `c STRING`"]),
    ],
)
def test_types_that_spark_does_not_have(text: str, problems: list[str]) -> None:
    assert ddl_problems(text) == problems


def test_a_schema_without_spark_types_is_found_before_spark_starts(java: str) -> None:
    (sentence,) = check_pipelines([made("a", schema=Loose)], java=java)
    assert sentence.startswith("Pipeline a: Schema Loose: Loose.anything: object has no Spark type")


def test_everything_is_reported_at_once(tmp_path: Path) -> None:
    first = made("a", schema="n INT", dead_letter="Q", source="Q")
    pipelines = [first, made("b", source="Q", sql="SELECT 1")]
    java, shared, loop, view = check_pipelines(pipelines, java=str(tmp_path / "nowhere"))
    assert java.startswith("spark.java is ")
    assert shared.startswith("source queue://Q is read 2 times, by a and b")
    assert loop.startswith("Pipeline a: dead_letter queue://Q is also its source")
    assert view.startswith("Pipeline b: its sql does not read messages")


def test_what_is_not_installed_is_named(java: str, mocker: MockerFixture) -> None:
    mocker.patch("importlib.metadata.version", return_value="3.5.1")
    (sentence,) = check_pipelines([made("a")], java=java)
    assert sentence.startswith("pyspark 3.5.1 is installed, but pyspark>=4.2,<5 is required")
