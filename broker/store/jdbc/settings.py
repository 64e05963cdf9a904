"""What a JDBC store can be told. Times are seconds. (persistence J1 to J4, J7, J9)"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["JDBCSettings", "JournalSettingsJDBC", "Locker", "Statements"]


class Locker(Enum):
    """How one broker of several keeps the database to itself. (J7)"""

    DATABASE = "database"
    """A lock on the row of the lock table; SQLite has no such locks: a file beside it instead."""
    LEASE = "lease"
    """The row says who has it until when; renewed in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The tables' names. (J4; ActiveMQ `statements`)"""

    table_prefix: str = ""
    message_table_name: str = "ACTIVEMQ_MSGS"
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    lock_table_name: str = "ACTIVEMQ_LOCK"


@dataclass(frozen=True, slots=True, kw_only=True)
class JDBCSettings:
    """ActiveMQ's jdbcPersistenceAdapter, its locker, and what is asked of the database."""

    data_source: str | None = None
    """SQLAlchemy's URL, such as `postgresql+psycopg://user:password@host/db`; None: SQLite."""
    statements: Statements = field(default_factory=Statements)
    create_tables_on_startup: bool = True
    cleanup_period: float = 300.0
    """How often topics' acknowledged messages are deleted; 0: never."""
    max_rows: int = 32767
    """At most so many rows are read or deleted by one statement."""
    enable_audit: bool = False
    """Drop messages whose id came before, although they are gone from the table since."""
    max_producers_to_audit: int = 1024
    max_audit_depth: int = 1000
    audit_recovery_depth: int = 1024
    """So many of the last messages in the table are known to the audit from the start."""
    query_timeout: float | None = None
    """The database gives up on a statement after that; None: it does not. Not on SQLite."""
    network_timeout: float | None = None
    """How long to wait for a connection, and for a dead peer; None: the driver's way."""
    transaction_isolation: str | None = None
    """SQLAlchemy's name, such as `READ COMMITTED`; None: the driver's default."""
    use_lock: bool = True
    locker: Locker = Locker.DATABASE
    lock_keep_alive_period: float = 30.0
    lock_acquire_sleep_interval: float = 10.0
    """How often a slave tries; and how long a lease lasts."""
    fail_if_locked: bool = False
    lease_holder_id: str | None = None
    """None: the broker's name."""
    max_allowable_diff_from_db_time: float = 0.0
    """Above 0: the lease locker uses the database's clock where ours differs by more."""
    ignore_sql_exceptions: bool = True
    """Wait for a database that fails, instead of stopping the broker. (K24)"""
    resume_check_sleep_period: float = 5.0
    max_async_jobs: int = 10000
    """So many units of work may wait before senders have to."""
    max_waiting_bytes: int = 64 * 1024 * 1024
    duplicate_id_window: int = 20000
    """So many `_AMQ_DUPL_ID`s are remembered for each queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettingsJDBC:
    """The journal in front of the database. (J9; ActiveMQ journalPersistenceAdapterFactory)"""

    journal_log_files: int = 2
    journal_log_file_size: int = 20 * 1024 * 1024
    checkpoint_interval: float = 300.0
    use_journal: bool = True
    """False: the database alone."""
