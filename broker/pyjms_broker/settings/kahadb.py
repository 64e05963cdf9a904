"""KahaDB stores in broker.yaml: one, or several that share the destinations.

(activemq-persistence K0, K25)

Names and defaults are those of the stores' own settings; a test compares them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from pyjms._yaml import Duration
from pyjms_broker.settings.kahadb_attributes import without_ignored
from pyjms_broker.settings.values import Bytes, Section, arguments_of, check_by
from pyjms_broker.store.journal.settings import (
    DiskSyncStrategy,
    JournalSettings,
    PreallocationScope,
    PreallocationStrategy,
)
from pyjms_broker.store.kahadb.settings import KahaDBSettings, PurgeRecoveredXATransactionStrategy

if TYPE_CHECKING:
    from pyjms_broker.store.api import PersistenceAdapter

__all__ = [
    "FilteredKahaDBSection",
    "JournalSection",
    "KahaDBPersistenceSettings",
    "MultiKahaDBPersistenceSettings",
]


class JournalSection(Section):
    """The journal of a KahaDB store."""

    max_file_length: Bytes = 32 << 20
    """Size of one segment, db-N.log."""
    max_write_batch_size: Bytes = 4 << 20
    """Maximum size of one write."""
    disk_sync_strategy: DiskSyncStrategy = DiskSyncStrategy.ALWAYS
    """When writes are synced: always (before each response), periodic, never."""
    disk_sync_interval: Duration = 1.0
    """Time between syncs, if periodic."""
    preallocation_strategy: PreallocationStrategy = PreallocationStrategy.SPARSE_FILE
    """How segments are allocated: sparse_file, os_kernel_copy, zeros, chunked_zeros."""
    preallocation_scope: PreallocationScope = PreallocationScope.ENTIRE_JOURNAL
    """Which segments are allocated ahead: entire_journal, entire_journal_async, none."""
    checksum: bool = True
    """Whether batches carry a checksum."""
    check_for_corrupt_journal_files: bool = False
    """Whether all segments are checked at start, not only the last one."""
    archive_data_logs: bool = False
    """Whether segments that are no longer needed are archived instead of deleted."""
    directory_archive: Path | None = None
    """Directory of archived segments; null: data-archive beside the journal."""
    max_async_jobs: int = Field(default=10000, ge=1)
    """Maximum number of records that wait to be written before senders wait."""
    max_waiting_bytes: Bytes = 64 << 20
    """Maximum size of records that wait to be written before senders wait."""
    resume_check_sleep_period: Duration = 5.0
    """Time between attempts to write to a full disk."""
    ignore_no_space_errors: bool = True
    """Whether the broker waits for space on a full disk; false: it stops."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self

    def build(self) -> JournalSettings:
        """Create the journal's own settings object."""
        return JournalSettings(**arguments_of(JournalSettings, self))


class _KahaDBSection(Section):
    journal: JournalSection = JournalSection()
    """The journal."""
    index_directory: Path | None = None
    """Directory of the index; null: beside the journal."""
    checkpoint_interval: Duration = 5.0
    """Time between checkpoints of the index."""
    cleanup_interval: Duration = 30.0
    """Time between cleanups of the journal; 0, like checkpoint_interval: 0: at the stop only."""
    cleanup_on_stop: bool = True
    """Whether there is a cleanup at the stop, too."""
    concurrent_store_and_dispatch_queues: bool = True
    """Whether queues dispatch messages while they are being stored."""
    concurrent_store_and_dispatch_topics: bool = False
    """Whether topics dispatch messages while they are being stored."""
    force_recover_index: bool = False
    """Whether the index is rebuilt at start."""
    archive_corrupted_index: bool = False
    """Whether an index that cannot be read is kept beside its replacement."""
    ignore_missing_journalfiles: bool = False
    """Whether messages in missing or damaged segments are dropped; false: the start fails."""
    max_failover_producers_to_track: int = Field(default=64, ge=0)
    """Number of producers whose last message id is known after a restart."""
    purge_recovered_xa_transaction_strategy: PurgeRecoveredXATransactionStrategy = (
        PurgeRecoveredXATransactionStrategy.NEVER
    )
    """What happens to prepared transactions at start: never (kept), commit, rollback."""
    enable_ack_compaction: bool = True
    """Whether segments that hold only acknowledgements are compacted."""
    compact_acks_after_no_gc: int = Field(default=10, ge=0)
    """Number of cleanups without effect before a compaction."""
    compact_acks_ignores_store_growth: bool = False
    """Whether acknowledgements are compacted even while the journal grows."""
    store_open_wire_version: int = Field(default=11, ge=1, le=12)
    """OpenWire version of the messages in a new store."""
    use_lock: bool = True
    """Whether only one broker at a time may open the store."""
    lock_acquire_sleep_interval: Duration = 10.0
    """Time between a slave's attempts to get the lock."""
    fail_if_locked: bool = False
    """Whether the start fails instead of waiting for the lock."""
    lock_keep_alive_period: Duration = 0.0
    """Time between checks that the lock is still held; 0: no checks."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, section: object) -> object:
        return without_ignored(section) if isinstance(section, dict) else section

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self

    def build(self) -> KahaDBSettings:
        """Create the store's own settings object."""
        journal = self.journal.build()
        return KahaDBSettings(**{**arguments_of(KahaDBSettings, self), "journal": journal})


class KahaDBPersistenceSettings(_KahaDBSection):
    """The journal in ActiveMQ's format, the default."""

    type: Literal["kahadb"] = "kahadb"
    directory: Path | None = None
    """Directory of the store; null: data_directory/broker_name/KahaDB."""

    @property
    def directory_name(self) -> str:
        """The name of the store's directory in the broker's directory."""
        return "KahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed."""
        from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter  # noqa: PLC0415 - heavy

        return KahaDBPersistenceAdapter(directory, self.build())


class FilteredKahaDBSection(_KahaDBSection):
    """A store for some destinations; without queue and topic: for all others."""

    queue: str | None = None
    """Name or pattern of the queues, or several, separated by commas."""
    topic: str | None = None
    """Name or pattern of the topics, or several, separated by commas."""
    per_destination: bool = False
    """Whether each destination has its own store."""
    store_limit: Bytes = 0
    """Disk space that the store may use; 0: no limit of its own."""


class MultiKahaDBPersistenceSettings(Section):
    """Several KahaDB stores; each destination is in the one that matches best."""

    type: Literal["multi_kahadb"]
    directory: Path | None = None
    """Directory of the stores; null: data_directory/broker_name/mKahaDB."""
    filtered_kahadb: tuple[FilteredKahaDBSection, ...] = Field(min_length=1)
    """The stores; a destination is in the one that matches best."""
    transaction_journal: JournalSection = JournalSection()
    """The journal of transactions that span several stores; keys as in journal."""
    cleanup_interval: Duration = 30.0
    """Time between cleanups of the transaction journal; 0: none."""
    use_lock: bool = True
    """Whether only one broker at a time may open the store."""
    lock_acquire_sleep_interval: Duration = 10.0
    """Time between a slave's attempts to get the lock."""
    fail_if_locked: bool = False
    """Whether the start fails instead of waiting for the lock."""
    lock_keep_alive_period: Duration = 0.0
    """Time between checks that the lock is still held; 0: no checks."""

    @property
    def directory_name(self) -> str:
        """The name of the store's directory in the broker's directory."""
        return "mKahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the stores, closed."""
        from pyjms_broker.store.multi import FilteredKahaDB, MultiKahaDBPersistenceAdapter  # noqa: PLC0415

        filters = [
            FilteredKahaDB(
                section.queue,
                section.topic,
                section.per_destination,
                section.build(),
                section.store_limit,
            )
            for section in self.filtered_kahadb
        ]
        return MultiKahaDBPersistenceAdapter(
            directory,
            filters,
            transaction_journal=self.transaction_journal.build(),
            cleanup_interval=self.cleanup_interval,
            use_lock=self.use_lock,
            fail_if_locked=self.fail_if_locked,
            lock_acquire_sleep_interval=self.lock_acquire_sleep_interval,
            lock_keep_alive_period=self.lock_keep_alive_period,
        )
