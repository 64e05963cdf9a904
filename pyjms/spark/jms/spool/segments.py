"""The segments of a spool: one Arrow file per pull, which exists completely or not at all.

A file is written under a temporary name, synced and renamed, and its folder synced, before anything
is acknowledged. How it works is described in the package's docstring. (spark-pipeline 5 B)
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
from pyjms.spark.files import sync_folder, write_atomically
from pyjms.spark.jms.spool.late_ids import LateIds

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Segment", "Spool", "not_writable", "read_rows", "spool_id"]

_FILE_NAME: Final = re.compile(r"rows-(\d{20})-(\d+)\.arrow")
_ID_COLUMN: Final = "message_id"
_ROWS_PER_BATCH: Final = 2000
_ID_FILE: Final = "spool-id"


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

        Raises:
            ConfigurationException: it cannot be written, or segments are missing.
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

    def append(self, rows: Sequence[Sequence[object]]) -> Segment:
        """Write rows as a new segment; it is durable when this returns.

        Raises:
            OSError: it cannot be written; nothing was added.
        """
        first, count = self.end, len(rows)
        path = self.folder / f"rows-{first:020d}-{count}.arrow"
        temporary = path.with_suffix(".tmp")
        _write(temporary, rows)
        temporary.replace(path)
        sync_folder(self.folder)
        segment = Segment(first, count, str(path))
        self._segments.append(segment)
        self._next = segment.end
        index = [name for name, _ in MESSAGE_COLUMNS].index(_ID_COLUMN)
        self._ids[segment] = frozenset(str(row[index]) for row in rows)
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
            found = _FILE_NAME.fullmatch(path.name)
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
        write_atomically(self.folder / _ID_FILE, str(made))
        return made


def not_writable(folder: Path, error: OSError) -> ConfigurationException:
    """Return the error for a folder that cannot be used as a spool."""
    return ConfigurationException(
        f"jms: the spool {folder} cannot be written: {error}",
        hint="set option spool to a folder that the driver and all executors can access",
    )


def spool_id(folder: Path) -> int | None:
    """Return the id of the spool in a folder; None: there is no spool.

    Raises:
        ConfigurationException: the file with the id is damaged.
    """
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


def _write(path: Path, rows: Sequence[Sequence[object]]) -> None:
    import pyarrow as pa

    schema = arrow_schema(MESSAGE_COLUMNS)
    with path.open("wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for at in range(0, len(rows), _ROWS_PER_BATCH):
                writer.write_batch(arrow_batch(rows[at : at + _ROWS_PER_BATCH], schema))
        file.flush()
        os.fsync(file.fileno())
