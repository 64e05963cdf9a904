"""The writers that Spark calls: `off` and `ids` send directly, `epoch` through a staging queue.

For each batch, Spark creates the objects whose `commit` and `abort` it calls; they share only the
commit messages with the objects whose `write` it calls. (spark-pipeline 3.1, 3.4, 5 D)
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from pyjms.errors import ConfigurationException
from pyjms.spark.jms.connections import run_blocking
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.sink.epoch import discard, publish, stage_rows
from pyjms.spark.jms.sink.rows import Outgoing, RowId, check_columns, to_message
from pyjms.spark.jms.sink.sending import RowConverter, send_rows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["JmsBatchWriter", "JmsStreamWriter", "check_sink", "row_converter"]

Messages = list[WriterCommitMessage | None]

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class SentRows(WriterCommitMessage):
    """The result of a task: the number of rows, and the stage that holds them."""

    rows: int
    query: str = ""
    stage: str = ""


def check_sink(options: JmsOptions, schema: StructType, *, streaming: bool) -> None:
    """Check columns and options before anything runs.

    Raises:
        ConfigurationException: a column or option is not valid, or `exactlyOnce` cannot be kept.
    """
    check_columns(schema.names, options.id_column, routed=options.destination is not None)
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

    def __init__(self, options: JmsOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> SentRows:
        context = TaskContext.get()
        assert context is not None
        options = self.options
        query = options.query_id or context.getLocalProperty(_QUERY_ID) or ""
        batch_text = context.getLocalProperty(_BATCH_ID)
        batch = options.batch_id if options.batch_id is not None else int(batch_text or -1)
        if options.exactly_once == "epoch":
            # attempt numbers start again with the driver: rows staged by a killed driver must not
            # be mistaken for rows of this one
            stage = f"{context.partitionId()}.{secrets.token_hex(8)}"
            return SentRows(stage_rows(options, query, batch, stage, iterator), query, stage)
        prefix = f"{query}:{batch}:{context.partitionId()}"
        return SentRows(send_rows(options, iterator, row_converter(options, prefix)))

    def _publish(self, messages: Messages, batch: int) -> None:
        staged = _staged(messages)
        if staged:
            run_blocking(
                publish, self.options, staged[0].query, batch, {m.stage: m.rows for m in staged}
            )

    def _discard(self, messages: Messages, batch: int) -> None:
        staged = _staged(messages)
        if staged:
            run_blocking(discard, self.options, staged[0].query, batch)


class JmsStreamWriter(_Writer, DataSourceStreamWriter):
    """The sink of a streaming query."""

    def commit(self, messages: Messages, batchId: int) -> None:
        self._publish(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        self._discard(messages, batchId)


class JmsBatchWriter(_Writer, DataSourceWriter):
    """The sink of a batch query, also inside foreachBatch."""

    def commit(self, messages: Messages) -> None:
        self._publish(messages, self.options.batch_id or 0)

    def abort(self, messages: Messages) -> None:
        self._discard(messages, self.options.batch_id or 0)


def _staged(messages: Messages) -> list[SentRows]:
    """Return the stages of successful tasks; a failed task has no commit message."""
    return [m for m in messages if isinstance(m, SentRows) and m.stage]


def row_converter(options: JmsOptions, prefix: str) -> RowConverter:
    """Return what makes a message of a row and its number.

    With `exactly_once: ids` each message has an id by which brokers recognize repetitions: that of
    the column `idColumn`, or `prefix` with the row's number.
    """
    if options.exactly_once != "ids":
        return _plain
    if options.id_column is not None:
        return partial(_with_column_id, options.id_column)
    return partial(_with_row_id, prefix)


def _plain(_number: int, row: Any) -> Outgoing:
    return to_message(row)


def _with_column_id(column: str, number: int, row: Any) -> Outgoing:
    value = row[column]
    if value is None:
        raise ConfigurationException(
            f"jms: idColumn {column} is null in row {number}; each row needs an id"
        )
    return to_message(row, RowId(str(value)))


def _with_row_id(prefix: str, number: int, row: Any) -> Outgoing:
    return to_message(row, RowId(prefix, number))
