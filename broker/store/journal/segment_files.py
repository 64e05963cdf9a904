"""The folder of segments: which there are, making the next one, reading, removing.

All calls block. `create` and `prepare` may run in other threads than the rest; reading,
`delete` and `close` belong to the loop's side. (persistence K1, K5, K19)
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.store.journal.disk import Disk
from broker.store.journal.settings import (
    JournalSettings,
    PreallocationScope,
    PreallocationStrategy,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import (
    END_MARKER,
    RECORD_HEAD,
    USER_TYPE,
    Location,
    preallocation,
    segment_name,
    segment_number,
)

__all__ = ["SegmentFiles", "contiguous_runs"]

logger = logging.getLogger(__name__)

# No segment's name, so any reader of the journal leaves it alone (K27).
_SPARE: Final = "next-segment.tmp"
_OPEN_FILES: Final = 16
_GUESS: Final = 4096  # most records are not larger: one read for head and payload
_NEAR: Final = 16384  # bytes between two records that are read rather than skipped
_LONGEST_RUN: Final = 1 << 20
# Larger ones are larger pages in the kernel's cache, of which each write dirties a whole one.
_PIECE: Final = 1 << 16


class _Lengths(dict[int, int]):
    """Bytes of the segments by their numbers; `total` of all."""

    def __init__(self, lengths: Mapping[int, int] | None = None) -> None:
        super().__init__(lengths or {})
        self.total = sum(self.values())

    def __setitem__(self, file_id: int, length: int) -> None:
        if self.get(file_id) != length:
            super().__setitem__(file_id, length)
            self.total = sum(self.copy().values())

    def __delitem__(self, file_id: int) -> None:
        super().__delitem__(file_id)
        self.total = sum(self.copy().values())


class SegmentFiles:
    """The segments in a folder; `lengths` has their sizes in bytes by number."""

    def __init__(self, directory: Path, settings: JournalSettings, disk: Disk) -> None:
        self.directory = directory
        self.lengths = _Lengths()
        self._settings = settings
        self._disk = disk
        self._readers: OrderedDict[int, int] = OrderedDict()  # number -> descriptor
        self._making = threading.Lock()
        self._has_spare = False

    def load(self) -> None:
        """Find the segments. Empty files and other names are none; a spare's is removed. (K27)"""
        self._disk.make_directory(self.directory)
        names = self._disk.names(self.directory)
        self.lengths = _Lengths(
            {
                number: size
                for name, size in names.items()
                if (number := segment_number(name)) is not None
                and name == segment_name(number)
                and size
            }
        )
        if _SPARE in names:
            self._disk.remove(self.directory / _SPARE)

    def path(self, file_id: int) -> Path:
        """Return the path of segment `file_id`."""
        return self.directory / segment_name(file_id)

    # -- making

    def prepare(self) -> None:
        """Make the next segment ahead, under a name that is none's. In a thread of its own."""
        with self._making:
            if not self._has_spare:
                path = self.directory / _SPARE
                try:
                    fd = self._disk.open(path, create=True)
                    try:
                        self.preallocate(fd)
                    finally:
                        self._disk.close(fd)
                except OSError as error:
                    logger.warning("Cannot make the next journal file ahead: %s", error)
                    with suppress(OSError):
                        self._disk.remove(path)
                else:
                    self._has_spare = True

    def create(self, file_id: int) -> int:
        """Make segment `file_id`, empty, and return its descriptor for writing.

        Raises:
            OSError: it cannot be made; try again.
        """
        path = self.path(file_id)
        with self._making:
            if self._has_spare:
                self._disk.rename(self.directory / _SPARE, path)
                self._has_spare = False
            fd = self._disk.open(path, create=True)
            try:
                if (
                    self._settings.preallocation_scope is PreallocationScope.ENTIRE_JOURNAL
                    and self._disk.size(fd) < self._settings.max_file_length
                ):
                    self.preallocate(fd)
                self._disk.sync_directory(self.directory)
                self.lengths[file_id] = self._disk.size(fd)
            except OSError:
                self._disk.close(fd)
                raise
        return fd

    def open(self, file_id: int) -> int:
        """Return a descriptor of a segment that is there, for writing."""
        return self._disk.open(self.path(file_id))

    def preallocate(self, fd: int, start: int = 0) -> None:
        """Give a segment its length and its end markers, from `start` on, synced."""
        length = max(self._settings.max_file_length, start + len(END_MARKER))
        strategy = self._settings.preallocation_strategy
        if strategy is PreallocationStrategy.SPARSE_FILE:
            self._disk.truncate(fd, length)
            with suppress(OSError):  # then it stays sparse: a full disk is the writer's trouble
                self._fill(fd, start, length, _PIECE)
        elif strategy is PreallocationStrategy.OS_KERNEL_COPY:
            self._disk.allocate(fd, length)
        elif strategy is PreallocationStrategy.ZEROS:
            self._fill(fd, start, length, length)
        else:
            self._fill(fd, start, length, _PIECE)
        for offset, marker in preallocation(length):
            self._disk.write(fd, marker, max(offset, start))
        self._disk.sync(fd)

    def _fill(self, fd: int, start: int, end: int, piece: int) -> None:
        zeros = bytes(min(piece, end - start))
        for offset in range(start, end, piece):
            self._disk.write(fd, zeros[: end - offset], offset)

    # -- reading

    def read_segment(self, file_id: int) -> bytes:
        """Return all bytes of a segment."""
        fd = self._disk.open(self.path(file_id))
        try:
            return self._disk.read(fd, self._disk.size(fd), 0)
        finally:
            self._disk.close(fd)

    def read(self, location: Location) -> bytes:
        """Return the payload of the record at `location`.

        Raises:
            KahaDBFormatError: no user record begins there, or it is cut off.
            OSError: it cannot be read.
        """
        data = self._disk.read(self._reader(location.file_id), _GUESS, location.offset)
        return self._payload(data, 0, location)

    def read_run(self, run: Sequence[Location]) -> list[bytes]:
        """Return the payloads of records of one segment, near each other, with one read."""
        first = run[0]
        size = run[-1].offset - first.offset + _GUESS
        data = self._disk.read(self._reader(first.file_id), size, first.offset)
        return [self._payload(data, location.offset - first.offset, location) for location in run]

    def _payload(self, data: bytes, at: int, location: Location) -> bytes:
        """Return the payload of the record at `at` of `data`; reads what it has beyond `data`."""
        if at + RECORD_HEAD.size > len(data):
            raise KahaDBFormatError(f"No record at {location}", position=location.offset)
        size, kind = RECORD_HEAD.unpack_from(data, at)
        start = at + RECORD_HEAD.size
        payload = data[start : at + size]
        missing = size - RECORD_HEAD.size - len(payload)
        if kind == USER_TYPE and missing > 0 and location.offset + size <= self._end(location):
            offset = location.offset + RECORD_HEAD.size + len(payload)
            payload += self._disk.read(self._reader(location.file_id), missing, offset)
            missing = size - RECORD_HEAD.size - len(payload)
        if kind != USER_TYPE or missing or not payload:
            raise KahaDBFormatError(f"No user record at {location}", position=location.offset)
        return payload

    def _end(self, location: Location) -> int:
        return self._disk.size(self._reader(location.file_id))

    def _reader(self, file_id: int) -> int:
        readers = self._readers
        fd = readers.get(file_id)
        if fd is None:
            fd = readers[file_id] = self._disk.open(self.path(file_id))
            if len(readers) > _OPEN_FILES:
                self._disk.close(readers.popitem(last=False)[1])
        else:
            readers.move_to_end(file_id)
        return fd

    # -- removing

    def forget(self, file_id: int) -> None:
        """Close what reads a segment; before `delete`."""
        fd = self._readers.pop(file_id, None)
        if fd is not None:
            self._disk.close(fd)

    def delete(self, file_id: int) -> None:
        """Remove a segment, or move it to the archive, for good. (K19)"""
        path = self.path(file_id)
        if self._settings.archive_data_logs:
            archive = self._settings.directory_archive or self.directory / "data-archive"
            self._disk.make_directory(archive)
            with suppress(FileNotFoundError):  # the sync failed last time
                self._disk.rename(path, archive / path.name)
            self._disk.sync_directory(archive)
        else:
            with suppress(FileNotFoundError):  # the sync failed last time
                self._disk.remove(path)
        self._disk.sync_directory(self.directory)
        del self.lengths[file_id]

    def close(self) -> None:
        """Close what is open and remove the spare. Idempotent."""
        while self._readers:
            self._disk.close(self._readers.popitem()[1])
        with self._making:
            if self._has_spare:
                self._has_spare = False
                with suppress(OSError):  # the next start removes it
                    self._disk.remove(self.directory / _SPARE)


def contiguous_runs(locations: Sequence[Location]) -> list[Sequence[Location]]:
    """Split locations, in their order, into rows that are worth one read each."""
    found: list[Sequence[Location]] = []
    start = 0
    for i in range(1, len(locations) + 1):
        if i < len(locations):
            before, here, first = locations[i - 1], locations[i], locations[start]
            if (
                here.file_id == before.file_id
                and 0 < here.offset - before.offset <= _NEAR
                and here.offset - first.offset <= _LONGEST_RUN
            ):
                continue
        found.append(locations[start:i])
        start = i
    return found
