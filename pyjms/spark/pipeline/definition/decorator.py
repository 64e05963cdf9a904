"""`@jms_pipeline`: marks a function as a pipeline and returns it unchanged.

The function stays a pure function from DataFrame to DataFrame, so it can be tested with
`createDataFrame` and without a broker. Nothing here needs Spark. (spark-pipeline 6.2)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.spark.pipeline.definition.pipeline import Pipeline

if TYPE_CHECKING:
    from datetime import timedelta

    from pyjms.spark.pipeline.schema.types import Schema

__all__ = ["find_pipelines", "jms_pipeline", "pipeline_marks"]

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE: Final = "__jms_pipelines__"


def jms_pipeline(
    source: str | Mapping[str, str],
    *,
    sink: str,
    name: str | None = None,
    schema: Schema | Mapping[str, Schema] | None = None,
    dead_letter: str | None = None,
    trigger: float | str | timedelta = 0.0,
    checkpoint: str | None = None,
    output_mode: str = "append",
    exactly_once: str = "epoch",
    id_column: str | None = None,
    partitions: int = 2,
    max_messages_per_trigger: int | None = None,
    broker: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Mark a function as a Spark pipeline that transforms messages of `source` for `sink`.

    The function takes and returns a DataFrame. With a `schema`, it gets the schema's columns and a
    struct `jms` (message_id, seq, timestamp, destination, correlation_id, type, properties);
    messages that do not match the schema go to `dead_letter`. Without a schema it gets the columns
    of the format `jms`. With several named sources it is called with one DataFrame per source, as
    keyword arguments.

    A result with a column `text`, `bytes` or `body` is sent as it is: its columns are those of a
    message (also `destination`, `properties`, `correlation_id` ...), and any other column is an
    error. Any other result is sent as JSON, one row per text message: all columns but `jms`,
    including nulls, with times in ISO 8601. To choose the destination row by row, select
    `to_json(struct(*)) AS text, destination`. Columns that only describe the origin of a message
    (`seq`, `message_id` ..., an unchanged `destination`) are not sent.

    A missing key and null are the same to Spark: both give the model's default, or None, or an
    invalid message. A number may be given as a string (`"2"`), and a string as a number; schemas
    with validators written in Python are rejected. A function may be marked several times, with
    different names.

    The mark alone starts nothing and does not block; `pyjms pipeline run` and `PipelineRunner` run
    marked functions.

    Args:
        source: the name of a queue, `queue://...`, `topic://...`, or several destinations by name.
        sink: a destination, or `parquet:FOLDER`.
        name: the pipeline's name; the name of the function by default.
        schema: a pydantic model, or columns in Spark's DDL; or one per source, by name.
        dead_letter: a destination, or `fail` to stop at the first invalid message; the broker's
            `ActiveMQ.DLQ` by default.
        trigger: the interval between the starts of two batches: seconds, a timedelta, or a text
            such as `500ms`, `2s` or `2 seconds`; 0 starts a batch as soon as messages arrive.
        checkpoint: the name of the checkpoint folder; the pipeline's name by default.
        output_mode: `append`, `update` or `complete`, as in Spark.
        exactly_once: `epoch`, `ids` or `off`.
        id_column: with `ids`, the column that identifies a row.
        partitions: the number of tasks that read a batch of a source.
        max_messages_per_trigger: the maximum of messages per source in a batch; 10,000 by default.
        broker: the name of a broker in `brokers` of the settings; the broker of `activemq` by
            default.
        options: further options of the format `jms`, for example `selector`; `sink.NAME` is an
            option of the sink.

    Returns:
        A decorator that returns the function itself.

    Raises:
        ConfigurationException: values are invalid or contradict each other; all are listed.

    """
    given: dict[str, Any] = {
        "source": source,
        "schema": schema,
        "sink": sink,
        "dead_letter": dead_letter,
        "trigger": trigger,
        "checkpoint": checkpoint,
        "output_mode": output_mode,
        "exactly_once": exactly_once,
        "id_column": id_column,
        "partitions": partitions,
        "max_messages_per_trigger": max_messages_per_trigger,
        "broker": broker,
    }

    def add_mark(function: F) -> F:
        pipeline_name = name or str(getattr(function, "__name__", ""))
        mark = Pipeline(name=pipeline_name, function=function, options=dict(options or {}), **given)
        # decorators apply from the bottom up; keep their order in the source
        setattr(function, _ATTRIBUTE, (mark, *pipeline_marks(function)))
        return function

    return add_mark


def pipeline_marks(function: object) -> tuple[Pipeline, ...]:
    """Return the pipelines that a function is marked with, in source order.

    Args:
        function: any object; one without marks gives an empty tuple.

    """
    marks: tuple[Pipeline, ...] = getattr(function, _ATTRIBUTE, ())
    return marks


def find_pipelines(module: ModuleType) -> list[Pipeline]:
    """Return the pipelines of the functions that a module defines, in their order.

    Functions that the module only imports are excluded.
    """
    own = [
        value
        for value in vars(module).values()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    distinct = {id(function): function for function in own}
    return [mark for function in distinct.values() for mark in pipeline_marks(function)]
