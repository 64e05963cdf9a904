"""The segments of a directory: listing, creating, preallocating, reading, deleting, recovery.

All calls block and may raise OSError; a call that reads raises KahaDBFormatError if no sound record
is there. `create` and `prepare` may run in other threads; reading, `delete` and `close`
run on the loop. (activemq-persistence K1, K5, K19)

Recovery after a crash: `recover` finds the journal's end, and clears what lies behind it.

Batches are written in order, but unless they are synced in between, any part of them may be on the
disk after a power failure. The journal therefore ends where the contiguous run of complete batches
in its last segment ends, each with its header, size and checksum intact. Data behind a gap was
never confirmed to anybody, because a sync covers everything before it, and the gap may contain part
of a transaction. Earlier segments were synced before the last one was begun.

Everything behind the end is cleared and synced before anything is appended. Otherwise a later batch
could end exactly where an old one begins, and make the old one valid again. Complete batches behind
damage are first saved in a file `db-<n>.log.cut-<offset>`, for the operator.

With `check_for_corrupt_journal_files`, all segments are checked, and complete batches behind damage
in the last one are kept. Damage is reported as `corrupt`; the store decides whether the start
fails. (activemq-persistence K20)

ActiveMQ writes compacted acknowledgements to a separate segment, which may be the last one. During
a replay, ActiveMQ skips such a segment while the segment from which they were copied exists, and it
deletes such segments as if they held nothing else. Nothing is therefore appended there: the next
batch begins a new segment. (activemq-persistence K18)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.commands import KahaRewrittenDataFileCommand
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import (
    END_MARKER,
    RECORD_HEAD,
    USER_TYPE,
    Location,
    has_only_zeros,
    preallocation,
    segment_name,
    segment_number,
)
from pyjms.wire.kahadb.segments import LARGEST_READ, SegmentChecks, SegmentReader, Skipped
from pyjms_broker.store.damage import is_damage
from pyjms_broker.store.journal.disk import Disk, SpareHandle
from pyjms_broker.store.journal.settings import (
    JournalSettings,
    PreallocationScope,
    PreallocationStrategy,
)

logger = get_logger(__name__)

# not a segment's name, so that readers of the journal ignore it (activemq-persistence K27)
_NEXT_SEGMENT: Final = "next-segment.tmp"
_OPEN_FILES: Final = 16
_READ_SIZE: Final = 4096  # most records are smaller, so one read gets header and payload
_MAX_GAP: Final = 16384  # the largest gap between two records that are read at once
_MAX_RUN: Final = 1 << 20
# larger writes create larger pages in the page cache, and each append dirties a whole page
_FILL_SIZE: Final = 1 << 16


class SegmentFiles:
    """The segments in a directory; `lengths` has their sizes in bytes by number."""

    def __init__(self, directory: Path, settings: JournalSettings, disk: Disk) -> None:
        self.directory = directory
        self.lengths: dict[int, int] = {}
        self.size = 0
        """The size of all segments on disk in bytes."""
        self._settings = settings
        self._disk = disk
        self._readers: OrderedDict[int, int] = OrderedDict()  # number -> descriptor
        self._checks: OrderedDict[int, SegmentChecks] = OrderedDict()
        self._spare = SpareHandle()
        self._creating = threading.Lock()
        self._has_next = False

    def load(self) -> None:
        """List the segments and delete a leftover preallocated file.

        Empty files and files with other names are ignored (activemq-persistence K27); an empty
        segment before others is logged, because it once held records.
        """
        self._checks.clear()
        self._spare.keep()
        self._disk.make_directory(self.directory)
        names = self._disk.names(self.directory)
        sizes = {
            number: size
            for name, size in names.items()
            if (number := segment_number(name)) is not None and name == segment_name(number)
        }
        for number in empty_segments(sizes):
            logger.error("%s is empty: what it held is lost", self.path(number))
        self.lengths = {number: size for number, size in sizes.items() if size}
        self._update_size()
        if _NEXT_SEGMENT in names:
            self._disk.remove(self.directory / _NEXT_SEGMENT)

    def path(self, file_id: int) -> Path:
        """Return the path of segment `file_id`."""
        return self.directory / segment_name(file_id)

    def set_length(self, file_id: int, length: int) -> None:
        """Set the length of a segment, on the loop or in the writer's thread."""
        if self.lengths.get(file_id) != length:
            self.lengths[file_id] = length
            self._update_size()

    def _update_size(self) -> None:
        self.size = sum(self.lengths.copy().values())  # another thread may add a segment

    # -- creating

    def prepare(self) -> None:
        """Preallocate the next segment under a temporary name. Run it in a thread."""
        with self._creating:
            if not self._has_next:
                path = self.directory / _NEXT_SEGMENT
                try:
                    fd = self._disk.open(path, create=True)
                    try:
                        self.preallocate(fd)
                    finally:
                        self._disk.close(fd)
                except OSError as error:
                    logger.warning("Cannot preallocate the next journal segment: %s", error)
                    with suppress(OSError):
                        self._disk.remove(path)
                else:
                    self._has_next = True

    def create(self, file_id: int) -> int:
        """Create segment `file_id` and return its descriptor for writing."""
        path = self.path(file_id)
        with self._creating:
            if self._has_next:
                self._disk.rename(self.directory / _NEXT_SEGMENT, path)
                self._has_next = False
            fd = self._disk.open(path, create=True)
            try:
                if (
                    self._settings.preallocation_scope is PreallocationScope.ENTIRE_JOURNAL
                    and self._disk.size(fd) < self._settings.max_file_length
                ):
                    self.preallocate(fd)
                self._disk.sync_directory(self.directory)
                self.set_length(file_id, self._disk.size(fd))
            except OSError:
                self._disk.close(fd)
                raise
        return fd

    def open(self, file_id: int) -> int:
        """Return a descriptor of an existing segment, for writing."""
        return self._disk.open(self.path(file_id))

    def preallocate(self, fd: int, start: int = 0) -> None:
        """Set a segment's length and end markers from `start` on, durably."""
        length = max(self._settings.max_file_length, start + len(END_MARKER))
        strategy = self._settings.preallocation_strategy
        if strategy is PreallocationStrategy.SPARSE_FILE:
            self._disk.truncate(fd, length)
            with suppress(OSError):  # then it stays sparse; the writer handles a full disk
                self._fill(fd, start, length, _FILL_SIZE)
        elif strategy is PreallocationStrategy.OS_KERNEL_COPY:
            self._disk.allocate(fd, length)
        elif strategy is PreallocationStrategy.ZEROS:
            self._fill(fd, start, length, length)
        else:
            self._fill(fd, start, length, _FILL_SIZE)
        for offset, marker in preallocation(length):
            self._disk.write(fd, marker, max(offset, start))
        self._disk.sync(fd)

    def _fill(self, fd: int, start: int, end: int, piece: int) -> None:
        zeros = bytes(min(piece, end - start))
        for offset in range(start, end, piece):
            self._disk.write(fd, zeros[: end - offset], offset)

    # -- reading

    def read_segment(self, file_id: int, end: int | None = None) -> bytes:
        """Return the bytes of a segment up to the offset `end`; None: all."""
        fd = self._disk.open(self.path(file_id))
        try:
            return self._disk.read(fd, self._disk.size(fd) if end is None else end, 0)
        finally:
            self._disk.close(fd)

    def read(self, location: Location) -> bytes:
        """Return the payload of the record at `location`."""
        reader = self._reader(location.file_id)
        try:
            data = self._disk.read(reader, _READ_SIZE, location.offset)
        except OSError:  # the unreadable part may lie behind the record
            data = self._disk.read(reader, RECORD_HEAD.size, location.offset)
        return self._payload(data, 0, location)

    def read_run(self, run: Sequence[Location]) -> list[bytes]:
        """Return the payloads of nearby records of a segment with one read. Raises as `read`."""
        first = run[0]
        if len(run) == 1:
            return [self.read(first)]
        data = self.read_bytes(
            first.file_id, run[-1].offset - first.offset + _READ_SIZE, first.offset
        )
        return self.slice_run(run, data, first.offset)

    def slice_run(self, run: Sequence[Location], data: bytes, start: int) -> list[bytes]:
        """Return the payloads of records in `data`, the bytes from `start` on. Raises as `read`."""
        return [self._payload(data, location.offset - start, location) for location in run]

    def read_bytes(self, file_id: int, size: int, offset: int) -> bytes:
        """Return `size` bytes of a segment, fewer only at its end."""
        return self._disk.read(self._reader(file_id), size, offset)

    def _payload(self, data: bytes, at: int, location: Location) -> bytes:
        """Return the payload of the record at `at` in `data`, reading the part beyond `data`."""
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
            path = self.path(file_id)
            fd = self._spare.open(lambda: self._disk.open(path), self._close_oldest_reader)
            readers[file_id] = fd
            self._spare.keep()
            if len(readers) > _OPEN_FILES:
                self._disk.close(readers.popitem(last=False)[1])
        else:
            readers.move_to_end(file_id)
        return fd

    def _close_oldest_reader(self) -> bool:
        if not self._readers:
            return False
        self._disk.close(self._readers.popitem(last=False)[1])
        return True

    def read_sound_run(self, run: Sequence[Location], written: Location) -> list[bytes]:
        """Return the payloads of nearby records of one segment, all before `written`.

        Neighbouring records are checked and returned from the same bytes, in one read. The results
        are cached; see `SegmentChecks` for the theory.
        """
        file_id = run[0].file_id
        limit = written.offset if file_id == written.file_id else self.lengths.get(file_id)
        if limit is None:
            return self.read_run(run)  # raises the error about the missing segment
        checks = self._checks_of(file_id)
        last = checks.find(run[-1].offset, limit)  # first, because it may renumber the batches
        first = checks.find(run[0].offset, limit)
        if checks.are_sound(first, last):
            return self.read_run(run)
        start, end = checks.extent(first, last)
        data = b""
        if end - start <= LARGEST_READ:
            try:
                data = self.read_bytes(file_id, end - start, start)
            except OSError as error:
                if not is_damage(error):
                    raise
        checks.check(run, limit, data, start)
        return self.read_run(run) if not data else self.slice_run(run, data, start)

    def _checks_of(self, file_id: int) -> SegmentChecks:
        checks = self._checks.get(file_id)
        if checks is None:
            checks = SegmentChecks(file_id, lambda size, at: self.read_bytes(file_id, size, at))
            self._checks[file_id] = checks
            if len(self._checks) > _CHECKED_SEGMENTS:
                self._checks.popitem(last=False)
        else:
            self._checks.move_to_end(file_id)
        return checks

    # -- removing

    def close_reader(self, file_id: int) -> None:
        """Close the segment's descriptor for reading; to be called before `delete`."""
        self._checks.pop(file_id, None)
        fd = self._readers.pop(file_id, None)
        if fd is not None:
            self._disk.close(fd)

    def delete(self, file_id: int) -> None:
        """Remove a segment, or move it to the archive, durably (activemq-persistence K19)."""
        path = self.path(file_id)
        if self._settings.archive_data_logs:
            archive = self._settings.directory_archive or self.directory / "data-archive"
            self._disk.make_directory(archive)
            with suppress(FileNotFoundError):  # an earlier attempt removed it, but its sync failed
                self._disk.rename(path, archive / path.name)
            self._disk.sync_directory(archive)
        else:
            with suppress(FileNotFoundError):  # an earlier attempt removed it, but its sync failed
                self._disk.remove(path)
        self._disk.sync_directory(self.directory)
        del self.lengths[file_id]
        self._update_size()

    def close(self) -> None:
        """Close all descriptors and remove the preallocated file. Idempotent."""
        while self._close_oldest_reader():
            pass
        self._spare.release()
        with self._creating:
            if self._has_next:
                self._has_next = False
                with suppress(OSError):  # the next start removes it
                    self._disk.remove(self.directory / _NEXT_SEGMENT)


def empty_segments(sizes: Mapping[int, int]) -> list[int]:
    """Return the empty segments that are followed by others; never the last one."""
    return sorted(number for number, size in sizes.items() if not size and number < max(sizes))


def contiguous_runs(locations: Sequence[Location]) -> list[Sequence[Location]]:
    """Split ordered locations into runs that are each read at once."""
    found: list[Sequence[Location]] = []
    start = 0
    for i in range(1, len(locations) + 1):
        if i < len(locations):
            before, here, first = locations[i - 1], locations[i], locations[start]
            if (
                here.file_id == before.file_id
                and 0 < here.offset - before.offset <= _MAX_GAP
                and here.offset - first.offset <= _MAX_RUN
            ):
                continue
        found.append(locations[start:i])
        start = i
    return found


_CHECKED_SEGMENTS: Final = 8


class Recovered(NamedTuple):
    """The end, where the next batch goes, and damage before it."""

    end: Location
    corrupt: tuple[Skipped, ...]


def recover(files: SegmentFiles, settings: JournalSettings, disk: Disk) -> Recovered:
    """Load the directory, scan its last segment (or all), and truncate a torn end."""
    files.load()
    segments = sorted(files.lengths)
    if not segments:
        return Recovered(Location(1, 0), ())
    corrupt: list[Skipped] = []
    if settings.check_for_corrupt_journal_files:
        for file_id in segments[:-1]:
            reader = SegmentReader(files.read_segment(file_id), file_id)
            for _ in reader.batches():
                pass
            corrupt += reader.skipped
    last = segments[-1]
    data = files.read_segment(last)
    end = _end(data, last, corrupt, past_damage=settings.check_for_corrupt_journal_files)
    if not _is_clear(data, end):
        _cut(files, disk, settings, Location(last, end), data)
    if _holds_compacted_acks(data[:end], last):
        return Recovered(Location(last + 1, 0), tuple(corrupt))
    return Recovered(Location(last, end), tuple(corrupt))


def _end(data: bytes, file_id: int, corrupt: list[Skipped], *, past_damage: bool) -> int:
    """Return the end of the last valid batch."""
    reader = SegmentReader(data, file_id)
    end = 0
    for batch in reader.batches():
        if batch.location.offset != end and not past_damage:
            return end
        end = batch.end
    corrupt += [skipped for skipped in reader.skipped if skipped.end <= end]
    return end


def _holds_compacted_acks(data: bytes, file_id: int) -> bool:
    """Return whether a segment begins with the marker of ActiveMQ's ack compaction."""
    first = next(SegmentReader(data, file_id).records(), None)
    try:
        return first is not None and isinstance(first.command(), KahaRewrittenDataFileCommand)
    except KahaDBFormatError:
        return False


def _is_clear(data: bytes, end: int) -> bool:
    """Return whether only zeros and end markers follow `end`."""
    stop = len(data)
    if data.endswith(END_MARKER) and stop - len(END_MARKER) >= end:
        stop -= len(END_MARKER)
    if data[end : end + len(END_MARKER)] == END_MARKER:
        end += len(END_MARKER)
    return has_only_zeros(memoryview(data), end, stop)


def _cut(
    files: SegmentFiles, disk: Disk, settings: JournalSettings, end: Location, data: bytes
) -> None:
    """Clear a segment behind `end` durably, after saving complete batches there to a file."""
    path = files.path(end.file_id)
    rest = data[end.offset :].removeprefix(END_MARKER)  # readers stop at the marker
    behind = SegmentReader(rest, end.file_id)
    if next(behind.batches(), None) is not None:
        saved = path.with_name(f"{path.name}.cut-{end.offset}")
        fd = disk.open(saved, create=True)
        try:
            disk.write(fd, data[end.offset :], 0)
            disk.sync(fd)
        finally:
            disk.close(fd)
        logger.error("%s is damaged at %d; saved what follows in %s", path, end.offset, saved.name)
    else:
        logger.warning("%s ends with an incomplete write: truncated at %d", path, end.offset)
    fd = files.open(end.file_id)
    try:
        disk.truncate(fd, end.offset)
        if settings.preallocation_scope is PreallocationScope.ENTIRE_JOURNAL:
            files.preallocate(fd, end.offset)
        else:
            disk.write(fd, END_MARKER, end.offset)
            disk.sync(fd)
        files.set_length(end.file_id, disk.size(fd))
    finally:
        disk.close(fd)
