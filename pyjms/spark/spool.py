"""The stream source for any broker: messages are written to files before they are acknowledged.

Theory of operation
===================

A broker other than the bundled one cannot read messages again once they are acknowledged, and
cannot let several tasks read one queue in a repeatable way. So the driver is the only consumer, and
moves messages into a folder, the spool, that executors read:

    receive  ->  write a segment  ->  fsync, rename, fsync the folder  ->  commit the JMS session

A segment (`Spool`) is one Arrow file of rows, named `rows-<number of the first>-<count>`.
The names tell which rows the spool contains, so recovery only has to list the folder. An offset is
the number of the next row; its epoch is the random id of the spool (`spool-id`), so that a
checkpoint with another folder is detected. A batch is a range of rows, so it reads the same rows
whenever Spark runs it again.

Invariants:

- All acknowledged messages are on the disk. Messages on the disk that were not acknowledged (the
  driver or its connection died before the commit) are delivered again; they are recognised by their
  message ids, acknowledged, and not written again.
- The last segment is *in doubt* when a spool is opened, and so is a segment whose commit failed:
  the broker may deliver its messages again. The last segment is not deleted, as it also carries the
  numbering; when another segment in doubt is deleted, its ids are first written to a file of *late
  ids* (`LateIds`), which is kept for a day.
- One process at a time uses a spool (`SpoolLock`): two would give different messages the same
  number. The operating system releases the lock when the process ends. A driver that was just
  stopped may have it for up to 30 s more.
- Segments up to the start of the batch that Spark requests next are deleted, except the last of
  them: a batch that failed after its end was committed reads its rows again.

States of a segment:

    event                              written        committed      in doubt       deleted
    append                             x
    commit succeeds                    -> committed
    commit fails, or spool is opened   -> in doubt    -> in doubt
    batch finished (delete_before)                    -> deleted     ids kept, -> deleted

A query can continue with its spool on the same broker or on another one; the spool is part of the
data, as the messages in it exist nowhere else. (spark-pipeline 3.2, 3.3, 5 B)

Late ids: if a driver, or its connection, dies after a segment was written and before the
acknowledgement is confirmed, the broker may still assign the messages to the dead connection. It
delivers them again when it detects that, by default after half a minute; by then the segment may be
finished and deleted. So the ids of such segments are kept for a day.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException, IllegalStateException
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.runtime.paths import replace_durably, sync_folder
from pyjms.spark.connections import (
    CONNECTION_LOST,
    discard_connection,
    get_connection,
    retry_while_lost,
    run_blocking,
    with_paged_prefetch,
)
from pyjms.spark.drain import is_draining
from pyjms.spark.offsets import BatchLimit, Offset, batch_limit, split_evenly
from pyjms.spark.options import JmsOptions, check_spool_options
from pyjms.spark.rows import MESSAGE_COLUMNS, arrow_schema, message_batch, new_columns
from pyjms.wire.openwire.message_columns import MessageColumns

if TYPE_CHECKING:
    import pyarrow as pa


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


logger: Final = get_logger(__name__)

_FILE: Final = "lock"
_RETRY_INTERVAL: Final = 0.1
_LOCKED: Final = frozenset((errno.EACCES, errno.EAGAIN, errno.EDEADLK))
_LOCKED_OFFSET: Final = 1 << 30
"""The byte that Windows locks: after the holder's name, so that others can read the name."""


class SpoolLock:
    """The lock of a spool's folder; the operating system releases it when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._file: int | None = None

    async def acquire(self, timeout: float) -> None:
        """Acquire the lock; wait up to `timeout` seconds for a process that is being stopped."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = _clock.now() + timeout
            while not self._try_lock(file):
                if _clock.now() >= deadline:
                    raise self._locked_error()
                await _clock.sleep(_RETRY_INTERVAL)
            os.truncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, f"{socket.gethostname()}:{os.getpid()}".encode())
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Release the lock; idempotent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _try_lock(self, file: int) -> bool:
        try:
            _lock(file)
        except OSError as error:
            if error.errno in _LOCKED:
                return False
            logger.warning(
                "jms: the spool %s cannot be locked, as its file system does not support it (%s): "
                "make sure that only one driver uses it",
                self._path.parent,
                error,
            )
        return True

    def _locked_error(self) -> IllegalStateException:
        holder = self._path.read_text(encoding="utf-8").strip() or "an unknown process"
        return IllegalStateException(
            f"The spool {self._path.parent} is in use by another process: {holder}",
            hint="a query runs in one driver at a time; stop the other driver",
        )


if sys.platform == "win32":

    def _lock(file: int) -> None:
        os.lseek(file, _LOCKED_OFFSET, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:

    def _lock(file: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


_FILE_NAME: Final = re.compile(r"late-\d{20}\.json")
_DAY_MS: Final = 24 * 3600 * 1000
_MAX_FILES: Final = 50


class LateIds:
    """One file per deleted segment in doubt. One process writes; blocks on the disk."""

    def __init__(self, folder: Path) -> None:
        """Read the files of a folder; those older than a day are deleted."""
        self._folder = folder
        self._ids: dict[Path, frozenset[str]] = {}
        for path in sorted(folder.iterdir()):
            if _FILE_NAME.fullmatch(path.name):
                self._ids[path] = _read(path)
        self._delete_old()

    def __contains__(self, message_id: str) -> bool:
        return any(message_id in ids for ids in self._ids.values())

    def add(self, first: int, ids: Collection[str]) -> None:
        """Keep the ids of the segment that starts with row `first`; durable on return."""
        path = self._folder / f"late-{first:020d}.json"
        replace_durably(path, json.dumps(sorted(ids)))
        self._ids[path] = frozenset(ids)
        self._delete_old()

    def _delete_old(self) -> None:
        oldest = _clock.time_ms() - _DAY_MS
        newest_first = sorted(self._ids, reverse=True)
        for index, path in enumerate(newest_first):
            if index >= _MAX_FILES or path.stat().st_mtime * 1000 < oldest:
                path.unlink()
                del self._ids[path]


def _read(path: Path) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(path.read_text(encoding="utf-8"))))
    except (ValueError, TypeError):
        logger.warning(
            "%s is damaged and ignored: messages that it lists may be read twice if the broker "
            "delivers them again",
            path,
        )
        return frozenset()


_SEGMENTS_FILE_NAME: Final = re.compile(r"rows-(\d{20})-(\d+)\.arrow")
_ID_COLUMN: Final = "message_id"
_ROWS_PER_BATCH: Final = 2000
_ID_FILE: Final = "spool-id"
_DESTINATION_FILE: Final = "spool-destination"


class Segment(NamedTuple):
    """A file of rows: the number of its first row, how many there are, and its path."""

    first: int
    rows: int
    path: str

    @property
    def end(self) -> int:
        """The number after its last row."""
        return self.first + self.rows


class Spool:
    """A folder of segments, used by one process at a time. Blocks on the disk."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, creating it if necessary; half-written files are deleted.

        The caller holds its lock.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.tmp"):
                leftover.unlink()
            self.id: int = self._read_id()
            self._late_ids = LateIds(folder)
        except OSError as error:
            raise not_writable(folder, error) from error
        self._segments = sorted(self._find())
        self._check_continuity()
        self._next = self._segments[-1].end if self._segments else 0
        self._ids: dict[Segment, frozenset[str]] = {
            segment: frozenset(_ids(segment)) for segment in self._segments
        }
        self._in_doubt: set[Segment] = set()
        self.mark_in_doubt()

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, in order."""
        return self._segments

    @property
    def end(self) -> int:
        """The number of the next row."""
        return self._next

    @property
    def first(self) -> int:
        """The number of the first row in the spool."""
        return self._segments[0].first if self._segments else self._next

    def __contains__(self, message_id: str) -> bool:
        """Return whether a message is in a segment, or was in a deleted one in doubt."""
        return any(message_id in ids for ids in self._ids.values()) or message_id in self._late_ids

    def mark_in_doubt(self) -> None:
        """Mark the last segment as possibly not acknowledged, as when a spool is opened."""
        self._in_doubt.update(self._segments[-1:])

    def append(self, rows: MessageColumns) -> Segment:
        """Write rows as a new segment; it is durable when this returns, and `rows` is empty."""
        first, count = self.end, rows.count
        ids = frozenset(map(str, rows.lists[_ID_COLUMN]))
        path = self.folder / f"rows-{first:020d}-{count}.arrow"
        temporary = path.with_suffix(".tmp")
        _write(temporary, rows)
        temporary.replace(path)
        sync_folder(self.folder)
        segment = Segment(first, count, str(path))
        self._segments.append(segment)
        self._next = segment.end
        self._ids[segment] = ids
        return segment

    def delete_before(self, end: int) -> None:
        """Delete the segments that end at or before `end`, except the last one.

        The last segment has the numbering, and the ids of messages that may be delivered again.
        """
        while len(self._segments) > 1 and self._segments[0].end <= end:
            self._delete(self._segments[0])
            del self._segments[0]

    def skip_to(self, number: int) -> None:
        """Continue with a number beyond the end; all segments are finished and are deleted."""
        for segment in self._segments:
            self._delete(segment)
        self._segments.clear()
        self._next = number

    def _delete(self, segment: Segment) -> None:
        ids = self._ids[segment]
        if segment in self._in_doubt:
            self._late_ids.add(segment.first, ids)
            self._in_doubt.discard(segment)
        Path(segment.path).unlink(missing_ok=True)
        del self._ids[segment]

    def between(self, start: int, end: int) -> list[Segment]:
        """Return the segments that have rows from `start` to before `end`."""
        return [s for s in self._segments if s.first < end and s.end > start]

    def _find(self) -> Iterator[Segment]:
        for path in self.folder.iterdir():
            found = _SEGMENTS_FILE_NAME.fullmatch(path.name)
            if found:
                yield Segment(int(found[1]), int(found[2]), str(path))

    def _check_continuity(self) -> None:
        for one, other in pairwise(self._segments):
            if one.end != other.first:
                raise ConfigurationException(
                    f"jms: the spool {self.folder} has rows before {one.end} and from "
                    f"{other.first} on: files are missing, or two drivers wrote them",
                    hint="restore the missing files",
                )

    def _read_id(self) -> int:
        """Return the id of this spool; create it if there is none."""
        known = spool_id(self.folder)
        if known is not None:
            return known
        made = int.from_bytes(os.urandom(6))
        replace_durably(self.folder / _ID_FILE, str(made))
        return made


def not_writable(folder: Path, error: OSError) -> ConfigurationException:
    """Return the error for a folder that cannot be used as a spool."""
    return ConfigurationException(
        f"jms: the spool {folder} cannot be written: {error}",
        hint="set option spool to a folder that the driver and all executors can access",
    )


def spool_id(folder: Path) -> int | None:
    """Return the id of the spool in a folder; None: there is no spool."""
    path = folder / _ID_FILE
    try:
        return int(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ConfigurationException(
            f"jms: {path} is damaged: it does not contain a number",
            hint="restore it; a query that has not read anything yet may use a new folder",
        ) from None


def check_destination(folder: Path, destination: str) -> None:
    """Check that the messages in a spool are those of a destination; a new spool notes it."""
    path = folder / _DESTINATION_FILE
    try:
        known = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        replace_durably(path, destination)
        return
    if known != destination:
        raise IllegalStateException(
            f"The spool {folder} belongs to {known}, but this query reads {destination}",
            hint="give each query its own folder",
        )


def read_rows(path: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows `start` to `stop` of a segment, counted from its first."""
    import pyarrow as pa

    offset = 0
    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            low, high = max(start - offset, 0), min(stop - offset, batch.num_rows)
            offset += batch.num_rows
            if low < high:
                yield batch.slice(low, high - low)


def _ids(segment: Segment) -> Iterator[str]:
    for batch in read_rows(segment.path, 0, segment.rows):
        yield from batch.column(_ID_COLUMN).to_pylist()


def _write(path: Path, rows: MessageColumns) -> None:
    import pyarrow as pa

    schema = arrow_schema(MESSAGE_COLUMNS)
    batch = message_batch(rows, schema)
    with path.open("wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for at in range(0, batch.num_rows, _ROWS_PER_BATCH):
                writer.write_batch(batch.slice(at, _ROWS_PER_BATCH))
        file.flush()
        os.fsync(file.fileno())


_NEXT_MESSAGE_TIMEOUT: Final = 0.02
"""Seconds to wait for another message after the first: prefetched ones arrive at once."""


class Pull(NamedTuple):
    """The result of a pull: new rows, the newest timestamp (ms), whether nothing was received."""

    rows: int
    newest: int
    empty: bool


class Puller:
    """The only consumer of a stream. Lives on the shared loop; opens its session on demand."""

    def __init__(self, options: JmsOptions, spool: Spool) -> None:
        self._options = options
        self._spool = spool
        self._session: ActiveMQSession | None = None
        self._consumer: ActiveMQMessageConsumer | None = None

    async def pull(self, limit: BatchLimit, timeout: float) -> Pull:
        """Move available messages into the spool, up to the limit.

        Waits up to `timeout` seconds for the first message. Messages that are already in the spool,
        because an earlier acknowledgement was lost, are acknowledged and not counted.
        """
        return await retry_while_lost(self._attempt, limit, timeout)

    async def _attempt(self, limit: BatchLimit, timeout: float) -> Pull:
        try:
            return await self._pull(limit, timeout)
        except CONNECTION_LOST:
            self._session = self._consumer = None
            await discard_connection(self._options)
            raise
        except BaseException:
            await self._close_session()
            raise

    async def _pull(self, limit: BatchLimit, timeout: float) -> Pull:
        while True:
            session, consumer = await self._open()
            rows, received, newest = await self._receive(consumer, limit, timeout)
            count = rows.count
            if count:
                self._spool.append(rows)
            if received:
                await self._acknowledge(session)
            if count or not received:
                return Pull(count, newest, empty=not received)
            logger.info("%d messages were delivered again; they are already in the spool", received)

    async def _acknowledge(self, session: ActiveMQSession) -> None:
        try:
            await session.commit()
        except BaseException:
            self._spool.mark_in_doubt()
            raise

    async def _receive(
        self, consumer: ActiveMQMessageConsumer, limit: BatchLimit, timeout: float
    ) -> tuple[MessageColumns, int, int]:
        rows = new_columns()
        seen: set[str] = set()
        received = size = newest = 0
        deadline = _clock.now() + timeout
        while rows.count < limit.rows and size < limit.size:
            remaining = _NEXT_MESSAGE_TIMEOUT if received else max(0.0, deadline - _clock.now())
            message = await consumer.receive(remaining)
            if message is None:
                break
            received += 1
            message_id = message.message_id or ""
            if message_id in seen or message_id in self._spool:
                continue
            seen.add(message_id)
            command = command_of(message)
            rows.add_message(command, self._spool.end + rows.count, message.delivery_count - 1)
            size += len(command.content or b"")
            # the broker's time if the message has it: producers' clocks are wrong more often
            newest = max(newest, command.broker_in_time or message.timestamp)
        return rows, received, newest

    async def _open(self) -> tuple[ActiveMQSession, ActiveMQMessageConsumer]:
        if self._session is None or self._consumer is None:
            options = self._options
            connection = await get_connection(options)
            self._session = await connection.create_session(transacted=True)
            target = options.target
            if options.subscription is not None and isinstance(target, Topic):
                self._consumer = await self._session.create_durable_subscriber(
                    target, options.subscription, options.selector
                )
            elif any(one.is_topic for one in target.composite_destinations):
                raise ConfigurationException(
                    f"jms: a stream from {target} would miss messages that are sent while it is "
                    "not running",
                    hint="set the options clientId and subscription for a durable subscription, "
                    "or read a queue Consumer.<name>.VirtualTopic.<topic>",
                )
            else:
                queue = with_paged_prefetch(target) if isinstance(target, Queue) else target
                self._consumer = await self._session.create_consumer(queue, options.selector)
        return self._session, self._consumer

    async def _close_session(self) -> None:
        session, self._session, self._consumer = self._session, None, None
        if session is not None:
            await session.close()


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
        self._end = 0  # the end that was returned last
        self._since = _clock.now()  # the time of the last batch

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
        self._end = begun.seq
        if is_draining():
            return start
        options, most = self._options, batch_limit(limit, self._options)
        is_late = _clock.now() - self._since >= options.max_trigger_delay
        least = 1 if is_late or self._now is not None else options.min_messages_per_trigger
        number = spool.end - begun.seq
        if number < least and not self._done:
            self._pull(most._replace(rows=max(1, most.rows - number)))
        if spool.end - begun.seq < least:
            return start
        waiting = [segment for segment in spool.segments if segment.end > begun.seq]
        self._since, self._end = _clock.now(), _end_within(waiting, begun.seq, most)
        return begun._replace(seq=self._end).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the spool, and how many rows beyond the batch it has.

        The number of messages on the broker is unknown to a client.
        """
        spool = self._spool
        if spool is None:
            return None
        offset = Offset(self._queue, spool.id, spool.end).to_json()
        return {**offset, "spooled": spool.end - self._end}

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
            check_spool_options(self._options)
            folder = Path(self._folder)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = SpoolLock(folder)
                run_blocking(self._lock.acquire, _LOCK_TIMEOUT)
                check_destination(folder, self._queue)
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

    def _pull(self, limit: BatchLimit) -> None:
        assert self._puller is not None
        timeout = self._options.poll_timeout
        if self._now is not None:
            timeout = _NEXT_TIMEOUT_NOW if self._has_pulled else _FIRST_TIMEOUT_NOW
        self._has_pulled = True
        pull = run_blocking(self._puller.pull, limit, timeout)
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
