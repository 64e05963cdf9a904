"""A spare file handle, so that a store can still read when the process is out of handles."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from pyjms_broker.store.journal.disk import NO_HANDLE_ERRORS

__all__ = ["SpareHandle"]


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
        """Release the reserved handle. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
