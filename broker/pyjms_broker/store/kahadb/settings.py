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
from pyjms_broker.store.journal.settings import JournalSettings

__all__ = ["KahaDBSettings", "PurgeRecoveredXATransactionStrategy"]

_DURATIONS: Final = ("checkpoint_interval", "cleanup_interval", "lock_keep_alive_period")
_COUNTS: Final = ("max_failover_producers_to_track", "compact_acks_after_no_gc")


class PurgeRecoveredXATransactionStrategy(Enum):
    """What happens at the start to transactions that were prepared before."""

    NEVER = "never"
    """They wait for their transaction manager."""
    COMMIT = "commit"
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class KahaDBSettings:
    """The attributes of `<kahaDB>`; those of its journal are in `journal`."""

    journal: JournalSettings = field(default_factory=JournalSettings)
    index_directory: Path | None = None
    """The directory of our index; None: beside the journal."""
    checkpoint_interval: float = 5.0
    """Seconds between checkpoints; 0 together with `cleanup_interval`: only at the stop."""
    cleanup_interval: float = 30.0
    """Seconds between cleanups, which remove the segments that nothing refers to."""
    cleanup_on_stop: bool = True
    concurrent_store_and_dispatch_queues: bool = True
    """Queues dispatch messages while they are being stored."""
    concurrent_store_and_dispatch_topics: bool = False
    force_recover_index: bool = False
    """Rebuild the index at the start, whatever it holds."""
    ignore_missing_journalfiles: bool = False
    """Start without the messages of segments that are missing or damaged.

    (activemq-persistence K23)
    """
    archive_corrupted_index: bool = False
    """Keep an index that cannot be used, in `corrupted` beside it."""
    max_failover_producers_to_track: int = 64
    purge_recovered_xa_transaction_strategy: PurgeRecoveredXATransactionStrategy = (
        PurgeRecoveredXATransactionStrategy.NEVER
    )
    enable_ack_compaction: bool = True
    compact_acks_after_no_gc: int = 10
    """How many cleanups in a row must free nothing before acknowledgements are compacted."""
    compact_acks_ignores_store_growth: bool = False
    """Compact them even if the journal has grown since."""
    store_open_wire_version: int = STORE_OPENWIRE_VERSION
    """For a new store; one with messages keeps the version in which they are written."""
    use_lock: bool = True
    lock_acquire_sleep_interval: float = 10.0
    fail_if_locked: bool = False
    lock_keep_alive_period: float = 0.0
    """Seconds between checks that the lock is still ours; 0: no checks.

    (activemq-persistence H2)
    """

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
