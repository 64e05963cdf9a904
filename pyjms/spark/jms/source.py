"""The data source `jms`: it selects the reader or writer of a query.

`spark.readStream.format("jms")` reads by ranges if the broker supports them (the bundled broker
does), otherwise through a spool of files. With `mode=auto` the process that computes offsets asks
the broker once, and logs the result once. (spark-pipeline 6.1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException
from pyjms.spark.columns import MESSAGE_COLUMNS, ddl
from pyjms.spark.jms.batch import BrowseReader, RangeReader
from pyjms.spark.jms.connections import retry_while_lost, run_blocking
from pyjms.spark.jms.options import JmsOptions, read_options
from pyjms.spark.jms.ranges.reading import RangePartition, read_range
from pyjms.spark.jms.ranges.requests import supports_ranges
from pyjms.spark.jms.ranges.stream import RangeStreamReader
from pyjms.spark.jms.sink.writers import JmsBatchWriter, JmsStreamWriter, check_sink
from pyjms.spark.jms.spool.segments import read_rows, spool_id
from pyjms.spark.jms.spool.stream import RowsPartition, SpoolStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JmsDataSource", "JmsStreamReader"]

logger: Final = get_logger(__name__)

_Reader: TypeAlias = RangeStreamReader | SpoolStreamReader


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
