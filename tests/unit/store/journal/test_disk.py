"""The operating system's disk, as the journal uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyjms_broker.store.journal.disk import OS_DISK, Bytes, Disk


def test_files_are_made_written_read_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    with pytest.raises(FileNotFoundError):
        OS_DISK.open(path)
    OS_DISK.make_directory(path.parent)
    OS_DISK.make_directory(path.parent)
    fd = OS_DISK.open(path, create=True)
    OS_DISK.write(fd, b"0123456789", 5)
    OS_DISK.sync(fd)
    assert OS_DISK.size(fd) == 15
    assert OS_DISK.read(fd, 100, 3) == b"\0\x000123456789"
    assert OS_DISK.read(fd, 4, 7) == b"2345"
    OS_DISK.truncate(fd, 6)
    OS_DISK.truncate(fd, 8)
    assert OS_DISK.read(fd, 100, 4) == b"\x000\0\0"
    OS_DISK.allocate(fd, 10_000)
    assert OS_DISK.size(fd) == 10_000
    assert OS_DISK.read(fd, 2, 5) == b"0\0"
    OS_DISK.close(fd)
    fd = OS_DISK.open(path)
    assert not os.get_inheritable(fd)
    OS_DISK.close(fd)


def test_names_are_listed_changed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"123")
    (tmp_path / "two").touch()
    (tmp_path / "folder").mkdir()
    assert OS_DISK.names(tmp_path) == {"one": 3, "two": 0}
    OS_DISK.rename(tmp_path / "one", tmp_path / "two")
    OS_DISK.sync_directory(tmp_path)
    assert OS_DISK.names(tmp_path) == {"two": 3}
    OS_DISK.remove(tmp_path / "two")
    assert OS_DISK.names(tmp_path) == {}


def _read_little(fd: int, size: int, offset: int) -> bytes:
    return os.pread(fd, min(size, 3), offset)


def _write_little(fd: int, data: Bytes, offset: int) -> int:
    return os.pwrite(fd, data[:3], offset)


def test_partial_writes_and_reads_are_completed(tmp_path: Path) -> None:
    disk = Disk(_read_little, _write_little)
    fd = disk.open(tmp_path / "file", create=True)
    disk.write(fd, b"0123456789", 0)
    assert disk.read(fd, 9, 1) == b"123456789"
    assert disk.read(fd, 100, 0) == b"0123456789"
    disk.close(fd)
