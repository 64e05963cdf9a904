"""Databases as stores in broker.yaml, with a journal in front or without.

(activemq-persistence J1, J9)

Names and defaults are those of the stores' own settings; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from pyjms._distribution import install_command
from pyjms._yaml import Duration
from pyjms.errors import ConfigurationException
from pyjms_broker.settings.values import Bytes, Section, arguments_of, check_by
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC, Locker, Statements

if TYPE_CHECKING:
    from pyjms_broker.store.api import PersistenceAdapter

__all__ = [
    "JDBCPersistenceSettings",
    "JournaledJDBCPersistenceSettings",
    "StatementsSection",
]


class StatementsSection(Section):
    """The names of the tables."""

    table_prefix: str = ""
    """Stands before each."""
    message_table_name: str = "ACTIVEMQ_MSGS"
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    lock_table_name: str = "ACTIVEMQ_LOCK"


class _JDBCSettings(Section):
    directory: Path | None = None
    """Where SQLite's file lies; not set is data_directory/broker_name/jdbc."""
    data_source: str | None = None
    """SQLAlchemy's URL of the database; not set is SQLite."""
    statements: StatementsSection = StatementsSection()
    create_tables_on_startup: bool = True
    cleanup_period: Duration = 300.0
    """How often topics' acknowledged messages are deleted; 0 never."""
    max_rows: int = Field(default=32767, ge=1)
    """How many rows one statement reads or deletes."""
    enable_audit: bool = False
    """Whether message ids that came before are dropped."""
    max_producers_to_audit: int = Field(default=1024, ge=1)
    max_audit_depth: int = Field(default=1000, ge=1)
    audit_recovery_depth: int = Field(default=1024, ge=0)
    """How many of the last messages the audit knows at the start."""
    query_timeout: Duration | None = None
    """When the database gives a statement up; not set never."""
    network_timeout: Duration | None = None
    """When a dead database is given up; not set as the driver does."""
    transaction_isolation: str | None = None
    """Such as READ COMMITTED; not set is the driver's default."""
    use_lock: bool = True
    """Whether no other broker may have the tables."""
    locker: Locker = Locker.DATABASE
    """How: database (a row is locked), lease (a row says until when)."""
    lock_keep_alive_period: Duration = 30.0
    lock_acquire_sleep_interval: Duration = 10.0
    """How often a slave tries; how long a lease lasts."""
    fail_if_locked: bool = False
    """Whether the start fails instead of waiting for the lock."""
    lease_holder_id: str | None = None
    """Who has the lease; not set is the broker's name."""
    max_allowable_diff_from_db_time: Duration = 0.0
    """From which difference on the lease uses the database's clock; 0 never."""
    ignore_sql_exceptions: bool = True
    """Whether a database that fails is waited for; else the broker stops."""
    resume_check_sleep_period: Duration = 5.0
    """How often it is tried again."""
    max_async_jobs: int = Field(default=10000, ge=1)
    """How much may wait to be stored before senders have to."""
    max_waiting_bytes: Bytes = 64 << 20
    """The same in bytes."""
    duplicate_id_window: int = Field(default=20000, ge=0)
    """How many ids _AMQ_DUPL_ID a queue remembers."""

    @property
    def directory_name(self) -> str:
        """What its directory is called in the broker's."""
        return "jdbc"

    def build(self) -> JDBCSettings:
        """Make the store's own settings."""
        statements = Statements(**arguments_of(Statements, self.statements))
        return JDBCSettings(**{**arguments_of(JDBCSettings, self), "statements": statements})

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self


class JDBCPersistenceSettings(_JDBCSettings):
    """A database."""

    type: Literal["jdbc"]

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Make the store.

        Raises:
            ConfigurationException: SQLAlchemy or the database's driver is not installed.
        """
        make = _adapter("adapter", "JDBCPersistenceAdapter")
        return make(directory, self.build(), broker_name)


class JournaledJDBCPersistenceSettings(_JDBCSettings):
    """A database behind a journal."""

    type: Literal["journaled_jdbc"]
    journal_log_files: int = Field(default=2, ge=1)
    """How many files the journal has before a checkpoint."""
    journal_log_file_size: Bytes = 20 << 20
    checkpoint_interval: Duration = 300.0
    """How often the journal is brought into the database."""
    use_journal: bool = True
    """Whether there is a journal at all."""

    def build_journal(self) -> JournalSettingsJDBC:
        """Make the journal's own settings."""
        return JournalSettingsJDBC(**arguments_of(JournalSettingsJDBC, self))

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Make the store.

        Raises:
            ConfigurationException: SQLAlchemy or the database's driver is not installed.
        """
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
