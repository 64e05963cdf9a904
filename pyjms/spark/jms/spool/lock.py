"""One process at a time has a spool: two would acknowledge messages under each other's numbers."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Final

from pyjms import _clock
from pyjms.errors import IllegalStateException

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["SpoolLock"]

logger = logging.getLogger(__name__)

_FILE: Final = "lock"
_LOOK_AGAIN: Final = 0.1
_TAKEN: Final = frozenset((errno.EACCES, errno.EAGAIN, errno.EDEADLK))
_FAR: Final = 1 << 30
"""Where Windows locks a byte: beyond what says who has the lock, which others may read."""


class SpoolLock:
    """The lock of a spool's folder; the operating system gives it back with the process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._file: int | None = None

    async def take(self, patience: float) -> None:
        """Take the lock; one that was just killed may have it for `patience` seconds more.

        Raises:
            IllegalStateException: another process has it.
            OSError: the folder cannot be written.
        """
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            until = _clock.now() + patience
            while not self._try(file):
                if _clock.now() >= until:
                    raise self._refusal()
                await _clock.sleep(_LOOK_AGAIN)
            os.truncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, f"{socket.gethostname()}:{os.getpid()}".encode())
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def give_back(self) -> None:
        """Let another process have it. Idempotent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _try(self, file: int) -> bool:
        try:
            _lock(file)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            logger.warning(
                "jms: the spool %s has no lock, which its file system refuses (%s): see to it that "
                "only one driver uses it",
                self._path.parent,
                error,
            )
        return True

    def _refusal(self) -> IllegalStateException:
        holder = self._path.read_text(encoding="utf-8").strip() or "one that does not say its name"
        return IllegalStateException(
            f"The spool {self._path.parent} is in use by another process: {holder}",
            hint="a query runs in one driver at a time; end the other one",
        )


if sys.platform == "win32":

    def _lock(file: int) -> None:
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:

    def _lock(file: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
