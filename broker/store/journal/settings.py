"""What can be set on a journal: ActiveMQ's names in snake_case, its defaults. (persistence K0)"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pyjms.wire.kahadb.journal import MAX_FILE_LENGTH, MAX_WRITE_BATCH_SIZE

__all__ = ["DiskSyncStrategy", "JournalSettings", "PreallocationScope", "PreallocationStrategy"]


class DiskSyncStrategy(StrEnum):
    """When what was written is synced (journalDiskSyncStrategy)."""

    ALWAYS = "always"
    """Before the answer to whoever asked for it to be safe."""
    PERIODIC = "periodic"
    """Each `disk_sync_interval`, when a segment is full, and at close."""
    NEVER = "never"
    """When the operating system likes. What is answered survives our end, not the machine's."""


class PreallocationStrategy(StrEnum):
    """How a segment gets its length before it is written (preallocationStrategy).

    Syncs of blocks that are there already, with zeros in them, are 1.3 to 1.5 times as fast
    as of blocks that only have a length or a reservation (ext4, measured).
    """

    SPARSE_FILE = "sparse_file"
    """It gets its length at once, then zeros as far as the disk has space for them."""
    OS_KERNEL_COPY = "os_kernel_copy"
    """The kernel reserves its blocks (ActiveMQ: copies a template; the file is the same)."""
    ZEROS = "zeros"
    """Zeros, in one write."""
    CHUNKED_ZEROS = "chunked_zeros"
    """Zeros, in writes of 1 MiB."""


class PreallocationScope(StrEnum):
    """Which segments are preallocated (preallocationScope)."""

    ENTIRE_JOURNAL = "entire_journal"
    """All; the next one while this one fills, or else when it is begun."""
    ENTIRE_JOURNAL_ASYNC = "entire_journal_async"
    """Only those for which there was time while the one before filled."""
    NONE = "none"
    """None: they grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """How a journal works. Lengths in bytes, times in seconds.

    Raises:
        ValueError: a length, count or time that makes no sense.
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
    """Scan all segments at open, and keep what follows damage in the last one."""
    archive_data_logs: bool = False
    """Move segments that are not needed any more instead of removing them. (K19)"""
    directory_archive: Path | None = None
    """Where to; None: `data-archive` in the journal's directory."""
    max_async_jobs: int = 10000
    """More waiters than that for one write: CONGESTED."""
    max_waiting_bytes: int = 64 << 20
    """More bytes than that waiting to be written: CONGESTED."""
    resume_check_sleep_period: float = 5.0
    """How long to wait before the next try when the disk is full. (K24)"""
    ignore_no_space_errors: bool = True
    """Wait for space when the disk is full; False: fail as with any other error. (K24)"""

    def __post_init__(self) -> None:
        for name in ("max_file_length", "max_write_batch_size", "max_waiting_bytes"):
            if getattr(self, name) < 1024:
                raise ValueError(f"{name} must be at least 1024 bytes")
        if self.max_async_jobs < 1:
            raise ValueError("max_async_jobs must be at least 1")
        for name in ("disk_sync_interval", "resume_check_sleep_period"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
