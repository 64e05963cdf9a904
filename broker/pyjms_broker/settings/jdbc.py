"""Databases as stores in broker.yaml, with or without a journal in front.

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
    """Prefix of all table names."""
    message_table_name: str = "ACTIVEMQ_MSGS"
    """Table of messages."""
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    """Table of durable subscriptions."""
    lock_table_name: str = "ACTIVEMQ_LOCK"
    """Table of the store lock."""


class _JDBCSettings(Section):
    directory: Path | None = None
    """Directory of SQLite's file and the journal; null: data_directory/broker_name/jdbc."""
    data_source: str | None = None
    """SQLAlchemy's URL of the database: postgresql+psycopg://...; null: SQLite."""
    statements: StatementsSection = StatementsSection()
    """The names of the tables."""
    create_tables_on_startup: bool = True
    """Whether missing tables are created at start."""
    cleanup_period: Duration = 300.0
    """Time between deletions of acknowledged messages of topics; 0: none."""
    max_rows: int = Field(default=32767, ge=1)
    """Maximum number of rows that one statement reads or deletes."""
    enable_audit: bool = False
    """Whether messages with a message id that was stored before are dropped."""
    max_producers_to_audit: int = Field(default=1024, ge=1)
    """Number of producers that the audit remembers."""
    max_audit_depth: int = Field(default=1000, ge=1)
    """Number of messages of each producer that the audit remembers."""
    audit_recovery_depth: int = Field(default=1024, ge=0)
    """Number of the newest messages that the audit reads at start."""
    query_timeout: Duration | None = None
    """Timeout of a statement; null: none."""
    network_timeout: Duration | None = None
    """Time until an unresponsive database counts as failed; null: the driver's default."""
    transaction_isolation: str | None = None
    """Isolation level such as READ COMMITTED; null: the driver's default."""
    use_lock: bool = True
    """Whether only one broker at a time may open the store."""
    locker: Locker = Locker.DATABASE
    """Kind of the lock: database (a locked row), lease (a row with an expiry time)."""
    lock_keep_alive_period: Duration = 30.0
    """Time between checks that the lock is still held; 0: no checks."""
    lock_acquire_sleep_interval: Duration = 10.0
    """Time between a slave's attempts to get the lock; duration of a lease."""
    fail_if_locked: bool = False
    """Whether the start fails instead of waiting for the lock."""
    lease_holder_id: str | None = None
    """Name of the lease's holder; null: the broker's name."""
    max_allowable_diff_from_db_time: Duration = 0.0
    """Clock difference from which a lease uses the database's clock; 0: never."""
    ignore_sql_exceptions: bool = True
    """Whether the broker waits for a database that fails; false: it stops."""
    resume_check_sleep_period: Duration = 5.0
    """Time between attempts to reach the database again."""
    max_async_jobs: int = Field(default=10000, ge=1)
    """Maximum number of operations that wait to be stored before senders wait."""
    max_waiting_bytes: Bytes = 64 << 20
    """Maximum size of operations that wait to be stored before senders wait."""
    duplicate_id_window: int = Field(default=20000, ge=0)
    """Number of ids (_AMQ_DUPL_ID) that a queue remembers."""

    @property
    def directory_name(self) -> str:
        """The name of the store's directory in the broker's directory."""
        return "jdbc"

    def build(self) -> JDBCSettings:
        """Create the store's own settings object."""
        statements = Statements(**arguments_of(Statements, self.statements))
        return JDBCSettings(**{**arguments_of(JDBCSettings, self), "statements": statements})

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self


class JDBCPersistenceSettings(_JDBCSettings):
    """A database as the store."""

    type: Literal["jdbc"]

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed.

        Raises:
            ConfigurationException: SQLAlchemy or the database's driver is not installed.
        """
        make = _adapter("adapter", "JDBCPersistenceAdapter")
        return make(directory, self.build(), broker_name)


class JournaledJDBCPersistenceSettings(_JDBCSettings):
    """A database with a journal in front."""

    type: Literal["journaled_jdbc"]
    journal_log_files: int = Field(default=2, ge=1)
    """Number of journal files that cause a checkpoint."""
    journal_log_file_size: Bytes = 20 << 20
    """Size of one journal file."""
    checkpoint_interval: Duration = 300.0
    """Time between checkpoints: the journal is written to the database."""
    use_journal: bool = True
    """Whether there is a journal; false: as type: jdbc."""

    def build_journal(self) -> JournalSettingsJDBC:
        """Create the journal's own settings object."""
        return JournalSettingsJDBC(**arguments_of(JournalSettingsJDBC, self))

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed.

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
