"""Reading a journal's segments: as a whole, single records by their locations, a directory of them.

Theory of operation: a segment as a whole
-----------------------------------------

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

Theory of operation: records by their locations
-----------------------------------------------

A checksum covers a batch, and a record's location does not tell where its batch begins. So the
first read from a segment walks from header to header up to the record's batch, without reading the
bytes in between, and later reads continue there. A batch is checked when the first of its records
is read, and its state is kept: paging through a queue checks each batch once. This takes five bytes
per batch.

    UNCHECKED  nothing was read from it      -> SOUND, DAMAGED
    SOUND      its checksum matches, it has none, or it cannot be read as a whole
    DAMAGED    its checksum or its header is wrong

All records of a damaged batch are refused, because it cannot be known which one is damaged. If a
part of a batch cannot be read (a bad sector), its checksum cannot be computed; then the disk
itself reports which records are bad, and the others are returned.

After a wrong header it is unknown where the next batch begins, and after a wrong size where this
one ends. So after any damage the segment is read once as a whole, as at start: see `SegmentReader`.

A directory
-----------

`JournalFiles` reads the segments of a directory one after the other, and blocks on the disk.
Nothing is opened for writing and no lock is acquired, so the journal of a running broker can be
read as well: the result has the records that were complete when their segment was read. One segment
is in memory at a time.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from mmap import mmap
from operator import itemgetter
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias
from zlib import adler32

from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import KahaCommand
from pyjms.wire.kahadb.errors import KahaDBFormatError, is_passing
from pyjms.wire.kahadb.journal import (
    BATCH_CONTROL_HEAD,
    BATCH_CONTROL_SIZE,
    END_MARKER,
    RECORD_HEAD,
    USER_TYPE,
    Location,
    has_only_zeros,
    segment_name,
    segment_number,
)

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


LARGEST_READ: Final = 1 << 22
"""The maximum number of bytes that are read at a time for a check."""
_UNCHECKED: Final = 0
_SOUND: Final = 1
_DAMAGED: Final = 2
_BATCH_CHECKS_CHUNK: Final = (
    1 << 15
)  # bytes that a walk reads at a time, unless the next batch is nearer
_PAGE: Final = 4096
_HEADER: Final = struct.Struct(f">{len(BATCH_CONTROL_HEAD)}siq")

Read: TypeAlias = Callable[[int, int], bytes]
"""Returns a number of bytes from an offset of the segment, fewer only at its end."""


class SegmentChecks:
    """The batches of one segment in their order, up to `_end`, and the state of each. Blocks."""

    __slots__ = ("_end", "_file_id", "_read", "_starts", "_states")

    def __init__(self, file_id: int, read: Read) -> None:
        """Check batches of segment `file_id`, whose bytes `read` returns."""
        self._file_id = file_id
        self._read = read
        self._starts = array("I")
        self._states = bytearray()
        self._end = 0

    def find(self, offset: int, limit: int) -> int:
        """Return the number of the batch with the record at `offset`; the segment ends at `limit`.

        Raises:
            KahaDBFormatError: there is no batch.
            OSError: the segment cannot be read at the moment.
        """
        if offset >= self._end:
            self._walk(offset, limit)
        if not 0 <= offset < self._end:
            raise KahaDBFormatError(
                f"No record at {Location(self._file_id, offset)}", position=offset
            )
        return bisect_right(self._starts, offset) - 1

    def are_sound(self, first: int, last: int) -> bool:
        """Return whether batches `first` to `last` are known to be sound."""
        return self._states.count(_SOUND, first, last + 1) == last + 1 - first

    def extent(self, first: int, last: int) -> tuple[int, int]:
        """Return where batch `first` begins and batch `last` ends."""
        starts = self._starts
        return starts[first], starts[last + 1] if last + 1 < len(starts) else self._end

    def check(self, run: Sequence[Location], limit: int, data: bytes, start: int) -> None:
        """Check the batches of the records in `run`.

        `data` are the segment's bytes from `start` on that contain them; empty: read them here.

        Raises:
            KahaDBFormatError: one is damaged.
            OSError: one cannot be read at the moment.
        """
        end = 0
        for location in run:
            offset = location.offset
            if offset < end:
                continue  # in the same batch as the previous record
            starts, states = self._starts, self._states
            number = bisect_right(starts, offset) - 1
            begin = starts[number]
            end = starts[number + 1] if number + 1 < len(starts) else self._end
            if states[number] == _UNCHECKED:
                if data:
                    _, size, checksum = _HEADER.unpack_from(data, begin - start)
                    first, behind = begin - start + BATCH_CONTROL_SIZE, end - start
                    sound = size == behind - first and checksum == adler32(data[first:behind])
                else:
                    sound = self._is_sound(begin, end)
                if sound:
                    states[number] = _SOUND
                else:
                    self._read_all(limit)
                    number, end = bisect_right(self._starts, offset) - 1, 0
            if self._states[number] == _DAMAGED:
                raise KahaDBFormatError(
                    f"The batch of the record at {location} is damaged", position=offset
                )

    def _is_sound(self, begin: int, end: int) -> bool:
        """Return whether the batch has the size and the checksum in its header; read in pieces."""
        try:
            header = self._read(BATCH_CONTROL_SIZE, begin)
            _, size, expected = _HEADER.unpack(header)
            checksum = 1
            for at in range(begin + BATCH_CONTROL_SIZE, end, LARGEST_READ):
                checksum = adler32(self._read(min(LARGEST_READ, end - at), at), checksum)
        except OSError as error:
            if is_passing(error):
                raise
            return True
        return bool(size == end - begin - BATCH_CONTROL_SIZE and checksum == expected)

    def _walk(self, offset: int, limit: int) -> None:
        """Find the batches up to the one that contains `offset`, by their headers."""
        starts, states, at = self._starts, self._states, self._end
        base, data = at, b""
        while at <= offset:
            if at + BATCH_CONTROL_SIZE > base + len(data):
                base, data = at, self._chunk(at)
                if len(data) < BATCH_CONTROL_SIZE:
                    break
            head, size, checksum = _HEADER.unpack_from(data, at - base)
            if head != BATCH_CONTROL_HEAD or size <= 0 or at + BATCH_CONTROL_SIZE + size > limit:
                break
            starts.append(at)
            states.append(_UNCHECKED if checksum else _SOUND)
            at += BATCH_CONTROL_SIZE + size
        self._end = at
        if at <= offset < limit:
            self._read_all(limit)

    def _chunk(self, at: int) -> bytes:
        """Return the header at `at` and some bytes after it; none if it cannot be read."""
        for size in (_BATCH_CHECKS_CHUNK, BATCH_CONTROL_SIZE):
            try:
                return self._read(size, at)
            except OSError as error:  # the bad part may be after the header
                if is_passing(error):
                    raise
        return b""

    def _read_all(self, limit: int) -> None:
        """Find the sound batches in the whole segment; the bytes between them are damaged."""
        data, unreadable = self._readable(limit)
        self._starts, self._states, self._end = array("I"), bytearray(), 0
        reader = SegmentReader(data, self._file_id)
        for batch in reader.batches():
            self._add_hole(batch.location.offset, unreadable)
            self._starts.append(batch.location.offset)
            self._states.append(_SOUND)
            self._end = batch.end
        self._add_hole(limit, unreadable)

    def _add_hole(self, end: int, unreadable: Sequence[int]) -> None:
        """Add the bytes before `end`, if there are any, as one damaged batch."""
        if end > self._end:
            readable = not any(self._end - _PAGE < page < end for page in unreadable)
            self._starts.append(self._end)
            self._states.append(_DAMAGED if readable else _SOUND)
            self._end = end

    def _readable(self, limit: int) -> tuple[bytes, list[int]]:
        """Return the segment's bytes up to `limit`, and where pages of it cannot be read."""
        try:
            return self._read(limit, 0), []
        except OSError as error:
            if is_passing(error):
                raise
        data, unreadable = bytearray(limit), []
        for at in range(0, limit, _PAGE):
            try:
                page = self._read(min(_PAGE, limit - at), at)
                data[at : at + len(page)] = page
            except OSError as error:
                if is_passing(error):
                    raise
                unreadable.append(at)
        return bytes(data), unreadable


class JournalFiles:
    """The journal in a directory; `skipped` and `end` describe the segments read so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skipped: list[Skipped] = []
        self.end: Location | None = None
        self._checks: dict[int, SegmentChecks] = {}

    def segments(self) -> list[int]:
        """Return the numbers of the segments, ascending; empty files do not count.

        Raises:
            OSError: the folder cannot be read.
        """
        found = []
        for path in self.folder.iterdir():
            number = segment_number(path.name)
            if number is not None and path.name == segment_name(number) and _size(path):
                found.append(number)
        return sorted(found)

    def records(self, start: Location | None = None) -> Iterator[JournalRecord]:
        """Yield all user records of whole batches, from `start` on.

        A segment that a running broker deletes in the meantime is skipped and listed in `skipped`.

        Raises:
            OSError: a segment cannot be read.
        """
        self.skipped.clear()
        self.end = None
        for file_id in self.segments():
            if start is not None and file_id < start.file_id:
                continue
            offset = start.offset if start is not None and file_id == start.file_id else 0
            try:
                data = (self.folder / segment_name(file_id)).read_bytes()
            except FileNotFoundError:
                self.skipped.append(Skipped(file_id, 0, 0, "deleted"))
                continue
            reader = SegmentReader(data, file_id, start=offset)
            yield from reader.records()
            self.skipped += reader.skipped
            if reader.end or self.end is None:
                # A last segment that is only preallocated is written to from its beginning.
                self.end = Location(file_id, reader.end)

    def read(self, location: Location) -> JournalRecord:
        """Return the one user record at `location`, after checking its batch's checksum.

        Raises:
            KahaDBFormatError: no user record begins there, it is truncated, or its batch is
                damaged.
            OSError: the segment cannot be read.
        """
        path = self.folder / segment_name(location.file_id)
        checks = self._checks.get(location.file_id)
        if checks is None:
            checks = self._checks[location.file_id] = _checks_of(path, location.file_id)
        with path.open("rb") as file:
            return _read_checked(file, location, checks)

    def read_unchecked(self, location: Location) -> JournalRecord:
        """Return the user record at `location`, without checking the checksum of its batch.

        For callers that compare it with a separate digest.

        Raises:
            KahaDBFormatError: no user record begins there, or it is truncated.
            OSError: the segment cannot be read.
        """
        with (self.folder / segment_name(location.file_id)).open("rb") as file:
            return _read_at(file, location)


def read_located(locations: Iterable[tuple[str, Location]]) -> Iterator[JournalRecord]:
    """Yield the records at these locations, each with its segment's path, in the order given.

    The checksums of their batches are checked.
    A segment stays open as long as consecutive locations are in it.

    Raises:
        KahaDBFormatError: no user record begins there, it is truncated, or its batch is damaged.
        OSError: a segment cannot be read.
    """
    for path, some in groupby(locations, key=itemgetter(0)):
        checks: SegmentChecks | None = None
        with Path(path).open("rb") as file:
            for _, location in some:
                if checks is None:
                    checks = _checks_of(Path(path), location.file_id)
                yield _read_checked(file, location, checks)


def _checks_of(path: Path, file_id: int) -> SegmentChecks:
    def read(size: int, offset: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    return SegmentChecks(file_id, read)


def _read_checked(file: BinaryIO, location: Location, checks: SegmentChecks) -> JournalRecord:
    limit = file.seek(0, SEEK_END)
    batch = checks.find(location.offset, limit)
    if not checks.are_sound(batch, batch):
        checks.check((location,), limit, b"", 0)
    return _read_at(file, location)


def _read_at(file: BinaryIO, location: Location) -> JournalRecord:
    size = file.seek(0, SEEK_END)
    if not 0 <= location.offset <= size - RECORD_HEAD.size:
        raise KahaDBFormatError(f"No record at {location}", position=location.offset)
    file.seek(location.offset)
    head = file.read(RECORD_HEAD.size)
    needed = RECORD_HEAD.unpack(head)[0] - len(head)
    if not 0 < needed <= size - location.offset - len(head):
        raise KahaDBFormatError(f"No user record at {location}", position=location.offset)
    found = read_record(head + file.read(needed), Location(location.file_id, 0))
    return JournalRecord(location, found.payload)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
