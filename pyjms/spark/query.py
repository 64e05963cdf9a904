"""A pipeline's query: its sources, its function or SQL, its sink, and its checkpoint.

Results and dead letters are one query with one sink, so that both are published by the same
transaction. With a schema, valid and invalid messages are two branches of one stream: the source
validates bodies (`pyjms.spark.schema`), and gives each message a value or a reason. Spark computes
the offsets of the source once, so both branches see the same messages. (spark-pipeline 6.2)

The plan is examined before it runs. Plans are objects of the JVM; properties that only their text
shows are found in the text of `explain`. (spark-pipeline 3.2, 5 D)

A result whose columns include a message body (`text`, `bytes`, `body`) is a message, column by
column; any other result is sent as JSON. Sinks that receive whole batches (destinations in update
mode, other formats) identify a batch by its number, which is the same when Spark runs the batch
again: a destination drops the repetition, a folder is overwritten. (spark-pipeline 3.4, 6.1, 6.2)
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import MapType, StructType

from pyjms.errors import ConfigurationException
from pyjms.jms.failure_reason import FAILURE_CAUSE
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.spark.checkpoint import PipelineLocation, comparable, open_checkpoint
from pyjms.spark.formats import check_sink, with_models
from pyjms.spark.gateway import explained_plan, jvm_plan
from pyjms.spark.options import BODY_SCHEMA, read_options
from pyjms.spark.outgoing import BODIES, SINK_COLUMNS
from pyjms.spark.pipeline import DEFAULT_DEAD_LETTER, FAIL, Pipeline, Schema
from pyjms.spark.rows import MESSAGE_COLUMNS
from pyjms.spark.schema import (
    REASON,
    VALUE,
    can_be_imported,
    ddl_model,
    encode_schema,
    model_columns,
    struct_of,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["start_query"]

JMS: Final = "jms"
"""The struct column with the origin of a row."""
OBSERVED: Final = "pyjms"
"""The prefix of the observed metrics: `messages` read, and `dead_letters` among them."""
_ORIGIN: Final = (
    "message_id", "seq", "timestamp", "destination", "correlation_id", "type", "properties",
)  # fmt: skip

_EXCHANGE: Final = re.compile(r"^[\s:+\-]*(?:\*\(\d+\) )?\w*Exchange\b", re.MULTILINE)
_STATEFUL: Final = re.compile(
    r"^[\s:+\-]*(?:\*\(\d+\) )?(?P<what>(?:StateStoreSave|SessionWindowStateStoreSave"
    r"|StreamingSymmetricHashJoin|StreamingDeduplicate\w*|FlatMapGroups\w*WithState"
    r"|TransformWithState\w*|StreamingGlobalLimit)\b[^\n]*?)(?:,? state info.*)?$",
    re.MULTILINE,
)
_MERGED: Final = re.compile(r"functions=\[(?P<what>[^\n]*merge_[^\n]*)\]\)", re.MULTILINE)


def has_exchange(frame: DataFrame) -> bool:
    """Return whether rows move between partitions, so that their order varies from run to run."""
    return _EXCHANGE.search(_explain(frame)) is not None


def stateful_operators(frame: DataFrame) -> list[str]:
    """Return the operators that keep state between batches, with their keys and functions."""
    text = _explain(frame)
    found = [*_STATEFUL.finditer(text), *_MERGED.finditer(text)]
    return sorted({comparable(match["what"]) for match in found})


def count_streams(frame: DataFrame) -> int:
    """Return the number of streams of the format `jms`; branches of one stream count once."""
    leaves = _analyze(frame).collectLeaves()
    streams = [
        leaves.apply(number)
        for number in range(leaves.size())
        if leaves.apply(number).isStreaming()
        and leaves.apply(number).nodeName().startswith("StreamingRelation")
        and leaves.apply(number).sourceName() == "jms"
    ]
    return len({stream.output().apply(0).exprId().id() for stream in streams})


def column_ids(frame: DataFrame) -> Mapping[str, int]:
    """Return the columns with Spark's expression ids; a computed column has a new id."""
    output = _analyze(frame).output()
    columns = [output.apply(number) for number in range(output.size())]
    return {column.name(): column.exprId().id() for column in columns}


def _analyze(frame: DataFrame) -> Any:
    return jvm_plan(frame).analyzed()


def _explain(frame: DataFrame) -> str:
    # without the select, Spark would not recognize a frame made by SQL as a stream
    return explained_plan(frame.select("*"))


if TYPE_CHECKING:
    BatchWriter = Callable[[DataFrame, int], None]
    """A function that Spark calls with each batch and its number (`foreachBatch`)."""


class Parsed(NamedTuple):
    """The two branches: rows of the schema, and invalid messages with a reason."""

    valid: DataFrame
    invalid: DataFrame


class BodySchema(NamedTuple):
    """The columns of a schema, and the text of the source's option that validates bodies."""

    columns: StructType
    encoded: str


def body_schema(schema: Schema, *, is_quiet: bool) -> BodySchema:
    """Return the columns of a pipeline's schema. Needs a Spark session.

    `is_quiet`: the reasons of invalid messages quote no validators.
    """
    model = None if isinstance(schema, str) else schema
    if isinstance(schema, str):
        ddl_model(columns := _ddl(schema))  # checks the types
    else:
        columns = struct_of(model_columns(schema))
    if JMS in columns.names:
        raise ConfigurationException(
            f"schema has a field {JMS}, which is the name of the column with the origin of a row",
            hint="rename the field; in a model, an alias keeps the key of the JSON",
        )
    if not columns.names:
        raise ConfigurationException("schema has no fields", hint="remove it to get plain messages")
    return BodySchema(columns, encode_schema(columns, model, is_quiet=is_quiet))


def _ddl(ddl: str) -> StructType:
    try:
        struct = StructType.fromDDL(ddl)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigurationException(
            f"schema is not valid DDL: {reason}",
            hint="write for example `origin STRING, delay DOUBLE`",
        ) from error
    assert isinstance(struct, StructType)
    return struct


def parse(messages: DataFrame, schema: BodySchema, source: str, pipeline: str | None) -> Parsed:
    """Return validated messages as rows of the schema, and those that do not match it.

    Both are counted as observed metrics. `pipeline`: the pipeline's name, if an invalid message
    must stop it; the error names the number of the message.
    """
    read = messages
    if pipeline is not None:  # below the metrics, which need each reason: no filter goes before it
        failure = F.when(F.col(REASON).isNotNull(), _failure(pipeline))
        read = read.withColumn(REASON, failure)
    counted = read.observe(
        f"{OBSERVED}_{source}",
        F.count(F.lit(1)).alias("messages"),
        F.count(F.col(REASON)).alias("dead_letters"),
    )
    valid = counted.where(F.col(REASON).isNull())
    columns = (F.col(VALUE).getField(name).alias(name) for name in schema.columns.names)
    return Parsed(
        valid.select(*columns, F.struct(*_ORIGIN).alias(JMS)),
        counted.where(F.col(REASON).isNotNull()).select(
            *(name for name, _ in MESSAGE_COLUMNS), REASON
        ),
    )


def _failure(pipeline: str) -> Column:
    """Return a column that raises an error when it is evaluated."""
    text = F.format_string(
        f"Pipeline {pipeline}: message seq %d (%s) of %s: %s; dead_letter is `fail`",
        "seq", "message_id", "destination", REASON,
    )  # fmt: skip
    return F.raise_error(text).cast("string")


ID: Final = "pyjms_id"
"""The column of a row's id, for `exactlyOnce=ids`."""
_DESTINATION: Final = "destination"
_STRING_MAP: Final = "map<string,string>"
_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}
_NOT_SENT: Final = frozenset(name for name, _ in MESSAGE_COLUMNS if name not in SINK_COLUMNS) | {
    JMS
}
"""Columns that describe the origin of a message, which a new message does not have."""
_DEAD_LETTER_COLUMNS: Final = (
    "correlation_id", "type", "reply_to", "group_id", "priority", "delivery_mode", "text",
)  # fmt: skip
_DROPPED_PROPERTIES: Final = rf"^(AMQ_SCHEDULED_.*|scheduledJobId|{DUPLICATE_ID_PROPERTY}|PyJMS.*)$"
"""Properties that would delay a dead letter, or make it a duplicate of the original message."""
_QUERY_ID: Final = "sql.streaming.queryId"
_DELTA_QUERY, _DELTA_BATCH = "txnAppId", "txnVersion"
_ROW: Final = "pyjms_row"
_DEAD_LETTER: Final = "pyjms_letter"


def message_rows(
    result: DataFrame, pipeline: Pipeline, source_columns: Mapping[str, int]
) -> DataFrame:
    """Return a pipeline's result in the columns of the sink of the format `jms`.

    `source_columns`: the ids that Spark gave the columns of the source. A `destination` column
    with the same id is unchanged and does not route the message.
    """
    columns = column_ids(result)
    routes = _DESTINATION in columns and columns[_DESTINATION] != source_columns.get(_DESTINATION)
    if any(body in columns for body in BODIES):
        kept = [n for n in columns if n not in _NOT_SENT and (n != _DESTINATION or routes)]
        _check_columns(kept, pipeline)
        selected = [
            _properties(result, pipeline) if name == "properties" else F.col(name)
            for name in kept
            if name in SINK_COLUMNS
        ]
    else:
        fields = [name for name in columns if name != JMS]
        if not fields:
            raise ConfigurationException(
                f"Pipeline {pipeline.name}: its result has no columns",
                hint="select at least one column",
            )
        selected = [F.to_json(F.struct(*map(_quote, fields)), _JSON_OPTIONS).alias("text")]
    if pipeline.id_column is not None:
        # with the pipeline's name, as other pipelines may send to the same destination
        row_id = F.col(pipeline.id_column).cast("string")
        selected.append(F.concat(F.lit(f"{pipeline.name}:"), row_id).alias(ID))
    return result.select(*selected)


def _quote(name: str) -> str:
    """Return a column's name quoted for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def dead_letter_rows(invalid: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return messages that do not match the schema unchanged, with properties that say why."""
    added = F.create_map(
        *(
            part
            for name, value in {
                FAILURE_CAUSE: F.col(REASON),
                "PyJMSPipeline": F.lit(pipeline.name),
                "PyJMSOriginalMessageID": F.col("message_id"),
                "PyJMSOriginalDestination": F.col(_DESTINATION),
                "PyJMSOriginalBody": F.col("body_kind"),
            }.items()
            for part in (F.lit(name), value)
        )
    )
    original = F.map_filter(
        F.coalesce("properties", F.create_map().cast(_STRING_MAP)),
        lambda name, _: ~name.rlike(_DROPPED_PROPERTIES) & (name != FAILURE_CAUSE),
    )
    selected = [
        F.lit(pipeline.dead_letter or DEFAULT_DEAD_LETTER).alias(_DESTINATION),
        *map(F.col, _DEAD_LETTER_COLUMNS),
        F.when(F.col("text").isNull(), F.col("bytes")).alias("bytes"),
        F.map_concat(original, added).alias("properties"),
    ]
    if pipeline.exactly_once == "ids" and pipeline.id_column is not None:
        selected.append(F.concat(F.lit(f"{pipeline.name}::"), "message_id").alias(ID))
    return invalid.select(*selected)


def tagged_rows(rows: DataFrame, dead_letters: DataFrame | None) -> DataFrame:
    """Return rows and dead letters as one stream, each in a separate struct column."""
    tagged = rows.select(F.struct("*").alias(_ROW))
    if dead_letters is None:
        return tagged
    others = dead_letters.select(F.struct("*").alias(_DEAD_LETTER))
    return tagged.unionByName(others, allowMissingColumns=True)


def message_writer(options: Mapping[str, str]) -> BatchWriter:
    """Return a writer that sends batches of messages with these options of the format `jms`."""

    def write(frame: DataFrame, batch: int) -> None:
        _send(frame, options, batch)

    return write


def format_writer(
    format_name: str,
    folder: str | None,
    options: Mapping[str, str],
    dead_letter_options: Mapping[str, str],
) -> BatchWriter:
    """Return a writer of `tagged_rows` that writes rows in a format and sends dead letters.

    In a folder of files each batch has a folder, named after its query and number, which a
    repetition replaces. A query with another checkpoint has another id, so it never overwrites the
    files of an older one. Other formats append; Delta recognizes a repetition by its two options.
    """

    def write(frame: DataFrame, batch: int) -> None:
        frame.persist()  # both writes see the same rows, and the function runs once
        try:
            rows = frame.where(F.col(_ROW).isNotNull()).select(f"{_ROW}.*")
            if not rows.isEmpty():
                query = _query_id(frame)
                writer = rows.write.format(format_name).options(**options)
                if folder is not None:
                    path = f"{folder.rstrip('/')}/query={query}/batch={batch}"
                    writer.mode("overwrite").save(path)
                else:
                    repeated = {_DELTA_QUERY: query, _DELTA_BATCH: str(batch)}
                    own = repeated if format_name == "delta" else {}
                    writer.mode("append").options(**own).save()
            if _DEAD_LETTER in frame.columns:
                dead_letters = frame.where(F.col(_DEAD_LETTER).isNotNull()).select(
                    f"{_DEAD_LETTER}.*"
                )
                _send(dead_letters, dead_letter_options, batch)
        finally:
            frame.unpersist()

    return write


def _send(frame: DataFrame, options: Mapping[str, str], batch: int) -> None:
    writer = frame.write.format("jms").mode("append").options(**options)
    writer.options(queryId=_query_id(frame), batchId=str(batch)).save()


def _query_id(frame: Any) -> str:
    """Return the id of the query whose batch this thread runs; it is stored in the checkpoint."""
    return str(frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID))


def _check_columns(columns: list[str], pipeline: Pipeline) -> None:
    unknown = [name for name in columns if name not in SINK_COLUMNS and name != pipeline.id_column]
    if unknown:
        body = next(name for name in columns if name in BODIES)
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: its result has a column {body}, so its columns are those "
            f"of a message, and {', '.join(unknown)} cannot be part of a message",
            hint=f"the columns of a message are {', '.join(SINK_COLUMNS)}; to send the whole row "
            f"as JSON, rename {body}, or select to_json(struct(*)) AS text",
        )


def _properties(result: DataFrame, pipeline: Pipeline) -> Column:
    """Return the properties; next to dead letters as strings, since a union has one type."""
    kind = result.schema["properties"].dataType
    properties = F.col("properties")
    if not pipeline.schemas:
        return properties
    if isinstance(kind, StructType):
        fields = [part for f in kind for part in (F.lit(f.name), properties[f.name].cast("string"))]
        return F.create_map(*fields).alias("properties")
    if isinstance(kind, MapType):
        return properties.cast(_STRING_MAP).alias("properties")
    raise ConfigurationException(
        f"Pipeline {pipeline.name}: the column properties of its result is neither a map nor a "
        "struct",
        hint="write map('name', 'value') AS properties",
    )


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

    """
    checkpoint = open_checkpoint(location, pipeline)
    _register_format(spark, pipeline)
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


def _register_format(spark: SparkSession, pipeline: Pipeline) -> None:
    """Register the format, with the pipeline's models that Spark's processes cannot import.

    Also because a starting stream writes to variables of its format without a lock, and two at the
    same time break the format for the session ("Illegal size 5 of collection").
    """
    schemas = (schema for schema in pipeline.schemas.values() if not isinstance(schema, str))
    models = tuple(model for model in schemas if not can_be_imported(model))
    try:
        spark.dataSource.register(with_models(models))
    except (TypeError, PicklingError) as error:
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: its schema cannot be sent to Spark's processes: {error}",
            hint="define the model at the top of a module or script, not in a function",
        ) from error


def _build(
    spark: SparkSession, pipeline: Pipeline, location: PipelineLocation, owner: str
) -> _Plan:
    frames: dict[str, DataFrame] = {}
    dead_letters: list[DataFrame] = []
    source_columns: dict[str, int] = {}
    failing = pipeline.name if pipeline.dead_letter == FAIL else None
    for name, source in pipeline.sources.items():
        options = location.source_options(pipeline, name, owner)
        schema = pipeline.schemas.get(name)
        if schema is None:
            messages = spark.readStream.format("jms").options(**options).load(source)
            # with aliases, a frame that is joined with itself is still one source
            named = messages.select(*(F.col(column).alias(column) for column in messages.columns))
            counted = F.count(F.lit(1)).alias("messages")
            frames[name] = named.observe(f"{OBSERVED}_{name}", counted)
            source_columns |= column_ids(named)
            continue
        with _prefixed_errors(pipeline):
            bodies = body_schema(schema, is_quiet=failing is not None)
        options[BODY_SCHEMA] = bodies.encoded
        messages = spark.readStream.format("jms").options(**options).load(source)
        valid, invalid = parse(messages, bodies, name, failing)
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
    if pipeline.format is not None:
        rows = tagged_rows(plan.result, plan.dead_letters)
        own = pipeline.options_of_sink
        write = format_writer(pipeline.format, pipeline.folder, own, options)
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
