"""A store's private files and directories, and its lock, for one broker at a time.

Files and directories are readable only by their owner, because they contain messages. Existing ones
keep their modes, which an operator may have set. Modes have no effect on Windows.

The lock is on the file `lock`. (activemq-persistence H1, H2, H4) The operating system's record
lock, which Java honours, excludes other processes. It does not exclude a second holder in the same
process; a set of paths does. This module bypasses the tests' simulated disk, on which a lock would
have no effect.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from pyjms.errors import ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.fork import call_in_child
from pyjms.runtime.logging import get_logger

logger = get_logger(__name__)


def make_private_directory(path: Path) -> None:
    """Create a directory with mode 0700, and its parents likewise, unless it exists. Blocks.

    Raises:
        OSError: it cannot be created.
    """
    if not path.is_dir():
        if path.parent != path:
            make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def create_private_file(path: Path) -> None:
    """Create an empty file with mode 0600, unless it exists, to be opened as a database.

    Raises:
        OSError: it cannot be created.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_TIME: Final = struct.Struct(">q")
_held: set[Path] = set()  # by this process; closing any descriptor of such a file drops its lock
call_in_child(_held.clear)  # a forked child does not inherit record locks, and is excluded by them


async def wait_for_lock(
    try_acquire: Callable[[], Awaitable[bool]],
    name: str,
    on_slave: Callable[[bool], None],
    *,
    fail_if_locked: bool,
    interval: float,
    hint: str,
) -> None:
    """Call `try_acquire` every `interval` seconds until it succeeds. Cancellable.

    `on_slave` is called with True when a wait begins, which is logged, and with False at the end.
    (activemq-persistence H4)

    Raises:
        ResourceAllocationException: another broker has the lock and `fail_if_locked` is set.
    """
    waiting = False
    try:
        while not await try_acquire():
            if fail_if_locked:
                raise ResourceAllocationException(f"{name} is locked by another server", hint=hint)
            if not waiting:
                waiting = True
                on_slave(True)
                logger.info(
                    "%s is locked by another server. This broker is now in slave mode"
                    " waiting a lock to be acquired",
                    name,
                )
            await _clock.sleep(interval)
    finally:
        on_slave(False)


class SharedFileLock:
    """The lock of a directory shared by brokers; `slave` is True while waiting for it.

    (activemq-persistence H4)

    Source: ActiveMQ SharedFileLocker.
    """

    def __init__(
        self,
        path: Path,
        fail_if_locked: bool = False,
        lock_acquire_sleep_interval: float = 10.0,
    ) -> None:
        """Configure the lock on the file `path`, created if needed; the interval is in seconds."""
        self.path = path
        self.slave = False
        self._fail_if_locked = fail_if_locked
        self._sleep_interval = lock_acquire_sleep_interval
        self._key: Path | None = None
        self._fd = -1
        self._stamp = 0

    @property
    def held(self) -> bool:
        """Whether the lock is held."""
        return self._key is not None

    async def acquire(self) -> None:
        """Wait for the lock, logging once that it is held elsewhere. Cancellable.

        Raises:
            ResourceAllocationException: another broker holds it and `fail_if_locked` is set, or
                the file cannot be created.
        """

        async def try_once() -> bool:
            return self.try_acquire()

        def set_slave(is_slave: bool) -> None:
            self.slave = is_slave

        await wait_for_lock(
            try_once,
            str(self.path),
            set_slave,
            fail_if_locked=self._fail_if_locked,
            interval=self._sleep_interval,
            hint="stop that broker, or give this one another directory",
        )

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free; return whether it is held now. Does not wait.

        Raises:
            ResourceAllocationException: the file cannot be created.
        """
        if self.held:
            return True
        try:
            make_private_directory(self.path.parent)
            key = self.path.resolve()
            fd = -1 if key in _held else _open_locked(self.path)
            if fd < 0:
                return False
            self._stamp = os.fstat(fd).st_mtime_ns
        except OSError as error:
            raise ResourceAllocationException(f"Cannot lock {self.path}: {error}") from error
        _held.add(key)
        self._key, self._fd = key, fd
        return True

    def keep_alive(self) -> bool:
        """Return whether the lock is still held: the same file, and not written by anyone else.

        (activemq-persistence H2)
        """
        if not self.held:
            return False
        try:
            return _is_file(self._fd, self.path) and os.fstat(self._fd).st_mtime_ns == self._stamp
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock; the file stays. Idempotent."""
        key, self._key = self._key, None
        if key is not None:
            fd, self._fd = self._fd, -1
            _held.discard(key)
            os.close(fd)


def _open_locked(path: Path) -> int:
    """Return a descriptor of the file, locked and time-stamped, or -1 if it is locked."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags, 0o600)
    try:
        # The previous holder may just have removed the file.
        if _lock(fd) and _is_file(fd, path):
            os.write(fd, _TIME.pack(_clock.time_ms()))
            kept, fd = fd, -1
            return kept
        return -1
    finally:
        if fd >= 0:
            os.close(fd)


def _is_file(fd: int, path: Path) -> bool:
    """Whether the descriptor's file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":

    def _lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:

    def _lock(fd: int) -> bool:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True
