"""A batch that is being filled, and the job that writes batches. (activemq-persistence K4, K5)

A batch is filled on the loop; its bytes are joined when they are written. Offsets are fixed as
soon as a record is appended, so records can be read before they are written.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from typing import Final

from pyjms.wire.kahadb.journal import (
    BATCH_CONTROL_HEAD,
    BATCH_CONTROL_SIZE,
    END_MARKER,
    Location,
)
from pyjms_broker.api.completion import Completion

__all__ = ["OpenBatch", "WriteJob"]

_HEAD_ROOM: Final = BATCH_CONTROL_HEAD + bytes(BATCH_CONTROL_SIZE - len(BATCH_CONTROL_HEAD))
_SIZES: Final = struct.Struct(">iq")


class OpenBatch:
    """The records of one batch at `offset` of a segment.

    `parts` are the batch's header, and the header and payload of each record; `offsets` are those
    of the records; `end` is the end of the batch (without the end marker) once it is closed.
    """

    __slots__ = ("end", "file_id", "offset", "offsets", "parts")

    def __init__(self, file_id: int, offset: int) -> None:
        self.file_id = file_id
        self.offset = offset
        self.end = offset + BATCH_CONTROL_SIZE
        self.parts: list[bytes] = [_HEAD_ROOM]
        self.offsets: list[int] = []

    def payload(self, location: Location) -> bytes | None:
        """Return the payload of the record at `location`; None: it is not in this batch."""
        offset = location.offset
        if location.file_id != self.file_id or offset <= self.offset:
            return None
        index = bisect_left(self.offsets, offset)
        if index == len(self.offsets) or self.offsets[index] != offset:
            return None
        return self.parts[2 * index + 2]

    def encode(self, checksum: bool) -> bytearray:
        """Return the bytes to write, including the end marker."""
        data = bytearray().join(self.parts)
        size = len(data) - BATCH_CONTROL_SIZE
        with memoryview(data) as view:
            # a checksum of 0 means "not checked"
            adler = zlib.adler32(view[BATCH_CONTROL_SIZE:]) if checksum else 0
        _SIZES.pack_into(data, len(BATCH_CONTROL_HEAD), size, adler)
        data += END_MARKER
        return data


class WriteJob:
    """One write: batches in their order, then a sync if needed.

    `waiters` are completed when it is done. Without batches it only syncs. `senders` is the number
    of distinct senders among the waiters; all waiters of one chunk of input count as one.
    """

    __slots__ = ("batches", "senders", "size", "sync", "waiters")

    def __init__(
        self,
        batches: list[OpenBatch],
        waiters: list[Completion],
        *,
        sync: bool,
        senders: int | None = None,
    ) -> None:
        self.batches = batches
        self.waiters = waiters
        self.senders = len(waiters) if senders is None else senders
        self.sync = sync
        self.size = sum([batch.end - batch.offset for batch in batches])
