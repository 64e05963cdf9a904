"""The stream that Spark makes: by ranges where the broker has them, else through a spool.

Which it is is asked once, in the process that reads offsets, and said once in its log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyjms.errors import ConfigurationException
from pyjms.spark.jms.client import retrying, run
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.asking import has_ranges
from pyjms.spark.jms.ranges.reading import RangePartition, read_range
from pyjms.spark.jms.ranges.stream import RangeStreamReader
from pyjms.spark.jms.spool.segments import read_rows, spool_id
from pyjms.spark.jms.spool.stream import RowsPartition, SpoolStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JmsStreamReader"]

logger = logging.getLogger(__name__)

_Reader: TypeAlias = RangeStreamReader | SpoolStreamReader


class JmsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue or a durable subscription, one way or the other."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        self._reader: _Reader | None = None
        if options.mode == "spool":
            self._folder()

    def initialOffset(self) -> dict[str, Any]:
        return self._chosen(None).initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_now = True
        if self._reader is not None:
            self._reader.prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._chosen(start).latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._reader is None else self._reader.reportLatestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._chosen(end).partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            return read_range(self._options, partition)
        if isinstance(partition, RowsPartition):
            return read_rows(partition.path, partition.start, partition.stop)
        return iter(())  # Spark's own partition, where there are none

    def commit(self, end: dict[str, Any]) -> None:
        self._chosen(end).commit(end)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.stop()

    _is_now = False

    def _chosen(self, offset: dict[str, Any] | None) -> _Reader:
        if self._reader is None:
            self._reader = reader = self._choose(offset)
            if self._is_now:
                reader.prepareForTriggerAvailableNow()
        return self._reader

    def _choose(self, offset: dict[str, Any] | None) -> _Reader:
        options = self._options
        mode = options.mode
        if mode == "auto":
            mode = "ranges" if self._takes_ranges(offset) else "spool"
        if mode == "ranges":
            logger.warning("jms: %s is read by ranges of its numbers", options.target)
            return RangeStreamReader(options)
        folder = self._folder()
        logger.warning(
            "jms: %s goes through files in %s, before it is acknowledged", options.target, folder
        )
        return SpoolStreamReader(options, folder)

    def _takes_ranges(self, offset: dict[str, Any] | None) -> bool:
        options = self._options
        if options.target.is_topic:
            return False
        if offset is not None and options.spool is not None:
            begun_with = spool_id(Path(options.spool))
            if begun_with is not None and begun_with == offset.get("epoch"):
                return False  # the query has its rows there
        return bool(run(retrying, has_ranges, options))

    def _folder(self) -> str:
        spool = self._options.spool
        if spool is None:
            raise ConfigurationException(
                "jms: option spool is missing: this broker has no ranges, so messages are kept in "
                "files until Spark is done with them",
                hint='option("spool", "/shared/folder/of-this-query"), which driver and executors '
                "reach; pipelines set it beside their checkpoint",
            )
        return str(Path(spool).absolute())
