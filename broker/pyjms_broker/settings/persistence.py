"""The stores in broker.yaml (`persistence`). (activemq-persistence E1, E2, J1, J9, K0, K25)

The descriptions of most keys are in the attribute tables of the stores (`pyjms_broker.attribute`).
The tables at the end are attributes of ActiveMQ's `<kahaDB>` that have a different name or no
effect in this broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from pyjms.configuration.section import Bytes, Duration, Section
from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms_broker import entry_points
from pyjms_broker.settings.values import BuiltSection, arguments_of, types_of
from pyjms_broker.store.api import PersistenceAdapter
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC, Statements
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.memory import MemoryPersistenceAdapter

logger = get_logger(__name__)


class JournalSection(BuiltSection[JournalSettings], JournalSettings):
    """The journal of a KahaDB store."""


class _KahaDBSection(BuiltSection[KahaDBSettings], KahaDBSettings):
    journal: JournalSection = JournalSection()
    """The journal."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, section: object) -> object:
        return without_ignored(section) if isinstance(section, dict) else section


class KahaDBPersistenceSettings(_KahaDBSection):
    """The journal in ActiveMQ's format, the default."""

    type: Literal["kahadb"] = "kahadb"
    directory_name: ClassVar[str] = "KahaDB"
    directory: Path | None = None
    """Directory of the store; null: data_directory/broker_name/KahaDB."""

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
    directory_name: ClassVar[str] = "mKahaDB"
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


class StatementsSection(BuiltSection[Statements], Statements):
    """The names of the tables."""


class _JDBCSettings(BuiltSection[JDBCSettings], JDBCSettings):
    directory_name: ClassVar[str] = "jdbc"
    directory: Path | None = None
    """Directory of the SQLite file and the journal; null: data_directory/broker_name/jdbc."""
    statements: StatementsSection = StatementsSection()
    """The names of the tables."""


class JDBCPersistenceSettings(_JDBCSettings):
    """A database as the store."""

    type: Literal["jdbc"]

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed."""
        make = _adapter("adapter", "JDBCPersistenceAdapter")
        return make(directory, self.build(), broker_name)


class JournaledJDBCPersistenceSettings(_JDBCSettings, JournalSettingsJDBC, made_by=JDBCSettings):
    """A database with a journal."""

    type: Literal["journaled_jdbc"]

    def build_journal(self) -> JournalSettingsJDBC:
        """Create the journal's own settings object."""
        return JournalSettingsJDBC(**arguments_of(JournalSettingsJDBC, self))

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed."""
        make = _adapter("journaled", "JournaledJDBCPersistenceAdapter")
        return make(directory, self.build(), broker_name, self.build_journal())


def _adapter(module: str, name: str) -> Callable[..., PersistenceAdapter]:
    try:
        found = import_module(f"pyjms_broker.store.jdbc.{module}")  # heavy, and an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlalchemy":
            raise
        raise ConfigurationException(
            "A store in a database needs SQLAlchemy, which is not installed",
            hint=install_command("sql"),
        ) from error
    adapter: Callable[..., PersistenceAdapter] = getattr(found, name)
    return adapter


class MemoryPersistenceSettings(Section):
    """Everything in memory."""

    type: Literal["memory"]

    directory: ClassVar[None] = None
    directory_name: ClassVar[None] = None

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store."""
        return MemoryPersistenceAdapter()


_REMOVED: Final = {"leveldb": "levelDB", "replicatedleveldb": "Replicated levelDB"}

BuiltInStore: TypeAlias = (
    KahaDBPersistenceSettings
    | MultiKahaDBPersistenceSettings
    | MemoryPersistenceSettings
    | JDBCPersistenceSettings
    | JournaledJDBCPersistenceSettings
)
BUILT_IN_TYPES: Final = types_of(BuiltInStore)


def _check_type(value: object) -> object:
    kind = value.get("type") if isinstance(value, dict) else None
    name = _REMOVED.get(str(kind).lower().replace("_", ""))
    if name is not None:
        raise ValueError(
            f"{name} stores were removed from ActiveMQ in 5.17 and do not exist here; "
            "use type: kahadb"
        )
    if not isinstance(kind, str) or kind in BUILT_IN_TYPES:
        return value
    if others := entry_points.installed_names(entry_points.STORES):
        known = ", ".join((*BUILT_IN_TYPES, *others))
        raise ValueError(f"there is no store {kind!r}; installed: {known}")
    return value


PersistenceSettings: TypeAlias = Annotated[
    Annotated[BuiltInStore, Field(discriminator="type")], BeforeValidator(_check_type)
]
"""Any built-in store, selected by `type`."""


WITHOUT_EFFECT: Final = frozenset(
    {
        # ActiveMQ's index manages its own pages; this index is a SQLite file
        "index_cache_size",
        "index_write_batch_size",
        "enable_index_write_async",
        "enable_index_disk_syncs",
        "enable_index_recovery_file",
        "enable_index_page_caching",
        "use_index_lfru_eviction",
        "index_lfu_eviction_factor",
        # ActiveMQ's audit keeps a window of ids; this audit keeps one number per producer
        "failover_producers_audit_depth",
        # subscription statistics are always counted
        "enable_subscription_statistics",
        # a lock that cannot be checked always counts as lost
        "stop_on_error",
    }
)
"""Attributes that are accepted, ignored and logged."""

RENAMED: Final = {
    "journal_max_file_length": "journal.max_file_length",
    "journal_max_write_batch_size": "journal.max_write_batch_size",
    "journal_disk_sync_strategy": "journal.disk_sync_strategy",
    "journal_disk_sync_interval": "journal.disk_sync_interval",
    "enable_journal_disk_syncs": "journal.disk_sync_strategy: always (true), never (false)",
    "checksum_journal_files": "journal.checksum",
    "database_locked_wait_delay": "lock_acquire_sleep_interval",
    **{
        name: f"journal.{name}"
        for name in (
            "check_for_corrupt_journal_files",
            "archive_data_logs",
            "directory_archive",
            "preallocation_strategy",
            "preallocation_scope",
            "max_async_jobs",
        )
    },
}
"""ActiveMQ's name to the key that replaces it."""

_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def replacement_for(name: str) -> str | None:
    """Return the key that replaces an attribute of ActiveMQ; None if there is none.

    The name may be in camel case as in ActiveMQ's XML.
    """
    return RENAMED.get(snake_case(name))


def snake_case(name: str) -> str:
    """Return ActiveMQ's attribute name in snake case, as in broker.yaml."""
    return _WORD_BOUNDARY.sub("_", name).lower()


def without_ignored(section: Mapping[str, object]) -> dict[str, object]:
    """Return a section without the attributes that have no effect, and log their names."""
    ignored = sorted(WITHOUT_EFFECT & section.keys())
    if ignored:
        logger.info("persistence: these settings have no effect here: %s", ", ".join(ignored))
    return {name: value for name, value in section.items() if name not in ignored}
