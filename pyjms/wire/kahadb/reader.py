"""Reads a segment's bytes, whatever has happened to them.

A batch counts whole or not at all: its records must fill it exactly and its checksum must be
right. After a damaged one reading goes on with the next batch that is whole; what was passed
over is in `skipped`. Nothing inside a record's bytes is taken for a batch (a message may hold
a journal) as long as the heads in front of it are sound. The time is linear in the bytes.
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
)
from pyjms.wire.kahadb.structures import (
    KahaCommand,
)

__all__ = ["JournalRecord", "ReadBatch", "SegmentReader", "Skipped", "read_record"]

Bytes = bytes | bytearray | memoryview | mmap

_SIZES: Final = struct.Struct(">iq")
_CHUNK: Final = 65536
_ZEROS: Final = bytes(_CHUNK)
_WRONG_CHECKSUM: Final = "checksum"


class Skipped(NamedTuple):
    """Bytes of a segment that are no whole batch: from, to, why.

    Why is `torn` (the bytes end too early), `checksum`, `damaged`, or `deleted` (a whole file).
    """

    file_id: int
    start: int
    end: int
    reason: str


class JournalRecord(NamedTuple):
    """A user record: where it begins, and its payload without the record's head."""

    location: Location
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes in the file, head included."""
        return RECORD_HEAD.size + len(self.payload)

    def command(self) -> KahaCommand:
        """Return what the record says.

        Raises:
            KahaDBFormatError: the payload is no command of KahaDB's.
        """
        return decode_command(self.payload)


class ReadBatch(NamedTuple):
    """A whole batch: where it begins and ends, and where each record of it begins."""

    location: Location
    end: int
    offsets: tuple[int, ...]


class SegmentReader:
    """One pass over a segment's bytes, which must not change meanwhile.

    `skipped` and `end` grow as the batches are taken; `end` is where the last whole batch so
    far ends: where a writer goes on once all are taken, having overwritten what follows there.
    Blocks for nothing; one user at a time.
    """

    def __init__(self, data: Bytes, file_id: int, *, start: int = 0) -> None:
        """Read from the batch that `start` lies in, or the first one after it."""
        self._view = memoryview(data).cast("B")
        self._start = start
        self.file_id = file_id
        self.skipped: list[Skipped] = []
        self.end = 0

    def release(self) -> None:
        """Let go of the bytes (an mmap cannot be closed before); idempotent."""
        self._view.release()

    def batches(self) -> Iterator[ReadBatch]:
        """Yield the whole batches in their order."""
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
                whole = reason == _WRONG_CHECKSUM and self._is_clean(stop)
                following = stop if whole else self._find(stop)
                self._skip(at, following, reason)
                at = following
        if at < length and not self._is_clean(at):
            self._skip(at, length, "torn")

    def records(self) -> Iterator[JournalRecord]:
        """Yield the user records of the whole batches, those before `start` left out."""
        for batch in self.batches():
            for offset in batch.offsets:
                if offset >= self._start:
                    yield read_record(self._view, Location(self.file_id, offset))

    def _batch_size(self, at: int) -> int | None:
        """Return the size of the records of the batch at `at`; None: no batch begins there."""
        head = len(BATCH_CONTROL_HEAD)
        if bytes(self._view[at : at + head]) != BATCH_CONTROL_HEAD:
            return None
        size: int = _SIZES.unpack_from(self._view, at + head)[0]
        # A head torn within its size may say 0, and a batch has at least one record.
        return size if size > 0 else None

    def _read_batch(self, at: int, end: int) -> tuple[ReadBatch | None, int, str]:
        """Return the batch; or None, where its sound records end, and what is wrong."""
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
        """Return where to go on when no batch begins at `at`."""
        length = len(self._view)
        if self._is_clean(at):
            return length
        following = self._find(at + 1)
        self._skip(at, following, "damaged")
        return following

    def _is_clean(self, at: int) -> bool:
        """Whether nothing was ever written from `at` on, as far as anyone can tell."""
        view = self._view
        if bytes(view[at : at + len(END_MARKER)]) == END_MARKER:
            return True
        length = len(view)
        # A preallocated segment's last bytes; the marker after the last batch may be missing.
        last = length - len(END_MARKER)
        end = last if last >= at and bytes(view[last:]) == END_MARKER else length
        return all(
            view[i : min(i + _CHUNK, end)] == _ZEROS[: min(_CHUNK, end - i)]
            for i in range(at, end, _CHUNK)
        )

    def _find(self, start: int) -> int:
        """Return where the next batch control record begins, or the end of the bytes."""
        length = len(self._view)
        overlap = len(BATCH_CONTROL_HEAD) - 1
        for at in range(start, length, _CHUNK):
            found = bytes(self._view[at : at + _CHUNK + overlap]).find(BATCH_CONTROL_HEAD)
            if found >= 0:
                return at + found
        return length

    def _skip(self, start: int, end: int, reason: str) -> None:
        """Note what is passed over; what touches the last note lengthens it."""
        if self.skipped and self.skipped[-1].end == start:
            last = self.skipped.pop()
            start, reason = last.start, last.reason
        self.skipped.append(Skipped(self.file_id, start, end, reason))


def read_record(data: Bytes, location: Location) -> JournalRecord:
    """Return the user record at `location`, of its segment's bytes `data`, unchecked.

    Raises:
        KahaDBFormatError: no user record begins there, or it is cut off.
    """
    offset = location.offset
    if not 0 <= offset <= len(data) - RECORD_HEAD.size:
        raise KahaDBFormatError(f"No record at {location}", position=offset)
    size, kind = RECORD_HEAD.unpack_from(data, offset)
    if kind != USER_TYPE or size <= RECORD_HEAD.size or offset + size > len(data):
        raise KahaDBFormatError(f"No user record at {location}", position=offset)
    return JournalRecord(location, bytes(data[offset + RECORD_HEAD.size : offset + size]))
