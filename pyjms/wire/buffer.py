"""The receive buffer, which splits a stream of bytes into frames that begin with their size.

It contains only received bytes: a declared size allocates no memory. A frame that is complete
within one chunk of data is copied once.
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import RemoteProtocolError

__all__ = ["ReceiveBuffer"]

_SIZE_BYTES: Final = 4


class ReceiveBuffer:
    """Bytes that are not a complete frame yet."""

    __slots__ = ("_at", "_data", "_partial", "joined")

    def __init__(self) -> None:
        self._partial = bytearray()  # the beginning of a frame, starting with its size
        self._data = b""  # the bytes after it
        self._at = 0
        self.joined: int = 0
        """The number of frames that arrived in several chunks of data."""

    def __len__(self) -> int:
        return len(self._partial) + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add bytes at the end."""
        if self._at < len(self._data):
            data = self._data[self._at :] + data
        self._data = data
        self._at = 0

    def next_frame(self, limit: int) -> bytes | None:
        """Return the next frame without its size, or None if it is not complete yet.

        Raises:
            RemoteProtocolError: its size is negative or more than `limit`.
        """
        if self._partial:
            return self._complete(limit)
        data, at = self._data, self._at
        left = len(data) - at
        if not left:
            return None
        if left >= _SIZE_BYTES:
            start = at + _SIZE_BYTES
            size = int.from_bytes(data[at:start], "big", signed=True)
            if size < 1 or size > limit:
                raise _invalid(size, limit)
            end = start + size
            if end <= len(data):
                self._at = end
                return data[start:end]
        self._move(left)
        return None

    @property
    def unfinished(self) -> int:
        """The size of the incomplete frame; 0 if there is none, or its size is incomplete."""
        if len(self._partial) < _SIZE_BYTES:
            return 0
        return int.from_bytes(self._partial[:_SIZE_BYTES], "big")

    def take_all(self) -> bytes:
        """Return all buffered bytes and clear the buffer: the following frames have no sizes."""
        rest = bytes(self._partial) + self._data[self._at :]
        self._partial.clear()
        self._data = b""
        self._at = 0
        return rest

    def _complete(self, limit: int) -> bytes | None:
        partial = self._partial
        self._move(_SIZE_BYTES - len(partial))
        if len(partial) < _SIZE_BYTES:
            return None
        whole = _SIZE_BYTES + self._size(partial[:_SIZE_BYTES], limit)
        self._move(whole - len(partial))
        if len(partial) < whole:
            return None
        frame = bytes(partial[_SIZE_BYTES:])
        partial.clear()
        self.joined += 1
        return frame

    def _move(self, count: int) -> None:
        """Move up to `count` bytes from the data to the partial frame."""
        if count > 0:
            end = min(self._at + count, len(self._data))
            self._partial += self._data[self._at : end]
            self._at = end

    @staticmethod
    def _size(head: bytes | bytearray, limit: int) -> int:
        size = int.from_bytes(head, "big", signed=True)
        if size < 1 or size > limit:
            raise _invalid(size, limit)
        return size


def _invalid(size: int, limit: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"Invalid frame size {size}; 1 to {limit} bytes are allowed")
