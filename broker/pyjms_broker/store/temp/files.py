"""The temp store's files, one per block: written once, read in chunks, deleted. Calls block.

Nothing is synced, because the files do not outlive the broker.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from pyjms_broker.store.private_files import make_private_directory
from pyjms_broker.store.spare_handle import SpareHandle

__all__ = ["SpoolFiles"]

_OURS: Final = re.compile(r"[0-9]+\.spool", re.ASCII)
_ACTIVEMQ_INDEX: Final = ("tmpDB.data", "tmpDB.redo", "tmpDB.free")
_ACTIVEMQ_SEGMENT: Final = re.compile(r"db-[0-9]+\.log", re.ASCII)
_BINARY: Final = getattr(os, "O_BINARY", 0)


class SpoolFiles:
    """The files of a temp store's directory, by number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._spare = SpareHandle()

    def close(self) -> None:
        """Release the handle that is reserved for reading. Idempotent."""
        self._spare.release()

    def wipe(self) -> None:
        """Create the directory, or delete leftover files of a broker. (activemq-persistence K2)

        Only files of temp stores, ours and ActiveMQ's, are deleted, so that a directory that was
        configured by mistake loses nothing.

        Raises:
            OSError: it cannot be created or emptied.
        """
        self._spare.keep()
        make_private_directory(self.directory)
        names = [path.name for path in self.directory.iterdir()]
        is_activemq = any(name in _ACTIVEMQ_INDEX for name in names)
        for name in names:
            if (
                _OURS.fullmatch(name)
                or name in _ACTIVEMQ_INDEX
                or (is_activemq and _ACTIVEMQ_SEGMENT.fullmatch(name))
            ):
                (self.directory / name).unlink(missing_ok=True)

    def write(self, number: int, data: bytes | bytearray) -> None:
        """Write file `number`, replacing an existing one.

        Raises:
            OSError: it cannot be written.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY
        fd = os.open(self._path(number), flags, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Return `size` bytes of file `number`; fewer only at its end.

        Raises:
            OSError: it cannot be read.
        """
        path = self._path(number)
        fd = self._spare.open(lambda: os.open(path, os.O_RDONLY | _BINARY), lambda: False)
        with os.fdopen(fd, "rb") as file:
            file.seek(offset)
            data = file.read(size)
        self._spare.keep()
        return data

    def delete(self, number: int) -> None:
        """Delete file `number`, if it exists.

        Raises:
            OSError: it cannot be deleted.
        """
        with contextlib.suppress(FileNotFoundError):
            self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self.directory / f"{number}.spool"
