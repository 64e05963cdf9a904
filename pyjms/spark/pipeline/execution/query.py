"""The start of a pipeline's query: its sources, its function or SQL, and its sink.

Results and dead letters are one query with one sink, so that both are published by the same
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
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.definition.values import FAIL
from pyjms.spark.pipeline.execution.checkpoint import open_checkpoint
from pyjms.spark.pipeline.execution.location import PipelineLocation
from pyjms.spark.pipeline.execution.plans import (
    column_ids,
    count_streams,
    has_exchange,
    stateful_operators,
)
from pyjms.spark.pipeline.execution.sinks import (
    ID,
    dead_letter_rows,
    message_rows,
    message_writer,
    parquet_writer,
    tagged_rows,
)
from pyjms.spark.pipeline.schema.parsing import OBSERVED, parse, schema_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["start_query"]

_views = threading.Lock()
"""Views belong to the whole session, and SQL needs them only while it is analyzed."""
_SPECULATION: Final = "spark.speculation"


class _Plan(NamedTuple):
    """The computation of a pipeline, without its sink."""

    result: DataFrame
    dead_letters: DataFrame | None
    source_columns: dict[str, int]


def start_query(
    spark: SparkSession, pipeline: Pipeline, location: PipelineLocation, *, once: bool
) -> StreamingQuery:
    """Start a pipeline's query and return it. Blocks while Spark plans it.

    The query continues from its checkpoint, so calling this again restarts one that failed.

    Args:
        spark: the session to run on; it has to be the active one of this thread.
        pipeline: the pipeline; its name becomes the name of the query.
        location: its broker and its folder.
        once: end when everything is processed that was available at the start.

    Raises:
        ConfigurationException: Spark cannot run it, the exactly-once level cannot be kept, or the
            checkpoint belongs to another pipeline. What the function raises is not wrapped.

    """
    checkpoint = open_checkpoint(location, pipeline)
    with _spark_errors(pipeline):
        plan = _build(spark, pipeline, location, checkpoint.owner)
        _check_plan(spark, pipeline, plan)
        writer = _writer(pipeline, location, plan)
        state = stateful_operators(plan.result)
        checkpoint.check(state, ".".join(spark.version.split(".")[:2]))
        writer = writer.queryName(pipeline.name).outputMode(pipeline.output_mode)
        writer = writer.option("checkpointLocation", f"file://{location.checkpoint.absolute()}")
        milliseconds = round(pipeline.trigger * 1000)
        return (
            writer.trigger(availableNow=True)
            if once
            else writer.trigger(processingTime=f"{milliseconds} milliseconds")
        ).start()


def _build(
    spark: SparkSession, pipeline: Pipeline, location: PipelineLocation, owner: str
) -> _Plan:
    frames: dict[str, DataFrame] = {}
    dead_letters: list[DataFrame] = []
    source_columns: dict[str, int] = {}
    failing = pipeline.name if pipeline.dead_letter == FAIL else None
    for name, source in pipeline.sources.items():
        options = location.source_options(pipeline, name, owner)
        messages = spark.readStream.format("jms").options(**options).load(source)
        schema = pipeline.schemas.get(name)
        if schema is None:
            # with aliases, a frame that is joined with itself is still one source
            named = messages.select(*(F.col(column).alias(column) for column in messages.columns))
            counted = F.count(F.lit(1)).alias("messages")
            frames[name] = named.observe(f"{OBSERVED}_{name}", counted)
            source_columns |= column_ids(named)
            continue
        with _prefixed_errors(pipeline):
            struct = schema_type(schema)
        valid, invalid = parse(messages, struct, name, failing)
        frames[name] = valid
        if failing is None:
            dead_letters.append(dead_letter_rows(invalid, pipeline))
    result = _result(spark, pipeline, frames)
    union = reduce(DataFrame.unionByName, dead_letters) if dead_letters else None
    return _Plan(result, union, source_columns)


def _result(spark: SparkSession, pipeline: Pipeline, frames: dict[str, DataFrame]) -> DataFrame:
    if pipeline.sql is not None:
        return _run_sql(spark, pipeline.sql, frames)
    assert pipeline.function is not None
    result: Any = (
        pipeline.function(*frames.values()) if pipeline.is_single else pipeline.function(**frames)
    )
    if not isinstance(result, DataFrame):
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: its function returned {type(result).__name__}, not a "
            "DataFrame",
            hint="return a DataFrame derived from its argument; Spark runs it later",
        )
    return result


def _run_sql(spark: SparkSession, sql: str, frames: dict[str, DataFrame]) -> DataFrame:
    with _views:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        try:
            return spark.sql(sql)
        finally:
            for name in frames:
                spark.catalog.dropTempView(name)


def _check_plan(spark: SparkSession, pipeline: Pipeline, plan: _Plan) -> None:
    problems = []
    if not plan.result.isStreaming:
        problems.append(
            "its result is not a stream: derive it from the DataFrame that the function is given"
        )
    elif count_streams(plan.result) > len(pipeline.sources):
        problems.append(
            "it reads queues that are not its sources; declare all of them as "
            "source={name: queue}, and take them as arguments"
        )
    elif (
        pipeline.exactly_once == "ids" and pipeline.id_column is None and has_exchange(plan.result)
    ):
        problems.append(
            "exactly_once ids without id_column numbers the rows, but its plan moves rows between "
            "partitions, so a batch that runs again gets other numbers; set id_column, or write "
            "exactly_once: epoch"
        )
    if str(spark.conf.get(_SPECULATION, "false")).lower() == "true":
        problems.append(
            f"{_SPECULATION} is on and would send rows twice; turn it off in spark.conf"
        )
    if problems:
        raise ConfigurationException(f"Pipeline {pipeline.name}: {'; '.join(problems)}")


def _writer(pipeline: Pipeline, location: PipelineLocation, plan: _Plan) -> DataStreamWriter:
    options = location.options(pipeline) | {"exactlyOnce": pipeline.exactly_once}
    if pipeline.folder is not None:
        rows = tagged_rows(plan.result, plan.dead_letters)
        write = parquet_writer(pipeline.folder, pipeline.options_of_sink, options)
        return rows.writeStream.foreachBatch(write)
    rows = message_rows(plan.result, pipeline, plan.source_columns)
    if plan.dead_letters is not None:
        rows = rows.unionByName(plan.dead_letters, allowMissingColumns=True)
    options |= {"destination": pipeline.sink, **pipeline.options_of_sink}
    if pipeline.exactly_once == "ids":
        options |= {"idColumn": ID} if pipeline.id_column is not None else {"mapOnly": "true"}
    with _prefixed_errors(pipeline):
        check_sink(read_options(options, "sink"), rows.schema, streaming=True)
    if pipeline.output_mode != "append":
        return rows.writeStream.foreachBatch(message_writer(options))
    return rows.writeStream.format("jms").options(**options)


@contextlib.contextmanager
def _prefixed_errors(pipeline: Pipeline) -> Iterator[None]:
    """Add the pipeline's name to configuration errors."""
    try:
        yield
    except ConfigurationException as error:
        raise ConfigurationException(f"Pipeline {pipeline.name}: {error}") from error


@contextlib.contextmanager
def _spark_errors(pipeline: Pipeline) -> Iterator[None]:
    """Report Spark's analysis errors as configuration errors of the pipeline."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException, ParseException) as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: Spark cannot run it: {reason}"
        ) from error
