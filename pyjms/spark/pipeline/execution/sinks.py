"""The output of a pipeline: its result and its dead letters as rows of the sink, by batch.

A result whose columns include a message body (`text`, `bytes`, `body`) is a message, column by
column; any other result is sent as JSON. Sinks that receive whole batches (destinations in update
mode, Parquet folders) identify a batch by its number, which is the same when Spark runs the batch
again: a destination drops the repetition, a folder is overwritten. (spark-pipeline 3.4, 6.1, 6.2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import MapType

from pyjms.errors import ConfigurationException
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY, FAILURE_CAUSE
from pyjms.spark.columns import MESSAGE_COLUMNS
from pyjms.spark.jms.sink.rows import BODIES, SINK_COLUMNS
from pyjms.spark.pipeline.definition.values import DEFAULT_DEAD_LETTER
from pyjms.spark.pipeline.execution.plans import column_ids
from pyjms.spark.pipeline.schema.parsing import JMS, REASON
from pyjms.spark.pipeline.schema.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyjms.spark.pipeline.definition.pipeline import Pipeline

    BatchWriter = Callable[[DataFrame, int], None]
    """A function that Spark calls with each batch and its number (`foreachBatch`)."""

__all__ = [
    "ID",
    "dead_letter_rows",
    "message_rows",
    "message_writer",
    "parquet_writer",
    "tagged_rows",
]

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
_ROW: Final = "pyjms_row"
_DEAD_LETTER: Final = "pyjms_letter"


def message_rows(
    result: DataFrame, pipeline: Pipeline, source_columns: Mapping[str, int]
) -> DataFrame:
    """Return a pipeline's result in the columns of the sink of the format `jms`.

    `source_columns`: the ids that Spark gave the columns of the source. A `destination` column
    with the same id is unchanged and does not route the message.

    Raises:
        ConfigurationException: a column cannot be part of a message.
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
        selected = [F.to_json(F.struct(*map(quoted, fields)), _JSON_OPTIONS).alias("text")]
    if pipeline.id_column is not None:
        # with the pipeline's name, as other pipelines may send to the same destination
        row_id = F.col(pipeline.id_column).cast("string")
        selected.append(F.concat(F.lit(f"{pipeline.name}:"), row_id).alias(ID))
    return result.select(*selected)


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


def parquet_writer(
    folder: str, parquet_options: Mapping[str, str], dead_letter_options: Mapping[str, str]
) -> BatchWriter:
    """Return a writer of `tagged_rows` that writes rows to Parquet and sends dead letters.

    Each batch has a folder, named after its query and number. A query with another checkpoint has
    another id, so it never overwrites the files of an older one.
    """

    def write(frame: DataFrame, batch: int) -> None:
        frame.persist()  # both writes see the same rows, and the function runs once
        try:
            rows = frame.where(F.col(_ROW).isNotNull()).select(f"{_ROW}.*")
            if not rows.isEmpty():
                path = f"{folder.rstrip('/')}/query={_query_id(frame)}/batch={batch}"
                rows.write.mode("overwrite").options(**parquet_options).parquet(path)
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
    if not isinstance(result.schema["properties"].dataType, MapType):
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: the column properties of its result is not a map",
            hint="write map('name', 'value') AS properties",
        )
    properties = F.col("properties")
    return properties.cast(_STRING_MAP).alias("properties") if pipeline.schemas else properties
