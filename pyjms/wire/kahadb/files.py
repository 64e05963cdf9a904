"""Reading of the segments in a journal directory, one after the other; blocks on the disk.

Nothing is opened for writing and no lock is acquired, so the journal of a running broker can be
read as well: the result has the records that were complete when their segment was read. One segment
is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO

from pyjms.wire.kahadb.batch_checks import SegmentChecks
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import RECORD_HEAD, Location, segment_name, segment_number
from pyjms.wire.kahadb.reader import JournalRecord, SegmentReader, Skipped, read_record

__all__ = ["JournalFiles", "read_located"]


class JournalFiles:
    """The journal in a directory; `skipped` and `end` describe the segments read so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skipped: list[Skipped] = []
        self.end: Location | None = None
        self._checks: dict[int, SegmentChecks] = {}

    def segments(self) -> list[int]:
        """Return the numbers of the segments, ascending; empty files do not count.

        (activemq-persistence K27)

        Raises:
            OSError: the folder cannot be read.
        """
        found = []
        for path in self.folder.iterdir():
            number = segment_number(path.name)
            if number is not None and path.name == segment_name(number) and _size(path):
                found.append(number)
        return sorted(found)

    def records(self, start: Location | None = None) -> Iterator[JournalRecord]:
        """Yield all user records of whole batches, from `start` on.

        A segment that a running broker deletes in the meantime is skipped and listed in `skipped`.

        Raises:
            OSError: a segment cannot be read.
        """
        self.skipped.clear()
        self.end = None
        for file_id in self.segments():
            if start is not None and file_id < start.file_id:
                continue
            offset = start.offset if start is not None and file_id == start.file_id else 0
            try:
                data = (self.folder / segment_name(file_id)).read_bytes()
            except FileNotFoundError:
                self.skipped.append(Skipped(file_id, 0, 0, "deleted"))
                continue
            reader = SegmentReader(data, file_id, start=offset)
            yield from reader.records()
            self.skipped += reader.skipped
            if reader.end or self.end is None:
                # A last segment that is only preallocated is written to from its beginning.
                self.end = Location(file_id, reader.end)

    def read(self, location: Location) -> JournalRecord:
        """Return the one user record at `location`, after checking its batch's checksum.

        Raises:
            KahaDBFormatError: no user record begins there, it is truncated, or its batch is
                damaged.
            OSError: the segment cannot be read.
        """
        path = self.folder / segment_name(location.file_id)
        checks = self._checks.get(location.file_id)
        if checks is None:
            checks = self._checks[location.file_id] = _checks_of(path, location.file_id)
        with path.open("rb") as file:
            return _read_checked(file, location, checks)

    def read_unchecked(self, location: Location) -> JournalRecord:
        """Return the user record at `location`, without checking the checksum of its batch.

        For callers that compare it with a separate digest.

        Raises:
            KahaDBFormatError: no user record begins there, or it is truncated.
            OSError: the segment cannot be read.
        """
        with (self.folder / segment_name(location.file_id)).open("rb") as file:
            return _read_at(file, location)


def read_located(locations: Iterable[tuple[str, Location]]) -> Iterator[JournalRecord]:
    """Yield the records at these locations, each with its segment's path, in the order given.

    The checksums of their batches are checked.
    A segment stays open as long as consecutive locations are in it.

    Raises:
        KahaDBFormatError: no user record begins there, it is truncated, or its batch is damaged.
        OSError: a segment cannot be read.
    """
    for path, some in groupby(locations, key=itemgetter(0)):
        checks: SegmentChecks | None = None
        with Path(path).open("rb") as file:
            for _, location in some:
                if checks is None:
                    checks = _checks_of(Path(path), location.file_id)
                yield _read_checked(file, location, checks)


def _checks_of(path: Path, file_id: int) -> SegmentChecks:
    def read(size: int, offset: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    return SegmentChecks(file_id, read)


def _read_checked(file: BinaryIO, location: Location, checks: SegmentChecks) -> JournalRecord:
    limit = file.seek(0, SEEK_END)
    batch = checks.find(location.offset, limit)
    if not checks.are_sound(batch, batch):
        checks.check((location,), limit, b"", 0)
    return _read_at(file, location)


def _read_at(file: BinaryIO, location: Location) -> JournalRecord:
    size = file.seek(0, SEEK_END)
    if not 0 <= location.offset <= size - RECORD_HEAD.size:
        raise KahaDBFormatError(f"No record at {location}", position=location.offset)
    file.seek(location.offset)
    head = file.read(RECORD_HEAD.size)
    needed = RECORD_HEAD.unpack(head)[0] - len(head)
    if not 0 < needed <= size - location.offset - len(head):
        raise KahaDBFormatError(f"No user record at {location}", position=location.offset)
    found = read_record(head + file.read(needed), Location(location.file_id, 0))
    return JournalRecord(location, found.payload)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
