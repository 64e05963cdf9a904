"""The settings of a JDBC store. Times are in seconds. (activemq-persistence J1 to J4, J7, J9)"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["JDBCSettings", "JournalSettingsJDBC", "Locker", "Statements"]


class Locker(Enum):
    """How one of several brokers keeps the database to itself. (activemq-persistence J7)"""

    DATABASE = "database"
    """A lock on the row of the lock table; for SQLite, which has no row locks, a locked file."""
    LEASE = "lease"
    """A lease: the row says who holds the lock and until when; it is renewed in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The names of the tables. (activemq-persistence J4; ActiveMQ `statements`)"""

    table_prefix: str = ""
    message_table_name: str = "ACTIVEMQ_MSGS"
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    lock_table_name: str = "ACTIVEMQ_LOCK"


@dataclass(frozen=True, slots=True, kw_only=True)
class JDBCSettings:
    """ActiveMQ's jdbcPersistenceAdapter, its locker, and the limits of the database."""

    data_source: str | None = None
    """A URL of SQLAlchemy, such as `postgresql+psycopg://user:password@host/db`; None: SQLite."""
    statements: Statements = field(default_factory=Statements)
    create_tables_on_startup: bool = True
    cleanup_period: float = 300.0
    """How often acknowledged messages of topics are deleted; 0: never."""
    max_rows: int = 32767
    """The most rows that one statement reads or deletes."""
    enable_audit: bool = False
    """Whether to drop messages whose id was stored before, even if it was removed since."""
    max_producers_to_audit: int = 1024
    max_audit_depth: int = 1000
    audit_recovery_depth: int = 1024
    """The number of last messages in the table that the audit knows at start."""
    query_timeout: float | None = None
    """When the database aborts a statement; None: never. Has no effect on SQLite."""
    network_timeout: float | None = None
    """How long to wait for a connection, and for a dead peer; None: the driver's default."""
    transaction_isolation: str | None = None
    """The isolation level as SQLAlchemy names it, such as `READ COMMITTED`; None: the default."""
    use_lock: bool = True
    locker: Locker = Locker.DATABASE
    lock_keep_alive_period: float = 30.0
    lock_acquire_sleep_interval: float = 10.0
    """How often a waiting broker tries to acquire the lock; also how long a lease lasts."""
    fail_if_locked: bool = False
    lease_holder_id: str | None = None
    """None: the broker's name."""
    max_allowable_diff_from_db_time: float = 0.0
    """Above 0: the lease locker uses the database's clock if ours differs from it by more."""
    ignore_sql_exceptions: bool = True
    """Whether to wait for a failing database instead of stopping the broker.

    (activemq-persistence K24)
    """
    resume_check_sleep_period: float = 5.0
    max_async_jobs: int = 10000
    """The number of queued units above which senders have to wait."""
    max_waiting_bytes: int = 64 * 1024 * 1024
    duplicate_id_window: int = 20000
    """The number of duplicate ids (`_AMQ_DUPL_ID`) that are remembered for each queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettingsJDBC:
    """The journal in front of the database.

    (activemq-persistence J9; ActiveMQ journalPersistenceAdapterFactory)
    """

    journal_log_files: int = 2
    journal_log_file_size: int = 20 * 1024 * 1024
    checkpoint_interval: float = 300.0
    use_journal: bool = True
    """Whether to use the journal; False: the database alone."""
