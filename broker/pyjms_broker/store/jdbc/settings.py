"""The settings of a JDBC store. Times are in seconds. (activemq-persistence J1 to J4, J7, J9)"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from pyjms_broker.attribute import Attribute, Unit

__all__ = ["JDBCSettings", "JournalSettingsJDBC", "Locker", "Statements"]


class Locker(Enum):
    """How one of several brokers keeps the database to itself. (activemq-persistence J7)"""

    DATABASE = "database"
    """A lock on the row of the lock table; for SQLite, which has no row locks, a locked file."""
    LEASE = "lease"
    """A lease: the row says who holds the lock and until when; it is renewed in time."""


@dataclass(frozen=True, kw_only=True)
class Statements:
    """The names of the tables. (activemq-persistence J4; ActiveMQ `statements`)"""

    table_prefix: Annotated[str, Attribute("Prefix of all table names.")] = ""
    message_table_name: Annotated[str, Attribute("Table of messages.")] = "ACTIVEMQ_MSGS"
    durable_sub_acks_table_name: Annotated[str, Attribute("Table of durable subscriptions.")] = (
        "ACTIVEMQ_ACKS"
    )
    lock_table_name: Annotated[str, Attribute("Table of the store lock.")] = "ACTIVEMQ_LOCK"


@dataclass(frozen=True, kw_only=True)
class JDBCSettings:
    """ActiveMQ's jdbcPersistenceAdapter, its locker, and the limits of the database."""

    data_source: Annotated[
        str | None,
        Attribute("SQLAlchemy's URL of the database: postgresql+psycopg://...; null: SQLite."),
    ] = None
    """A URL of SQLAlchemy, such as `postgresql+psycopg://user:password@host/db`; None: SQLite."""
    statements: Statements = field(default_factory=Statements)
    create_tables_on_startup: Annotated[
        bool, Attribute("Whether missing tables are created at start.")
    ] = True
    cleanup_period: Annotated[
        float,
        Attribute(
            "Time between deletions of acknowledged messages of topics; 0: none.", unit=Unit.SECONDS
        ),
    ] = 300.0
    max_rows: Annotated[
        int, Attribute("Maximum number of rows that one statement reads or deletes.", minimum=1)
    ] = 32767
    enable_audit: Annotated[
        bool, Attribute("Whether messages with a message id that was stored before are dropped.")
    ] = False
    """Whether to drop messages whose id was stored before, even if it was removed since."""
    max_producers_to_audit: Annotated[
        int, Attribute("Number of producers that the audit remembers.", minimum=1)
    ] = 1024
    max_audit_depth: Annotated[
        int, Attribute("Number of messages of each producer that the audit remembers.", minimum=1)
    ] = 1000
    audit_recovery_depth: Annotated[
        int, Attribute("Number of the newest messages that the audit reads at start.", minimum=0)
    ] = 1024
    query_timeout: Annotated[
        float | None, Attribute("Timeout of a statement; null: none.", unit=Unit.SECONDS)
    ] = None
    """When the database aborts a statement; None: never. Has no effect on SQLite."""
    network_timeout: Annotated[
        float | None,
        Attribute(
            "Time until an unresponsive database counts as failed; null: the driver's default.",
            unit=Unit.SECONDS,
        ),
    ] = None
    """How long to wait for a connection, and for a dead peer; None: the driver's default."""
    transaction_isolation: Annotated[
        str | None, Attribute("Isolation level such as READ COMMITTED; null: the driver's default.")
    ] = None
    use_lock: Annotated[
        bool, Attribute("Whether only one broker at a time may open the store.")
    ] = True
    locker: Annotated[
        Locker,
        Attribute("Kind of the lock: database (a locked row), lease (a row with an expiry time)."),
    ] = Locker.DATABASE
    lock_keep_alive_period: Annotated[
        float,
        Attribute(
            "Time between checks that the lock is still held; 0: no checks.", unit=Unit.SECONDS
        ),
    ] = 30.0
    lock_acquire_sleep_interval: Annotated[
        float,
        Attribute(
            "Time between a slave's attempts to get the lock; duration of a lease.",
            unit=Unit.SECONDS,
        ),
    ] = 10.0
    """How often a waiting broker tries to acquire the lock; also how long a lease lasts."""
    fail_if_locked: Annotated[
        bool, Attribute("Whether the start fails instead of waiting for the lock.")
    ] = False
    lease_holder_id: Annotated[
        str | None, Attribute("Name of the lease's holder; null: the broker's name.")
    ] = None
    max_allowable_diff_from_db_time: Annotated[
        float,
        Attribute(
            "Clock difference from which a lease uses the database's clock; 0: never.",
            unit=Unit.SECONDS,
        ),
    ] = 0.0
    ignore_sql_exceptions: Annotated[
        bool, Attribute("Whether the broker waits for a database that fails; false: it stops.")
    ] = True
    """Whether to wait for a failing database instead of stopping the broker.

    (activemq-persistence K24)
    """
    resume_check_sleep_period: Annotated[
        float, Attribute("Time between attempts to reach the database again.", unit=Unit.SECONDS)
    ] = 5.0
    max_async_jobs: Annotated[
        int,
        Attribute(
            "Maximum number of operations that wait to be stored before senders wait.", minimum=1
        ),
    ] = 10000
    max_waiting_bytes: Annotated[
        int,
        Attribute(
            "Maximum size of operations that wait to be stored before senders wait.",
            unit=Unit.BYTES,
        ),
    ] = 64 * 1024 * 1024
    duplicate_id_window: Annotated[
        int, Attribute("Number of ids (_AMQ_DUPL_ID) that a queue remembers.", minimum=0)
    ] = 20000


@dataclass(frozen=True, kw_only=True)
class JournalSettingsJDBC:
    """The journal in front of the database.

    (activemq-persistence J9; ActiveMQ journalPersistenceAdapterFactory)
    """

    journal_log_files: Annotated[
        int, Attribute("Number of journal files that cause a checkpoint.", minimum=1)
    ] = 2
    journal_log_file_size: Annotated[
        int, Attribute("Size of one journal file.", unit=Unit.BYTES)
    ] = 20 * 1024 * 1024
    checkpoint_interval: Annotated[
        float,
        Attribute(
            "Time between checkpoints: the journal is written to the database.", unit=Unit.SECONDS
        ),
    ] = 300.0
    use_journal: Annotated[bool, Attribute("Whether there is a journal; false: as type: jdbc.")] = (
        True
    )
