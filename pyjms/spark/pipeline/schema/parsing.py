"""Messages as typed rows: bodies are read as JSON, and valid and invalid messages separated.

Valid and invalid messages are two branches of one stream: Spark computes the offsets of its source
once, so both branches see the same messages. (spark-pipeline 6.2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from pyjms.errors import ConfigurationException
from pyjms.spark.columns import DAMAGED, MESSAGE_COLUMNS
from pyjms.spark.pipeline.schema.bodies import (
    END,
    body_text,
    first_object,
    keys_of,
    no_single_object,
    quote_numbers,
    read_objects,
)
from pyjms.spark.pipeline.schema.conversion import converted, first_not_null, problem
from pyjms.spark.pipeline.schema.ddl import ddl_type
from pyjms.spark.pipeline.schema.models import model_type
from pyjms.spark.pipeline.schema.types import Field, Native, Scalar, Struct, raw_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyjms.spark.pipeline.schema.types import Schema

__all__ = ["JMS", "OBSERVED", "REASON", "Parsed", "parse", "schema_type"]

JMS: Final = "jms"
"""The struct column with the origin of a row."""
REASON: Final = "pyjms_reason"
"""The column of invalid messages that says why."""
OBSERVED: Final = "pyjms"
"""The prefix of the observed metrics: `messages` read, and `dead_letters` among them."""
_ORIGIN: Final = (
    "message_id", "seq", "timestamp", "destination", "correlation_id", "type", "properties",
)  # fmt: skip
_READ: Final = "pyjms_read"
_PLAIN: Final = "pyjms_plain"
_VALUE: Final = "pyjms_value"
_END: Final = Field(END, END, Scalar("string"), required=False)


class Parsed(NamedTuple):
    """The two branches: rows of the schema, and invalid messages with a reason."""

    valid: DataFrame
    invalid: DataFrame


def schema_type(schema: Schema) -> Struct:
    """Return the type tree of a pipeline's schema; DDL needs a Spark session.

    Raises:
        ConfigurationException: it is not a usable schema.
    """
    struct = ddl_type(schema) if isinstance(schema, str) else model_type(schema)
    names = [field.name for field in struct.fields]
    if JMS in names:
        raise ConfigurationException(
            f"schema has a field {JMS}, which is the name of the column with the origin of a row",
            hint="rename the field; in a model, an alias keeps the key of the JSON",
        )
    if not names:
        raise ConfigurationException("schema has no fields", hint="remove it to get plain messages")
    return struct


def parse(messages: DataFrame, struct: Struct, source: str, pipeline: str | None) -> Parsed:
    """Return messages of the format `jms` as rows of the schema, and those that do not match it.

    Both are counted as observed metrics. `pipeline`: the pipeline's name, if an invalid message
    must stop it; the error names the number of the message.
    """
    read, raw = _read(messages, struct)
    checked = read.select(
        *(name for name, _ in MESSAGE_COLUMNS),
        converted(raw, struct).alias(_VALUE),
        _reason(raw, struct).alias(REASON),
    )
    # this also keeps Spark from parsing twice, as it moves no filter below it
    counted = checked.observe(
        f"{OBSERVED}_{source}",
        F.count(F.lit(1)).alias("messages"),
        F.count(F.col(REASON)).alias("dead_letters"),
    )
    is_valid = F.col(REASON).isNull()
    valid = counted.where(is_valid if pipeline is None else is_valid | _failure(pipeline))
    return Parsed(
        valid.select(
            *(F.col(_VALUE).getField(field.name).alias(field.name) for field in struct.fields),
            F.struct(*_ORIGIN).alias(JMS),
        ),
        counted.where(F.col(REASON).isNotNull()).drop(_VALUE),
    )


def _read(messages: DataFrame, struct: Struct) -> tuple[DataFrame, Column]:
    """Return messages with the result of the JSON reader, and the object in it.

    Columns of native types are read separately, with their numbers unchanged.
    """
    plain = tuple(field for field in struct.fields if isinstance(field.type, Native))
    exact = tuple(field for field in struct.fields if field not in plain)
    numbers = quote_numbers(body_text())
    read = messages.withColumn(_READ, read_objects(numbers, raw_ddl(Struct((*exact, _END)))))
    raw = first_object(F.col(_READ))
    if not plain:
        return read, raw
    read = read.withColumn(_PLAIN, read_objects(body_text(), raw_ddl(Struct((*plain, _END)))))
    other = first_object(F.col(_PLAIN))
    keys = [
        (other if field in plain else raw).getField(field.key).alias(field.key)
        for field in struct.fields
    ]
    return read, F.when(raw.isNotNull(), F.struct(*keys))


def _failure(pipeline: str) -> Column:
    """Return a condition that raises an error when it is evaluated."""
    text = F.format_string(
        f"Pipeline {pipeline}: message seq %d (%s) of %s: %s; dead_letter is `fail`",
        "seq", "message_id", "destination", REASON,
    )  # fmt: skip
    return F.raise_error(text).cast("boolean")


def _reason(raw: Column, struct: Struct) -> Column:
    damaged = F.when(F.col("body_kind") == DAMAGED, F.lit("the message is damaged"))
    sentences = [damaged, *no_single_object(F.col(_READ))]
    if any(isinstance(field.type, Native) for field in struct.fields):
        sentences += no_single_object(F.col(_PLAIN))
    sentences.append(problem(raw, struct, ""))
    if struct.is_closed:
        known = F.array(*(F.lit(field.key) for field in struct.fields))
        other = F.array_except(keys_of(body_text()), known)
        sentences.append(
            F.when(
                F.size(other) > 0, F.concat(F.get(other, 0), F.lit(" is not a key of the schema"))
            )
        )
    return first_not_null(sentences)
