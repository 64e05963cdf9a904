"""Faults of the disk under a running broker: its journals call the disk through this."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from pyjms_broker.store.journal.disk import OS_DISK

__all__ = ["DiskFaults"]

CALLS: Final = ("write", "sync", "allocate", "open")
CREATE: Final = "create"


class DiskFaults:
    """Makes calls of the journals' disk fail, or slow, on command.

    Commands: `fail CALL ERRNO TIMES` lets the next calls fail; the call `create` is an `open` that
    creates the file. `full` and `space` begin and end a full disk; `slow SECONDS` delays each
    sync, `slow 0` no more. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: dict[str, tuple[int, int]] = {}
        self._full = False
        self._delay = 0.0

    def install(self) -> None:
        """Put the faults before the disk of this process."""
        for call in CALLS:
            setattr(OS_DISK, call, self._faulty(call, getattr(OS_DISK, call)))

    def command(self, line: str) -> None:
        match line.split():
            case ["fail", call, name, times]:
                with self._lock:
                    self._failing[call] = (getattr(errno, name), int(times))
            case ["full"]:
                self._full = True
            case ["space"]:
                self._full = False
            case ["slow", seconds]:
                self._delay = float(seconds)
            case _:
                raise ValueError(f"unknown fault: {line!r}")

    def _faulty(self, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def faulty(*arguments: Any, **options: Any) -> Any:
            code = self._error(CREATE if options.get(CREATE) else call)
            if code:
                if call == "write":  # as of a real disk, a part of it is written
                    fd, data, offset = arguments
                    real(fd, data[: len(data) // 2], offset)
                raise OSError(code, os.strerror(code))
            if call == "sync" and self._delay:
                time.sleep(self._delay)
            return real(*arguments, **options)

        return faulty

    def _error(self, call: str) -> int:
        with self._lock:
            code, times = self._failing.get(call, (0, 0))
            if times:
                self._failing[call] = (code, times - 1)
                return code
        return errno.ENOSPC if self._full and call in {"write", "allocate"} else 0
