"""Batches of a KahaDB journal, made by the format alone, and where they go in its segments."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyjms.errors import LocalProtocolError
from pyjms.wire.kahadb.journal import (
    BATCH_CONTROL_HEAD,
    BATCH_CONTROL_SIZE,
    END_MARKER,
    MAX_FILE_LENGTH,
    RECORD_HEAD,
    USER_TYPE,
    Location,
)

_SIZES: Final = struct.Struct(">iq")
_LARGEST: Final = 0x7FFFFFFF


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
