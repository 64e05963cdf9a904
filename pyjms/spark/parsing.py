"""Messages as rows of a schema: valid and invalid ones are two branches of one stream.

The source validates bodies (`pyjms.spark.schema`), and gives each message a value or a reason.
Spark computes the offsets of the source once, so both branches see the same messages.
(spark-pipeline 6.2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StructType

from pyjms.errors import ConfigurationException
from pyjms.spark.rows import MESSAGE_COLUMNS
from pyjms.spark.schema import REASON, VALUE, ddl_model, encode_schema, model_columns, struct_of

if TYPE_CHECKING:
    from pyjms.spark.pipeline import Schema

JMS: Final = "jms"
"""The struct column with the origin of a row."""
OBSERVED: Final = "pyjms"
"""The prefix of the observed metrics: `messages` read, and `dead_letters` among them."""
_ORIGIN: Final = (
    "message_id", "seq", "timestamp", "destination", "correlation_id", "type", "properties",
)  # fmt: skip


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
