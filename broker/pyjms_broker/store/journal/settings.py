"""The settings of a journal: ActiveMQ's names and defaults. (activemq-persistence K0)"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pyjms.wire.kahadb.journal import MAX_FILE_LENGTH, MAX_WRITE_BATCH_SIZE

__all__ = ["DiskSyncStrategy", "JournalSettings", "PreallocationScope", "PreallocationStrategy"]


class DiskSyncStrategy(StrEnum):
    """When written data is synced (journalDiskSyncStrategy)."""

    ALWAYS = "always"
    """Before a completion that asked for a sync."""
    PERIODIC = "periodic"
    """Every `disk_sync_interval`, when a segment is full, and at close."""
    NEVER = "never"
    """By the operating system. Confirmed data survives the process, not a power failure."""


class PreallocationStrategy(StrEnum):
    """How a segment is preallocated (preallocationStrategy).

    Syncs of existing blocks filled with zeros are 1.3 to 1.5 times as fast as those of blocks
    that are only reserved or not allocated (measured on ext4).
    """

    SPARSE_FILE = "sparse_file"
    """Set the length, then fill with zeros as far as the disk has space."""
    OS_KERNEL_COPY = "os_kernel_copy"
    """Have the kernel reserve the blocks (ActiveMQ copies a template; the file is the same)."""
    ZEROS = "zeros"
    """Fill with zeros, in one write."""
    CHUNKED_ZEROS = "chunked_zeros"
    """Fill with zeros, in chunks."""


class PreallocationScope(StrEnum):
    """Which segments are preallocated (preallocationScope)."""

    ENTIRE_JOURNAL = "entire_journal"
    """All: while the previous one fills, or else when the segment is created."""
    ENTIRE_JOURNAL_ASYNC = "entire_journal_async"
    """Only those for which there was time while the previous one filled."""
    NONE = "none"
    """None: segments grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """The settings of a journal. Lengths in bytes, times in seconds.

    Raises:
        ValueError: a value is out of range.
    """

    max_file_length: int = MAX_FILE_LENGTH
    max_write_batch_size: int = MAX_WRITE_BATCH_SIZE
    disk_sync_strategy: DiskSyncStrategy = DiskSyncStrategy.ALWAYS
    disk_sync_interval: float = 1.0
    preallocation_strategy: PreallocationStrategy = PreallocationStrategy.SPARSE_FILE
    preallocation_scope: PreallocationScope = PreallocationScope.ENTIRE_JOURNAL
    checksum: bool = True
    """Write a checksum with each batch (checksumJournalFiles)."""
    check_for_corrupt_journal_files: bool = False
    """Check all segments at open, and keep what follows damage in the last one."""
    archive_data_logs: bool = False
    """Move segments that are no longer needed instead of deleting them.

    (activemq-persistence K19)
    """
    directory_archive: Path | None = None
    """The archive; None: `data-archive` in the journal's directory."""
    max_async_jobs: int = 10000
    """The journal is CONGESTED while more completions wait for one write."""
    max_waiting_bytes: int = 64 << 20
    """The journal is CONGESTED while more bytes wait to be written."""
    resume_check_sleep_period: float = 5.0
    """Seconds between retries on a full disk (activemq-persistence K24)."""
    ignore_no_space_errors: bool = True
    """Wait for space when the disk is full; False: fail (activemq-persistence K24)."""

    def __post_init__(self) -> None:
        for name in ("max_file_length", "max_write_batch_size", "max_waiting_bytes"):
            if getattr(self, name) < 1024:
                raise ValueError(f"{name} must be at least 1024 bytes")
        if self.max_async_jobs < 1:
            raise ValueError("max_async_jobs must be at least 1")
        for name in ("disk_sync_interval", "resume_check_sleep_period"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
