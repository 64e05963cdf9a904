"""Reading of a journal's records, by location or in order. Use it on the loop.

A record that is not written yet is read from the open batches, any other record from its segment;
with `verify_checksums_at_reading`, only if its batch is valid (`BatchChecks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyjms.errors import ResourceAllocationException
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import JournalRecord, SegmentReader, Skipped
from pyjms_broker.store.journal.batch_checks import BatchChecks
from pyjms_broker.store.journal.segment_files import SegmentFiles, contiguous_runs
from pyjms_broker.store.journal.settings import JournalSettings

__all__ = ["RecordReader"]


class RecordReader:
    """The records of an open journal.

    `written` returns the end of the written data, and raises if the journal is not open;
    `unwritten` returns the payload of a record in the open batches, or None.
    """

    def __init__(
        self,
        files: SegmentFiles,
        settings: JournalSettings,
        written: Callable[[], Location],
        unwritten: Callable[[Location], bytes | None],
    ) -> None:
        self._files = files
        self._checks = BatchChecks(files) if settings.verify_checksums_at_reading else None
        self._written = written
        self._unwritten = unwritten

    def read(self, location: Location) -> bytes:
        """Return the payload of the record at `location`. Blocks on the disk for a written record.

        Raises:
            KahaDBFormatError: no record begins there, or its batch is damaged.
            ResourceAllocationException: it cannot be read.
        """
        payload = self._unwritten_payload(location)
        return self._read_written((location,))[0] if payload is None else payload

    def read_unchecked(self, location: Location) -> bytes:
        """Return the payload of the record at `location` without verifying its batch's checksum.

        For callers that compare it with their own digest. Blocks and raises as `read`.
        """
        payload = self._unwritten_payload(location)
        if payload is not None:
            return payload
        try:
            return self._files.read(location)
        except OSError as error:
            raise _unreadable(location, error) from error

    def read_run(self, locations: Sequence[Location]) -> list[bytes]:
        """Return the payloads of several records, reading adjacent ones together. Blocks.

        Raises:
            KahaDBFormatError: no record begins at one of them, or its batch is damaged.
            ResourceAllocationException: one cannot be read.
        """
        payloads: list[bytes] = []
        written = self._written()
        for run in contiguous_runs(locations):
            if run[-1] >= written:
                payloads += [self.read(location) for location in run]
            else:
                payloads += self._read_written(run)
        return payloads

    def records_from(
        self, start: Location | None = None, skipped: list[Skipped] | None = None
    ) -> Iterator[JournalRecord]:
        """Yield all written records of complete batches from `start` on. Blocks: for a thread.

        Damaged parts are skipped and added to `skipped`.

        Raises:
            OSError: a segment cannot be read.
        """
        end = self._written()
        first = start or Location(0, 0)
        for file_id in sorted(self._files.lengths):
            if not first.file_id <= file_id <= end.file_id:
                continue
            # nothing is written behind the end, and preallocated segments are large
            data = self._files.read_segment(file_id, end.offset if file_id == end.file_id else None)
            offset = first.offset if file_id == first.file_id else 0
            reader = SegmentReader(data, file_id, start=offset)
            yield from reader.records()
            if skipped is not None:
                skipped += reader.skipped

    def drop(self, file_id: int) -> None:
        """Drop the cached results of a removed segment."""
        if self._checks is not None:
            self._checks.drop(file_id)

    def clear(self) -> None:
        """Drop all cached results: the segments may be different ones when opened again."""
        if self._checks is not None:
            self._checks.clear()

    def _unwritten_payload(self, location: Location) -> bytes | None:
        return self._unwritten(location) if location >= self._written() else None

    def _read_written(self, run: Sequence[Location]) -> list[bytes]:
        """Return the payloads of nearby records of one segment."""
        try:
            if self._checks is None:
                return self._files.read_run(run)
            return self._checks.read_run(run, self._written())
        except OSError as error:
            raise _unreadable(run[0], error) from error


def _unreadable(location: Location, error: OSError) -> ResourceAllocationException:
    return ResourceAllocationException(f"Cannot read the journal at {location}: {error}")
