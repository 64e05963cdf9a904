"""Checks the checksums of batches whose records are read by their locations.

Theory of operation
-------------------

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
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias
from zlib import adler32

from pyjms.wire.kahadb.errors import KahaDBFormatError, is_passing
from pyjms.wire.kahadb.journal import BATCH_CONTROL_HEAD, BATCH_CONTROL_SIZE, Location
from pyjms.wire.kahadb.reader import SegmentReader

__all__ = ["LARGEST_READ", "SegmentChecks"]

LARGEST_READ: Final = 1 << 22
"""The maximum number of bytes that are read at a time for a check."""
_UNCHECKED: Final = 0
_SOUND: Final = 1
_DAMAGED: Final = 2
_CHUNK: Final = 1 << 15  # bytes that a walk reads at a time, unless the next batch is nearer
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
        for size in (_CHUNK, BATCH_CONTROL_SIZE):
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
