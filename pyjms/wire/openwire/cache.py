"""The marshall cache: values that a direction has sent before travel as an index.

Both tables live as long as the connection and start empty after negotiation. The writer
never refers to a slot that it has given to another value since. (ENCODING 4)
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.wire.limits import MAX_CACHE_SIZE
from pyjms.wire.openwire.schema import Structure

__all__ = ["NOT_STORED", "ReadCache", "WriteCache"]

# A new value with this index takes no slot.
NOT_STORED: Final = -1
# What the reference keeps free for one frame's new values.
_FREE_SPACE: Final = 100
# A value may hold a cached value, and both need their slots at a time.
_SMALLEST_SIZE: Final = 4


class ReadCache:
    """Index to value, as the peer filled it. It never evicts; the peer reuses slots."""

    __slots__ = ("_size", "_slots")

    def __init__(self, size: int) -> None:
        self._size = size or MAX_CACHE_SIZE
        self._slots: dict[int, Structure | None] = {}

    def put(self, index: int, value: Structure | None) -> None:
        """Store `value`.

        Raises:
            RemoteProtocolError: the index is outside the negotiated size.
        """
        if index == NOT_STORED:
            return
        if not 0 <= index < self._size:
            raise RemoteProtocolError(f"Cache index {index} is outside 0..{self._size - 1}")
        self._slots[index] = value

    def get(self, index: int) -> Structure | None:
        """Return the value at `index`.

        Raises:
            RemoteProtocolError: nothing was stored there.
        """
        try:
            return self._slots[index]
        except KeyError:
            raise RemoteProtocolError(f"Cache index {index} was never filled") from None


class WriteCache:
    """Value to index. Evicts in the reference's order, so that its bytes come out the same."""

    __slots__ = ("_added", "_evict", "_indexes", "_next", "_size", "_values")

    def __init__(self, size: int) -> None:
        self._size = min(size or MAX_CACHE_SIZE, MAX_CACHE_SIZE)
        self._indexes: dict[Structure | None, int] = {}
        self._values: dict[int, Structure | None] = {}
        self._added: list[int] = []
        self._next = 0
        self._evict = 0

    def begin_frame(self) -> None:
        """Make room for the values of one frame."""
        self._added.clear()
        highest = max(self._size - _FREE_SPACE, 0)
        while len(self._indexes) > highest:
            self._drop(self._evict)
            self._evict = (self._evict + 1) % self._size

    def undo_frame(self) -> None:
        """Forget what a frame added that is not sent after all."""
        for index in self._added:
            self._drop(index)
        self._added.clear()

    def find(self, value: Structure | None) -> int:
        """Return the index of `value`, or NOT_STORED."""
        return self._indexes.get(value, NOT_STORED)

    def add(self, value: Structure | None) -> int:
        """Give `value` the next slot and return its index, or NOT_STORED in a tiny cache."""
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
