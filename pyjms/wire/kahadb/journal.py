"""The format of a journal's segments, and encoding batches. (activemq-persistence K1 to K6)

Theory of operation
-------------------

A journal is a sequence of segments, files named `db-<n>.log`, and a segment is a sequence of
batches. All numbers are big-endian:

    segment        = batch* end-marker [zeros ... end-marker]
    batch          = control-record user-record+
    control-record = size:4 (28)  type:1 (2)  "WRITE BATCH":11  records-size:4  adler32:8
    user-record    = size:4       type:1 (1)  payload            (size includes these 5 bytes)
    payload        = command-code:1  fields-size:varint  fields  (see `codec`)
    end-marker     = "-qMa4":5

A batch is the unit of writing and of recovery: it is written in one piece, and a reader
accepts it as a whole or not at all. `records-size` counts the user records, and the Adler-32 covers
them; a checksum of 0 means "not checked", which ActiveMQ writes with checksumJournalFiles=false.

The end marker follows the last batch and is overwritten by the next one, so it counts neither for
a location nor for a segment's length. It stops a reader in a segment whose remaining bytes are old
or preallocated. A preallocated segment has zeros up to its full length, with an end marker as its
first and last bytes.

A location is a segment number and the offset of a user record's first byte. Locations sort in the
order of writing, and they never change: moving a record means writing a new one. A batch does not
span segments; a batch that is larger than a segment gets a separate segment, which becomes longer
(activemq-persistence K27).

Nothing here reads or writes files: `reader` reads a segment's bytes, `files` a directory.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyjms.errors import LocalProtocolError

RECORD_HEAD: Final = struct.Struct(">iB")
USER_TYPE: Final = 1
BATCH_CONTROL_TYPE: Final = 2
# The first bytes of every batch: the size and type of its control record, and ActiveMQ's magic.
BATCH_CONTROL_HEAD: Final = b"\0\0\0\x1c\x02WRITE BATCH"
BATCH_CONTROL_SIZE: Final = 28
END_MARKER: Final = b"-qMa4"
_ZEROS: Final = bytes(65536)
MAX_FILE_LENGTH: Final = 33554432
MAX_WRITE_BATCH_SIZE: Final = 4194304

_SIZES: Final = struct.Struct(">iq")
_LARGEST: Final = 0x7FFFFFFF
_SEGMENT_NAME: Final = re.compile(r"db-([0-9]{1,10})\.log", re.ASCII)


class Location(NamedTuple):
    """The location of a record: segment number and offset. Sorts in the order of writing."""

    file_id: int
    offset: int


class Batch(NamedTuple):
    """A batch to write: its bytes, and the offset in them of each payload's record.

    The bytes end with the end marker, which counts neither for the location of the next batch
    nor for the segment's length.
    """

    data: bytes
    offsets: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes without the end marker: the distance from this batch to the next one."""
        return len(self.data) - len(END_MARKER)


def batch_size(payload_sizes: Sequence[int]) -> int:
    """Return the size of a batch of payloads of these sizes, without the end marker."""
    return BATCH_CONTROL_SIZE + sum(payload_sizes) + RECORD_HEAD.size * len(payload_sizes)


def encode_batch(payloads: Sequence[bytes], *, checksum: bool = True) -> Batch:
    """Return the batch of these payloads, as one piece of bytes for one write.

    Without `checksum` readers do not check its bytes (ActiveMQ's checksumJournalFiles=false).

    Raises:
        LocalProtocolError: there is no payload, one is empty, or the batch exceeds 2 GiB.
    """
    offsets: list[int] = []
    parts: list[bytes] = []
    at = BATCH_CONTROL_SIZE
    for payload in payloads:
        size = RECORD_HEAD.size + len(payload)
        if size == RECORD_HEAD.size or at + size > _LARGEST:
            raise LocalProtocolError("A record is empty, or its batch is larger than 2 GiB")
        offsets.append(at)
        parts.append(RECORD_HEAD.pack(size, USER_TYPE))
        parts.append(payload)
        at += size
    if not parts:
        raise LocalProtocolError("A batch needs at least one record")
    records = b"".join(parts)
    # 0 means "not checked", so the rare records whose Adler-32 is 0 are not checked either.
    sizes = _SIZES.pack(len(records), zlib.adler32(records) if checksum else 0)
    return Batch(b"".join((BATCH_CONTROL_HEAD, sizes, records, END_MARKER)), tuple(offsets))


class SegmentCursor:
    """The location of the next batch, and the decision when to begin a new segment."""

    __slots__ = ("file_id", "max_file_length", "offset")

    def __init__(
        self, file_id: int = 1, offset: int = 0, max_file_length: int = MAX_FILE_LENGTH
    ) -> None:
        """Continue at `offset` (the `end` of a reader) in segment `file_id`."""
        self.file_id: int = file_id
        self.offset: int = offset
        self.max_file_length: int = max_file_length

    def fits(self, size: int) -> bool:
        """Return whether a batch of `size` bytes (`Batch.size`) fits in the current segment.

        A batch that is larger than a segment fits in an empty one, which becomes longer.
        """
        return not self.offset or self.offset + size <= self.max_file_length

    def allocate(self, size: int) -> Location:
        """Return the location for a batch of `size` bytes and advance past it."""
        if not self.fits(size):
            self.roll()
        location = Location(self.file_id, self.offset)
        self.offset += size
        return location

    def roll(self) -> int:
        """Advance to the beginning of the next segment and return its number."""
        self.file_id += 1
        self.offset = 0
        return self.file_id


def preallocation(length: int) -> tuple[tuple[int, bytes], ...]:
    """Return the non-zero parts of a preallocated segment as pairs of offset and bytes.

    These are the end markers at its beginning and at its end.
    """
    return (0, END_MARKER), (max(length - len(END_MARKER), 0), END_MARKER)


def segment_name(file_id: int) -> str:
    """Return the file name of segment `file_id`."""
    return f"db-{file_id}.log"


def segment_number(name: str) -> int | None:
    """Return the number of the segment with this file name; None if it is not a segment's."""
    found = _SEGMENT_NAME.fullmatch(name)
    return int(found[1]) if found else None


def has_only_zeros(view: memoryview, start: int, end: int) -> bool:
    """Return whether all bytes from `start` to before `end` are zero."""
    step = len(_ZEROS)
    return all(
        view[at : min(at + step, end)] == _ZEROS[: min(step, end - at)]
        for at in range(start, end, step)
    )
