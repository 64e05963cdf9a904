"""The stream from our broker: its offsets are a queue's numbers, its batches ranges of them.

Nothing is removed before the batch that read it is finished; a batch that comes again reads the
same messages. (spark-pipeline 3.2, 3.3, 5 A)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.spark.jms.client import run
from pyjms.spark.jms.drain import is_draining
from pyjms.spark.jms.limits import limit_of
from pyjms.spark.jms.offsets import Offset
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.lease import QueueLease
from pyjms.spark.jms.ranges.reading import RangePartition, read_range

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangeStreamReader"]

logger = logging.getLogger(__name__)


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue. Takes its lease when first asked for an offset."""

    def __init__(self, options: JmsOptions) -> None:
        if options.target.is_topic:
            raise ConfigurationException(
                f"jms: {options.target} has no ranges, a queue has",
                hint="read the queue Consumer.<name>.VirtualTopic.<topic>, or use mode=spool",
            )
        self._options = options
        self._queue = options.target.qualified_name
        self._lease: QueueLease | None = None
        self._target: int | None = None  # AvailableNow: where it ends

    def initialOffset(self) -> dict[str, Any]:
        lease, wanted = self._open(), self._options.starting_offset
        starts = {"earliest": lease.first, "latest": lease.next}
        seq = starts.get(wanted)
        return self._at(lease, int(wanted) if seq is None else seq)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        lease = self._open()
        run(lease.look, 0, 0)
        self._target = lease.next

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        lease, begun = self._open(), Offset.from_json(start, self._queue)
        first = self._first_of(lease, begun)
        if self._options.ack_on == "finished" and begun.epoch == lease.epoch:
            self._trim(lease, begun.seq)
        if is_draining(self._options) or (self._target is not None and first >= self._target):
            return start
        run(lease.look, first, 0 if self._target is not None else self._options.poll_timeout)
        end = min(lease.next, first + self._most(lease, limit))
        if self._target is not None:
            end = min(end, self._target)
        if end <= first:
            return start
        run(lease.hold, end)
        return self._at(lease, end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        lease = self._lease
        return None if lease is None else self._at(lease, lease.next)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        lease = self._open()
        begun, ended = Offset.from_json(start, self._queue), Offset.from_json(end, self._queue)
        if ended.epoch != lease.epoch:
            self._lost(f"{self._queue} was purged or made anew since this batch was planned")
            return []
        high = min(ended.seq, lease.next)
        behind = begun.epoch == lease.epoch and begun.seq > ended.seq  # numbers were lost there
        low = lease.first if behind else self._first_of(lease, begun)
        if high < ended.seq:
            self._lost(f"Messages up to {ended.seq} are wanted, and {self._queue} ends at {high}")
        if low >= high:
            return []
        run(lease.hold, high)
        share = -(-(high - low) // self._options.partitions)
        return [
            RangePartition(lease.token, lease.epoch, at, min(at + share, high))
            for at in range(low, high, share)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, where there are none
            return iter(())
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        lease, ended = self._open(), Offset.from_json(end, self._queue)
        if ended.epoch == lease.epoch:
            self._trim(lease, ended.seq)

    def stop(self) -> None:
        """Give the lease back, where Spark asks; mostly it just ends this process."""
        lease, self._lease = self._lease, None
        if lease is not None:
            run(lease.close)

    def _open(self) -> QueueLease:
        if self._lease is None:
            lease = QueueLease(self._options)
            run(lease.open)
            self._lease = lease
        return self._lease

    def _at(self, lease: QueueLease, seq: int) -> dict[str, Any]:
        return Offset(self._queue, lease.epoch, seq).to_json()

    @staticmethod
    def _trim(lease: QueueLease, end: int) -> None:
        run(lease.trim, min(end, lease.next))

    def _first_of(self, lease: QueueLease, begun: Offset) -> int:
        """Return the first number to read, where `begun` is what was finished."""
        if begun.epoch != lease.epoch:
            self._lost(
                f"{self._queue} was purged or made anew: its numbers are other ones than those "
                "of the checkpoint"
            )
            return lease.first
        if begun.seq < lease.first:
            self._lost(
                f"Messages from {begun.seq} on are wanted, and {self._queue} begins with "
                f"{lease.first}"
            )
            return lease.first
        if begun.seq > lease.next:
            self._lost(
                f"Messages before {begun.seq} were read, and {self._queue} ends at {lease.next}: "
                "the broker lost some in a crash"
            )
            return lease.next
        return begun.seq

    def _most(self, lease: QueueLease, limit: ReadLimit) -> int:
        wanted = limit_of(limit)
        size = wanted.size
        if not isinstance(limit, ReadAllAvailable):
            size = min(size, self._options.max_bytes_per_trigger)
        return max(1, min(wanted.rows, size // lease.average))

    def _lost(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise IllegalStateException(
                text,
                hint="they expired, were consumed or purged; failOnDataLoss=false goes on without",
            )
        logger.warning("%s; going on without them", text)
