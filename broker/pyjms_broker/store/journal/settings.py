"""The settings of a journal: ActiveMQ's names and defaults. (activemq-persistence K0)"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pyjms.wire.kahadb.journal import MAX_FILE_LENGTH, MAX_WRITE_BATCH_SIZE
from pyjms_broker.attribute import Unit, attribute, count, duration, flag


class DiskSyncStrategy(StrEnum):
    """When written data is synced (journalDiskSyncStrategy)."""

    ALWAYS = "always"
    """Before a completion that asked for a sync."""
    PERIODIC = "periodic"
    """Every `disk_sync_interval`, when a segment is full, and at close."""
    NEVER = "never"
    """By the operating system. Confirmed data survives a process crash, not a power failure."""


class PreallocationStrategy(StrEnum):
    """How a segment is preallocated (preallocationStrategy).

    Syncs of existing blocks filled with zeros are 1.3 to 1.5 times as fast as those of blocks
    that are only reserved or not allocated (measured on ext4).
    """

    SPARSE_FILE = "sparse_file"
    """Set the length, then fill with zeros as far as disk space allows."""
    OS_KERNEL_COPY = "os_kernel_copy"
    """Let the kernel reserve the blocks (ActiveMQ copies a template, with the same result)."""
    ZEROS = "zeros"
    """Fill with zeros, in one write."""
    CHUNKED_ZEROS = "chunked_zeros"
    """Fill with zeros, in chunks."""


class PreallocationScope(StrEnum):
    """Which segments are preallocated (preallocationScope)."""

    ENTIRE_JOURNAL = "entire_journal"
    """All: while the previous one fills, or at the latest when the segment is created."""
    ENTIRE_JOURNAL_ASYNC = "entire_journal_async"
    """Only those that could be preallocated while the previous one filled."""
    NONE = "none"
    """None: segments grow."""


@dataclass(frozen=True, kw_only=True)
class JournalSettings:
    """The settings of a journal. Lengths in bytes, times in seconds.

    Raises:
        ValueError: a value is out of range.
    """

    max_file_length: int = attribute(
        MAX_FILE_LENGTH, "Size of one segment, db-N.log.", unit=Unit.BYTES
    )
    max_write_batch_size: int = attribute(
        MAX_WRITE_BATCH_SIZE, "Maximum size of one write.", unit=Unit.BYTES
    )
    disk_sync_strategy: DiskSyncStrategy = attribute(
        DiskSyncStrategy.ALWAYS,
        "When writes are synced: always (before each response), periodic, never.",
    )
    disk_sync_interval: float = duration(1.0, "Time between syncs, if periodic.")
    preallocation_strategy: PreallocationStrategy = attribute(
        PreallocationStrategy.SPARSE_FILE,
        "How segments are allocated: sparse_file, os_kernel_copy, zeros, chunked_zeros.",
    )
    preallocation_scope: PreallocationScope = attribute(
        PreallocationScope.ENTIRE_JOURNAL,
        "Which segments are allocated ahead: entire_journal, entire_journal_async, none.",
    )
    checksum: bool = flag("Whether batches carry a checksum.", default=True)
    check_for_corrupt_journal_files: bool = flag(
        "Whether all segments are checked at start, not only the last one."
    )
    verify_checksums_at_reading: bool = flag(
        "Whether the checksum of a batch is checked when a record is read from it.", default=True
    )
    archive_data_logs: bool = flag(
        "Whether segments that are no longer needed are archived instead of deleted."
    )
    directory_archive: Path | None = attribute(
        None, "Directory of archived segments; null: data-archive next to the journal."
    )
    max_async_jobs: int = count(
        10000, "Maximum number of records that wait to be written before senders wait.", minimum=1
    )
    max_waiting_bytes: int = attribute(
        64 << 20,
        "Maximum size of records that wait to be written before senders wait.",
        unit=Unit.BYTES,
    )
    resume_check_sleep_period: float = duration(
        5.0, "Time between attempts to write to a full disk."
    )
    ignore_no_space_errors: bool = flag(
        "Whether the broker waits for space on a full disk; false: it stops.", default=True
    )

    def __post_init__(self) -> None:
        for name in ("max_file_length", "max_write_batch_size", "max_waiting_bytes"):
            if getattr(self, name) < 1024:
                raise ValueError(f"{name} must be at least 1024 bytes")
        if self.max_async_jobs < 1:
            raise ValueError("max_async_jobs must be at least 1")
        for name in ("disk_sync_interval", "resume_check_sleep_period"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
