"""The stream from any broker: it pulls inside `latestOffset`, and executors read the spool.

Exactly once into the spool, and exact replay from it. What is acknowledged is on the disk; what
was not is delivered again and told apart by its id. (spark-pipeline 3.2, 3.3, 5 B)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyjms import _clock
from pyjms.errors import IllegalStateException
from pyjms.spark.jms.client import run
from pyjms.spark.jms.drain import is_draining
from pyjms.spark.jms.limits import Limit, limit_of
from pyjms.spark.jms.offsets import Offset
from pyjms.spark.jms.options import JmsOptions, check_starting_offset
from pyjms.spark.jms.spool.lock import SpoolLock
from pyjms.spark.jms.spool.pulling import Puller
from pyjms.spark.jms.spool.segments import Segment, Spool, not_written, read_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RowsPartition", "SpoolStreamReader"]

logger = logging.getLogger(__name__)

_FIRST_WAIT_NOW: Final = 2.0
"""Seconds that AvailableNow waits for a first message: a new consumer's are on their way."""
_LOCKED_WITHIN: Final = 30.0
"""Seconds that a driver which was just stopped may still have the spool."""


class RowsPartition(InputPartition):
    """A task's share: rows of one segment."""

    def __init__(self, path: str, start: int, stop: int) -> None:
        super().__init__((path, start, stop))
        self.path, self.start, self.stop = path, start, stop


class SpoolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue or a durable subscription. Connects when first asked for an offset."""

    def __init__(self, options: JmsOptions, folder: str) -> None:
        self._options = options
        self._folder = folder
        self._queue = options.target.qualified_name
        self._spool: Spool | None = None
        self._lock: SpoolLock | None = None
        self._puller: Puller | None = None
        self._now: int | None = None  # AvailableNow: the time it began, in ms
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
            self._lost(f"Rows before {begun.seq} were read, and the spool ends at {spool.end}")
            spool.skip_to(begun.seq)
        if self._options.ack_on == "finished":
            self._forget_before(begun.seq)
        if is_draining(self._options):
            return start
        waiting = [segment for segment in spool.segments if segment.end > begun.seq]
        if waiting:
            return begun._replace(seq=_end_within(waiting, begun.seq, limit)).to_json()
        if not self._done:
            self._pull(limit)
        return begun._replace(seq=spool.end).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Say nothing: how many messages wait on the broker is not known."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        spool = self._open()
        begun, ended = self._offset(start), self._offset(end)
        if begun.seq < ended.seq and not spool.first <= begun.seq <= ended.seq <= spool.end:
            self._lost(
                f"Rows {begun.seq} to {ended.seq} are wanted, and the spool has {spool.first} to "
                f"{spool.end}"
            )
        found: list[InputPartition] = []
        for segment in spool.between(begun.seq, ended.seq):
            low = max(begun.seq, segment.first) - segment.first
            high = min(ended.seq, segment.end) - segment.first
            share = -(-(high - low) // self._options.partitions)
            found += [
                RowsPartition(segment.path, at, min(at + share, high))
                for at in range(low, high, share)
            ]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowsPartition)
        return read_rows(partition.path, partition.start, partition.stop)

    def commit(self, end: dict[str, Any]) -> None:
        self._forget_before(self._offset(end).seq)

    def stop(self) -> None:
        """Give the spool back, where Spark asks; mostly it just ends this process."""
        lock, self._lock, self._spool = self._lock, None, None
        if lock is not None:
            lock.give_back()

    def _open(self) -> Spool:
        if self._spool is None:
            check_starting_offset(self._options)
            folder = Path(self._folder)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = SpoolLock(folder)
                run(self._lock.take, _LOCKED_WITHIN)
            except OSError as error:
                raise not_written(folder, error) from error
            self._spool = Spool(folder)
            self._puller = Puller(self._options, self._spool)
        return self._spool

    def _lost(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise IllegalStateException(
                text,
                hint=f"{self._folder} was changed by hand; failOnDataLoss=false goes on without "
                "what is missing",
            )
        logger.warning("%s; going on without them", text)

    def _forget_before(self, seq: int) -> None:
        # a batch that failed after its end was committed by name reads its rows again: keep one
        kept = [segment for segment in self._open().segments if segment.end <= seq]
        if kept:
            self._open().forget(kept[-1].first)

    def _offset(self, value: dict[str, Any]) -> Offset:
        offset = Offset.from_json(value, self._queue)
        spool = self._open()
        if offset.epoch != spool.id:
            raise IllegalStateException(
                f"The checkpoint goes on with another spool than {self._folder}",
                hint="give option spool the folder that the query had, or use a new checkpoint",
            )
        return offset

    def _pull(self, limit: ReadLimit) -> None:
        assert self._puller is not None
        wanted = limit_of(limit)
        if not isinstance(limit, ReadAllAvailable):
            wanted = Limit(wanted.rows, min(wanted.size, self._options.max_bytes_per_trigger))
        first, self._has_pulled = self._now is not None and not self._has_pulled, True
        wait = self._options.poll_timeout if self._now is None else 0.3
        pull = run(self._puller.pull, wanted, _FIRST_WAIT_NOW if first else wait)
        if self._now is not None:
            self._done = pull.empty or pull.newest > self._now


def _end_within(segments: Sequence[Segment], start: int, limit: ReadLimit) -> int:
    """Return the end of as many segments as fit the limit from `start` on, or a part of one."""
    rows = limit_of(limit).rows
    end = min(segments[0].end, start + rows)
    for segment in segments[1:]:
        if segment.end - start > rows:
            break
        end = segment.end
    return end
