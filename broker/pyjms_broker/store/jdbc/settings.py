"""The settings of a JDBC store. Times are in seconds. (activemq-persistence J1 to J4, J7, J9)"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyjms_broker.attribute import Unit, attribute, count, duration, flag


class Locker(Enum):
    """The kind of lock that gives one broker exclusive access. (activemq-persistence J7)"""

    DATABASE = "database"
    """A lock on the row of the lock table; for SQLite, which has no row locks, a locked file."""
    LEASE = "lease"
    """A lease: the row says who holds the lock and until when; the holder renews it in time."""


@dataclass(frozen=True, kw_only=True)
class Statements:
    """The names of the tables. (activemq-persistence J4; ActiveMQ `statements`)"""

    table_prefix: str = attribute("", "Prefix of all table names.")
    message_table_name: str = attribute("ACTIVEMQ_MSGS", "Table of messages.")
    durable_sub_acks_table_name: str = attribute("ACTIVEMQ_ACKS", "Table of durable subscriptions.")
    lock_table_name: str = attribute("ACTIVEMQ_LOCK", "Table of the store lock.")


@dataclass(frozen=True, kw_only=True)
class JDBCSettings:
    """ActiveMQ's jdbcPersistenceAdapter, its locker, and the limits of the database."""

    data_source: str | None = attribute(
        None, "SQLAlchemy URL of the database: postgresql+psycopg://...; null: SQLite."
    )
    statements: Statements = field(default_factory=Statements)
    create_tables_on_startup: bool = flag(
        "Whether missing tables are created at start.", default=True
    )
    cleanup_period: float = duration(
        300.0, "Time between deletions of acknowledged topic messages; 0: none."
    )
    max_rows: int = count(
        32767, "Maximum number of rows that one statement reads or deletes.", minimum=1
    )
    enable_audit: bool = flag("Whether messages with an already stored message id are dropped.")
    max_producers_to_audit: int = count(
        1024, "Number of producers that the audit remembers.", minimum=1
    )
    max_audit_depth: int = count(
        1000, "Number of messages of each producer that the audit remembers.", minimum=1
    )
    audit_recovery_depth: int = count(
        1024, "Number of the newest messages that the audit reads at start."
    )
    query_timeout: float | None = duration(None, "Timeout of a statement; null: none.")
    """The time after which the database aborts a statement; None: never. No effect on SQLite."""
    network_timeout: float | None = duration(
        None, "Time until an unresponsive database counts as failed; null: the driver's default."
    )
    """The timeout for connecting, and for detecting a dead peer; None: the driver's default."""
    transaction_isolation: str | None = attribute(
        None, "Isolation level such as READ COMMITTED; null: the driver's default."
    )
    use_lock: bool = flag("Whether only one broker at a time may open the store.", default=True)
    locker: Locker = attribute(
        Locker.DATABASE,
        "Kind of the lock: database (a locked row), lease (a row with an expiry time).",
    )
    lock_keep_alive_period: float = duration(
        30.0, "Time between checks that the lock is still held; 0: no checks."
    )
    lock_acquire_sleep_interval: float = duration(
        10.0, "Time between a slave's attempts to get the lock; duration of a lease."
    )
    fail_if_locked: bool = flag("Whether the start fails instead of waiting for the lock.")
    lease_holder_id: str | None = attribute(
        None, "Name of the lease's holder; null: the broker's name."
    )
    max_allowable_diff_from_db_time: float = duration(
        0.0, "Clock difference above which a lease uses the database's clock; 0: never."
    )
    ignore_sql_exceptions: bool = flag(
        "Whether the broker waits for a database that fails; false: it stops.", default=True
    )
    resume_check_sleep_period: float = duration(
        5.0, "Time between attempts to reconnect to the database."
    )
    max_async_jobs: int = count(
        10000, "Maximum number of operations that wait to be stored before senders wait.", minimum=1
    )
    max_waiting_bytes: int = attribute(
        64 * 1024 * 1024,
        "Maximum size of operations that wait to be stored before senders wait.",
        unit=Unit.BYTES,
    )
    duplicate_id_window: int = count(20000, "Number of ids (_AMQ_DUPL_ID) that a queue remembers.")


@dataclass(frozen=True, kw_only=True)
class JournalSettingsJDBC:
    """The journal in front of the database.

    (activemq-persistence J9; ActiveMQ journalPersistenceAdapterFactory)
    """

    journal_log_files: int = count(2, "Number of journal files that cause a checkpoint.", minimum=1)
    journal_log_file_size: int = attribute(
        20 * 1024 * 1024, "Size of one journal file.", unit=Unit.BYTES
    )
    checkpoint_interval: float = duration(
        300.0, "Time between checkpoints: the journal is written to the database."
    )
    use_journal: bool = flag("Whether there is a journal; false: like type: jdbc.", default=True)
