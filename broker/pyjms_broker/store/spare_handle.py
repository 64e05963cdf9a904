"""A file handle that is kept so that a store can read when the process may open no more files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from pyjms_broker.store.journal.disk import NO_HANDLE_ERRORS

__all__ = ["SpareHandle"]


class SpareHandle:
    """One handle of the process. `keep` takes it, `open` gives it up when there is no other."""

    def __init__(self) -> None:
        self._fd = -1

    def keep(self) -> None:
        """Take a handle, unless one is kept or none is free. Blocks for a moment."""
        if self._fd < 0:
            with suppress(OSError):  # the next call tries again
                self._fd = os.open(os.devnull, os.O_RDONLY)

    def open(self, open_file: Callable[[], int], make_room: Callable[[], bool]) -> int:
        """Return what `open_file()` returns, if need be with the kept handle.

        Args:
            open_file: opens a file and returns its descriptor.
            make_room: closes a file that is not needed; returns whether there was one. It is
                called first, as often as it helps.

        Raises:
            OSError: the file cannot be opened.
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
        """Give the handle up. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
