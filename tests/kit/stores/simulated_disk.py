"""A disk in memory that can fail at any call and lose power at any instant.

It keeps what a real one keeps: what was synced, and of the rest what `after_crash` says. A
sync that fails forgets, as Linux does: the bytes can still be read, but no later sync makes
them safe. Names are safe after `sync_directory`.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pyjms_broker.store.journal.disk import Disk

SECTOR = 512


class Write(NamedTuple):
    """Something done to a file and not synced; `data` None: cut or lengthened to `offset`."""

    file: SimulatedFile
    offset: int
    data: bytes | None

    @property
    def sectors(self) -> int:
        return 1 if self.data is None else -(-len(self.data) // SECTOR)


class SimulatedFile:
    """The contents of a file as programs see it, and the part that survives a power failure."""

    def __init__(self, safe: bytes = b"") -> None:
        self.seen = bytearray(safe)
        self.safe = bytearray(safe)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
    else:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data


class SimulatedDisk(Disk):
    """A disk in memory. `fail(call, count)` may return the error of the `count`th call of all."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: Callable[[str, int], OSError | None] = lambda call, count: None
        self.calls = 0
        self.log: list[str] = []
        self.unsynced: list[Write] = []
        self._seen_names: dict[Path, SimulatedFile] = {}
        self._safe_names: dict[Path, SimulatedFile] = {}
        self._open: dict[int, SimulatedFile] = {}
        self._next_fd = 1000
        self._lock = threading.RLock()

    def fail_once(self, call: str, code: int, times: int = 1) -> None:
        """Let the next `times` calls of this kind fail."""
        left = times

        def fail(name: str, count: int) -> OSError | None:
            nonlocal left
            if name == call and left:
                left -= 1
                return OSError(code, "simulated")
            return None

        self.fail = fail

    def after_crash(self, keep: int = 0, torn: int = 0) -> SimulatedDisk:
        """Return the contents of the disk after a power failure now.

        Of what is not synced the first `keep` writes are there, and `torn` bytes of the next.
        """
        with self._lock:
            kept = list(self.unsynced[:keep])
            if torn and keep < len(self.unsynced):
                last = self.unsynced[keep]
                kept.append(last._replace(data=last.data and last.data[:torn]))
            return self._survivor(kept)

    def after_crash_losing(self, lost: Callable[[int, int], bool]) -> SimulatedDisk:
        """The same, but of each write any sectors may be missing: `lost(write, sector)`."""
        with self._lock:
            return self._survivor(list(self._pieces(lost)))

    def _pieces(self, lost: Callable[[int, int], bool]) -> Iterator[Write]:
        for number, write in enumerate(self.unsynced):
            for sector in range(write.sectors):
                if lost(number, sector):
                    continue
                if write.data is None:
                    yield write
                    continue
                at = sector * SECTOR
                yield Write(write.file, write.offset + at, write.data[at : at + SECTOR])

    def _survivor(self, kept: list[Write]) -> SimulatedDisk:
        disk = SimulatedDisk()
        for path, file in self._safe_names.items():
            content = bytearray(file.safe)
            for write in kept:
                if write.file is file:
                    _apply(content, write.offset, write.data)
            disk._seen_names[path] = disk._safe_names[path] = SimulatedFile(bytes(content))
        return disk

    def content(self, path: Path) -> bytes:
        """Return what programs read from a file."""
        return bytes(self._seen_names[path].seen)

    def put(self, path: Path, content: bytes) -> None:
        """Place a file, safe at once."""
        self._seen_names[path] = self._safe_names[path] = SimulatedFile(content)

    def flip_bit(self, path: Path, offset: int) -> None:
        """Damage a byte of a file, which may be open."""
        with self._lock:
            self._seen_names[path].seen[offset] ^= 0x10

    # -- what a journal calls

    def _called(self, call: str) -> None:
        self.calls += 1
        self.log.append(call)
        error = self.fail(call, self.calls)
        if error is not None:
            raise error

    def open(self, path: Path, *, create: bool = False) -> int:
        with self._lock:
            self._called("open")
            file = self._seen_names.get(path)
            if file is None:
                if not create:
                    raise FileNotFoundError(errno.ENOENT, "simulated", str(path))
                file = self._seen_names[path] = SimulatedFile()
            self._next_fd += 1
            self._open[self._next_fd] = file
            return self._next_fd

    def close(self, fd: int) -> None:
        with self._lock:
            del self._open[fd]

    @property
    def open_files(self) -> int:
        return len(self._open)

    def size(self, fd: int) -> int:
        return len(self._open[fd].seen)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        with self._lock:
            self._called("read")
            return bytes(self._open[fd].seen[offset : offset + size])

    def write(self, fd: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        with self._lock:
            try:
                self._called("write")
            except OSError:
                self._change(fd, offset, bytes(data[: len(data) // 2]))
                raise
            self._change(fd, offset, bytes(data))

    def truncate(self, fd: int, length: int) -> None:
        with self._lock:
            self._called("truncate")
            self._change(fd, length, None)

    def allocate(self, fd: int, length: int) -> None:
        with self._lock:
            self._called("allocate")
            self._change(fd, max(length, len(self._open[fd].seen)), None)

    def _change(self, fd: int, offset: int, data: bytes | None) -> None:
        file = self._open[fd]
        _apply(file.seen, offset, data)
        self.unsynced.append(Write(file, offset, data))

    def sync(self, fd: int) -> None:
        with self._lock:
            file = self._open[fd]
            mine = [write for write in self.unsynced if write.file is file]
            self.unsynced = [write for write in self.unsynced if write.file is not file]
            self._called("sync")
            for write in mine:
                _apply(file.safe, write.offset, write.data)

    def make_directory(self, path: Path) -> None:
        with self._lock:
            self._called("make_directory")

    def sync_directory(self, path: Path) -> None:
        with self._lock:
            self._called("sync_directory")
            others = {p: f for p, f in self._safe_names.items() if p.parent != path}
            mine = {p: f for p, f in self._seen_names.items() if p.parent == path}
            self._safe_names = others | mine

    def names(self, path: Path) -> dict[str, int]:
        with self._lock:
            self._called("names")
            return {p.name: len(f.seen) for p, f in self._seen_names.items() if p.parent == path}

    def rename(self, old: Path, new: Path) -> None:
        with self._lock:
            self._called("rename")
            self._seen_names[new] = self._seen_names.pop(old)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._called("remove")
            del self._seen_names[path]


@pytest.fixture
def simulated_disk() -> SimulatedDisk:
    return SimulatedDisk()
