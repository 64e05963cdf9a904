"""The only module that calls the operating system for the journal's files.

All calls block. A write writes everything or raises. Written data is durable after `sync`; the
creation, renaming or removal of a file is durable after `sync_directory`. Tests use a simulated
disk instead.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyjms_broker.store.files import make_private_directory

NO_SPACE_ERRORS: Final = frozenset((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))
"""Error numbers that mean that a disk or a quota is full."""
NO_HANDLE_ERRORS: Final = frozenset((errno.EMFILE, errno.ENFILE))
"""Error numbers that mean that no more files can be opened for now; the disk is fine."""

Bytes = bytes | bytearray | memoryview


if sys.platform == "win32":
    _seeking = threading.Lock()  # Windows has no pread

    def _pread(fd: int, size: int, offset: int) -> bytes:
        with _seeking:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, size)

    def _pwrite(fd: int, data: Bytes, offset: int) -> int:
        with _seeking:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.write(fd, data)

else:
    _pread, _pwrite = os.pread, os.pwrite


class Disk:
    """The operating system's disk. All methods raise OSError and block.

    `pread` and `pwrite` may transfer fewer bytes than requested.
    """

    def __init__(
        self,
        pread: Callable[[int, int, int], bytes] = _pread,
        pwrite: Callable[[int, Bytes, int], int] = _pwrite,
    ) -> None:
        self._pread = pread
        self._pwrite = pwrite

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file for reading and writing and return its descriptor."""
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        return os.open(path, flags, 0o600)

    def close(self, fd: int) -> None:
        """Close a descriptor; its number may be reused."""
        os.close(fd)

    def size(self, fd: int) -> int:
        """Return the length of a file."""
        return os.fstat(fd).st_size

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Return `size` bytes, fewer only at the end of the file."""
        data = self._pread(fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := self._pread(fd, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def write(self, fd: int, data: Bytes, offset: int) -> None:
        """Write all of `data`. After an error, any part of it may have been written."""
        written = self._pwrite(fd, data, offset)
        size = len(data)
        if written == size:
            return
        view = memoryview(data)
        while written < size:
            written += self._pwrite(fd, view[written:], offset + written)

    def sync(self, fd: int) -> None:
        """Make the file's data and length durable."""
        if sys.platform == "win32":
            os.fsync(fd)
        elif sys.platform == "darwin":
            import fcntl  # noqa: PLC0415 - not on Windows

            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync leaves data in the drive's cache
        else:
            os.fdatasync(fd)

    def truncate(self, fd: int, length: int) -> None:
        """Truncate a file, or extend it with a hole."""
        os.ftruncate(fd, length)

    def allocate(self, fd: int, length: int) -> None:
        """Reserve the blocks of the first `length` bytes, and make the file that long."""
        if sys.platform in {"win32", "darwin"}:
            os.ftruncate(fd, length)
        else:
            os.posix_fallocate(fd, 0, length)

    def make_directory(self, path: Path) -> None:
        """Create a directory with its parents, unless it exists."""
        make_private_directory(path)

    def sync_directory(self, path: Path) -> None:
        """Make the directory's current entries durable; Windows syncs them with the files."""
        if sys.platform != "win32":
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def names(self, path: Path) -> dict[str, int]:
        """Return the names of the files in a directory with their lengths."""
        with os.scandir(path) as entries:
            return {e.name: e.stat().st_size for e in entries if e.is_file()}

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, replacing an existing one."""
        os.replace(old, new)  # noqa: PTH105 - os functions throughout this module

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)  # noqa: PTH108


OS_DISK: Final = Disk()


class SpareHandle:
    """One reserved handle: `keep` acquires it, `open` releases it when there is no other."""

    def __init__(self) -> None:
        self._fd = -1

    def keep(self) -> None:
        """Reserve a handle, unless one is reserved or none is available. Blocks briefly."""
        if self._fd < 0:
            with suppress(OSError):  # the next call tries again
                self._fd = os.open(os.devnull, os.O_RDONLY)

    def open(self, open_file: Callable[[], int], make_room: Callable[[], bool]) -> int:
        """Return the result of `open_file()`, releasing the reserved handle if necessary.

        Args:
            open_file: opens a file and returns its descriptor.
            make_room: closes a file that is not needed; returns whether there was one. It is
                called repeatedly before the reserved handle is released.
        """
        while True:
            try:
                return open_file()
            except OSError as error:
                if error.errno not in NO_HANDLE_ERRORS:
                    raise
                if not make_room():
                    if self._fd < 0:
                        raise
                    self.release()

    def release(self) -> None:
        """Release the reserved handle. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
