"""The spool's files: one Arrow file a pull, there whole or not at all.

A file is written aside, synced, renamed, and its folder synced, before anything is acknowledged.
Names say which rows they hold, so listing the folder is all the recovery there is.
(spark-pipeline 5 B)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.errors import ConfigurationException
from pyjms.spark.columns import MESSAGE_COLUMNS, arrow_batch, arrow_schema
from pyjms.spark.files import sync_folder, write_whole
from pyjms.spark.jms.spool.late import LateIds

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Segment", "Spool", "not_written", "read_rows", "spool_id"]

_NAME: Final = re.compile(r"rows-(\d{20})-(\d+)\.arrow")
_ID_COLUMN: Final = "message_id"
_ROWS_A_BATCH: Final = 2000
_ID_FILE: Final = "spool-id"


class Segment(NamedTuple):
    """A file of rows: the number of its first one, how many, and where it is."""

    first: int
    rows: int
    path: str

    @property
    def end(self) -> int:
        """The number behind its last row."""
        return self.first + self.rows


class Spool:
    """A folder of segments. One process writes it. Blocks on the disk."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, made if need be; half-written files go. The caller has its lock.

        Raises:
            ConfigurationException: it cannot be written, or its files do not fit together.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.tmp"):
                leftover.unlink()
            self.id = self._read_id()
            self._late = LateIds(folder)
        except OSError as error:
            raise not_written(folder, error) from error
        self._segments = sorted(self._find())
        self._check()
        self._next = self._segments[-1].end if self._segments else 0
        self._ids: dict[Segment, frozenset[str]] = {
            segment: frozenset(_ids(segment)) for segment in self._segments
        }
        self._in_doubt: set[Segment] = set()
        self.doubt()

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
        """The number of the first row that is there."""
        return self._segments[0].first if self._segments else self._next

    def has(self, message_id: str) -> bool:
        """Whether a message is in a segment that is kept, or was in one in doubt."""
        return any(message_id in ids for ids in self._ids.values()) or self._late.has(message_id)

    def doubt(self) -> None:
        """Note that the last segment may not have been acknowledged; it opens like that."""
        self._in_doubt.update(self._segments[-1:])

    def append(self, rows: Sequence[Sequence[object]]) -> Segment:
        """Write rows as a new segment; it is on the disk when this returns.

        Raises:
            OSError: the disk does not take it; nothing was added.
        """
        first, count = self.end, len(rows)
        path = self.folder / f"rows-{first:020d}-{count}.arrow"
        fresh = path.with_suffix(".tmp")
        _write(fresh, rows)
        fresh.replace(path)
        sync_folder(self.folder)
        segment = Segment(first, count, str(path))
        self._segments.append(segment)
        self._next = segment.end
        at = [name for name, _ in MESSAGE_COLUMNS].index(_ID_COLUMN)
        self._ids[segment] = frozenset(str(row[at]) for row in rows)
        return segment

    def forget(self, end: int) -> None:
        """Delete segments that end at `end` or before it; the last one stays.

        It keeps the numbering, and knows the messages that may be delivered again.
        """
        while len(self._segments) > 1 and self._segments[0].end <= end:
            self._let_go(self._segments[0])
            del self._segments[0]

    def skip_to(self, number: int) -> None:
        """Go on with a number beyond the end; what is there is done with, and goes."""
        for segment in self._segments:
            self._let_go(segment)
        self._segments.clear()
        self._next = number

    def _let_go(self, segment: Segment) -> None:
        ids = self._ids[segment]
        if segment in self._in_doubt:
            self._late.keep(segment.first, ids)
            self._in_doubt.discard(segment)
        Path(segment.path).unlink(missing_ok=True)
        del self._ids[segment]

    def between(self, start: int, end: int) -> list[Segment]:
        """Return the segments with rows from `start` on, before `end`."""
        return [s for s in self._segments if s.first < end and s.end > start]

    def _find(self) -> Iterator[Segment]:
        for path in self.folder.iterdir():
            found = _NAME.fullmatch(path.name)
            if found:
                yield Segment(int(found[1]), int(found[2]), str(path))

    def _check(self) -> None:
        for one, other in pairwise(self._segments):
            if one.end != other.first:
                raise ConfigurationException(
                    f"jms: the spool {self.folder} has rows up to {one.end} and from {other.first} "
                    "on: files are missing, or two drivers wrote them",
                    hint="put the files back that were taken away",
                )

    def _read_id(self) -> int:
        """Return what tells this spool from another one in the same place."""
        known = spool_id(self.folder)
        if known is not None:
            return known
        made = int.from_bytes(os.urandom(6))
        write_whole(self.folder / _ID_FILE, str(made))
        return made


def not_written(folder: Path, error: OSError) -> ConfigurationException:
    """Return what is said of a folder that cannot be used."""
    return ConfigurationException(
        f"jms: the spool {folder} cannot be written: {error}",
        hint="option spool: a folder that the driver and all executors reach",
    )


def spool_id(folder: Path) -> int | None:
    """Return what tells the spool in a folder from others, None if there is none.

    Raises:
        ConfigurationException: its file is damaged.
    """
    path = folder / _ID_FILE
    try:
        return int(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise ConfigurationException(
            f"jms: {path} is damaged: it holds no number",
            hint="put it back; a query that has not read anything yet may have a new folder",
        ) from None


def read_rows(path: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows `start` to `stop` of a segment, counted from its first."""
    import pyarrow as pa

    at = 0
    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            low, high = max(start - at, 0), min(stop - at, batch.num_rows)
            at += batch.num_rows
            if low < high:
                yield batch.slice(low, high - low)


def _ids(segment: Segment) -> Iterator[str]:
    for batch in read_rows(segment.path, 0, segment.rows):
        yield from batch.column(_ID_COLUMN).to_pylist()


def _write(path: Path, rows: Sequence[Sequence[object]]) -> None:
    import pyarrow as pa

    schema = arrow_schema(MESSAGE_COLUMNS)
    with path.open("wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for at in range(0, len(rows), _ROWS_A_BATCH):
                writer.write_batch(arrow_batch(rows[at : at + _ROWS_A_BATCH], schema))
        file.flush()
        os.fsync(file.fileno())
