"""Rows to what the sink takes: a pipeline's result, and the messages that did not fit.

Columns are a message's if one of them is its body; else the row is its body, as JSON.
(spark-pipeline 6.1, 6.2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import MapType

from pyjms.errors import ConfigurationException
from pyjms.spark.columns import MESSAGE_COLUMNS
from pyjms.spark.jms.sink.rows import BODIES, DUPLICATE_ID, PLACES
from pyjms.spark.pipeline.parsing import JMS, REASON
from pyjms.spark.pipeline.plans import attributes
from pyjms.spark.pipeline.types import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pyjms.spark.pipeline.definition import Pipeline

__all__ = ["DEFAULT_DEAD_LETTER", "ID", "dead_letters", "message_rows"]

DEFAULT_DEAD_LETTER: Final = "queue://ActiveMQ.DLQ"
ID: Final = "pyjms_id"
"""The column of a row's id, for `exactlyOnce=ids`."""
_DESTINATION: Final = "destination"
_TEXTS: Final = "map<string,string>"
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}
_NOT_SENT: Final = frozenset(name for name, _ in MESSAGE_COLUMNS if name not in PLACES) | {JMS}
"""What says where a message came from; no other message has it."""
_KEPT: Final = (
    "correlation_id", "type", "reply_to", "group_id", "priority", "delivery_mode", "text",
)  # fmt: skip
_OWN_PROPERTIES: Final = rf"^(AMQ_SCHEDULED_.*|scheduledJobId|{DUPLICATE_ID}|PyJMS.*)$"
"""Properties that would make a dead letter wait, or pass for the message that it was."""


def message_rows(result: DataFrame, pipeline: Pipeline, given: Mapping[str, int]) -> DataFrame:
    """Return a result in the columns of the sink of the format `jms`.

    `given`: the columns that came from the source, by the numbers that Spark knows them by.

    Raises:
        ConfigurationException: a column has no place in a message.
    """
    columns = attributes(result)
    routes = _DESTINATION in columns and columns[_DESTINATION] != given.get(_DESTINATION)
    if any(body in columns for body in BODIES):
        kept = [n for n in columns if n not in _NOT_SENT and (n != _DESTINATION or routes)]
        _check(kept, pipeline)
        made = [
            _properties(result, pipeline) if name == "properties" else F.col(name)
            for name in kept
            if name in PLACES
        ]
    else:
        body = [name for name in columns if name != JMS]
        if not body:
            raise ConfigurationException(f"Pipeline {pipeline.name}: its result has no columns")
        made = [F.to_json(F.struct(*map(quoted, body)), _JSON).alias("text")]
    if pipeline.id_column is not None:
        own = F.col(pipeline.id_column).cast("string")  # a sink may be others', too
        made.append(F.concat(F.lit(f"{pipeline.name}:"), own).alias(ID))
    return result.select(*made)


def dead_letters(bad: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return messages that do not fit as they came, and with properties that say why."""
    told = F.create_map(
        *(
            part
            for name, value in {
                "dlqDeliveryFailureCause": F.col(REASON),
                "PyJMSPipeline": F.lit(pipeline.name),
                "PyJMSOriginalMessageID": F.col("message_id"),
                "PyJMSOriginalDestination": F.col(_DESTINATION),
                "PyJMSOriginalBody": F.col("body_kind"),
            }.items()
            for part in (F.lit(name), value)
        )
    )
    old = F.map_filter(
        F.coalesce("properties", F.create_map().cast(_TEXTS)),
        lambda name, _: ~name.rlike(_OWN_PROPERTIES) & (name != "dlqDeliveryFailureCause"),
    )
    made = [
        F.lit(pipeline.dead_letter or DEFAULT_DEAD_LETTER).alias(_DESTINATION),
        *map(F.col, _KEPT),
        F.when(F.col("text").isNull(), F.col("bytes")).alias("bytes"),
        F.map_concat(old, told).alias("properties"),
    ]
    if pipeline.exactly_once == "ids" and pipeline.id_column is not None:
        made.append(F.concat(F.lit(f"{pipeline.name}::"), "message_id").alias(ID))
    return bad.select(*made)


def _check(columns: list[str], pipeline: Pipeline) -> None:
    unknown = [name for name in columns if name not in PLACES and name != pipeline.id_column]
    if unknown:
        body = next(name for name in columns if name in BODIES)
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: its result has a column {body}, so its columns are those "
            f"of a message, and a message has no place for {', '.join(unknown)}",
            hint=f"known are {', '.join(PLACES)}; to send the whole row as JSON, rename {body}, "
            "or select to_json(struct(*)) AS text",
        )


def _properties(result: DataFrame, pipeline: Pipeline) -> Column:
    """The properties, as texts beside dead letters: a union has one type."""
    if not isinstance(result.schema["properties"].dataType, MapType):
        raise ConfigurationException(
            f"Pipeline {pipeline.name}: column properties is no map", hint="map('name', 'value')"
        )
    properties = F.col("properties")
    return properties.cast(_TEXTS).alias("properties") if pipeline.schemas else properties
