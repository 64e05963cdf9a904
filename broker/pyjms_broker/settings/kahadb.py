"""KahaDB stores in broker.yaml: one, or several that share the destinations.

(activemq-persistence K0, K25)

The descriptions of the keys are in the attribute tables of the stores (`pyjms_broker.attribute`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from pyjms._yaml import Duration
from pyjms_broker.settings.kahadb_attributes import without_ignored
from pyjms_broker.settings.values import Bytes, Section, arguments_of, check_by
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.settings import KahaDBSettings

if TYPE_CHECKING:
    from pyjms_broker.store.api import PersistenceAdapter

__all__ = [
    "FilteredKahaDBSection",
    "JournalSection",
    "KahaDBPersistenceSettings",
    "MultiKahaDBPersistenceSettings",
]


class JournalSection(Section, JournalSettings):
    """The journal of a KahaDB store."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self

    def build(self) -> JournalSettings:
        """Create the journal's own settings object."""
        return JournalSettings(**arguments_of(JournalSettings, self))


class _KahaDBSection(Section, KahaDBSettings):
    journal: JournalSection = JournalSection()
    """The journal."""

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
        """Create the closed store."""
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
    """Disk space that the store may use; 0: no separate limit."""


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
        """Create the closed stores."""
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
