"""The data source `jms`: it selects the reader or writer of a query, and has the batch readers.

`spark.readStream.format("jms")` reads by ranges if the broker supports them (the bundled broker
does), otherwise through a spool of files. With `mode=auto` the process that computes offsets asks
the broker once, and logs the result once. (spark-pipeline 6.1)

A batch is a snapshot of a queue that removes nothing: `BrowseReader` browses, with any broker, in
one task. `RangeReader` (`mode=ranges`, only with the bundled broker) reads the messages in the
queue's store in several tasks: persistent messages, except those that are consumed in the meantime.
(spark-pipeline 5 A)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message
from pyjms.runtime.logging import get_logger
from pyjms.spark.connections import discard_connection, new_session, retry_while_lost, run_blocking
from pyjms.spark.offsets import split_evenly
from pyjms.spark.options import JmsOptions, read_options
from pyjms.spark.ranges import (
    RangePartition,
    RangeStreamReader,
    ranges_client,
    read_range,
    supports_ranges,
)
from pyjms.spark.rows import MESSAGE_COLUMNS, arrow_schema, ddl, message_batch, new_columns
from pyjms.spark.sink import JmsBatchWriter, JmsStreamWriter, check_sink
from pyjms.spark.spool import RowsPartition, SpoolStreamReader, read_rows, spool_id
from pyjms.wire.openwire.message_columns import MessageColumns

if TYPE_CHECKING:
    import pyarrow as pa


logger: Final = get_logger(__name__)

_Reader: TypeAlias = RangeStreamReader | SpoolStreamReader

_ROWS_PER_BATCH: Final = 2000


class JmsDataSource(datasource.DataSource):
    """The destinations of an OpenWire broker, for Spark."""

    @classmethod
    def name(cls) -> str:
        return "jms"

    def schema(self) -> str:
        return ddl(MESSAGE_COLUMNS)

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        options = read_options(self.options, "source")
        return RangeReader(options) if options.mode == "ranges" else BrowseReader(options)

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:
        return JmsStreamReader(read_options(self.options, "source"))

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        options = read_options(self.options, "sink")
        if overwrite:
            raise ConfigurationException(
                "jms: a destination cannot be overwritten: messages that were sent stay",
                hint="write .mode('append')",
            )
        check_sink(options, schema, streaming=False)
        return JmsBatchWriter(options)

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> datasource.DataSourceStreamWriter:
        options = read_options(self.options, "sink")
        # `overwrite` means output mode `complete` here, which sends all rows with each batch
        check_sink(options, schema, streaming=True)
        return JmsStreamWriter(options)


class JmsStreamReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue or a durable subscription, by ranges or through a spool."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        self._reader: _Reader | None = None
        self._is_available_now = False
        if options.mode == "spool":
            self._spool_folder()

    def initialOffset(self) -> dict[str, Any]:
        return self._open(None).initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_available_now = True
        if self._reader is not None:
            self._reader.prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._open(start).latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._reader is None else self._reader.reportLatestOffset()

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[datasource.InputPartition]:
        return self._open(end).partitions(start, end)

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            return read_range(self._options, partition)
        if isinstance(partition, RowsPartition):
            return read_rows(partition.path, partition.start, partition.stop)
        return iter(())  # Spark's own partition, for an empty batch

    def commit(self, end: dict[str, Any]) -> None:
        self._open(end).commit(end)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.stop()

    def _open(self, offset: dict[str, Any] | None) -> _Reader:
        if self._reader is None:
            self._reader = reader = self._choose(offset)
            if self._is_available_now:
                reader.prepareForTriggerAvailableNow()
        return self._reader

    def _choose(self, offset: dict[str, Any] | None) -> _Reader:
        options = self._options
        mode = options.mode
        if mode == "auto":
            mode = "ranges" if self._uses_ranges(offset) else "spool"
        if mode == "ranges":
            logger.warning("jms: %s is read by ranges of its sequence numbers", options.target)
            return RangeStreamReader(options)
        folder = self._spool_folder()
        logger.warning(
            "jms: %s is read through a spool: files in %s, written before messages are "
            "acknowledged",
            options.target,
            folder,
        )
        return SpoolStreamReader(options, folder)

    def _uses_ranges(self, offset: dict[str, Any] | None) -> bool:
        options = self._options
        if options.target.is_topic:
            return False
        if offset is not None and options.spool is not None:
            spool = spool_id(Path(options.spool))
            if spool is not None and spool == offset.get("epoch"):
                return False  # the query started with this spool, and its rows are there
        return bool(run_blocking(retry_while_lost, supports_ranges, options))

    def _spool_folder(self) -> str:
        spool = self._options.spool
        if spool is None:
            raise ConfigurationException(
                "jms: option spool is missing: this broker does not serve ranges, so messages are "
                "kept in files until Spark has finished with them",
                hint='option("spool", "/shared/folder/of-this-query"), a folder that the driver '
                "and all executors can access; pipelines set it beside their checkpoint",
            )
        return str(Path(spool).absolute())


class BrowseReader(DataSourceReader):
    """A snapshot of a queue, browsed in one task. ActiveMQ's policies may limit it to 400."""

    def __init__(self, options: JmsOptions) -> None:
        if not isinstance(options.target, Queue):
            raise _not_a_queue(options)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(MESSAGE_COLUMNS)
        pages = _Pages(self._options)
        try:
            while (columns := run_blocking(pages.next)).count:
                yield message_batch(columns, schema)
        finally:
            run_blocking(pages.close)


class RangeReader(DataSourceReader):
    """A snapshot of the persistent messages of a queue, read by ranges in `partitions` tasks."""

    def __init__(self, options: JmsOptions) -> None:
        if options.target.is_topic:
            raise _not_a_queue(options)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        found: dict[str, Any] = run_blocking(retry_while_lost, _queue_range, self._options)
        shares = split_evenly(found["first"], found["next"], self._options.partitions)
        return [RangePartition(None, found["epoch"], low, high) for low, high in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, for an empty queue
            return iter(())
        return read_range(self._options, partition)


class _Pages:
    """The messages of a browser, a page at a time. Lives on the shared loop."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        self._session: ActiveMQSession | None = None
        self._messages: AsyncIterator[Message] | None = None

    async def next(self) -> MessageColumns:
        """Return the next messages; none means that there are no more.

        Raises:
            JMSException: the broker could not be reached, or the connection was lost; the
                snapshot cannot be continued.
        """
        messages = await self._open_browser()
        columns = new_columns()
        while columns.count < _ROWS_PER_BATCH:
            message = await anext(messages, None)
            if message is None:
                break
            columns.add_message(command_of(message), None, message.delivery_count - 1)
        return columns

    async def close(self) -> None:
        """Close the browser; idempotent."""
        session, self._session = self._session, None
        if session is not None and session.connection.failure is None:
            await session.close()
        elif session is not None:
            await discard_connection(self._options)

    async def _open_browser(self) -> AsyncIterator[Message]:
        if self._messages is None:
            target = self._options.target
            assert isinstance(target, Queue)
            self._session = await new_session(self._options)
            browser = await self._session.create_browser(target, self._options.selector)
            self._messages = aiter(browser)
        return self._messages


async def _queue_range(options: JmsOptions) -> dict[str, Any]:
    client = await ranges_client(options)
    queue = options.target.physical_name
    return await client.values("look", queue=queue, selector=options.selector)


def _not_a_queue(options: JmsOptions) -> ConfigurationException:
    return ConfigurationException(
        f"jms: {options.target} cannot be read as a batch: only queues can be browsed",
        hint="read a queue, or stream from the topic with clientId and subscription",
    )
