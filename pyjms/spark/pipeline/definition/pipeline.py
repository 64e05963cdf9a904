"""A pipeline as data: its sources, its function or SQL, its sink, and its execution options.

Contradictory fields are rejected when a `Pipeline` is created; all of them are reported at once.
Nothing here needs Spark. (spark-pipeline 6.2)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self

from pyjms.errors import ConfigurationException, nearest_name
from pyjms.spark.pipeline.definition.values import (
    CHOICES,
    FAIL,
    MESSAGES,
    PARQUET,
    VIEW_NAME,
    destination_problems,
    folder_name_problems,
    option_problems,
    read_trigger,
)
from pyjms.spark.pipeline.schema.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Pipeline"]

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
    """`orders`, `queue://orders` or `topic://prices`; or several destinations by name."""
    schema: Schema | Mapping[str, Schema] | None = None
    """The schema of the JSON bodies; None: the function gets the columns of the format `jms`."""
    sink: str = ""
    """`delays`, `queue://delays`, `topic://delays`, or `parquet:FOLDER`."""
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
    def folder(self) -> str | None:
        """The folder that a Parquet sink writes to; None: the sink is a destination."""
        return self.sink.removeprefix(PARQUET) if self.sink.startswith(PARQUET) else None

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
    yield from option_problems(pipeline.options)


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
    if not pipeline.sink or pipeline.sink == PARQUET:
        yield "sink is missing; write a destination, or parquet:FOLDER"
    elif pipeline.folder is None:
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
    if pipeline.folder is not None and level != "epoch":
        yield (
            f"exactly_once {level} applies to destinations; a Parquet folder is written exactly "
            "once, batch by batch: remove it"
        )
