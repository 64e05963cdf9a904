"""A run of spooled messages: first in memory, then a file, gone when nothing of it is wanted.

A block knows where its first wanted message lies and finds the others by walking: nothing is
kept per message, but a flag where single messages were taken out of the middle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

__all__ = ["RECORD_HEAD", "Block", "Record"]

RECORD_HEAD: Final = struct.Struct(">III")
"""Before each frame: its size, the size that memory counts, the redelivery counter."""

_LARGEST_READ: Final = 1 << 18


class Record(NamedTuple):
    """A message in its block: its number there, where it ends, and what was kept of it."""

    place: int
    end: int
    frame: bytes
    memory_size: int
    redelivery_counter: int


class Block:
    """Messages `first`, `first + 1` and so on of one spool."""

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
        """The spool's number of the block's first message."""
        self.data: bytearray | None = bytearray()
        """All its bytes, until they are in the file."""
        self.size = 0
        self.count = 0
        """Messages ever put into it."""
        self.live = 0
        """Those that are neither taken nor removed."""
        self.memory_size = 0
        """Their bytes, as memory counts them."""
        self.start = 0
        """The number in the block of the first that is not taken."""
        self.offset = 0
        """Where that one begins."""
        self.removed: bytearray | None = None
        """A 1 for each message that was removed, once there is one."""

    def append(self, frame: bytes, memory_size: int, redelivery_counter: int) -> int:
        """Add a message and return how many bytes it takes. Only while `data` is there."""
        assert self.data is not None, "a written block is closed"
        self.data += RECORD_HEAD.pack(len(frame), memory_size, redelivery_counter)
        self.data += frame
        taken = RECORD_HEAD.size + len(frame)
        self.size += taken
        self.count += 1
        self.live += 1
        self.memory_size += memory_size
        return taken

    def remove(self, index: int, memory_size: int) -> bool:
        """Mark a message as not wanted; return whether it was."""
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

    def take_to(self, record: Record) -> None:
        """Count `record`, the first wanted one, and all before it as taken."""
        self.start = record.place + 1
        self.offset = record.end
        self.live -= 1
        self.memory_size -= record.memory_size

    def records(
        self, after: int, limit: int, read: Callable[[int, int, int], bytes]
    ) -> Iterator[Record]:
        """Yield at most `limit` wanted messages whose number in the block is above `after`.

        Raises:
            OSError: `read(number, offset, size)` does.
        """
        window = _Window(self, read)
        removed = self.removed or b""
        at = self.offset
        for index in range(self.start, self.count):
            if limit <= 0:
                return
            size, memory_size, counter = RECORD_HEAD.unpack(window.get(at, RECORD_HEAD.size))
            begin = at + RECORD_HEAD.size
            at = begin + size
            if index <= after or (index < len(removed) and removed[index]):
                continue
            limit -= 1
            yield Record(index, at, window.get(begin, size), memory_size, counter)


class _Window:
    """A block's bytes, read ahead in pieces."""

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
                raise OSError(f"Spool file {self._block.number} is shorter than it was")
        return self._data[begin : begin + size]
