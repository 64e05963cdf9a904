"""The lock of a spool: one process at a time, as two would number different messages equally."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path
from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import IllegalStateException

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["SpoolLock"]

logger: Final = get_logger(__name__)

_FILE: Final = "lock"
_RETRY_INTERVAL: Final = 0.1
_LOCKED: Final = frozenset((errno.EACCES, errno.EAGAIN, errno.EDEADLK))
_LOCKED_OFFSET: Final = 1 << 30
"""The byte that Windows locks: after the holder's name, so that others can read the name."""


class SpoolLock:
    """The lock of a spool's folder; the operating system releases it when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._file: int | None = None

    async def acquire(self, timeout: float) -> None:
        """Acquire the lock; wait up to `timeout` seconds for a process that is being stopped.

        Raises:
            IllegalStateException: another process has it.
            OSError: the folder cannot be written.
        """
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = _clock.now() + timeout
            while not self._try_lock(file):
                if _clock.now() >= deadline:
                    raise self._locked_error()
                await _clock.sleep(_RETRY_INTERVAL)
            os.truncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, f"{socket.gethostname()}:{os.getpid()}".encode())
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Release the lock; idempotent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _try_lock(self, file: int) -> bool:
        try:
            _lock(file)
        except OSError as error:
            if error.errno in _LOCKED:
                return False
            logger.warning(
                "jms: the spool %s cannot be locked, as its file system does not support it (%s): "
                "make sure that only one driver uses it",
                self._path.parent,
                error,
            )
        return True

    def _locked_error(self) -> IllegalStateException:
        holder = self._path.read_text(encoding="utf-8").strip() or "an unknown process"
        return IllegalStateException(
            f"The spool {self._path.parent} is in use by another process: {holder}",
            hint="a query runs in one driver at a time; stop the other driver",
        )


if sys.platform == "win32":

    def _lock(file: int) -> None:
        os.lseek(file, _LOCKED_OFFSET, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:

    def _lock(file: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
