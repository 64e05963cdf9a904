"""The batch source by ranges: what a queue's store has now, read in parts, and left there.

Persistent messages only: others are nowhere but in the broker's memory. Looking takes nothing from
consumers; what they take meanwhile is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyjms.errors import ConfigurationException
from pyjms.spark.jms.client import retrying, run
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.asking import asker
from pyjms.spark.jms.ranges.reading import RangePartition, read_range

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangeReader"]


class RangeReader(DataSourceReader):
    """A look at a queue, in `partitions` tasks."""

    def __init__(self, options: JmsOptions) -> None:
        if options.target.is_topic:
            raise ConfigurationException(
                f"jms: {options.target} cannot be read as a batch: only queues can"
            )
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        found: dict[str, Any] = run(retrying, _look, self._options)
        low, high = found["first"], found["next"]
        share = max(1, -(-(high - low) // self._options.partitions))
        return [
            RangePartition(None, found["epoch"], at, min(at + share, high))
            for at in range(low, high, share)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, where there are none
            return iter(())
        return read_range(self._options, partition)


async def _look(options: JmsOptions) -> dict[str, Any]:
    there = await asker(options)
    return await there.values("look", queue=options.target.physical_name, selector=options.selector)
