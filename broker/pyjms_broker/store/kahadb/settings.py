"""The settings of a KahaDB store: ActiveMQ's attributes in snake_case, with its defaults.

Times are seconds, sizes are bytes. (activemq-persistence K0)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.wire.kahadb.frames import STORE_OPENWIRE_VERSION
from pyjms_broker.attribute import attribute, count, duration, flag
from pyjms_broker.store.journal.settings import JournalSettings

_DURATIONS: Final = ("checkpoint_interval", "cleanup_interval", "lock_keep_alive_period")
_COUNTS: Final = ("max_failover_producers_to_track", "compact_acks_after_no_gc")


class PurgeRecoveredXATransactionStrategy(Enum):
    """The treatment, at start, of transactions that were prepared before."""

    NEVER = "never"
    """They wait for their transaction manager."""
    COMMIT = "commit"
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class KahaDBSettings:
    """The attributes of `<kahaDB>`; those of its journal are in `journal`."""

    journal: JournalSettings = field(default_factory=JournalSettings)
    index_directory: Path | None = attribute(
        None, "Directory of the index; null: next to the journal."
    )
    checkpoint_interval: float = duration(5.0, "Time between checkpoints of the index.")
    cleanup_interval: float = duration(
        30.0,
        "Time between cleanups of the journal; 0, like checkpoint_interval: 0: at the stop only.",
    )
    cleanup_on_stop: bool = flag("Whether there is also a cleanup at the stop.", default=True)
    concurrent_store_and_dispatch_queues: bool = flag(
        "Whether queues dispatch messages while they are being stored.", default=True
    )
    concurrent_store_and_dispatch_topics: bool = flag(
        "Whether topics dispatch messages while they are being stored."
    )
    force_recover_index: bool = flag("Whether the index is rebuilt at start.")
    archive_corrupted_index: bool = flag("Whether an unreadable index is kept when it is replaced.")
    ignore_missing_journalfiles: bool = flag(
        "Whether messages in missing or damaged segments are dropped; false: the start fails."
    )
    max_failover_producers_to_track: int = count(
        64, "Number of producers whose last message id is known after a restart."
    )
    purge_recovered_xa_transaction_strategy: PurgeRecoveredXATransactionStrategy = attribute(
        PurgeRecoveredXATransactionStrategy.NEVER,
        "What happens to prepared transactions at start: never (kept), commit, rollback.",
    )
    enable_ack_compaction: bool = flag(
        "Whether segments that hold only acknowledgements are compacted.", default=True
    )
    compact_acks_after_no_gc: int = count(
        10, "Number of cleanups without effect before a compaction."
    )
    compact_acks_ignores_store_growth: bool = flag(
        "Whether acknowledgements are compacted even while the journal grows."
    )
    store_open_wire_version: int = count(
        STORE_OPENWIRE_VERSION,
        "OpenWire version of the messages in a new store.",
        minimum=1,
        maximum=12,
    )
    """For a new store; a store with messages keeps the version in which they are written."""
    use_lock: bool = flag("Whether only one broker at a time may open the store.", default=True)
    lock_acquire_sleep_interval: float = duration(
        10.0, "Time between a slave's attempts to get the lock."
    )
    fail_if_locked: bool = flag("Whether the start fails instead of waiting for the lock.")
    lock_keep_alive_period: float = duration(
        0.0, "Time between checks that the lock is still held; 0: no checks."
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationException: one is out of range.
        """
        for name in (*_DURATIONS, *_COUNTS):
            if getattr(self, name) < 0:
                raise ConfigurationException(f"{name} must not be less than 0")
        if self.lock_acquire_sleep_interval <= 0:
            raise ConfigurationException("lock_acquire_sleep_interval must be more than 0")
        if not 1 <= self.store_open_wire_version <= 12:
            raise ConfigurationException("store_open_wire_version must be from 1 to 12")
