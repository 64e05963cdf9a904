"""Conversion of the stores: `<persistenceAdapter>` and `<persistenceFactory>`."""

from __future__ import annotations

from typing import Final

from pyjms_broker.conversion.sections import Lost, Spec
from pyjms_broker.settings.jdbc import (
    JDBCPersistenceSettings,
    JournaledJDBCPersistenceSettings,
    StatementsSection,
)
from pyjms_broker.settings.kahadb import (
    FilteredKahaDBSection,
    KahaDBPersistenceSettings,
    MultiKahaDBPersistenceSettings,
)
from pyjms_broker.settings.kahadb_attributes import RENAMED, WITHOUT_EFFECT

__all__ = [
    "FILTERED_KAHADB",
    "FILTERED_STORE",
    "JDBC",
    "JDBC_CHILDREN_LOST",
    "JOURNALED_JDBC",
    "KAHADB",
    "LOCKERS",
    "MEMORY",
    "MULTI_KAHADB",
    "OLD_STORES",
    "STATEMENTS",
]

_JAVA: Final = "it is a Java object"


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


_WITHOUT_EFFECT: Final = {
    **{_camel_case(name): "this store has no such index" for name in WITHOUT_EFFECT},
    "indexLFUEvictionFactor": "this store has no such index",
    "useIndexLFRUEviction": "this store has no such index",
    "enableSubscriptionStatistics": "they are always counted",
    "stopOnError": "a lock that cannot be checked always counts as lost",
    "failoverProducersAuditDepth": "one number is kept for each producer",
    "brokerName": "the name of the broker is used",
}
_SYNCS: Final = {"enableJournalDiskSyncs": {"true": "always", "false": "never"}}
_KEYS: Final = {
    **{_camel_case(name): key.partition(":")[0] for name, key in RENAMED.items()},
    "compactAcksAfterNoGC": "compact_acks_after_no_gc",
    "journalWriteBatchSize": "journal.max_write_batch_size",
}
_LOST: Final = {
    "transactionIdTransformer": Lost(_JAVA),
    "scheduledThreadPoolExecutor": Lost(_JAVA),
    "usageManager": Lost(_JAVA),
}

KAHADB: Final = Spec(KahaDBPersistenceSettings, "kahadb", _KEYS, _SYNCS, _WITHOUT_EFFECT, _LOST)
FILTERED_STORE: Final = Spec(
    FilteredKahaDBSection,
    None,
    _KEYS,
    _SYNCS,
    {**_WITHOUT_EFFECT, "directory": "the store's directory is named after its destinations"},
    _LOST,
)
"""The `<kahaDB>` in a `<filteredKahaDB>`."""
FILTERED_KAHADB: Final = Spec(
    FilteredKahaDBSection,
    lost={
        "tempQueue": Lost("temporary destinations are not stored"),
        "tempTopic": Lost("temporary destinations are not stored"),
    },
)
MULTI_KAHADB: Final = Spec(
    MultiKahaDBPersistenceSettings,
    "multi_kahadb",
    keys={
        "journalMaxFileLength": "transaction_journal.max_file_length",
        "journalWriteBatchSize": "transaction_journal.max_write_batch_size",
        "checkForCorruption": "transaction_journal.check_for_corrupt_journal_files",
        "journalCleanupInterval": "cleanup_interval",
    },
    no_effect=_WITHOUT_EFFECT,
    lost=_LOST,
)
MEMORY: Final = Spec(
    None,
    "memory",
    no_effect={
        "createTransactionStore": "transactions are kept in memory, too",
        "usageManager": "limits are those of system_usage",
    },
)

_JDBC_KEYS: Final = {
    "dataDirectory": "directory",
    "dataDirectoryFile": "directory",
    "useDatabaseLock": "use_lock",
}
_JDBC_NO_EFFECT: Final = {
    "brokerName": "the name of the broker is used",
    "changeAutoCommitAllowed": "the driver's transactions are used",
    "stopOnError": "a lock that cannot be checked always counts as lost",
}
_JDBC_LOST: Final = {
    "useExternalMessageReferences": Lost("messages are in the database", same_as="false"),
    "scheduledThreadPoolExecutor": Lost(_JAVA),
    "dataSource": Lost("it names no bean of this file", "write # and the id of the bean"),
}
JDBC: Final = Spec(JDBCPersistenceSettings, "jdbc", _JDBC_KEYS, {}, _JDBC_NO_EFFECT, _JDBC_LOST)
JOURNALED_JDBC: Final = Spec(
    JournaledJDBCPersistenceSettings,
    "journaled_jdbc",
    _JDBC_KEYS,
    {},
    {
        **_JDBC_NO_EFFECT,
        "useDedicatedTaskRunner": "it concerns Java's threads",
        "journalThreadPriority": "it concerns Java's threads",
        "useQuickJournal": "the journal has one format",
    },
    {**_JDBC_LOST, "journalArchiveDirectory": Lost("journal files are deleted, not archived")},
)
STATEMENTS: Final = Spec(StatementsSection)
JDBC_CHILDREN_LOST: Final = {
    "adapter": Lost("the dialect follows from the database's URL", "leave it out"),
    "jdbcAdapter": Lost("the dialect follows from the database's URL", "leave it out"),
    "lockDataSource": Lost("the lock is in the store's own database"),
    "wireFormat": Lost("the format of messages is fixed"),
    "journal": Lost("the journal is in the store's directory"),
    "scheduledThreadPoolExecutor": Lost(_JAVA),
    "taskRunnerFactory": Lost(_JAVA),
}

_LOCKER_NO_EFFECT: Final = {"name": "the name has no effect"}
_LOCKER_LOST: Final = {
    "directory": Lost("the lock is in the store's directory"),
    "createTablesOnStartup": Lost(
        "it is a setting of the store here", "set persistence.create_tables_on_startup"
    ),
    "queryTimeout": Lost("it is a setting of the store here", "set persistence.query_timeout"),
    "handleStartException": Lost("a lock that cannot be acquired is retried", same_as="false"),
}


def _locker(model: type[KahaDBPersistenceSettings | JDBCPersistenceSettings]) -> Spec:
    return Spec(model, no_effect=_LOCKER_NO_EFFECT, lost=_LOCKER_LOST)


LOCKERS: Final = {
    "shared-file-locker": (_locker(KahaDBPersistenceSettings), None),
    "database-locker": (_locker(JDBCPersistenceSettings), "database"),
    "lease-database-locker": (_locker(JDBCPersistenceSettings), "lease"),
}
"""Elements of `<locker>`: rules for their attributes (keys of the store), and its key `locker`."""

_REMOVED: Final = "ActiveMQ removed this store"
OLD_STORES: Final = {
    name: Lost(f"{_REMOVED}; KahaDB is used instead", "move the messages with ActiveMQ first")
    for name in (
        "levelDB",
        "replicatedLevelDB",
        "amqPersistenceAdapter",
        "amqPersistenceAdapterFactory",
        "kahaPersistenceAdapter",
    )
}
