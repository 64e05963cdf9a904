"""A pipeline as data: its sources, its function or SQL, its sink, and its execution options.

Contradictory fields are rejected when a `Pipeline` is created; all of them are reported at once.
`@jms_pipeline` marks a function as a pipeline and returns it unchanged. The function stays a pure
function from DataFrame to DataFrame, so it can be tested with `createDataFrame` and without a
broker. Nothing here needs Spark. (spark-pipeline 6.2)
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from pyjms.errors import ConfigurationException, nearest_name
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pyspark.sql import DataFrame

Schema: TypeAlias = "type[BaseModel] | str"
"""A pydantic model, or columns in Spark's DDL."""

MESSAGES: Final = "messages"
"""The name of a single source: the view that SQL reads."""
FILE_FORMATS: Final = ("parquet", "orc", "json", "csv", "avro")
"""The formats of a sink that is a folder of files: `parquet:FOLDER`."""
FORMAT: Final = "format"
"""The prefix of a sink with any format of Spark, which its options describe: `format:delta`."""
FAIL: Final = "fail"
"""The value of `dead_letter` that stops a pipeline at its first invalid message."""
DEFAULT_DEAD_LETTER: Final = f"queue://{DEFAULT_DEAD_LETTER_QUEUE}"
"""The destination of invalid messages for pipelines that name none."""
CHOICES: Final = {
    "output_mode": ("append", "update", "complete"),
    "exactly_once": ("epoch", "ids", "off"),
}
"""The fields with a fixed set of values."""
VIEW_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The form of a source's name: it is a view in SQL and an argument in Python."""

_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_UNITS: Final = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
}  # fmt: skip
_BATCHES_ONLY: Final = (
    "Spark reads Python sources in micro-batches only; write an interval such as 1s, or 0"
)
_USE_ONCE: Final = "use --once when the pipeline is run"
_UNSUPPORTED_TRIGGERS: Final = {
    "continuous": _BATCHES_ONLY,
    "realtime": _BATCHES_ONLY,
    "once": _USE_ONCE,
    "availablenow": _USE_ONCE,
}
_SET_BY_FIELD: Final = {
    "destination": "source",
    "path": "source",
    "partitions": "partitions",
    "maxmessagespertrigger": "max_messages_per_trigger",
    "exactlyonce": "exactly_once",
    "idcolumn": "id_column",
    "checkpointlocation": "checkpoint",
    "url": "broker",
    "user": "broker",
    "password": "broker",
    "queryname": "name",
    "spool": "checkpoint",
}
_SET_BY_RUNNER: Final = ("owner", "maponly", "queryid", "batchid")
_ASYNC_PROGRESS: Final = "asyncprogresstrackingenabled"


def read_trigger(value: object) -> float:
    """Return a trigger in seconds: a number of seconds, a timedelta, `500ms`, `2s`, `2 seconds`.

    Raises:
        ValueError: the value is negative or is not an interval.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"trigger {value:g} is negative; write a number of seconds, or 0")
        return float(value)
    text = str(value).strip().lower()
    match = _DURATION.fullmatch(text)
    if match and (match[2] in _UNITS or float(match[1]) == 0):
        return round(float(match[1]) * _UNITS.get(match[2], 1.0), 9)
    if match and not match[2]:
        raise ValueError(f"trigger {value!r} has no unit; write {match[1]}s or {match[1]}ms")
    advice = "write for example 2s, 500ms or 0"
    for word, sentence in _UNSUPPORTED_TRIGGERS.items():
        if text.startswith(word):
            advice = sentence
    raise ValueError(f"trigger {value!r} is not an interval between batches; {advice}")


def folder_name_problems(key: str, text: str | None) -> Iterator[str]:
    """Yield a problem if a name cannot be that of a folder."""
    if text is not None and not _FOLDER_NAME.fullmatch(text):
        yield (
            f"{key} {text!r} cannot be the name of a folder; use letters, digits, '.', '_' and "
            "'-', and start with a letter or digit"
        )


def destination_problems(key: str, text: str) -> Iterator[str]:
    """Yield the problems of a destination; one with `${...}` is checked after it is resolved."""
    if "${" in text:
        return
    kind, separator, name = text.partition("://")
    if not separator:
        kind, name = "queue", text
    if kind not in {"queue", "topic"} or not name.strip():
        yield f"{key} {text!r} is not a destination; write orders, queue://orders or topic://orders"
    elif key == "source" and "?" in name:
        yield f"{key} {text!r} has options of a consumer, which a stream does not have; remove them"


def option_problems(options: Iterable[str]) -> Iterator[str]:
    """Yield problems of options that a pipeline sets itself or cannot run with."""
    for option in options:
        name = option.removeprefix("sink.").lower()
        if name == _ASYNC_PROGRESS:
            yield (
                f"option {option} lets Spark run ahead of its log, so messages would be removed "
                "before they are processed; remove it"
            )
        elif name in _SET_BY_FIELD:
            yield f"option {option} is set by {_SET_BY_FIELD[name]}; use that instead"
        elif name in _SET_BY_RUNNER:
            yield f"option {option} is set by the pipeline itself; remove it"


_SINK_PREFIX: Final = "sink."


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A pipeline: the sources of its messages, their transformation, and the sink of the result.

    `jms_pipeline` makes one from a function; an entry of `pipelines` in the settings with `sql`
    is another. It is immutable, and safe to share between threads.

    Raises:
        ConfigurationException: values are invalid or contradict each other; all are listed.
    """

    name: str
    """The name of the query, of its checkpoint folder, in events and in the log."""
    function: Callable[..., DataFrame] | None = None
    """DataFrame to DataFrame: one argument for a single source, else one per source, by name."""
    sql: str | None = None
    """A query over the view `messages`, or over views named after the sources."""
    source: str | Mapping[str, str] = ""
    """`orders`, `queue://orders` or `topic://prices`; or several by name. `a,b` and the pattern
    `orders.>` are one source of several queues."""
    schema: Schema | Mapping[str, Schema] | None = None
    """The schema of the JSON bodies; None: the function gets the columns of the format `jms`."""
    sink: str = ""
    """`delays`, `queue://delays`, `topic://delays`, `parquet:FOLDER` (or another format of
    `FILE_FORMATS`), or `format:NAME` with options `sink.NAME`."""
    dead_letter: str | None = None
    """The destination of messages that do not match the schema; None: `ActiveMQ.DLQ`; `fail`: stop
    instead."""
    trigger: float = 0.0
    """Seconds between the starts of two batches; 0: as soon as messages are available."""
    checkpoint: str | None = None
    """The name of its checkpoint folder below the checkpoint root; None: the pipeline's name."""
    output_mode: str = "append"
    """append, update or complete, as in Spark."""
    exactly_once: str = "epoch"
    """epoch, ids or off, as for the sink of the format `jms`."""
    id_column: str | None = None
    """With `ids`: the column that identifies a row."""
    partitions: int = 2
    """The number of tasks that read a batch of a source."""
    max_messages_per_trigger: int | None = None
    """The maximum number of messages per source in a batch; None: 10,000."""
    broker: str | None = None
    """The broker, by its name in `brokers`; None: the broker of `activemq`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the sources (`selector` ...); `sink.NAME` is an option of the sink."""

    def __post_init__(self) -> None:
        problems: list[str] = []
        try:
            object.__setattr__(self, "trigger", read_trigger(self.trigger))
        except ValueError as error:
            problems.append(str(error))
        problems = [*_problems(self), *problems]
        if problems:
            raise ConfigurationException(f"Pipeline {self.name}: {'; '.join(problems)}")

    @property
    def sources(self) -> Mapping[str, str]:
        """The sources by name; a single one is called `messages`."""
        return {MESSAGES: self.source} if isinstance(self.source, str) else self.source

    @property
    def is_single(self) -> bool:
        """Whether it has one source, without a name."""
        return isinstance(self.source, str)

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The schemas by source; a source without one delivers the columns of `jms`."""
        if self.schema is None:
            return {}
        return self.schema if isinstance(self.schema, Mapping) else {MESSAGES: self.schema}

    @property
    def checkpoint_name(self) -> str:
        """The name of its checkpoint folder, below the checkpoint root."""
        return self.checkpoint or self.name

    @property
    def format(self) -> str | None:
        """The format that the sink is written in; None: the sink is a destination."""
        prefix, colon, rest = self.sink.partition(":")
        if colon and prefix in FILE_FORMATS:
            return prefix
        return rest if colon and prefix == FORMAT else None

    @property
    def folder(self) -> str | None:
        """The folder of a sink of files; None: the sink has none."""
        prefix, colon, rest = self.sink.partition(":")
        return rest if colon and prefix in FILE_FORMATS else None

    @property
    def options_of_source(self) -> dict[str, str]:
        """The options for its sources."""
        given = self.options.items()
        return {key: text for key, text in given if not key.startswith(_SINK_PREFIX)}

    @property
    def options_of_sink(self) -> dict[str, str]:
        """The options for its sink, without their prefix."""
        given = self.options.items()
        return {
            key.removeprefix(_SINK_PREFIX): text
            for key, text in given
            if key.startswith(_SINK_PREFIX)
        }

    def with_changes(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values, as from an entry of `pipelines` in the settings.

        Raises:
            ConfigurationException: a key is not a field of a pipeline, or a value is invalid.
        """
        unknown = [key for key in values if key not in _KEYS]
        if unknown:
            raise ConfigurationException(
                f"Pipeline {self.name}: unknown key {', '.join(unknown)}",
                hint=f"the keys are {', '.join(_KEYS)}",
            )
        return replace(self, **values)


_KEYS: Final = tuple(f.name for f in fields(Pipeline) if f.name not in {"name", "function"})


def _problems(pipeline: Pipeline) -> Iterator[str]:
    """Yield the problems of a pipeline's values, each with its correction."""
    yield from folder_name_problems("name", pipeline.name)
    yield from folder_name_problems("checkpoint", pipeline.checkpoint)
    yield from _function_problems(pipeline)
    yield from _endpoint_problems(pipeline)
    for key in ("partitions", "max_messages_per_trigger"):
        number = getattr(pipeline, key)
        if number is not None and (not isinstance(number, int) or number < 1):
            yield f"{key} {number!r} is not a whole number of at least 1"
    for key, known in CHOICES.items():
        text = getattr(pipeline, key)
        if text not in known:
            yield f"{key} {text!r} is not one of {', '.join(known)}"
    yield from _delivery_problems(pipeline)
    is_free = pipeline.format is not None and pipeline.folder is None
    yield from option_problems(pipeline.options_of_source if is_free else pipeline.options)


def _function_problems(pipeline: Pipeline) -> Iterator[str]:
    if (pipeline.function is None) == (not (pipeline.sql or "").strip()):
        yield (
            "it has both a function and sql; remove one of them"
            if pipeline.function
            else "it has neither a function nor sql; add sql, or put @jms_pipeline on a function"
        )
    if pipeline.function is not None and not pipeline.is_single:
        try:
            inspect.signature(pipeline.function).bind(**dict.fromkeys(pipeline.sources))
        except TypeError as error:
            names = ", ".join(pipeline.sources)
            yield (
                f"its function cannot be called with {names}: {error}; name its parameters after "
                "the sources"
            )


def _endpoint_problems(pipeline: Pipeline) -> Iterator[str]:
    if not pipeline.sources or not all(pipeline.sources.values()):
        yield "source is missing; write a destination, or several as {name: destination}"
    for name, text in pipeline.sources.items():
        if not VIEW_NAME.fullmatch(name):
            yield f"source name {name!r} cannot be a view; use letters, digits and '_'"
        if text:
            yield from destination_problems("source", text)
    for name in pipeline.schemas:
        if name not in pipeline.sources:
            near = nearest_name(name, pipeline.sources)
            hint = f"did you mean {near}?" if near else "use the name of a source"
            yield f"schema {name!r} does not belong to a source; {hint}"
    if not pipeline.sink or "" in (pipeline.folder, pipeline.format):
        yield "sink is missing; write a destination, parquet:FOLDER or format:NAME"
    elif pipeline.format is None:
        yield from destination_problems("sink", pipeline.sink)
    if pipeline.dead_letter is not None and not pipeline.schemas:
        yield "dead_letter has no effect without a schema, since any message matches; remove it"
    if pipeline.dead_letter is not None and pipeline.dead_letter != FAIL:
        yield from destination_problems("dead_letter", pipeline.dead_letter)


def _delivery_problems(pipeline: Pipeline) -> Iterator[str]:
    level = pipeline.exactly_once
    if pipeline.id_column is not None and level != "ids":
        yield f"id_column has no effect with exactly_once {level}; write exactly_once: ids"
    if level == "ids" and pipeline.output_mode in {"update", "complete"}:
        yield (
            f"exactly_once ids with output_mode {pipeline.output_mode} would drop a row that "
            "changed, because its id is already known; write exactly_once: epoch"
        )
    if pipeline.folder is not None and pipeline.output_mode == "complete":
        yield (
            "output_mode complete would write the whole result into the folder of every batch; "
            "write append or update, or send it to a destination"
        )
    if pipeline.format is not None and level != "epoch":
        yield (
            f"exactly_once {level} applies to destinations; a folder of files is written exactly "
            "once, batch by batch: remove it"
        )


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

    Bodies are validated by pydantic where they are read, by all that the model has. A function may
    be marked several times, with different names.

    The mark alone starts nothing and does not block; `pyjms pipeline run` and `PipelineRunner` run
    marked functions.

    Args:
        source: the name of a queue, `queue://...`, `topic://...`, or several destinations by name.
            `a,b` and patterns such as `orders.>` are one source of several queues.
        sink: a destination, `parquet:FOLDER` (also orc, json, csv and avro), or `format:NAME` for
            any format of Spark, which the options `sink.NAME` describe.
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
