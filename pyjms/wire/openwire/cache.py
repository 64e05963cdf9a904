"""The marshall cache: a value that was sent before in one direction is sent as an index.

Each direction of a connection has a table, filled by the writer: a new value is sent with its index
in the table, later only the index is sent. Both tables are empty after negotiation and exist as
long as the connection.

- The reader stores a value under the index sent with it. It never evicts: the writer reuses
  indexes.
- The writer must not evict a value that the frame it is writing refers to. Like the reference,
  it frees slots, oldest first, before each frame, so that 100 are available.
- If a frame is not sent after all (a field cannot be written, or the frame is too large), its new
  values are removed again, because the peer has not received them.
- `None` and equal ids share a slot; commands compare by identity and hardly ever share one.
- An index that is too large, or was never filled, is the peer's error: RemoteProtocolError.

(openwire-encoding 4)
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.wire.limits import MAX_CACHE_SIZE
from pyjms.wire.openwire.schema import Structure

# A new value with this index is not stored.
NOT_STORED: Final = -1
# The slots that the reference keeps free for the new values of one frame.
_FREE_SPACE: Final = 100
# A value may hold another cached value, and both need a slot at the same time.
_SMALLEST_SIZE: Final = 4


class ReadCache:
    """The peer's table: index to value."""

    __slots__ = ("_size", "_slots")

    def __init__(self, size: int) -> None:
        self._size = size or MAX_CACHE_SIZE
        self._slots: dict[int, Structure | None] = {}

    def put(self, index: int, value: Structure | None) -> None:
        """Store `value`."""
        if index == NOT_STORED:
            return
        if not 0 <= index < self._size:
            raise RemoteProtocolError(f"Cache index {index} is outside 0..{self._size - 1}")
        self._slots[index] = value

    def get(self, index: int) -> Structure | None:
        """Return the value at `index`."""
        try:
            return self._slots[index]
        except KeyError:
            raise RemoteProtocolError(f"Cache index {index} was never filled") from None


class WriteCache:
    """The own table: value to index. Evicts in the order of the reference, to write equal bytes."""

    __slots__ = ("_added", "_evict", "_indexes", "_next", "_size", "_values")

    def __init__(self, size: int) -> None:
        self._size = min(size or MAX_CACHE_SIZE, MAX_CACHE_SIZE)
        self._indexes: dict[Structure | None, int] = {}
        self._values: dict[int, Structure | None] = {}
        self._added: list[int] = []
        self._next = 0
        self._evict = 0

    def begin_frame(self) -> None:
        """Free slots for the new values of one frame."""
        self._added.clear()
        highest = max(self._size - _FREE_SPACE, 0)
        while len(self._indexes) > highest:
            self._drop(self._evict)
            self._evict = (self._evict + 1) % self._size

    def undo_frame(self) -> None:
        """Remove the values that were added by a frame that is not sent."""
        for index in self._added:
            self._drop(index)
        self._added.clear()

    def find(self, value: Structure | None) -> int:
        """Return the index of `value`, or NOT_STORED."""
        return self._indexes.get(value, NOT_STORED)

    def add(self, value: Structure | None) -> int:
        """Store `value` in the next slot and return its index; NOT_STORED if the cache is tiny."""
        if self._size < _SMALLEST_SIZE:
            return NOT_STORED
        index = self._next
        self._next = (index + 1) % self._size
        self._drop(index)
        self._values[index] = value
        self._indexes[value] = index
        self._added.append(index)
        return index

    def _drop(self, index: int) -> None:
        if index in self._values:
            value = self._values.pop(index)
            if self._indexes.get(value) == index:
                del self._indexes[value]
