"""Verification of batches before their records are returned.

Neighbouring records are checked and returned from the same bytes, in one read. The results are
cached for the `_SEGMENTS` most recently used segments. See `SegmentChecks` for the theory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from pyjms.wire.kahadb.batch_checks import LARGEST_READ, SegmentChecks
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.store.damage import is_damage
from pyjms_broker.store.journal.segment_files import SegmentFiles

__all__ = ["BatchChecks"]

_SEGMENTS: Final = 8


class BatchChecks:
    """Reads records from the checked batches of a journal's segments. Blocks."""

    def __init__(self, files: SegmentFiles) -> None:
        self._files = files
        self._segments: OrderedDict[int, SegmentChecks] = OrderedDict()

    def read_run(self, run: Sequence[Location], written: Location) -> list[bytes]:
        """Return the payloads of nearby records of one segment, all before `written`.

        Raises:
            KahaDBFormatError: one of their batches is damaged, or no record begins at a location.
            OSError: one cannot be read.
        """
        file_id = run[0].file_id
        files = self._files
        limit = written.offset if file_id == written.file_id else files.lengths.get(file_id)
        if limit is None:
            return files.read_run(run)  # raises the error about the missing segment
        segment = self._segment(file_id)
        last = segment.find(run[-1].offset, limit)  # first, because it may renumber the batches
        first = segment.find(run[0].offset, limit)
        if segment.are_sound(first, last):
            return files.read_run(run)
        start, end = segment.extent(first, last)
        data = b""
        if end - start <= LARGEST_READ:
            try:
                data = files.read_bytes(file_id, end - start, start)
            except OSError as error:
                if not is_damage(error):
                    raise
        segment.check(run, limit, data, start)
        return files.read_run(run) if not data else files.slice_run(run, data, start)

    def drop(self, file_id: int) -> None:
        """Drop the cached results of a removed segment."""
        self._segments.pop(file_id, None)

    def clear(self) -> None:
        """Drop the cached results of all segments."""
        self._segments.clear()

    def _segment(self, file_id: int) -> SegmentChecks:
        segments = self._segments
        segment = segments.get(file_id)
        if segment is None:
            files = self._files
            segment = SegmentChecks(file_id, lambda size, at: files.read_bytes(file_id, size, at))
            segments[file_id] = segment
            if len(segments) > _SEGMENTS:
                segments.popitem(last=False)
        else:
            segments.move_to_end(file_id)
        return segment
