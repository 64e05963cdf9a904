"""What a pipeline is: `@jms_pipeline` marks a function, settings hold one of SQL; both are data.

A pipeline's function is pure, DataFrame to DataFrame, and comes back from the decorator unchanged,
so it is tested with `createDataFrame` and no broker. Nothing here needs Spark.
(spark-pipeline 6.2)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from pyjms.errors import ConfigurationException
from pyjms.spark.pipeline.values import FAIL, MESSAGES, PARQUET, pipeline_problems, read_trigger

if TYPE_CHECKING:
    from datetime import timedelta

    from pydantic import BaseModel
    from pyspark.sql import DataFrame

__all__ = [
    "FAIL",
    "MESSAGES",
    "PARQUET",
    "Pipeline",
    "Schema",
    "find_pipelines",
    "jms_pipeline",
    "pipeline_marks",
]

F = TypeVar("F", bound=Callable[..., Any])
Schema: TypeAlias = "type[BaseModel] | str"
"""A pydantic model, or columns as Spark's DDL."""

_ATTRIBUTE: Final = "__jms_pipelines__"


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One pipeline: where messages come from, what becomes of them, and where they go.

    Raises:
        ConfigurationException: values are wrong, or do not fit together; all are named.
    """

    name: str
    """Its name: of the query, of its checkpoint's folder, in events and in logs."""
    function: Callable[..., DataFrame] | None = None
    """DataFrame to DataFrame; one argument for a single source, else one a source, by name."""
    sql: str | None = None
    """A query over the view `messages`, or over views named like the sources."""
    source: str | Mapping[str, str] = ""
    """`orders`, `queue://orders` or `topic://prices`; or several of them by name."""
    schema: Schema | Mapping[str, Schema] | None = None
    """What the bodies hold, as JSON; None: the function gets the columns of the format `jms`."""
    sink: str = ""
    """`delays`, `queue://delays`, `topic://delays`, or `parquet:FOLDER`."""
    dead_letter: str | None = None
    """Where messages go that do not fit the schema; None: `ActiveMQ.DLQ`; `fail`: stop."""
    trigger: float = 0.0
    """Seconds between the starts of two batches; 0: as soon as there is something."""
    checkpoint: str | None = None
    """The folder of its checkpoint below the root; None: its name."""
    output_mode: str = "append"
    """append, update or complete, as in Spark."""
    exactly_once: str = "epoch"
    """epoch, ids or off, as in the sink of the format `jms`."""
    id_column: str | None = None
    """The column that makes a row's id, for `ids`."""
    partitions: int = 2
    """Into how many tasks a source's batch is cut."""
    max_messages_per_trigger: int | None = None
    """The most messages that a source puts into a batch; None: 10,000."""
    broker: str | None = None
    """The broker, by its name in `brokers`; None: that of `activemq`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """More options of the sources (`selector` ...); `sink.NAME` is one of the sink."""

    def __post_init__(self) -> None:
        problems: list[str] = []
        try:
            object.__setattr__(self, "trigger", read_trigger(self.trigger))
        except ValueError as error:
            problems.append(str(error))
        problems = pipeline_problems(self) + problems
        if problems:
            raise ConfigurationException(f"Pipeline {self.name}: {'; '.join(problems)}")

    @property
    def sources(self) -> Mapping[str, str]:
        """The sources by name; a single one is called `messages`."""
        return {MESSAGES: self.source} if isinstance(self.source, str) else self.source

    @property
    def is_single(self) -> bool:
        """Whether it has one source without a name of its own."""
        return isinstance(self.source, str)

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The schemas by source; sources whose messages come as they are have none."""
        if self.schema is None:
            return {}
        return self.schema if isinstance(self.schema, Mapping) else {MESSAGES: self.schema}

    @property
    def checkpoint_name(self) -> str:
        """The folder of its checkpoint, below the root."""
        return self.checkpoint or self.name

    @property
    def folder(self) -> str | None:
        """The folder that a Parquet sink writes to."""
        return self.sink.removeprefix(PARQUET) if self.sink.startswith(PARQUET) else None

    @property
    def options_of_source(self) -> dict[str, str]:
        """The options that go to its sources."""
        return {key: text for key, text in self.options.items() if not key.startswith("sink.")}

    @property
    def options_of_sink(self) -> dict[str, str]:
        """The options that go to its sink, without their prefix."""
        given = self.options.items()
        return {key[len("sink.") :]: text for key, text in given if key.startswith("sink.")}

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Return it with some fields changed, as an entry of `pipelines` in settings does.

        Raises:
            ConfigurationException: a key is no field of a pipeline, or a value is wrong.
        """
        unknown = [key for key in values if key not in _KEYS]
        if unknown:
            raise ConfigurationException(
                f"Pipeline {self.name}: unknown key {', '.join(unknown)}",
                hint=f"known are {', '.join(_KEYS)}",
            )
        return replace(self, **values)


_KEYS: Final = tuple(f.name for f in fields(Pipeline) if f.name not in {"name", "function"})


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
    """Have the function make of the messages of `source` what goes to `sink`, with Spark.

    The function takes and returns a DataFrame. With a `schema` it gets the schema's columns and a
    struct `jms` (message_id, seq, timestamp, destination, correlation_id, type, properties);
    messages that do not fit go to `dead_letter`. Without one it gets the columns of the format
    `jms`. With several sources by name it is called with a frame for each, by name.

    A result with a column `text`, `bytes` or `body` is sent as it is: its columns are those of a
    message (also `destination`, `properties`, `correlation_id` ...), and another one is an error.
    Any other result is sent as JSON, a row a text: all columns but `jms`, nulls too, times in ISO
    8601. So to choose a destination by row, select `to_json(struct(*)) AS text, destination`.
    What only says where a message came from (`seq`, `message_id` ..., an unchanged `destination`)
    is never sent on.

    A missing key and null are the same to Spark: the model's default, or None, or a bad message.
    A number may be a text (`"2"`), and a text a number; validators of Python are refused.
    Marks may be repeated with different names.

    Args:
        source: a queue's name, `queue://...`, `topic://...`, or several by name.
        sink: the same, or `parquet:FOLDER`.
        name: the pipeline's name; the function's, if not given.
        schema: a pydantic model or Spark's DDL.
        dead_letter: a destination, or `fail`; else the broker's `ActiveMQ.DLQ`.
        trigger: seconds between two batches, or a text: `500ms`, `2s`, `2 seconds`.
        checkpoint: the name of the folder that says how far it has come.
        output_mode: append, update or complete.
        exactly_once: epoch, ids or off.
        id_column: for `ids`, the column that is different in each row.
        partitions: tasks that read a batch.
        max_messages_per_trigger: the most that a batch takes of a source.
        broker: one of `brokers` in settings.
        options: more of the format `jms`, for instance `selector`.

    Raises:
        ConfigurationException: values are wrong, or do not fit together; all are named.

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
        called = name or str(getattr(function, "__name__", ""))
        mark = Pipeline(name=called, function=function, options=dict(options or {}), **given)
        # decorators apply from the bottom up; keep the order of reading
        setattr(function, _ATTRIBUTE, (mark, *pipeline_marks(function)))
        return function

    return add_mark


def pipeline_marks(function: object) -> tuple[Pipeline, ...]:
    """Return the pipelines that a function is marked with, in the order they are written."""
    marks: tuple[Pipeline, ...] = getattr(function, _ATTRIBUTE, ())
    return marks


def find_pipelines(module: ModuleType) -> list[Pipeline]:
    """Return the pipelines of a module's own functions, in their order."""
    own = [
        thing
        for thing in vars(module).values()
        if inspect.isfunction(thing) and thing.__module__ == module.__name__
    ]
    found = {id(function): function for function in own}
    return [mark for function in found.values() for mark in pipeline_marks(function)]
