"""The stream reader through a spool: `latestOffset` pulls messages, executors read the files.

How it works is described in the package's docstring. (spark-pipeline 3.2, 3.3, 5 B)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import IllegalStateException
from pyjms.spark.jms.connections import run_blocking
from pyjms.spark.jms.drain import is_draining
from pyjms.spark.jms.options import JmsOptions, check_starting_offset
from pyjms.spark.jms.spool.lock import SpoolLock
from pyjms.spark.jms.spool.puller import Puller
from pyjms.spark.jms.spool.segments import Segment, Spool, not_writable, read_rows
from pyjms.spark.jms.streaming import BatchLimit, Offset, batch_limit, split_evenly

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RowsPartition", "SpoolStreamReader"]

logger: Final = get_logger(__name__)

_FIRST_TIMEOUT_NOW: Final = 2.0
"""Seconds that AvailableNow waits for the first message, which arrives late at a new consumer."""
_NEXT_TIMEOUT_NOW: Final = 0.3
"""Seconds that AvailableNow waits in later pulls."""
_LOCK_TIMEOUT: Final = 30.0
"""Seconds to wait for the lock, which a driver that was just stopped may still have."""


class RowsPartition(InputPartition):
    """A task's share: rows of one segment."""

    def __init__(self, path: str, start: int, stop: int) -> None:
        super().__init__((path, start, stop))
        self.path: str = path
        self.start: int = start
        self.stop: int = stop


class SpoolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue or a durable subscription. Connects when Spark first asks for an offset."""

    def __init__(self, options: JmsOptions, folder: str) -> None:
        self._options = options
        self._folder = folder
        self._queue = options.target.qualified_name
        self._spool: Spool | None = None
        self._lock: SpoolLock | None = None
        self._puller: Puller | None = None
        self._now: int | None = None  # AvailableNow: the time of its start, in ms
        self._has_pulled = False
        self._done = False

    def initialOffset(self) -> dict[str, Any]:
        spool = self._open()
        return Offset(self._queue, spool.id, spool.first).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._now = _clock.time_ms()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        spool = self._open()
        begun = self._offset(start)
        if begun.seq > spool.end:
            self._report_loss(
                f"Rows before {begun.seq} were read, but the spool ends before {spool.end}"
            )
            spool.skip_to(begun.seq)
        if self._options.ack_on == "finished":
            self._delete_finished(begun.seq)
        if is_draining():
            return start
        waiting = [segment for segment in spool.segments if segment.end > begun.seq]
        if waiting:
            return begun._replace(
                seq=_end_within(waiting, begun.seq, batch_limit(limit, self._options))
            ).to_json()
        if not self._done:
            self._pull(limit)
        return begun._replace(seq=spool.end).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return None: the number of messages on the broker is unknown."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        spool = self._open()
        begun, ended = self._offset(start), self._offset(end)
        if begun.seq < ended.seq and not spool.first <= begun.seq <= ended.seq <= spool.end:
            self._report_loss(
                f"The batch needs rows {begun.seq} to {ended.seq - 1}, but the spool has rows "
                f"{spool.first} to {spool.end - 1}"
            )
        found: list[InputPartition] = []
        for segment in spool.between(begun.seq, ended.seq):
            low = max(begun.seq, segment.first) - segment.first
            high = min(ended.seq, segment.end) - segment.first
            shares = split_evenly(low, high, self._options.partitions)
            found += [RowsPartition(segment.path, *share) for share in shares]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowsPartition)
        return read_rows(partition.path, partition.start, partition.stop)

    def commit(self, end: dict[str, Any]) -> None:
        self._delete_finished(self._offset(end).seq)

    def stop(self) -> None:
        """Release the spool, if Spark calls this; usually Spark only ends the process."""
        lock, self._lock, self._spool = self._lock, None, None
        if lock is not None:
            lock.release()

    def _open(self) -> Spool:
        if self._spool is None:
            check_starting_offset(self._options)
            folder = Path(self._folder)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = SpoolLock(folder)
                run_blocking(self._lock.acquire, _LOCK_TIMEOUT)
            except OSError as error:
                raise not_writable(folder, error) from error
            self._spool = Spool(folder)
            self._puller = Puller(self._options, self._spool)
        return self._spool

    def _report_loss(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise IllegalStateException(
                text,
                hint=f"{self._folder} was changed manually; failOnDataLoss=false continues without "
                "the missing rows",
            )
        logger.warning("%s; continuing without them (failOnDataLoss=false)", text)

    def _delete_finished(self, seq: int) -> None:
        # a batch that failed after its end was committed reads its rows again: keep one segment
        finished = [segment for segment in self._open().segments if segment.end <= seq]
        if finished:
            self._open().delete_before(finished[-1].first)

    def _offset(self, value: dict[str, Any]) -> Offset:
        offset = Offset.from_json(value, self._queue)
        spool = self._open()
        if offset.epoch != spool.id:
            raise IllegalStateException(
                f"The checkpoint belongs to another spool than {self._folder}",
                hint="set option spool to the folder that the query had, or use a new checkpoint",
            )
        return offset

    def _pull(self, limit: ReadLimit) -> None:
        assert self._puller is not None
        timeout = self._options.poll_timeout
        if self._now is not None:
            timeout = _NEXT_TIMEOUT_NOW if self._has_pulled else _FIRST_TIMEOUT_NOW
        self._has_pulled = True
        pull = run_blocking(self._puller.pull, batch_limit(limit, self._options), timeout)
        if self._now is not None:
            self._done = pull.empty or pull.newest > self._now


def _end_within(segments: Sequence[Segment], start: int, limit: BatchLimit) -> int:
    """Return the end of the segments from `start` on, or of the part, that the limit allows."""
    rows = limit.rows
    end = min(segments[0].end, start + rows)
    for segment in segments[1:]:
        if segment.end - start > rows:
            break
        end = segment.end
    return end
