"""The sections `spark` and `pipelines`: where Spark runs, restarts, pipelines in SQL.

Read without Spark, and checked as strictly as the rest; whether the values of a pipeline go
together is checked when the pipeline is created. (spark-pipeline 6.2)
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pyjms.configuration.section import Duration, Section, Text
from pyjms.runtime.paths import check_shared_folder


def _option(value: object) -> object:
    """Return a number or boolean that was written without quotes as text in Spark's spelling."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Option = Annotated[str, BeforeValidator(_option)]


Folder = Annotated[
    Text, AfterValidator(lambda text: check_shared_folder(text, "/shared/checkpoints"))
]


class RestartSettings(Section):
    """Restarts of a failed pipeline (`spark.restart`)."""

    initial_interval: Duration = 1.0
    """The wait before the first restart."""
    multiplier: float = Field(default=2.0, ge=1)
    """Factor between successive waits."""
    max_interval: Duration = 60.0
    """The longest wait."""
    max_attempts: int | None = Field(default=10, ge=0)
    """Consecutive restarts before the pipeline fails for good; null: no limit. A completed batch,
    or five minutes of running, resets the count."""
    poison_after: int = Field(default=3, ge=1)
    """Failures of the same batch before the pipeline fails for good, not counting lost broker
    connections."""

    @model_validator(mode="after")
    def _check_intervals(self) -> Self:
        if self.max_interval < self.initial_interval:
            raise ValueError(
                f"max_interval ({self.max_interval:g}s) is less than "
                f"initial_interval ({self.initial_interval:g}s)"
            )
        return self


class SparkSettings(Section):
    """The Spark session and the execution of pipelines (`spark`)."""

    master: Text = "local[*,4]"
    """Spark's master: local[*,4] is this process (4 tries a task), spark://host:7077 a cluster."""
    conf: dict[str, Option] = Field(default_factory=dict)
    """Further Spark settings, by their Spark names."""
    checkpoint_root: Folder = "./checkpoints"
    """The folder of the pipelines' checkpoints and status; on a cluster, one that all machines
    mount."""
    java: Text = "auto"
    """auto, system, bundled, or the folder of a Java installation."""
    aot_cache: bool = False
    """Whether Java keeps a start-up cache; from the second start on, Spark starts faster."""
    linked_home: bool = True
    """Whether a local Spark gets a SPARK_HOME of links in the user's cache folder, so that its
    Python processes do not compile pyspark again; only if SPARK_HOME is not set."""
    drain_timeout: Duration = 30.0
    """Maximum wait for batches in progress during a stop; after that they are cancelled, and
    repeated after the next start."""
    restart: RestartSettings = RestartSettings()


class PipelineSettings(Section):
    """A pipeline in SQL, or changes to the decorated pipeline of that name (`pipelines.<name>`)."""

    source: Text | dict[str, Text] | None = None
    """A destination: orders, queue://orders or topic://prices; or several by name."""
    schema_: str | dict[str, str] | None = Field(default=None, alias="schema")
    """The fields of the bodies, in Spark's DDL (`origin STRING, delay DOUBLE`); or by source."""
    sql: str | None = None
    """The query over `messages`, or over the sources' names. Without it this entry changes the
    `@jms_pipeline` of this name."""
    sink: Text | None = None
    """A destination, parquet:FOLDER (or orc, json, csv, avro), or format:NAME."""
    dead_letter: Text | None = None
    """Destination of messages that do not match the schema; not set: ActiveMQ.DLQ; fail: stop
    instead."""
    trigger: Duration | None = None
    """Interval between the starts of two batches; 0: as soon as messages are available."""
    checkpoint: Text | None = None
    """The checkpoint folder below checkpoint_root; not set: the pipeline's name."""
    output_mode: Literal["append", "update", "complete"] | None = None
    """append, update or complete, as in Spark."""
    exactly_once: Literal["epoch", "ids", "off"] | None = None
    """epoch, ids or off; not set: epoch."""
    id_column: str | None = None
    """For ids: the column with a unique value in each row."""
    partitions: int | None = Field(default=None, ge=1)
    """Number of tasks that read a batch of a source."""
    max_messages_per_trigger: int | None = Field(default=None, ge=1)
    """Maximum number of messages per source in a batch."""
    broker: str | None = None
    """A name of `brokers`; not set: the broker of `activemq`."""
    options: dict[str, Option] = Field(default_factory=dict)
    """Further options of the format jms, such as selector; sink.NAME is an option of the sink."""

    def values(self) -> dict[str, Any]:
        """Return the keys that are set, under the names of the pipeline's fields."""
        return self.model_dump(exclude_unset=True, by_alias=True)
