"""A block of spooled messages, first in memory, then in a file that is deleted when empty.

A block stores the offset of its first live message and finds the others by scanning. There is no
state per message, except for a flag if single messages were removed from the middle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

__all__ = ["RECORD_HEAD", "Block", "Record"]

RECORD_HEAD: Final = struct.Struct(">III")
"""The header of each frame: its size, the message's size in memory, the redelivery counter."""

_LARGEST_READ: Final = 1 << 18


class Record(NamedTuple):
    """A message in its block: its index, its end offset, and its stored data."""

    number: int
    end: int
    frame: bytes
    memory_size: int
    redelivery_counter: int


class Block:
    """The messages with tokens `first`, `first + 1` and so on of one spool."""

    __slots__ = (
        "count",
        "data",
        "first",
        "live",
        "memory_size",
        "number",
        "offset",
        "removed",
        "size",
        "start",
    )

    def __init__(self, number: int, first: int) -> None:
        self.number = number
        self.first = first
        """The token of the block's first message."""
        self.data: bytearray | None = bytearray()
        """Its contents until they are written to the file."""
        self.size = 0
        self.count = 0
        """The number of messages ever appended."""
        self.live = 0
        """The number of messages that were neither popped nor removed."""
        self.memory_size = 0
        """The size of the live messages in memory, in bytes."""
        self.start = 0
        """The index of the first message that was not popped."""
        self.offset = 0
        """The offset of that message."""
        self.removed: bytearray | None = None
        """Flags of the removed messages (1: removed), created with the first removal."""

    def append(self, frame: bytes, memory_size: int, redelivery_counter: int) -> int:
        """Append a message and return its length in bytes. Only before the block is written."""
        assert self.data is not None, "a written block is closed"
        self.data += RECORD_HEAD.pack(len(frame), memory_size, redelivery_counter)
        self.data += frame
        length = RECORD_HEAD.size + len(frame)
        self.size += length
        self.count += 1
        self.live += 1
        self.memory_size += memory_size
        return length

    def remove(self, index: int, memory_size: int) -> bool:
        """Flag a message as removed; return whether it was live."""
        if not self.start <= index < self.count:
            return False
        if self.removed is None or len(self.removed) < self.count:
            self.removed = (self.removed or bytearray()).ljust(self.count, b"\0")
        if self.removed[index]:
            return False
        self.removed[index] = 1
        self.live -= 1
        self.memory_size -= memory_size
        return True

    def pop_through(self, record: Record) -> None:
        """Count `record`, the first live one, and all records before it as popped."""
        self.start = record.number + 1
        self.offset = record.end
        self.live -= 1
        self.memory_size -= record.memory_size

    def records(
        self, after: int, limit: int, read: Callable[[int, int, int], bytes]
    ) -> Iterator[Record]:
        """Yield at most `limit` live messages whose index is above `after`.

        Raises:
            OSError: raised by `read(number, offset, size)`.
        """
        window = _Window(self, read)
        removed = self.removed or b""
        offset = self.offset
        for index in range(self.start, self.count):
            if limit <= 0:
                return
            size, memory_size, counter = RECORD_HEAD.unpack(window.get(offset, RECORD_HEAD.size))
            begin = offset + RECORD_HEAD.size
            offset = begin + size
            if index <= after or (index < len(removed) and removed[index]):
                continue
            limit -= 1
            yield Record(index, offset, window.get(begin, size), memory_size, counter)


class _Window:
    """A block's bytes, read ahead in chunks."""

    def __init__(self, block: Block, read: Callable[[int, int, int], bytes]) -> None:
        self._block = block
        self._read = read
        self._data: bytes = b""
        self._from = 0

    def get(self, offset: int, size: int) -> bytes:
        data = self._block.data
        if data is not None:
            return bytes(data[offset : offset + size])
        begin = offset - self._from
        if begin < 0 or begin + size > len(self._data):
            wanted = max(size, _LARGEST_READ)
            self._data = self._read(self._block.number, offset, wanted)
            self._from, begin = offset, 0
            if len(self._data) < size:
                raise OSError(f"Spool file {self._block.number} is truncated")
        return self._data[begin : begin + size]
