"""KahaDB stores in broker.yaml: one, or several by destination. (activemq-persistence K0, K25)

Names and defaults are those of the stores' own settings; a test compares them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from pyjms._yaml import Duration
from pyjms_broker.settings.kahadb_attributes import without_meaningless
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
    """Bytes of one db-N.log."""
    max_write_batch_size: Bytes = 4 << 20
    """Bytes that are written at once."""
    disk_sync_strategy: DiskSyncStrategy = DiskSyncStrategy.ALWAYS
    """When it is synced: always (before each answer), periodic, never."""
    disk_sync_interval: Duration = 1.0
    """How often, if periodic."""
    preallocation_strategy: PreallocationStrategy = PreallocationStrategy.SPARSE_FILE
    """How files get their length."""
    preallocation_scope: PreallocationScope = PreallocationScope.ENTIRE_JOURNAL
    """Which files do."""
    checksum: bool = True
    """Whether batches carry a checksum."""
    check_for_corrupt_journal_files: bool = False
    """Whether all files are checked at the start, not only the last one."""
    archive_data_logs: bool = False
    """Whether files that nobody needs are kept."""
    directory_archive: Path | None = None
    """Where; not set is data-archive beside the journal."""
    max_async_jobs: int = Field(default=10000, ge=1)
    """How many records may wait to be written before senders have to."""
    max_waiting_bytes: Bytes = 64 << 20
    """The same in bytes."""
    resume_check_sleep_period: Duration = 5.0
    """How often a full disk is tried again."""
    ignore_no_space_errors: bool = True
    """Whether a full disk is waited for; else the broker stops."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self

    def build(self) -> JournalSettings:
        """Make the journal's own settings."""
        return JournalSettings(**arguments_of(JournalSettings, self))


class _KahaDBSection(Section):
    journal: JournalSection = JournalSection()
    index_directory: Path | None = None
    """Where the index lies; not set is beside the journal."""
    checkpoint_interval: Duration = 5.0
    """How often the index is brought up to the journal."""
    cleanup_interval: Duration = 30.0
    """How often files that nobody needs go; 0, both, is at the stop only."""
    cleanup_on_stop: bool = True
    """Whether also at the stop."""
    concurrent_store_and_dispatch_queues: bool = True
    """Whether queues hand out messages while they are being stored."""
    concurrent_store_and_dispatch_topics: bool = False
    """Whether topics do."""
    force_recover_index: bool = False
    """Whether the index is built anew at the start."""
    archive_corrupted_index: bool = False
    """Whether an index that cannot be read is kept."""
    ignore_missing_journalfiles: bool = False
    """Whether messages whose file is missing or damaged are dropped; else the start fails."""
    max_failover_producers_to_track: int = Field(default=64, ge=0)
    """Producers whose last message is known after a restart."""
    purge_recovered_xa_transaction_strategy: PurgeRecoveredXATransactionStrategy = (
        PurgeRecoveredXATransactionStrategy.NEVER
    )
    """What becomes of transactions that are prepared: never (they wait), commit, rollback."""
    enable_ack_compaction: bool = True
    """Whether files that hold only acknowledgements are rewritten."""
    compact_acks_after_no_gc: int = Field(default=10, ge=0)
    """After how many cleanups that freed nothing."""
    compact_acks_ignores_store_growth: bool = False
    """Whether even while the journal grows."""
    store_open_wire_version: int = Field(default=11, ge=1, le=12)
    """OpenWire version of messages in a new store."""
    use_lock: bool = True
    """Whether no other broker may have the directory."""
    lock_acquire_sleep_interval: Duration = 10.0
    """How often a slave tries to get the lock."""
    fail_if_locked: bool = False
    """Whether the start fails instead."""
    lock_keep_alive_period: Duration = 0.0
    """How often the lock is checked; 0 never."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, section: object) -> object:
        return without_meaningless(section) if isinstance(section, dict) else section

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self

    def build(self) -> KahaDBSettings:
        """Make the store's own settings."""
        journal = self.journal.build()
        return KahaDBSettings(**{**arguments_of(KahaDBSettings, self), "journal": journal})


class KahaDBPersistenceSettings(_KahaDBSection):
    """The journal in ActiveMQ's format, the default."""

    type: Literal["kahadb"] = "kahadb"
    directory: Path | None = None
    """Where it lies; not set is data_directory/broker_name/KahaDB."""

    @property
    def directory_name(self) -> str:
        """What its directory is called in the broker's."""
        return "KahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Make the store."""
        from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter  # noqa: PLC0415 - heavy

        return KahaDBPersistenceAdapter(directory, self.build())


class FilteredKahaDBSection(_KahaDBSection):
    """A store for some destinations; without a name for all others."""

    queue: str | None = None
    """A pattern of queues, or several with commas between."""
    topic: str | None = None
    """The same of topics."""
    per_destination: bool = False
    """Whether each destination has a store of its own."""
    store_limit: Bytes = 0
    """Bytes that it may take, 0 no limit of its own."""


class MultiKahaDBPersistenceSettings(Section):
    """Several KahaDB stores; each destination is in the one that fits best."""

    type: Literal["multi_kahadb"]
    directory: Path | None = None
    """Where they lie; not set is data_directory/broker_name/mKahaDB."""
    filtered_kahadb: tuple[FilteredKahaDBSection, ...] = Field(min_length=1)
    """The stores."""
    transaction_journal: JournalSection = JournalSection()
    """The journal of what became of transactions that touch several."""
    cleanup_interval: Duration = 30.0
    """How often it is looked through for what nobody needs; 0 never."""
    use_lock: bool = True
    """Whether no other broker may have the directory."""
    lock_acquire_sleep_interval: Duration = 10.0
    """How often a slave tries to get the lock."""
    fail_if_locked: bool = False
    """Whether the start fails instead."""
    lock_keep_alive_period: Duration = 0.0
    """How often the lock is checked; 0 never."""

    @property
    def directory_name(self) -> str:
        """What its directory is called in the broker's."""
        return "mKahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Make the stores."""
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
