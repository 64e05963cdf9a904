"""Pipelines as data: the decorator, the values, and the sentences about wrong ones."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from pyjms.errors import ConfigurationException
from pyjms.spark import Pipeline, find_pipelines, jms_pipeline, pipeline_marks
from pyjms.spark.pipeline import read_trigger


class Flight(BaseModel):
    origin: str


def made(**values: Any) -> Pipeline:
    return Pipeline(**{"name": "p", "sql": "SELECT 1", "source": "IN", "sink": "OUT"} | values)


def test_the_decorator_marks_and_returns_the_function_itself() -> None:
    def delays(flights: Any) -> Any:
        return flights

    marked = jms_pipeline("flights", sink="delays", schema=Flight, trigger="2 seconds")(delays)
    assert marked is delays
    (pipeline,) = pipeline_marks(delays)
    assert (pipeline.name, pipeline.function, pipeline.trigger) == ("delays", delays, 2.0)
    assert dict(pipeline.sources) == {"messages": "flights"}
    assert dict(pipeline.schemas) == {"messages": Flight}
    assert (pipeline.output_mode, pipeline.exactly_once) == ("append", "epoch")
    assert (pipeline.checkpoint_name, pipeline.dead_letter, pipeline.folder) == (
        "delays", None, None
    )  # fmt: skip


def test_marks_repeat_in_the_order_of_reading() -> None:
    @jms_pipeline("a", sink="b", name="first")
    @jms_pipeline("c", sink="d", name="second")
    def function(frame: Any) -> Any:
        return frame

    assert [mark.name for mark in pipeline_marks(function)] == ["first", "second"]


def test_a_modules_own_functions_are_found_once_each() -> None:
    module = ModuleType("m")
    code = """
from pyjms.spark import jms_pipeline
from tests_other import other
@jms_pipeline("a", sink="b")
def one(frame): return frame
again = one
@jms_pipeline("c", sink="d")
def two(frame): return frame
"""
    there = ModuleType("tests_other")
    there.other = jms_pipeline("x", sink="y", name="other")(lambda frame: frame)  # type: ignore[attr-defined]
    sys.modules["tests_other"] = there
    try:
        exec(code, module.__dict__)
    finally:
        del sys.modules["tests_other"]
    assert [pipeline.name for pipeline in find_pipelines(module)] == ["one", "two"]


def test_importing_it_needs_neither_spark_nor_pydantic() -> None:
    code = (
        "import sys, pyjms.spark.pipeline\n"
        "print([m for m in sys.modules if m.partition('.')[0] in "
        "('pyspark', 'pydantic', 'pydantic_settings', 'pyarrow')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0), (1.5, 1.5), ("0", 0.0), ("2s", 2.0), ("2 seconds", 2.0), ("500ms", 0.5),
        ("250 milliseconds", 0.25), ("1 minute", 60.0), ("1h", 3600.0), ("0 seconds", 0.0),
        (timedelta(minutes=2), 120.0),
    ],
)  # fmt: skip
def test_triggers_are_seconds_or_texts_with_a_unit(value: object, seconds: float) -> None:
    assert read_trigger(value) == seconds


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": "a b"}, "name 'a b' cannot be the name of a folder; use letters, digits"),
        ({"checkpoint": "../x"}, "checkpoint '../x' cannot be the name of a folder"),
        ({"checkpoint": "s3a://b/x"}, "checkpoint 's3a://b/x' cannot be the name of a folder"),
        ({"sql": None}, "neither a function nor sql; add sql, or put @jms_pipeline on a function"),
        ({"function": len}, "both a function and sql; remove one"),
        ({"source": ""}, "source is missing; write a destination"),
        ({"source": "vm://x"}, "source 'vm://x' is not a destination; write orders, queue://orders"),
        ({"source": "a?consumer.priority=1"}, "source 'a?consumer.priority=1' has options of a consumer"),
        ({"source": {"a-b": "x"}}, "source name 'a-b' cannot be a view"),
        ({"schema": {"message": "a INT"}}, "'message' does not belong to a source; did you mean messages?"),
        ({"sink": ""}, "sink is missing; write a destination, parquet:FOLDER or format:NAME"),
        ({"sink": "parquet:"}, "sink is missing"),
        ({"sink": "file:///x"}, "sink 'file:///x' is not a destination"),
        ({"dead_letter": "queue://"}, "dead_letter 'queue://' is not a destination"),
        ({"dead_letter": "BAD"}, "dead_letter has no effect without a schema, since any message matches; remove it"),
        ({"dead_letter": "fail"}, "dead_letter has no effect without a schema"),
        ({"dead_letter": "BAD", "schema": {}}, "dead_letter has no effect without a schema"),
        ({"trigger": -1}, "trigger -1 is negative; write a number of seconds, or 0"),
        ({"trigger": "5"}, "trigger '5' has no unit; write 5s or 5ms"),
        ({"trigger": "often"}, "'often' is not an interval between batches; write for example 2s"),
        ({"trigger": "continuous"}, "Spark reads Python sources in micro-batches only"),
        ({"trigger": "realTime"}, "Spark reads Python sources in micro-batches only"),
        ({"trigger": "availableNow"}, "use --once when the pipeline is run"),
        ({"output_mode": "overwrite"}, "output_mode 'overwrite' is not one of append, update"),
        ({"exactly_once": "id"}, "exactly_once 'id' is not one of epoch, ids, off"),
        ({"partitions": 0}, "partitions 0 is not a whole number of at least 1"),
        ({"max_messages_per_trigger": "1"}, "max_messages_per_trigger '1' is not a whole number of at least 1"),
        ({"id_column": "x"}, "id_column has no effect with exactly_once epoch; write exactly_once:"),
        (
            {"exactly_once": "ids", "output_mode": "update"},
            "ids with output_mode update would drop a row that changed",
        ),
        ({"sink": "parquet:/x", "exactly_once": "off"}, "a folder of files is written exactly once"),
        ({"sink": "parquet:/x", "output_mode": "complete"}, "complete would write the whole result"),
        ({"options": {"asyncProgressTrackingEnabled": "true"}}, "lets Spark run ahead of its log"),
        ({"options": {"URL": "tcp://x"}}, "option URL is set by broker; use that instead"),
        ({"options": {"sink.exactlyOnce": "ids"}}, "option sink.exactlyOnce is set by exactly_once"),
        ({"options": {"owner": "me"}}, "option owner is set by the pipeline itself; remove it"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_what_to_write(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        made(**values)
    assert str(caught.value).startswith(f"Pipeline {values.get('name', 'p')}: ")
    assert sentence in str(caught.value)


def test_all_that_is_wrong_is_reported_at_once() -> None:
    with pytest.raises(ConfigurationException) as caught:
        made(sink="", partitions=0, trigger="x")
    assert [word in str(caught.value) for word in ("sink", "partitions", "trigger")] == [True] * 3


def test_a_function_of_several_sources_takes_them_by_name() -> None:
    def join(flights: Any, wind: Any) -> Any:
        return flights

    sources = {"flights": "F", "weather": "W"}
    with pytest.raises(ConfigurationException, match="cannot be called with flights, weather"):
        made(sql=None, function=join, source=sources)
    assert made(sql="SELECT 1", source=sources).is_single is False


def test_settings_change_a_pipeline_and_are_checked_again() -> None:
    values = {"sink": "parquet:/data/x", "schema": "a INT", "dead_letter": "fail"}
    changed = made().with_changes({"trigger": "5s", **values})
    assert (changed.trigger, changed.folder, changed.dead_letter) == (5.0, "/data/x", "fail")
    with pytest.raises(ConfigurationException, match="unknown key triggerr"):
        made().with_changes({"triggerr": 1})
    with pytest.raises(ConfigurationException, match="partitions 0"):
        made().with_changes({"partitions": 0})


def test_options_are_the_sources_or_with_a_prefix_the_sinks() -> None:
    pipeline = made(options={"selector": "a = 1", "sink.compression": "zstd"})
    assert pipeline.options_of_source == {"selector": "a = 1"}
    assert pipeline.options_of_sink == {"compression": "zstd"}


def test_a_placeholder_may_stand_for_a_destination() -> None:
    assert made(source="${SOURCE:queue://a}").source == "${SOURCE:queue://a}"
