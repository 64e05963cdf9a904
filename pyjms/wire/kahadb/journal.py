"""The journal's own shape: segments, batches, records, and writing them.

A segment `db-<n>.log` is a row of batches. A batch is a batch control record, which has the
size and the Adler-32 of the rest, and user records. Behind the last batch comes an end marker,
which the next one overwrites. Nothing here reads or writes files. (persistence K1 to K6)
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyjms.errors import LocalProtocolError

__all__ = [
    "BATCH_CONTROL_HEAD",
    "BATCH_CONTROL_SIZE",
    "BATCH_CONTROL_TYPE",
    "END_MARKER",
    "MAX_FILE_LENGTH",
    "MAX_WRITE_BATCH_SIZE",
    "RECORD_HEAD",
    "USER_TYPE",
    "Batch",
    "Location",
    "SegmentCursor",
    "batch_size",
    "encode_batch",
    "preallocation",
    "segment_name",
    "segment_number",
]

RECORD_HEAD: Final = struct.Struct(">iB")
USER_TYPE: Final = 1
BATCH_CONTROL_TYPE: Final = 2
# What every batch begins with: its control record's size and type, and ActiveMQ's magic.
BATCH_CONTROL_HEAD: Final = b"\0\0\0\x1c\x02WRITE BATCH"
BATCH_CONTROL_SIZE: Final = 28
END_MARKER: Final = b"-qMa4"
MAX_FILE_LENGTH: Final = 33554432
MAX_WRITE_BATCH_SIZE: Final = 4194304

_SIZES: Final = struct.Struct(">iq")
_LARGEST: Final = 0x7FFFFFFF
_SEGMENT_NAME: Final = re.compile(r"db-([0-9]{1,10})\.log", re.ASCII)


class Location(NamedTuple):
    """Where a record begins: segment number and offset. Sorts in the order of writing."""

    file_id: int
    offset: int


class Batch(NamedTuple):
    """A batch to write: its bytes, and the offset in them of each payload's record.

    The bytes end with the end marker, which counts neither for the next batch's place nor
    for the segment's length.
    """

    data: bytes
    offsets: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes without the end marker: how far the next batch lies behind this one."""
        return len(self.data) - len(END_MARKER)


def batch_size(payload_sizes: Sequence[int]) -> int:
    """Return the size of a batch of payloads of these sizes, without the end marker."""
    return BATCH_CONTROL_SIZE + sum(payload_sizes) + RECORD_HEAD.size * len(payload_sizes)


def encode_batch(payloads: Sequence[bytes], *, checksum: bool = True) -> Batch:
    """Return the batch of these payloads, in one piece for one write.

    Without `checksum` readers do not check its bytes (ActiveMQ's checksumJournalFiles=false).

    Raises:
        LocalProtocolError: there is no payload, an empty one, or 2 GiB of them.
    """
    offsets: list[int] = []
    parts: list[bytes] = []
    at = BATCH_CONTROL_SIZE
    for payload in payloads:
        size = RECORD_HEAD.size + len(payload)
        if size == RECORD_HEAD.size or at + size > _LARGEST:
            raise LocalProtocolError("A record is empty, or its batch larger than 2 GiB")
        offsets.append(at)
        parts.append(RECORD_HEAD.pack(size, USER_TYPE))
        parts.append(payload)
        at += size
    if not parts:
        raise LocalProtocolError("A batch without records")
    records = b"".join(parts)
    # A checksum of 0 says "not checked": the rare bytes whose Adler-32 is 0 are not.
    sizes = _SIZES.pack(len(records), zlib.adler32(records) if checksum else 0)
    return Batch(b"".join((BATCH_CONTROL_HEAD, sizes, records, END_MARKER)), tuple(offsets))


class SegmentCursor:
    """Where the next batch goes, and when a new segment begins."""

    __slots__ = ("file_id", "max_file_length", "offset")

    def __init__(
        self, file_id: int = 1, offset: int = 0, max_file_length: int = MAX_FILE_LENGTH
    ) -> None:
        """Go on behind `offset`, which a reader's `end` says, in segment `file_id`."""
        self.file_id = file_id
        self.offset = offset
        self.max_file_length = max_file_length

    def fits(self, size: int) -> bool:
        """Whether a batch of `size` bytes (`Batch.size`) goes into the present segment.

        One that is larger than any segment fits an empty one, which it makes longer. (K27)
        """
        return not self.offset or self.offset + size <= self.max_file_length

    def place(self, size: int) -> Location:
        """Return where a batch of `size` bytes goes, and move behind it."""
        if not self.fits(size):
            self.roll()
        location = Location(self.file_id, self.offset)
        self.offset += size
        return location

    def roll(self) -> int:
        """Go to the beginning of the next segment and return its number."""
        self.file_id += 1
        self.offset = 0
        return self.file_id


def preallocation(length: int) -> tuple[tuple[int, bytes], ...]:
    """Return offset and bytes of what a new segment holds but zeros, from preallocation on.

    It is the end marker, at its beginning and at its end. (K5)
    """
    return (0, END_MARKER), (max(length - len(END_MARKER), 0), END_MARKER)


def segment_name(file_id: int) -> str:
    """Return the file name of segment `file_id`."""
    return f"db-{file_id}.log"


def segment_number(name: str) -> int | None:
    """Return the number of the segment with this file name; None: it is no segment's."""
    found = _SEGMENT_NAME.fullmatch(name)
    return int(found[1]) if found else None
