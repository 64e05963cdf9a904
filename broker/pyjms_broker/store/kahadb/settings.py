"""The settings of a KahaDB store: ActiveMQ's attributes in snake_case, with its defaults.

Times are seconds, sizes are bytes. (activemq-persistence K0)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

from pyjms.errors import ConfigurationException
from pyjms.wire.kahadb.frames import STORE_OPENWIRE_VERSION
from pyjms_broker.attribute import Attribute, Unit
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
    index_directory: Annotated[
        Path | None, Attribute("Directory of the index; null: next to the journal.")
    ] = None
    checkpoint_interval: Annotated[
        float, Attribute("Time between checkpoints of the index.", unit=Unit.SECONDS)
    ] = 5.0
    cleanup_interval: Annotated[
        float,
        Attribute(
            "Time between cleanups of the journal; 0, like checkpoint_interval: 0: at the stop "
            "only.",
            unit=Unit.SECONDS,
        ),
    ] = 30.0
    cleanup_on_stop: Annotated[bool, Attribute("Whether there is a cleanup at the stop, too.")] = (
        True
    )
    concurrent_store_and_dispatch_queues: Annotated[
        bool, Attribute("Whether queues dispatch messages while they are being stored.")
    ] = True
    concurrent_store_and_dispatch_topics: Annotated[
        bool, Attribute("Whether topics dispatch messages while they are being stored.")
    ] = False
    force_recover_index: Annotated[bool, Attribute("Whether the index is rebuilt at start.")] = (
        False
    )
    archive_corrupted_index: Annotated[
        bool, Attribute("Whether an unreadable index is kept when it is replaced.")
    ] = False
    ignore_missing_journalfiles: Annotated[
        bool,
        Attribute(
            "Whether messages in missing or damaged segments are dropped; false: the start fails."
        ),
    ] = False
    """Start without the messages of segments that are missing or damaged.

    (activemq-persistence K23)
    """
    max_failover_producers_to_track: Annotated[
        int,
        Attribute("Number of producers whose last message id is known after a restart.", minimum=0),
    ] = 64
    purge_recovered_xa_transaction_strategy: Annotated[
        PurgeRecoveredXATransactionStrategy,
        Attribute(
            "What happens to prepared transactions at start: never (kept), commit, rollback."
        ),
    ] = PurgeRecoveredXATransactionStrategy.NEVER
    enable_ack_compaction: Annotated[
        bool, Attribute("Whether segments that hold only acknowledgements are compacted.")
    ] = True
    compact_acks_after_no_gc: Annotated[
        int, Attribute("Number of cleanups without effect before a compaction.", minimum=0)
    ] = 10
    compact_acks_ignores_store_growth: Annotated[
        bool, Attribute("Whether acknowledgements are compacted even while the journal grows.")
    ] = False
    store_open_wire_version: Annotated[
        int, Attribute("OpenWire version of the messages in a new store.", minimum=1, maximum=12)
    ] = STORE_OPENWIRE_VERSION
    """For a new store; one with messages keeps the version in which they are written."""
    use_lock: Annotated[
        bool, Attribute("Whether only one broker at a time may open the store.")
    ] = True
    lock_acquire_sleep_interval: Annotated[
        float, Attribute("Time between a slave's attempts to get the lock.", unit=Unit.SECONDS)
    ] = 10.0
    fail_if_locked: Annotated[
        bool, Attribute("Whether the start fails instead of waiting for the lock.")
    ] = False
    lock_keep_alive_period: Annotated[
        float,
        Attribute(
            "Time between checks that the lock is still held; 0: no checks.", unit=Unit.SECONDS
        ),
    ] = 0.0
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
