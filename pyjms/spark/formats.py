"""The formats `jms` and `jms-journal` and the writers, as Spark's planning processes see them.

Spark looks formats up, makes them and asks for their schema, readers and writers in processes of
their own, for each query anew. So this module imports neither the client nor a reader: what runs
a query is imported when a query runs. (spark-pipeline 2.3)
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from pyjms.errors import ConfigurationException
from pyjms.spark.options import BODY_SCHEMA, JmsOptions, check_names, read_options
from pyjms.spark.outgoing import check_columns, message_schema
from pyjms.spark.rows import MESSAGE_COLUMNS, ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
"""Local properties of a task: the batch that it belongs to, and the query."""

Messages: TypeAlias = list[datasource.WriterCommitMessage | None]
"""What the tasks of a batch reported; None for a task that failed."""


class JmsDataSource(datasource.DataSource):
    """The destinations of an OpenWire broker, for Spark."""

    models: ClassVar[tuple[type[BaseModel], ...]] = ()
    """Schemas of bodies that Spark's processes cannot import: `with_models`."""

    @classmethod
    def name(cls) -> str:
        return "jms"

    def schema(self) -> StructType:
        check_names(self.options)  # at load() and CREATE TABLE, before anything runs
        columns = message_schema(MESSAGE_COLUMNS)
        encoded = self.options.get(BODY_SCHEMA.lower())
        if encoded is None:
            return columns
        from pyjms.spark.schema import added_columns  # most queries have none

        return StructType([*columns, *added_columns(encoded)])

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        from pyjms.spark.source import BrowseReader, RangeReader

        options = read_options(self.options, "batch")
        return RangeReader(options) if options.mode == "ranges" else BrowseReader(options)

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:
        from pyjms.spark.source import JmsStreamReader

        return JmsStreamReader(read_options(self.options, "stream"), self.models)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        options = read_options(self.options, "sink")
        if overwrite:
            raise ConfigurationException(
                "jms: a destination cannot be overwritten: messages that were sent stay",
                hint="write .mode('append')",
            )
        check_sink(options, schema, streaming=False)
        return JmsBatchWriter(options, schema)

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> datasource.DataSourceStreamWriter:
        options = read_options(self.options, "sink")
        # `overwrite` means output mode `complete` here, which sends all rows with each batch
        check_sink(options, schema, streaming=True)
        return JmsStreamWriter(options, schema)


def with_models(models: tuple[type[BaseModel], ...]) -> type[JmsDataSource]:
    """Return the format with models of a script, a notebook or a function, for `register`.

    Spark sends a registered class to its processes, and by value what they cannot import. Only who
    runs Python in the driver can do that; options, which SQL sets too, carry no code.
    """
    if not models:
        return JmsDataSource
    # a class of no module is one that is sent by value
    return type("JmsDataSource", (JmsDataSource,), {"__module__": "__main__", "models": models})


class JournalDataSource(datasource.DataSource):
    """`spark.read.format("jms-journal").option("path", DIR).load()`."""

    @classmethod
    def name(cls) -> str:
        return "jms-journal"

    def schema(self) -> str:
        from pyjms.spark.journal import read_options

        return ddl(read_options(self.options).columns)

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        from pyjms.spark.journal import reader_of

        return reader_of(self.options)


@dataclass
class SentRows(datasource.WriterCommitMessage):
    """The result of a task: the number of rows, and the stage that holds them."""

    rows: int
    query: str = ""
    stage: str = ""


def check_sink(options: JmsOptions, schema: StructType, *, streaming: bool) -> None:
    """Check columns and options before anything runs.

    Raises:
        ConfigurationException: a column or option is not valid, or `exactlyOnce` cannot be kept.
    """
    check_columns(schema, options.id_column, routed=options.destination is not None)
    if options.id_column is not None and options.exactly_once != "ids":
        raise ConfigurationException(
            f"jms: idColumn has no effect with exactlyOnce={options.exactly_once}",
            hint="remove it, or set exactlyOnce=ids",
        )
    if options.exactly_once == "ids" and options.id_column is None and not options.map_only:
        raise ConfigurationException(
            "jms: exactlyOnce=ids without idColumn numbers the rows, but after a shuffle a batch "
            "that runs again numbers them differently, so the wrong rows would be dropped",
            hint="set idColumn to a column derived from the row itself; or mapOnly=true for a "
            "query without a shuffle (pyjms pipelines check that); or exactlyOnce=epoch",
        )
    named = options.query_id is not None and options.batch_id is not None
    if options.exactly_once != "off" and options.id_column is None and not (streaming or named):
        raise ConfigurationException(
            f"jms: a batch write with exactlyOnce={options.exactly_once} needs the options "
            "queryId and batchId, by which a repetition is recognized",
            hint="inside foreachBatch, set batchId to the batch id, and queryId to a fixed name",
        )


class _Writer:
    """The common part of batch and stream writers."""

    def __init__(self, options: JmsOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SentRows:
        from pyjms.spark import sink

        context = TaskContext.get()
        assert context is not None
        options = self.options
        query = options.query_id or context.getLocalProperty(_QUERY_ID) or ""
        batch_text = context.getLocalProperty(_BATCH_ID)
        batch = options.batch_id if options.batch_id is not None else int(batch_text or -1)
        prefix = f"{query}:{batch}:{context.partitionId()}"
        to_messages = sink.batch_converter(options, self.schema, prefix)
        if options.exactly_once == "epoch":
            # attempt numbers start again with the driver: rows staged by a killed driver must not
            # be mistaken for rows of this one
            stage = f"{context.partitionId()}.{secrets.token_hex(8)}"
            rows = sink.stage_rows(options, query, batch, stage, iterator, to_messages)
            return SentRows(rows, query, stage)
        return SentRows(sink.send_rows(options, iterator, to_messages))

    def _publish(self, messages: Messages, batch: int) -> None:
        staged = _stages_of(messages)
        if staged:
            from pyjms.spark import sink
            from pyjms.spark.connections import run_blocking

            stages = {m.stage: m.rows for m in staged}
            run_blocking(sink.publish, self.options, staged[0].query, batch, stages)

    def _discard(self, messages: Messages, batch: int) -> None:
        staged = _stages_of(messages)
        if staged:
            from pyjms.spark import sink
            from pyjms.spark.connections import run_blocking

            run_blocking(sink.discard, self.options, staged[0].query, batch)


class JmsStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The sink of a streaming query."""

    def commit(self, messages: Messages, batchId: int) -> None:
        self._publish(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        self._discard(messages, batchId)


class JmsBatchWriter(_Writer, DataSourceArrowWriter):
    """The sink of a batch query, also inside foreachBatch."""

    def commit(self, messages: Messages) -> None:
        self._publish(messages, self.options.batch_id or 0)

    def abort(self, messages: Messages) -> None:
        self._discard(messages, self.options.batch_id or 0)


def _stages_of(messages: Messages) -> list[SentRows]:
    """Return the stages of successful tasks; a failed task has no commit message."""
    return [m for m in messages if isinstance(m, SentRows) and m.stage]
