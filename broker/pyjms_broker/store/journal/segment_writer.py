"""Writing and syncing of batches. Blocks; one caller at a time.

`written` and `synced` are the progress. After an error the same job is run again: synced data
stays, the rest is written again at the same offsets. After a failed sync the kernel may have
dropped the pages written before it, and it reports the error only once. Those pages are therefore
read back, checked, and written again first.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from pyjms.wire.kahadb.journal import END_MARKER, Location
from pyjms.wire.kahadb.reader import SegmentReader
from pyjms_broker.store.journal.batch import OpenBatch, WriteJob
from pyjms_broker.store.journal.disk import Disk
from pyjms_broker.store.journal.segment_files import SegmentFiles
from pyjms_broker.store.journal.settings import DiskSyncStrategy, JournalSettings

__all__ = ["SegmentWriter"]


class SegmentWriter:
    """Writes the last segment of a journal, and begins new ones.

    `written` and `synced` are the ends of the written and the durable data; with the strategy
    NEVER, `synced` merely follows `written`. `syncs` and `batches` are counters.
    """

    def __init__(
        self, files: SegmentFiles, settings: JournalSettings, disk: Disk, end: Location
    ) -> None:
        self.written = end
        self.synced = end
        self.syncs = 0
        self.batches = 0
        self._files = files
        self._disk = disk
        self._checksum = settings.checksum
        self._never = settings.disk_sync_strategy is DiskSyncStrategy.NEVER
        self._file_id = end.file_id
        self._fd = -1
        self._sync_failed = False  # if True, data written before the sync may be lost

    def open(self) -> None:
        """Open the last segment, or create it."""
        if self._file_id in self._files.lengths:
            self._fd = self._files.open(self._file_id)
        else:
            self._fd = self._files.create(self._file_id)
        if not self._never:
            # data written by the previous process may not be durable yet
            self._disk.sync(self._fd)

    def run(self, job: WriteJob) -> None:
        """Run a job; after an error, call it again with the same one.

        Raises:
            OSError: it failed.
        """
        batches = [b for b in job.batches if (b.file_id, b.end) > self.synced]
        if self._sync_failed:
            self._rewrite_unsynced(batches)
        disk = self._disk
        for batch in batches:
            if batch.file_id != self._file_id:
                self._roll(batch.file_id)
            disk.write(self._fd, batch.encode(self._checksum), batch.offset)
            self.batches += 1
            self.written = Location(batch.file_id, batch.end)
        if batches:
            self._note_length()
        if job.sync:
            self.sync()

    def sync(self) -> None:
        """Make everything written durable."""
        if self.synced < self.written:
            if not self._never:
                try:
                    self._disk.sync(self._fd)
                except OSError:
                    self._sync_failed = True
                    raise
                self.syncs += 1
            self.synced = self.written

    def close(self) -> None:
        """Close the segment without a sync. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close(fd)

    def _roll(self, file_id: int) -> None:
        """Sync the old segment and begin a new one."""
        self.sync()
        self._note_length()
        fd = self._files.create(file_id)
        self._disk.close(self._fd)
        self._fd = fd
        self._file_id = file_id

    def _note_length(self) -> None:
        """Record the segment's length, in case it was not preallocated."""
        if self.written.file_id == self._file_id:
            lengths = self._files.lengths
            end = self.written.offset + len(END_MARKER)
            lengths[self._file_id] = max(lengths[self._file_id], end)

    def _rewrite_unsynced(self, batches: Sequence[OpenBatch]) -> None:
        """Read back and rewrite the data before `batches` that was written but not synced."""
        start = self.synced.offset if self.synced.file_id == self._file_id else 0
        end = self.written.offset
        if batches and batches[0].file_id == self._file_id:
            end = min(end, batches[0].offset)
        size = end - start
        data = self._disk.read(self._fd, size, start)
        reader = SegmentReader(data, self._file_id)
        for _ in reader.batches():
            pass
        if size > 0 and (reader.end != size or reader.skipped):
            raise OSError(errno.EIO, "Data written before a failed sync is lost")
        if size > 0:
            self._disk.write(self._fd, data, start)
        self._sync_failed = False
