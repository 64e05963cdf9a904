"""Batches on their way to the disk, and the jobs that take them there. (persistence K3 to K5)

A batch is filled on the loop; its bytes are put together where they are written, with one join.
Where everything goes is known when the batch begins, so records can be found before.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from typing import Final

from broker.api.completion import Completion
from pyjms.wire.kahadb.journal import (
    BATCH_CONTROL_HEAD,
    BATCH_CONTROL_SIZE,
    END_MARKER,
    Location,
)

__all__ = ["OpenBatch", "WriteJob"]

_HEAD_ROOM: Final = BATCH_CONTROL_HEAD + bytes(BATCH_CONTROL_SIZE - len(BATCH_CONTROL_HEAD))
_SIZES: Final = struct.Struct(">iq")


class OpenBatch:
    """Records that get into one batch at `offset` of a segment.

    `parts` are the batch's head, and the head and payload of each record; `offsets` where the
    records begin; `end` where the batch ends (without the end marker), once it is closed.
    """

    __slots__ = ("end", "file_id", "offset", "offsets", "parts")

    def __init__(self, file_id: int, offset: int) -> None:
        self.file_id = file_id
        self.offset = offset
        self.end = offset + BATCH_CONTROL_SIZE
        self.parts: list[bytes] = [_HEAD_ROOM]
        self.offsets: list[int] = []

    def payload(self, location: Location) -> bytes | None:
        """Return the payload of the record at `location`; None: it is not one of these."""
        offset = location.offset
        if location.file_id != self.file_id or offset <= self.offset:
            return None
        index = bisect_left(self.offsets, offset)
        if index == len(self.offsets) or self.offsets[index] != offset:
            return None
        return self.parts[2 * index + 2]

    def encode(self, checksum: bool) -> bytearray:
        """Return the bytes to write, the end marker behind them."""
        data = bytearray().join(self.parts)
        size = len(data) - BATCH_CONTROL_SIZE
        with memoryview(data) as view:
            # a checksum of 0 says "not checked"
            adler = zlib.adler32(view[BATCH_CONTROL_SIZE:]) if checksum else 0
        _SIZES.pack_into(data, len(BATCH_CONTROL_HEAD), size, adler)
        data += END_MARKER
        return data


class WriteJob:
    """What one visit to the disk does: batches in their order, then perhaps a sync.

    `waiters` are told when it is done. Without batches it only syncs. `senders` is how many
    wait: what one sender has asked for in one chunk counts once.
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
