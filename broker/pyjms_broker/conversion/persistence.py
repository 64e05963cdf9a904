"""Convert the store: `<persistenceAdapter>` and `<persistenceFactory>`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import quote

from pyjms_broker.conversion.draft import Draft, Handler, Lost, Path, Spec, destination_of
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

__all__ = ["JDBC", "MEMORY", "convert_store"]

# --- Conversion of the stores: `<persistenceAdapter>` and `<persistenceFactory>`.

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


def convert_store(draft: Draft, element: Element, path: Path) -> None:
    """Convert the store of `<persistenceAdapter>` or `<persistenceFactory>`."""
    store = draft.only_child(element)
    if store is not None:
        draft.convert_children(
            Element("persistence", "", {}, element.origin, [store]), _STORES, path
        )


def _persistence_locker(draft: Draft, element: Element, path: Path) -> None:
    locker = draft.only_child(element)
    if locker is None:
        return
    if locker.name not in LOCKERS:
        draft.findings.unsupported(locker, "there is no such kind of lock", ", ".join(LOCKERS))
        return
    spec, kind = LOCKERS[locker.name]
    draft.convert_attributes(locker, spec, path)
    if kind is not None:
        draft.put((*path, "locker"), kind, locker)


def _statements(draft: Draft, element: Element, path: Path) -> None:
    inner = draft.only_child(element)
    if inner is not None:
        draft.convert_attributes(inner, STATEMENTS, (*path, "statements"))


def _section(
    spec: Spec, children: Mapping[str, Handler | Lost], draft: Draft, element: Element, path: Path
) -> None:
    here = (*path, "persistence")
    draft.put(here, {}, element)
    draft.convert_attributes(element, spec, here)
    draft.convert_children(element, children, here)
    if "dataSource" in children and element.child("dataSource") is None:
        draft.findings.note(element, _DERBY, _MOVE, attribute="dataSource")


def _multi(draft: Draft, element: Element, path: Path) -> None:
    _section(MULTI_KAHADB, _MULTI_CHILDREN, draft, element, path)


def _filters(draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        if each.name != "filteredKahaDB":
            draft.findings.unsupported(each, "only <filteredKahaDB> is allowed here")
            continue
        here = draft.append((*path, "filtered_kahadb"), {}, each)
        draft.convert_attributes(each, FILTERED_KAHADB, here)
        draft.convert_children(each, _FILTER_CHILDREN, here)


def _any_destination(draft: Draft, element: Element, here: Path) -> None:
    """Convert an unusual filter: `<destination><queue physicalName="x"/></destination>`."""
    for each in element.read_children():
        name = destination_of(each)
        if name is not None:
            draft.put((*here, each.name), name.removeprefix("topic://"), each)


def _filtered_store(draft: Draft, element: Element, path: Path) -> None:
    store = draft.only_child(element)
    if store is None:
        return
    if store.name != "kahaDB":
        draft.findings.unsupported(store, "a filtered store is a <kahaDB>")
        return
    draft.convert_attributes(store, FILTERED_STORE, path)
    draft.convert_children(store, {"locker": Lost("the lock is that of <mKahaDB>")}, path)


def _usage(draft: Draft, element: Element, path: Path) -> None:
    usage = draft.only_child(element)
    if usage is not None:
        spec = Spec(FILTERED_KAHADB.model, keys={"limit": "store_limit"})
        draft.convert_attributes(usage, spec, path)


def _data_source(draft: Draft, element: Element, path: Path) -> None:
    bean = draft.only_child(element)
    if bean is None:
        return
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
            draft.findings.unsupported(
                bean,
                "options of the JDBC driver in the URL are left out",
                "psycopg has different options: data_source: postgresql+psycopg://...?sslmode=...",
                attribute="url",
            )
        for name in bean.attributes.keys() - bean.read_attributes:
            draft.findings.note(bean, _NO_EFFECT, attribute=name)
    else:
        draft.findings.unsupported(
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


_LOCKED: Final[dict[str, Handler | Lost]] = {"locker": _persistence_locker}
_JDBC_CHILDREN: Final[dict[str, Handler | Lost]] = {
    **JDBC_CHILDREN_LOST,
    **_LOCKED,
    "databaseLocker": _persistence_locker,
    "statements": _statements,
    "dataSource": _data_source,
}
_FILTER_CHILDREN: Final[dict[str, Handler | Lost]] = {
    "persistenceAdapter": _filtered_store,
    "usage": _usage,
    "destination": _any_destination,
}
_MULTI_CHILDREN: Final[dict[str, Handler | Lost]] = {
    **_LOCKED,
    "filteredPersistenceAdapters": _filters,
}
_JOURNALED: Final = partial(_section, JOURNALED_JDBC, _JDBC_CHILDREN)
_STORES: Final[dict[str, Handler | Lost]] = {
    **OLD_STORES,
    "kahaDB": partial(_section, KAHADB, _LOCKED),
    "mKahaDB": _multi,
    "memoryPersistenceAdapter": partial(_section, MEMORY, {}),
    "jdbcPersistenceAdapter": partial(_section, JDBC, _JDBC_CHILDREN),
    "journalPersistenceAdapterFactory": _JOURNALED,
    "journaledJDBC": _JOURNALED,
}
