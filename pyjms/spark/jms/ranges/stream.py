"""The stream reader by ranges: offsets are sequence numbers of a queue, batches ranges of them.

How it works is described in the package's docstring. (spark-pipeline 3.2, 3.3, 5 A)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.spark.jms.connections import run_blocking
from pyjms.spark.jms.drain import is_draining
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.lease import QueueLease
from pyjms.spark.jms.ranges.reading import RangePartition, read_range
from pyjms.spark.jms.streaming import Offset, batch_limit, split_evenly

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangeStreamReader"]

logger: Final = get_logger(__name__)


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue. Acquires its lease when Spark first asks for an offset."""

    def __init__(self, options: JmsOptions) -> None:
        if options.target.is_topic:
            raise ConfigurationException(
                f"jms: {options.target} cannot be read by ranges: only queues can",
                hint="read the queue Consumer.<name>.VirtualTopic.<topic>, or use mode=spool",
            )
        self._options = options
        self._queue = options.target.qualified_name
        self._lease: QueueLease | None = None
        self._target: int | None = None  # AvailableNow: the number to end at

    def initialOffset(self) -> dict[str, Any]:
        lease, wanted = self._open(), self._options.starting_offset
        named = {"earliest": lease.first, "latest": lease.next}
        seq = named.get(wanted)
        return self._at(lease, int(wanted) if seq is None else seq)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        lease = self._open()
        run_blocking(lease.poll, 0, 0)
        self._target = lease.next

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        lease, begun = self._open(), Offset.from_json(start, self._queue)
        first = self._first_of(lease, begun)
        if self._options.ack_on == "finished" and begun.epoch == lease.epoch:
            self._trim(lease, begun.seq)
        if is_draining() or (self._target is not None and first >= self._target):
            return start
        timeout = 0 if self._target is not None else self._options.poll_timeout
        run_blocking(lease.poll, first, timeout)
        end = min(lease.next, first + self._max_rows(lease, limit))
        if self._target is not None:
            end = min(end, self._target)
        if end <= first:
            return start
        run_blocking(lease.hold, end)
        return self._at(lease, end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        lease = self._lease
        return None if lease is None else self._at(lease, lease.next)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        lease = self._open()
        begun, ended = Offset.from_json(start, self._queue), Offset.from_json(end, self._queue)
        if ended.epoch != lease.epoch:
            self._report_loss(
                f"{self._queue} was purged or created again since this batch was planned"
            )
            return []
        high = min(ended.seq, lease.next)
        # the broker lost numbers in a crash, and the batch ends before it starts
        is_reversed = begun.epoch == lease.epoch and begun.seq > ended.seq
        low = lease.first if is_reversed else self._first_of(lease, begun)
        if high < ended.seq:
            self._report_loss(
                f"The batch ends before message {ended.seq}, but {self._queue} ends before {high}"
            )
        if low >= high:
            return []
        run_blocking(lease.hold, high)
        shares = split_evenly(low, high, self._options.partitions)
        return [RangePartition(lease.token, lease.epoch, start, end) for start, end in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, for an empty batch
            return iter(())
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        lease, ended = self._open(), Offset.from_json(end, self._queue)
        if ended.epoch == lease.epoch:
            self._trim(lease, ended.seq)

    def stop(self) -> None:
        """Release the lease, if Spark calls this; usually Spark only ends the process."""
        lease, self._lease = self._lease, None
        if lease is not None:
            run_blocking(lease.close)

    def _open(self) -> QueueLease:
        if self._lease is None:
            lease = QueueLease(self._options)
            run_blocking(lease.open)
            self._lease = lease
        return self._lease

    def _at(self, lease: QueueLease, seq: int) -> dict[str, Any]:
        return Offset(self._queue, lease.epoch, seq).to_json()

    @staticmethod
    def _trim(lease: QueueLease, end: int) -> None:
        run_blocking(lease.trim, min(end, lease.next))

    def _first_of(self, lease: QueueLease, begun: Offset) -> int:
        """Return the first number to read, given the offset up to which batches are finished."""
        if begun.epoch != lease.epoch:
            self._report_loss(
                f"{self._queue} was purged or created again: its sequence numbers are not those of "
                "the checkpoint"
            )
            return lease.first
        if begun.seq < lease.first:
            self._report_loss(
                f"The batch starts with message {begun.seq}, but {self._queue} starts with "
                f"{lease.first}"
            )
            return lease.first
        if begun.seq > lease.next:
            self._report_loss(
                f"Messages before {begun.seq} were read, but {self._queue} ends before "
                f"{lease.next}: the broker lost some in a crash"
            )
            return lease.next
        return begun.seq

    def _max_rows(self, lease: QueueLease, limit: ReadLimit) -> int:
        rows, size = batch_limit(limit, self._options)
        return max(1, min(rows, size // lease.average))

    def _report_loss(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise IllegalStateException(
                text,
                hint="they expired, were consumed or were purged; failOnDataLoss=false "
                "continues without them",
            )
        logger.warning("%s; continuing without them (failOnDataLoss=false)", text)
