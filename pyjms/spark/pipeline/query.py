"""A pipeline as a running query: its sources, its function, one sink for good and bad.

One query with one sink, so that a batch's results and its dead letters are published by the same
transaction. (spark-pipeline 6.2)
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from pyjms.errors import ConfigurationException
from pyjms.spark.jms.options import read_options
from pyjms.spark.jms.sink.writers import check_sink
from pyjms.spark.pipeline.batches import folder_writer, message_writer, two_kinds
from pyjms.spark.pipeline.definition import FAIL, Pipeline
from pyjms.spark.pipeline.fingerprint import open_checkpoint
from pyjms.spark.pipeline.parsing import OBSERVED, parse, schema_type
from pyjms.spark.pipeline.place import PipelinePlace
from pyjms.spark.pipeline.plans import attributes, has_exchange, stateful_operators, streams_read
from pyjms.spark.pipeline.results import ID, dead_letters, message_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["PipelinePlace", "start_query"]

_views = threading.Lock()
"""Views of a session are shared, and SQL needs them only while it is analysed."""
_SPECULATION: Final = "spark.speculation"


class _Built(NamedTuple):
    """A pipeline's plan, before its sink."""

    result: DataFrame
    letters: DataFrame | None
    given: dict[str, int]


def start_query(
    spark: SparkSession, pipeline: Pipeline, place: PipelinePlace, *, once: bool
) -> StreamingQuery:
    """Start a pipeline's query, which is named like it, and return it.

    `once`: it ends when all is done that was there when it began. A query that failed is
    started again by calling this again: it goes on from its checkpoint. Blocks for the planning.

    Raises:
        ConfigurationException: Spark cannot run it, a promise cannot be kept, or its checkpoint
            is another's; whatever the function raises passes.
    """
    checkpoint = open_checkpoint(place, pipeline)
    with _told(pipeline):
        built = _build(spark, pipeline, place, checkpoint.owner)
        _check_plan(spark, pipeline, built)
        writer = _writer(pipeline, place, built)
        state = stateful_operators(built.result)
        checkpoint.check(state, ".".join(spark.version.split(".")[:2]))
        writer = writer.queryName(pipeline.name).outputMode(pipeline.output_mode)
        writer = writer.option("checkpointLocation", f"file://{place.checkpoint.absolute()}")
        milliseconds = round(pipeline.trigger * 1000)
        return (
            writer.trigger(availableNow=True)
            if once
            else writer.trigger(processingTime=f"{milliseconds} milliseconds")
        ).start()


def _build(spark: SparkSession, pipeline: Pipeline, place: PipelinePlace, owner: str) -> _Built:
    frames: dict[str, DataFrame] = {}
    letters: list[DataFrame] = []
    given: dict[str, int] = {}
    stopping = pipeline.name if pipeline.dead_letter == FAIL else None
    for name, source in pipeline.sources.items():
        options = place.source_options(pipeline, name, owner)
        messages = spark.readStream.format("jms").options(**options).load(source)
        schema = pipeline.schemas.get(name)
        if schema is None:
            # aliases: a frame joined with itself is then one source still, not two
            named = messages.select(*(F.col(column).alias(column) for column in messages.columns))
            counted = F.count(F.lit(1)).alias("messages")
            frames[name] = named.observe(f"{OBSERVED}_{name}", counted)
            given |= attributes(named)
            continue
        with _named(pipeline):
            struct = schema_type(schema)
        good, bad = parse(messages, struct, name, stopping)
        frames[name] = good
        if stopping is None:
            letters.append(dead_letters(bad, pipeline))
    result = _result(spark, pipeline, frames)
    return _Built(result, reduce(DataFrame.unionByName, letters) if letters else None, given)


def _result(spark: SparkSession, pipeline: Pipeline, frames: dict[str, DataFrame]) -> DataFrame:
    if pipeline.sql is not None:
        return _query(spark, pipeline.sql, frames)
    assert pipeline.function is not None
    result: Any = (
        pipeline.function(*frames.values()) if pipeline.is_single else pipeline.function(**frames)
    )
    if not isinstance(result, DataFrame):
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: its function returned {type(result).__name__}",
            hint="return a DataFrame made of the one it is given; Spark runs it later",
        )
    return result


def _query(spark: SparkSession, sql: str, frames: dict[str, DataFrame]) -> DataFrame:
    with _views:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        try:
            return spark.sql(sql)
        finally:
            for name in frames:
                spark.catalog.dropTempView(name)


def _check_plan(spark: SparkSession, pipeline: Pipeline, built: _Built) -> None:
    problems = []
    if not built.result.isStreaming:
        problems.append("its result is no stream: it does not come from what it is given")
    elif streams_read(built.result) > len(pipeline.sources):
        problems.append(
            "it reads queues that are not its sources; write all of them as source={name: queue}, "
            "and take them as arguments"
        )
    elif (
        pipeline.exactly_once == "ids" and pipeline.id_column is None and has_exchange(built.result)
    ):
        problems.append(
            "exactly_once ids numbers the rows, and its plan moves rows between partitions, so a "
            "batch that comes again has other numbers; write id_column, or exactly_once: epoch"
        )
    if str(spark.conf.get(_SPECULATION, "false")).lower() == "true":
        problems.append(f"{_SPECULATION} is on, and sends rows twice; turn it off in spark.conf")
    if problems:
        raise ConfigurationException(f"Pipeline {pipeline.name}: {'; '.join(problems)}")


def _writer(pipeline: Pipeline, place: PipelinePlace, built: _Built) -> DataStreamWriter:
    options = place.options(pipeline) | {"exactlyOnce": pipeline.exactly_once}
    if pipeline.folder is not None:
        kinds = two_kinds(built.result, built.letters)
        write = folder_writer(pipeline.folder, pipeline.options_of_sink, options)
        return kinds.writeStream.foreachBatch(write)
    rows = message_rows(built.result, pipeline, built.given)
    if built.letters is not None:
        rows = rows.unionByName(built.letters, allowMissingColumns=True)
    options |= {"destination": pipeline.sink, **pipeline.options_of_sink}
    if pipeline.exactly_once == "ids":
        options |= {"idColumn": ID} if pipeline.id_column is not None else {"mapOnly": "true"}
    with _named(pipeline):
        check_sink(read_options(options, "sink"), rows.schema, streaming=True)
    if pipeline.output_mode != "append":
        return rows.writeStream.foreachBatch(message_writer(options))
    return rows.writeStream.format("jms").options(**options)


@contextlib.contextmanager
def _named(pipeline: Pipeline) -> Iterator[None]:
    """Say which pipeline it is that is wrong."""
    try:
        yield
    except ConfigurationException as error:
        raise ConfigurationException(f"Pipeline {pipeline.name}: {error}") from error


@contextlib.contextmanager
def _told(pipeline: Pipeline) -> Iterator[None]:
    """Say which pipeline it is that Spark does not take."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException, ParseException) as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: Spark cannot run it: {reason}"
        ) from error
