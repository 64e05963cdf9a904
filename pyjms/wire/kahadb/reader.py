"""Reading the records of a segment, skipping damaged parts.

Theory of operation
-------------------

The reader proceeds from batch to batch (see `journal`), and acts on the bytes at each position:

===============================  ================================================================
bytes at the position            reaction
===============================  ================================================================
a sound batch                    yield it; continue at its end
a batch that fails a check       skip to the next control record; reason `damaged` or `checksum`
a batch whose records go past    skip to the end of the segment; reason `torn`
the end of the bytes, or the
first bytes of a control record
never written (end marker,       stop: the segment ends here
or only zeros to the end)
anything else                    skip to the next control record; reason `damaged`
===============================  ================================================================

Invariants:

- A batch is accepted as a whole or not at all: its records must fill it exactly, and its checksum,
  if it has one, must match.
- `end` is the end of the last sound batch. A writer continues there and overwrites what follows.
- `skipped` covers every byte before the end that is neither in a sound batch nor unwritten.
  Adjacent skipped ranges are merged, so one damaged area is reported once.
- As long as the heads in front of a payload are sound, its bytes are never searched for batches,
  because a message may contain a journal. So a batch whose only error is the checksum is skipped to
  its declared end if nothing follows it; otherwise the search starts after its records.
- The time is linear in the number of bytes: a search continues where the previous one stopped.
- Batches that end before `start` are passed by their declared sizes, without any other check.

A record's size is checked first against its batch, then against the available bytes: a size that
exceeds the batch is damage within the batch, a size that only exceeds the available bytes is an
interrupted write.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from mmap import mmap
from typing import Final, NamedTuple

from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import (
    BATCH_CONTROL_HEAD,
    BATCH_CONTROL_SIZE,
    END_MARKER,
    RECORD_HEAD,
    USER_TYPE,
    Location,
    has_only_zeros,
)
from pyjms.wire.kahadb.structures import (
    KahaCommand,
)

__all__ = ["JournalRecord", "ReadBatch", "SegmentReader", "Skipped", "read_record"]

Bytes = bytes | bytearray | memoryview | mmap

_SIZES: Final = struct.Struct(">iq")
_CHUNK: Final = 65536
_WRONG_CHECKSUM: Final = "checksum"


class Skipped(NamedTuple):
    """A range of a segment that is not part of a sound batch.

    `reason` is `torn` (the bytes end too early), `checksum`, `damaged`, or `deleted` (the whole
    file).
    """

    file_id: int
    start: int
    end: int
    reason: str


class JournalRecord(NamedTuple):
    """A user record: its location, and its payload without the record's head."""

    location: Location
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes in the file, including the head."""
        return RECORD_HEAD.size + len(self.payload)

    def command(self) -> KahaCommand:
        """Return the command in the record.

        Raises:
            KahaDBFormatError: the payload is not a valid command.
        """
        return decode_command(self.payload)


class ReadBatch(NamedTuple):
    """A sound batch: its location, its end, and the offset of each of its records."""

    location: Location
    end: int
    offsets: tuple[int, ...]


class SegmentReader:
    """One pass over a segment's bytes, which must not change during the pass.

    `skipped` and `end` advance as the batches are consumed; `end` is the end of the last sound
    batch so far, where a writer continues once all are consumed. Never blocks; not thread-safe.
    """

    def __init__(self, data: Bytes, file_id: int, *, start: int = 0) -> None:
        """Read from the batch that contains `start`, or the first one after it."""
        self._view = memoryview(data).cast("B")
        self._start = start
        self.file_id = file_id
        self.skipped: list[Skipped] = []
        self.end: int = 0

    def release(self) -> None:
        """Release the bytes, so that an mmap can be closed; idempotent."""
        self._view.release()

    def batches(self) -> Iterator[ReadBatch]:
        """Yield the sound batches in order."""
        at = 0
        length = len(self._view)
        while at + BATCH_CONTROL_SIZE <= length:
            size = self._batch_size(at)
            if size is None:
                at = self._resume(at)
                continue
            end = at + BATCH_CONTROL_SIZE + size
            if end <= self._start and end <= length:
                self.end = at = end
                continue
            batch, stop, reason = self._read_batch(at, end)
            if batch is not None:
                self.end = at = end
                yield batch
            else:
                whole = reason == _WRONG_CHECKSUM and self._is_unwritten(stop)
                following = stop if whole else self._find(stop)
                self._skip(at, following, reason)
                at = following
        if at < length and not self._is_unwritten(at):
            self._skip(at, length, "torn")

    def records(self) -> Iterator[JournalRecord]:
        """Yield the user records of the sound batches, except those before `start`."""
        for batch in self.batches():
            for offset in batch.offsets:
                if offset >= self._start:
                    yield read_record(self._view, Location(self.file_id, offset))

    def _batch_size(self, at: int) -> int | None:
        """Return the size of the records of the batch at `at`; None if none begins there."""
        head = len(BATCH_CONTROL_HEAD)
        if bytes(self._view[at : at + head]) != BATCH_CONTROL_HEAD:
            return None
        size: int = _SIZES.unpack_from(self._view, at + head)[0]
        # A head torn within its size may read as 0, and a batch has at least one record.
        return size if size > 0 else None

    def _read_batch(self, at: int, end: int) -> tuple[ReadBatch | None, int, str]:
        """Return the batch; or None, the end of its sound records, and why it is rejected."""
        offsets: list[int] = []
        view = self._view
        length = len(view)
        first = position = at + BATCH_CONTROL_SIZE
        while position < end:
            if position + RECORD_HEAD.size > length:
                return None, length, "torn"
            size, kind = RECORD_HEAD.unpack_from(view, position)
            if kind != USER_TYPE or size <= RECORD_HEAD.size or position + size > end:
                return None, position, "damaged"
            if position + size > length:
                return None, length, "torn"
            offsets.append(position)
            position += size
        checksum = _SIZES.unpack_from(view, at + len(BATCH_CONTROL_HEAD))[1]
        if checksum and checksum != zlib.adler32(view[first:end]):
            return None, end, _WRONG_CHECKSUM
        return ReadBatch(Location(self.file_id, at), end, tuple(offsets)), end, ""

    def _resume(self, at: int) -> int:
        """Return the offset at which to continue if no batch begins at `at`."""
        length = len(self._view)
        if self._is_unwritten(at):
            return length
        following = self._find(at + 1)
        self._skip(at, following, "damaged")
        return following

    def _is_unwritten(self, at: int) -> bool:
        """Return whether the bytes from `at` on look as if they were never written."""
        view = self._view
        if bytes(view[at : at + len(END_MARKER)]) == END_MARKER:
            return True
        length = len(view)
        # The end marker of preallocation; the one after the last batch may be missing.
        last = length - len(END_MARKER)
        end = last if last >= at and bytes(view[last:]) == END_MARKER else length
        return has_only_zeros(view, at, end)

    def _find(self, start: int) -> int:
        """Return the offset of the next batch control record, or the end of the bytes."""
        length = len(self._view)
        overlap = len(BATCH_CONTROL_HEAD) - 1
        for at in range(start, length, _CHUNK):
            found = bytes(self._view[at : at + _CHUNK + overlap]).find(BATCH_CONTROL_HEAD)
            if found >= 0:
                return at + found
        return length

    def _skip(self, start: int, end: int, reason: str) -> None:
        """Add a skipped range, merging it with the last one if they are adjacent."""
        if self.skipped and self.skipped[-1].end == start:
            last = self.skipped.pop()
            start, reason = last.start, last.reason
        self.skipped.append(Skipped(self.file_id, start, end, reason))


def read_record(data: Bytes, location: Location) -> JournalRecord:
    """Return the user record at `location` in its segment's bytes `data`, without checks.

    Raises:
        KahaDBFormatError: no user record begins there, or it is truncated.
    """
    offset = location.offset
    if not 0 <= offset <= len(data) - RECORD_HEAD.size:
        raise KahaDBFormatError(f"No record at {location}", position=offset)
    size, kind = RECORD_HEAD.unpack_from(data, offset)
    if kind != USER_TYPE or size <= RECORD_HEAD.size or offset + size > len(data):
        raise KahaDBFormatError(f"No user record at {location}", position=offset)
    return JournalRecord(location, bytes(data[offset + RECORD_HEAD.size : offset + size]))
