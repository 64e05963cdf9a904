"""Recovery of a journal after a crash: find its end, and clear what lies behind it. Blocks.

Theory of operation
-------------------

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

from typing import NamedTuple

from pyjms._logger import get_logger
from pyjms.wire.kahadb.commands import KahaRewrittenDataFileCommand
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import END_MARKER, Location, has_only_zeros
from pyjms.wire.kahadb.reader import SegmentReader, Skipped
from pyjms_broker.store.journal.disk import Disk
from pyjms_broker.store.journal.segment_files import SegmentFiles
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope

__all__ = ["Recovered", "recover"]

logger = get_logger(__name__)


class Recovered(NamedTuple):
    """The end, where the next batch goes, and damage before it."""

    end: Location
    corrupt: tuple[Skipped, ...]


def recover(files: SegmentFiles, settings: JournalSettings, disk: Disk) -> Recovered:
    """Load the directory, scan its last segment (or all), and truncate a torn end.

    Raises:
        OSError: a file cannot be read or written.
    """
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
        files.lengths[end.file_id] = disk.size(fd)
    finally:
        disk.close(fd)
