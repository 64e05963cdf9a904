"""Convert the store: `<persistenceAdapter>` and `<persistenceFactory>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from pyjms_broker.conversion.draft import (
    Draft,
    Handler,
    Lost,
    Path,
    Rule,
    Spec,
    children,
    destination_of,
    inside,
    item,
    same_section,
    section,
    word,
)
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.settings.persistence import (
    RENAMED,
    WITHOUT_EFFECT,
    FilteredKahaDBSection,
    JDBCPersistenceSettings,
    JournaledJDBCPersistenceSettings,
    KahaDBPersistenceSettings,
    MultiKahaDBPersistenceSettings,
    StatementsSection,
)

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

_LOCKER_NO_EFFECT: Final = {"name": "the name has no effect"}
_LOCKER_LOST: Final = {
    "directory": Lost("the lock is in the store's directory"),
    "createTablesOnStartup": Lost(
        "it is a setting of the store here", "set persistence.create_tables_on_startup"
    ),
    "queryTimeout": Lost("it is a setting of the store here", "set persistence.query_timeout"),
    "handleStartException": Lost("a lock that cannot be acquired is retried", same_as="false"),
}
_KAHADB_LOCKER: Final = Spec(
    KahaDBPersistenceSettings, no_effect=_LOCKER_NO_EFFECT, lost=_LOCKER_LOST
)
_JDBC_LOCKER: Final = Spec(JDBCPersistenceSettings, no_effect=_LOCKER_NO_EFFECT, lost=_LOCKER_LOST)
_LOCKER: Final = inside(
    {
        "shared-file-locker": same_section(_KAHADB_LOCKER),
        "database-locker": word("locker", "database", _JDBC_LOCKER),
        "lease-database-locker": word("locker", "lease", _JDBC_LOCKER),
    }
)

_KAHADB: Final = Spec(
    KahaDBPersistenceSettings,
    "kahadb",
    _KEYS,
    _SYNCS,
    _WITHOUT_EFFECT,
    _LOST,
    {"locker": _LOCKER},
)
_FILTERED_STORE: Final = Spec(
    FilteredKahaDBSection,
    None,
    _KEYS,
    _SYNCS,
    {**_WITHOUT_EFFECT, "directory": "the store's directory is named after its destinations"},
    _LOST,
    {"locker": Lost("the lock is that of <mKahaDB>")},
)
"""The `<kahaDB>` in a `<filteredKahaDB>`."""


def _any_destination(draft: Draft, element: Element, path: Path) -> None:
    """Convert an unusual filter: `<destination><queue physicalName="x"/></destination>`."""
    name = destination_of(element)
    if name is not None:
        draft.put((*path, element.name), name.removeprefix("topic://"), element)


_FILTERED_KAHADB: Final = Spec(
    FilteredKahaDBSection,
    lost={
        "tempQueue": Lost("temporary destinations are not stored"),
        "tempTopic": Lost("temporary destinations are not stored"),
    },
    children={
        "persistenceAdapter": inside({"kahaDB": same_section(_FILTERED_STORE)}),
        "usage": inside(same_section(Spec(FilteredKahaDBSection, keys={"limit": "store_limit"}))),
        "destination": children(_any_destination),
    },
)
_MULTI_KAHADB: Final = Spec(
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
    children={
        "locker": _LOCKER,
        "filteredPersistenceAdapters": children(
            {"filteredKahaDB": item("filtered_kahadb", _FILTERED_KAHADB)}
        ),
    },
)
_MEMORY: Final = Spec(
    None,
    "memory",
    no_effect={
        "createTransactionStore": "transactions are kept in memory, too",
        "usageManager": "limits are those of system_usage",
    },
)

_POSTGRESQL: Final = "jdbc:postgresql:"
_PROPERTIES: Final = {
    "serverName": ("serverName", "servername", "host"),
    "portNumber": ("portNumber", "port"),
    "databaseName": ("databaseName",),
    "user": ("user", "username"),
    "password": ("password",),
    "url": ("url", "jdbcUrl"),
    "driver": ("driverClassName", "driverClass"),
}
"""Property names of common DataSource classes, by meaning."""
_DERBY: Final = (
    "the embedded database of Java becomes an SQLite file in the store's directory; messages are "
    "not taken over"
)
_MOVE: Final = "let consumers empty the queues before the migration"
_NO_EFFECT: Final = "connections to the database are pooled by the broker"


def _data_source(draft: Draft, bean: Element, path: Path) -> None:
    values = {
        meaning: bean.attributes[name]
        for meaning, names in _PROPERTIES.items()
        for name in names
        if name in bean.attributes
    }
    bean.read_attributes.update(name for names in _PROPERTIES.values() for name in names)
    bean.read_attributes.update(("class", "destroy-method", "init-method", "name"))
    kind = " ".join((bean.attributes.get("class", ""), values.get("url", ""))).lower()
    if "derby" in kind or "hsqldb" in kind or "jdbc:h2" in kind:
        draft.findings.note(bean, _DERBY, _MOVE)
    elif "postgresql" in kind or "pgpooling" in kind:
        draft.put((*path, "data_source"), _postgresql(values), bean)
        if "?" in values.get("url", ""):
            draft.findings.report(
                bean,
                "options of the JDBC driver in the URL are left out",
                "psycopg has different options: data_source: postgresql+psycopg://...?sslmode=...",
                attribute="url",
            )
        for name in bean.attributes.keys() - bean.read_attributes:
            draft.findings.note(bean, _NO_EFFECT, attribute=name)
    else:
        draft.findings.report(
            bean,
            "this database is not supported as a store; SQLite is used instead",
            "set persistence.data_source to the URL of a PostgreSQL database",
        )


def _postgresql(values: Mapping[str, str]) -> str:
    """Return the SQLAlchemy URL of a PostgreSQL database."""
    location = values.get("url", "")
    if location.startswith(_POSTGRESQL):
        location, _, _options = location.removeprefix(_POSTGRESQL).partition("?")
        location = location.removeprefix("//")
        if "/" not in location:
            location = f"localhost/{location}"
    else:
        port = values.get("portNumber", "0")
        host = values.get("serverName", "localhost") + (f":{port}" if port != "0" else "")
        location = f"{host}/{values.get('databaseName', '')}"
    user = quote(values.get("user", ""), safe="")
    password = quote(values.get("password", ""), safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    return f"postgresql+psycopg://{login}{location}"


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
_JDBC_CHILDREN: Final[dict[str, Rule]] = {
    "adapter": Lost("the dialect follows from the database's URL", "leave it out"),
    "jdbcAdapter": Lost("the dialect follows from the database's URL", "leave it out"),
    "lockDataSource": Lost("the lock is in the store's own database"),
    "wireFormat": Lost("the format of messages is fixed"),
    "journal": Lost("the journal is in the store's directory"),
    "scheduledThreadPoolExecutor": Lost(_JAVA),
    "taskRunnerFactory": Lost(_JAVA),
    "locker": _LOCKER,
    "databaseLocker": _LOCKER,
    "statements": inside(section("statements", Spec(StatementsSection))),
    "dataSource": inside(_data_source),
}


def _jdbc(spec: Spec) -> Handler:
    convert = section("persistence", spec)

    def convert_jdbc(draft: Draft, element: Element, path: Path) -> None:
        convert(draft, element, path)
        if element.child("dataSource") is None:
            draft.findings.note(element, _DERBY, _MOVE, attribute="dataSource")

    return convert_jdbc


_JDBC: Final = Spec(
    JDBCPersistenceSettings,
    "jdbc",
    _JDBC_KEYS,
    {},
    _JDBC_NO_EFFECT,
    _JDBC_LOST,
    _JDBC_CHILDREN,
)
_JOURNALED_JDBC: Final = Spec(
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
    _JDBC_CHILDREN,
)

_REMOVED: Final = Lost(
    "ActiveMQ removed this store; KahaDB is used instead", "move the messages with ActiveMQ first"
)
STORE: Final = inside(
    {
        "kahaDB": section("persistence", _KAHADB),
        "mKahaDB": section("persistence", _MULTI_KAHADB),
        "memoryPersistenceAdapter": section("persistence", _MEMORY),
        "jdbcPersistenceAdapter": _jdbc(_JDBC),
        "journalPersistenceAdapterFactory": _jdbc(_JOURNALED_JDBC),
        "journaledJDBC": _jdbc(_JOURNALED_JDBC),
        **dict.fromkeys(
            (
                "levelDB",
                "replicatedLevelDB",
                "amqPersistenceAdapter",
                "amqPersistenceAdapterFactory",
                "kahaPersistenceAdapter",
            ),
            _REMOVED,
        ),
    }
)
"""Converts `<persistenceAdapter>` and `<persistenceFactory>`."""
