"""Convert the elements in `<broker>` that have many others: store, policies, plug-ins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote

from pydantic import BaseModel

from pyjms.transport.options import camel_case
from pyjms_broker.conversion.draft import (
    Draft,
    Handler,
    Lost,
    Path,
    Rule,
    Spec,
    children,
    destination_at,
    destination_of,
    inside,
    item,
    same_section,
    section,
    word,
)
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.settings import persistence, policies
from pyjms_broker.settings.plugins import RedeliveryPolicySettings, plugin_settings
from pyjms_broker.settings.security import AccessSettings, AuthorizationEntrySettings, UserSettings

_JAVA: Final = "it is a Java object"
JAVA_OBJECT: Final = Lost(_JAVA)


_WITHOUT_EFFECT: Final = {
    **{camel_case(name): "this store has no such index" for name in persistence.WITHOUT_EFFECT},
    "indexLFUEvictionFactor": "this store has no such index",
    "useIndexLFRUEviction": "this store has no such index",
    "enableSubscriptionStatistics": "they are always counted",
    "stopOnError": "a lock that cannot be checked always counts as lost",
    "failoverProducersAuditDepth": "one number is kept for each producer",
    "brokerName": "the name of the broker is used",
}
_SYNCS: Final = {"enableJournalDiskSyncs": {"true": "always", "false": "never"}}
_KEYS: Final = {
    **{camel_case(name): key.partition(":")[0] for name, key in persistence.RENAMED.items()},
    "compactAcksAfterNoGC": "compact_acks_after_no_gc",
    "journalWriteBatchSize": "journal.max_write_batch_size",
}
_LOST_IN_STORES: Final = dict.fromkeys(
    ("transactionIdTransformer", "scheduledThreadPoolExecutor", "usageManager"), JAVA_OBJECT
)

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
    persistence.KahaDBPersistenceSettings, no_effect=_LOCKER_NO_EFFECT, lost=_LOCKER_LOST
)
_JDBC_LOCKER: Final = Spec(
    persistence.JDBCPersistenceSettings, no_effect=_LOCKER_NO_EFFECT, lost=_LOCKER_LOST
)
_LOCKER: Final = inside(
    {
        "shared-file-locker": same_section(_KAHADB_LOCKER),
        "database-locker": word("locker", "database", _JDBC_LOCKER),
        "lease-database-locker": word("locker", "lease", _JDBC_LOCKER),
    }
)

_KAHADB: Final = Spec(
    persistence.KahaDBPersistenceSettings,
    "kahadb",
    _KEYS,
    _SYNCS,
    _WITHOUT_EFFECT,
    _LOST_IN_STORES,
    {"locker": _LOCKER},
)
_FILTERED_STORE: Final = Spec(
    persistence.FilteredKahaDBSection,
    None,
    _KEYS,
    _SYNCS,
    {**_WITHOUT_EFFECT, "directory": "the store's directory is named after its destinations"},
    _LOST_IN_STORES,
    {"locker": Lost("the lock is that of <mKahaDB>")},
)
"""The `<kahaDB>` in a `<filteredKahaDB>`."""


def _any_destination(draft: Draft, element: Element, path: Path) -> None:
    """Convert an unusual filter: `<destination><queue physicalName="x"/></destination>`."""
    name = destination_of(element)
    if name is not None:
        draft.put((*path, element.name), name.removeprefix("topic://"), element)


_FILTERED_KAHADB: Final = Spec(
    persistence.FilteredKahaDBSection,
    lost={
        "tempQueue": Lost("temporary destinations are not stored"),
        "tempTopic": Lost("temporary destinations are not stored"),
    },
    children={
        "persistenceAdapter": inside({"kahaDB": same_section(_FILTERED_STORE)}),
        "usage": inside(
            same_section(Spec(persistence.FilteredKahaDBSection, keys={"limit": "store_limit"}))
        ),
        "destination": children(_any_destination),
    },
)
_MULTI_KAHADB: Final = Spec(
    persistence.MultiKahaDBPersistenceSettings,
    "multi_kahadb",
    keys={
        "journalMaxFileLength": "transaction_journal.max_file_length",
        "journalWriteBatchSize": "transaction_journal.max_write_batch_size",
        "checkForCorruption": "transaction_journal.check_for_corrupt_journal_files",
        "journalCleanupInterval": "cleanup_interval",
    },
    no_effect=_WITHOUT_EFFECT,
    lost=_LOST_IN_STORES,
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


# Java's data sources, beans of many classes, become SQLAlchemy's URLs

_OF_DATA_SOURCES: Final = {
    **dict.fromkeys(("servername", "host", "hostname"), "host"),
    **dict.fromkeys(("portnumber", "port"), "port"),
    **dict.fromkeys(("databasename", "database"), "database"),
    **dict.fromkeys(("user", "username"), "user"),
    "password": "password",
    **dict.fromkeys(("url", "jdbcurl"), "url"),
    **dict.fromkeys(
        ("class", "driverclassname", "driverclass", "driver", "datasourceclassname"), "class"
    ),
}
"""Properties of common classes, in lower case, by meaning."""
_WITHIN_DATA_SOURCES: Final = frozenset(
    {
        *("configuration", "targetDataSource", "dataSource", "dataSourceProperties"),
        *("xaProperties", "driverProperties", "properties", "connectionProperties"),
    }
)
"""Properties that hold the data source proper, or a map of its properties."""
_JAVAS_OWN: Final = re.compile(r"derby|hsqldb|jdbc:h2|org\.h2")


class _Database(NamedTuple):
    """A database that SQLAlchemy knows."""

    mark: re.Pattern[str]
    """Finds it in names of classes and URLs."""
    scheme: str
    driver: str


_DATABASES: Final = (
    _Database(re.compile("postgresql|pgpooling|pgsimple"), "postgresql+psycopg", "psycopg"),
    _Database(re.compile("mariadb"), "mariadb+pymysql", "PyMySQL"),
    _Database(re.compile("mysql"), "mysql+pymysql", "PyMySQL"),
)
_JDBC_URL: Final = re.compile(
    r"jdbc:\w+:(?:\w+:)?(?://(?P<hosts>[^/?;]*)/?)?(?P<database>[^?;]*)(?:[?;](?P<options>.*))?"
)
"""`jdbc:mysql:replication://a:1,b/name?option=value`, `jdbc:postgresql:name`."""

_DERBY: Final = (
    "the embedded database of Java becomes an SQLite file in the store's directory; messages are "
    "not taken over"
)
_MOVE: Final = "let consumers empty the queues before the migration"
_POOLED: Final = "connections to the database are pooled by the broker"


def _convert_data_source(draft: Draft, bean: Element, path: Path) -> None:
    """Convert the bean of a store's `dataSource` to the key `data_source`."""
    values = dict(_values_of_data_source(bean))
    kind = " ".join((values.get("class", ""), values.get("url", ""))).lower()
    if _JAVAS_OWN.search(kind):
        draft.findings.note(bean, _DERBY, _MOVE)
        return
    for database in _DATABASES:
        if database.mark.search(kind):
            draft.put((*path, "data_source"), _database_url(draft, bean, values, database), bean)
            for name in bean.attributes.keys() - bean.read_attributes:
                draft.findings.note(bean, _POOLED, attribute=name)
            return
    draft.findings.report(
        bean,
        "this database is not supported as a store; SQLite is used instead",
        "set persistence.data_source to the URL of a PostgreSQL, MySQL or MariaDB database",
    )


def _values_of_data_source(bean: Element) -> Iterator[tuple[str, str]]:
    """Yield what a bean says of its database, by meaning; what contains it comes last."""
    for child in bean.children:
        if child.name in _WITHIN_DATA_SOURCES:
            child.is_read = True
            for inner in child.children:
                inner.is_read = True
                if inner.name == "entry":
                    meaning = _OF_DATA_SOURCES.get((inner.take("key") or "").lower())
                    text = inner.take("value")
                    if meaning is not None and text is not None:
                        yield meaning, text
                else:
                    yield from _values_of_data_source(inner)
    for name, text in bean.attributes.items():
        meaning = _OF_DATA_SOURCES.get(name.lower())
        if meaning is not None:
            bean.read_attributes.add(name)
            if name != "class" or "DataSource" in text:
                yield meaning, text


def _database_url(
    draft: Draft, bean: Element, values: Mapping[str, str], database: _Database
) -> str:
    """Return the SQLAlchemy URL; report what it lacks."""
    parsed = _JDBC_URL.fullmatch(values.get("url", ""))
    options: dict[str, str] = {}
    if parsed is None:
        port = values.get("port", "0")
        hosts = values.get("host", "localhost") + (f":{port}" if port != "0" else "")
        name = values.get("database", "")
    else:
        hosts, name = parsed["hosts"] or "localhost", parsed["database"]
        options = dict(parse_qsl((parsed["options"] or "").replace(";", "&")))
    first, comma, _others = hosts.partition(",")
    login = {key: values.get(key) or options.pop(key, "") or "" for key in ("user", "password")}
    report = draft.findings.report
    if comma:
        report(bean, "only the first host of the database is used", attribute="url")
    if options:
        report(
            bean,
            "options of the JDBC driver in the URL are left out",
            f"{database.driver} has different options: data_source: "
            f"{database.scheme}://...?option=...",
            attribute="url",
        )
    user, password = (quote(login[key], safe="") for key in ("user", "password"))
    if database.driver != "psycopg":
        draft.findings.note(
            bean, "the Python driver of this database is needed", "pip install PyMySQL"
        )
    text = f"{user}:{password}@" if password else f"{user}@" if user else ""
    return f"{database.scheme}://{text}{first}/{name}"


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
    "scheduledThreadPoolExecutor": JAVA_OBJECT,
    "dataSource": Lost("it names no bean of this file", "write # and the id of the bean"),
}
_JDBC_CHILDREN: Final[dict[str, Rule]] = {
    "adapter": Lost("the dialect follows from the database's URL", "leave it out"),
    "jdbcAdapter": Lost("the dialect follows from the database's URL", "leave it out"),
    "lockDataSource": Lost("the lock is in the store's own database"),
    "wireFormat": Lost("the format of messages is fixed"),
    "journal": Lost("the journal is in the store's directory"),
    "scheduledThreadPoolExecutor": JAVA_OBJECT,
    "taskRunnerFactory": JAVA_OBJECT,
    "locker": _LOCKER,
    "databaseLocker": _LOCKER,
    "statements": inside(section("statements", Spec(persistence.StatementsSection))),
    "dataSource": inside(_convert_data_source),
}


def _jdbc(spec: Spec) -> Handler:
    convert = section("persistence", spec)

    def convert_jdbc(draft: Draft, element: Element, path: Path) -> None:
        convert(draft, element, path)
        if element.child("dataSource") is None:
            draft.findings.note(element, _DERBY, _MOVE, attribute="dataSource")

    return convert_jdbc


_JDBC: Final = Spec(
    persistence.JDBCPersistenceSettings,
    "jdbc",
    _JDBC_KEYS,
    {},
    _JDBC_NO_EFFECT,
    _JDBC_LOST,
    _JDBC_CHILDREN,
)
_JOURNALED_JDBC: Final = Spec(
    persistence.JournaledJDBCPersistenceSettings,
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


# <destinationPolicy>, and the virtual destinations of <destinationInterceptors>

_SLOW_NO_EFFECT: Final = {"name": "the name has no effect"}
_STRATEGIES: Final[dict[str, dict[str, Spec]]] = {
    "deadLetterStrategy": {
        "sharedDeadLetterStrategy": Spec(
            policies.SharedDeadLetterSettings,
            "shared",
            children={"deadLetterQueue": inside(destination_at("dead_letter_queue"))},
        ),
        "individualDeadLetterStrategy": Spec(policies.IndividualDeadLetterSettings, "individual"),
        "discarding": Spec(
            policies.DiscardingDeadLetterSettings,
            "discarding",
            no_effect=dict.fromkeys(
                ("processExpired", "processNonPersistent", "expiration", "enableAudit"),
                "discarded messages are not stored",
            ),
        ),
    },
    "pendingMessageLimitStrategy": {
        "constantPendingMessageLimitStrategy": Spec(
            policies.ConstantPendingLimitSettings, "constant"
        ),
        "prefetchRatePendingMessageLimitStrategy": Spec(
            policies.PrefetchRatePendingLimitSettings, "prefetch_rate"
        ),
    },
    "messageEvictionStrategy": {
        "oldestMessageEvictionStrategy": Spec(policies.OldestEvictionSettings, "oldest"),
        "oldestMessageWithLowestPriorityEvictionStrategy": Spec(
            policies.LowestPriorityEvictionSettings, "oldest_with_lowest_priority"
        ),
        "uniquePropertyMessageEvictionStrategy": Spec(
            policies.UniquePropertyEvictionSettings, "unique_property"
        ),
    },
    "networkBridgeFilterFactory": {
        "conditionalNetworkBridgeFilterFactory": Spec(policies.ConditionalNetworkBridgeSettings)
    },
    "slowConsumerStrategy": {
        "abortSlowConsumerStrategy": Spec(
            policies.AbortSlowConsumerSettings, "abort_slow", no_effect=_SLOW_NO_EFFECT
        ),
        "abortSlowAckConsumerStrategy": Spec(
            policies.AbortSlowAckConsumerSettings, "abort_slow_ack", no_effect=_SLOW_NO_EFFECT
        ),
    },
    "subscriptionRecoveryPolicy": {
        "noSubscriptionRecoveryPolicy": Spec(None, "none"),
        "fixedCountSubscriptionRecoveryPolicy": Spec(
            policies.FixedCountRecoverySettings, "fixed_count"
        ),
        "fixedSizedSubscriptionRecoveryPolicy": Spec(
            policies.FixedSizedRecoverySettings,
            "fixed_sized",
            lost={"useSharedBuffer": Lost("each topic has its own buffer", same_as="false")},
        ),
        "lastImageSubscriptionRecoveryPolicy": Spec(None, "last_image"),
        "timedSubscriptionRecoveryPolicy": Spec(policies.TimedRecoverySettings, "timed"),
    },
}
"""Elements converted to a section with a `type`, by the property that contains them."""
_CHOICES: Final[dict[str, dict[str, str]]] = {
    "dispatchPolicy": {
        "simpleDispatchPolicy": "simple",
        "roundRobinDispatchPolicy": "round_robin",
        "strictOrderDispatchPolicy": "strict_order",
        "priorityDispatchPolicy": "priority",
        "priorityNetworkDispatchPolicy": "priority_network",
        "clientIdFilterDispatchPolicy": "client_id_filter",
    },
    "pendingQueuePolicy": {
        "storeCursor": "storeCursor",
        "vmQueueCursor": "vmQueueCursor",
        "fileQueueCursor": "storeCursor",
    },
    "pendingSubscriberPolicy": {"fileCursor": "fileCursor", "vmCursor": "vmCursor"},
    "pendingDurableSubscriberPolicy": {
        "storeDurableSubscriberCursor": "storeDurableSubscriberCursor",
        "vmDurableCursor": "vmDurableCursor",
        "fileDurableSubscriberCursor": "storeDurableSubscriberCursor",
    },
}
"""Elements converted to a word, by the property that contains them."""
_LOST_STRATEGIES: Final[dict[str, Rule]] = {
    "queryBasedSubscriptionRecoveryPolicy": Lost(
        _JAVA,
        "write a query in Python (docs/extending-broker.md): type: query_based",
    ),
    "retainedMessageSubscriptionRecoveryPolicy": Lost(
        "a retained message is always kept", "leave it out"
    ),
}
_CURSOR: Final = Spec(
    lost={
        "immediatePriorityDispatch": Lost("cursors have no attributes", same_as="true"),
        "useCache": Lost("cursors have no attributes", "set use_cache of the policy"),
        "ptpClientId": Lost("the name of the property is fixed", same_as="PTP_CLIENTID"),
        "ptpSuffix": Lost("the suffix of the topics' names is fixed", same_as=".PTP"),
    }
)


def _choice(name: str, element: str, text: str) -> Handler:
    note = ""
    if element.startswith("file") and text.startswith("store"):
        note = "the store keeps the messages, so that no copy in files is needed"
    return word(persistence.snake_case(name), text, _CURSOR, note)


_POLICY_ENTRY: Final = Spec(
    policies.PolicySettings,
    keys={"inactiveTimoutBeforeGC": "inactive_timeout_before_gc"},
    has_destination=True,
    no_effect={
        "optimizedDispatch": "messages are always dispatched by the sender's task",
        "reduceMemoryFootprint": "messages are not kept in two forms",
        "doOptimzeMessageStorage": "it only matters for ActiveMQ's store",
        "optimizeMessageStoreInFlightLimit": "it only matters for ActiveMQ's store",
        "useTopicSubscriptionInflightStats": "they are always counted",
    },
    lost={
        "sendDuplicateFromStoreToDLQ": Lost(
            "a duplicate that the store has is dropped", same_as="false"
        )
    },
    children={
        "messageGroupMapFactory": Lost("it is a Java object", "use messageGroupMapFactoryType"),
        **{
            name: inside(
                {
                    **_LOST_STRATEGIES,
                    **{
                        each: section(persistence.snake_case(name), spec)
                        for each, spec in known.items()
                    },
                }
            )
            for name, known in _STRATEGIES.items()
        },
        **{
            name: inside(
                {
                    **_LOST_STRATEGIES,
                    **{each: _choice(name, each, text) for each, text in known.items()},
                }
            )
            for name, known in _CHOICES.items()
        },
    },
)
_ENTRY: Final = item("policies", _POLICY_ENTRY)
_ENTRIES: Final = children({"policyEntry": _ENTRY})
POLICIES: Final = inside(
    children(
        {
            "policyEntries": _ENTRIES,
            "entries": _ENTRIES,
            "policyEntry": _ENTRY,
            "defaultEntry": _ENTRIES,
        }
    )
)
"""Converts `<destinationPolicy>`."""

_FORWARD: Final = item(
    "forward_to",
    Spec(
        policies.ForwardSettings,
        needs_destination=True,
        children={"filter": Lost("it is a Java object", "use selector")},
    ),
)
_FORWARDED: Final = {"queue": _FORWARD, "topic": _FORWARD, "filteredDestination": _FORWARD}
_CONCURRENT: Final = {
    "concurrentSend": "copies are sent one after the other",
    "copyMessage": "messages are copied as far as they are changed",
}


def _virtual(type_: str, model: type[BaseModel]) -> Handler:
    convert = item(
        "virtual_destinations",
        Spec(model, type_, no_effect=_CONCURRENT, children={"forwardTo": children(_FORWARDED)}),
    )

    def convert_unless_empty(draft: Draft, element: Element, path: Path) -> None:
        forward = element.child("forwardTo")
        if type_ != "virtual_topic" and (
            forward is None or not any(each.name in _FORWARDED for each in forward.children)
        ):
            draft.findings.report(element, "it forwards to no destination")
        else:
            convert(draft, element, path)

    return convert_unless_empty


_INTERCEPTORS: Final = {
    "virtualDestinationInterceptor": children(
        {
            "virtualDestinations": children(
                {
                    "virtualTopic": _virtual("virtual_topic", policies.VirtualTopicSettings),
                    "compositeQueue": _virtual("composite_queue", policies.CompositeQueueSettings),
                    "compositeTopic": _virtual("composite_topic", policies.CompositeTopicSettings),
                }
            )
        }
    ),
    "mirroredQueue": word(
        "use_mirrored_queues",
        True,
        Spec(
            lost={
                "prefix": Lost(
                    "mirrors are named VirtualTopic.Mirror.x", same_as="VirtualTopic.Mirror."
                ),
                "postfix": Lost("mirrors are named VirtualTopic.Mirror.x", same_as=""),
                "copyMessage": Lost("messages are copied", same_as="true"),
            }
        ),
    ),
}


def convert_interceptors(draft: Draft, element: Element, path: Path) -> None:
    """Convert `<destinationInterceptors>`, which replace the default virtual topics."""
    draft.put((*path, "virtual_destinations"), [], element)
    draft.convert_children(element, _INTERCEPTORS, path)


# <plugins>: broker plug-ins, users and rights


def _foreign_plugin(draft: Draft, element: Element, _path: Path) -> None:
    name = element.attributes.get("class", "")
    draft.findings.report(
        element, f"{name} is a Java class", "write the plug-in in Python (docs/extending-broker.md)"
    )


def _plugin(type_: str, rules: dict[str, Rule] | None = None) -> Handler:
    no_effect = {
        "adminConnectionContext": "the broker acts in its own name",
        "discoverLoginConfig": "login.config next to the file is read",
    }
    return item(
        "plugins", Spec(plugin_settings(type_), type_, no_effect=no_effect, children=rules or {})
    )


def _user(draft: Draft, element: Element, path: Path) -> None:
    missing = [name for name in ("username", "password") if not element.attributes.get(name)]
    if missing:
        who = element.attributes.get("username", "")
        draft.findings.report(
            element, f"the user {who!r} is left out: it has no {missing[0]}", "add the user"
        )
        return
    item("users", Spec(UserSettings))(draft, element, path)


def _user_of_map(draft: Draft, entry: Element, path: Path) -> None:
    """Convert an entry of a map from user names to passwords."""
    name, password = entry.take("key"), entry.take("value")
    user = Element(
        "authenticationUser", "", {"username": name or "", "password": password or ""}, entry.origin
    )
    _user(draft, user, path)


def _groups_of_map(draft: Draft, entry: Element, path: Path) -> None:
    """Add an entry of a map from user names to sets of GroupPrincipal to the user."""
    name = entry.take("key")
    groups = []
    for value in entry.children:
        value.is_read = True
        for group in value.children:
            group.is_read = True
            groups.append(group.take("name") or group.take("constructor-arg") or group.text)
    for index, user in enumerate(draft.get((*path, "users")) or ()):
        if user["username"] == name and groups:
            draft.put((*path, "users", index, "groups"), ",".join(groups), entry)
            return
    draft.findings.report(entry, f"there is no user {name!r} with groups in <userPasswords>")


def _simple_authentication(draft: Draft, element: Element, path: Path) -> None:
    rules: dict[str, Rule] = {
        "users": children({"authenticationUser": _user}),
        "userPasswords": children({"entry": _user_of_map}),
        "userGroups": children({"entry": _groups_of_map}),
    }
    element.children.sort(key=lambda each: each.name == "userGroups")  # they need the users
    _plugin("simple_authentication", rules)(draft, element, path)
    plugin = draft.get((*path, "plugins"))[-1]
    if not plugin.get("users") and not plugin.get("anonymous_access_allowed"):
        draft.findings.report(element, "it has no users: nobody could connect", "add users")
        draft.remove_last((*path, "plugins"))


def _jaas(type_: str) -> Handler:
    """Convert a plug-in whose users are in `login.config` next to the XML file."""

    def convert(draft: Draft, element: Element, path: Path) -> None:
        _plugin(type_)(draft, element, path)
        file = draft.directory / "login.config"
        index = len(draft.get((*path, "plugins"))) - 1
        draft.put((*path, "plugins", index, "login_config"), str(file), element)
        if not file.is_file():
            draft.findings.report(
                element, f"{file} does not exist", "set its login_config", attribute="configuration"
            )

    return convert


_JAVA_GROUP: Final = Lost("groups are names, not Java objects")
_ACCESS: Final = Spec(AccessSettings, lost={"groupClass": _JAVA_GROUP})
_TEMPORARY_RIGHTS: Final = Lost("rights on temporary destinations are temp_destination_entry")
_RIGHTS: Final = children(
    {
        "authorizationEntry": item(
            "entries",
            Spec(
                AuthorizationEntrySettings,
                needs_destination=True,
                lost={
                    "groupClass": _JAVA_GROUP,
                    "tempQueue": _TEMPORARY_RIGHTS,
                    "tempTopic": _TEMPORARY_RIGHTS,
                },
            ),
        )
    }
)
_LDAP: Final = Lost("rights are not read from LDAP", "write them into entries of authorization")
_AUTHORIZATION_MAP: Final = inside(
    {
        "cachedLDAPAuthorizationMap": _LDAP,
        "lDAPAuthorizationMap": _LDAP,
        "simpleAuthorizationMap": _LDAP,
        "*": children(
            {
                "authorizationEntries": _RIGHTS,
                "entries": _RIGHTS,
                "defaultEntry": inside(section("default_entry", _ACCESS)),
                "tempDestinationAuthorizationEntry": inside(
                    section("temp_destination_entry", _ACCESS)
                ),
            }
        ),
    }
)
_TEMPORARY: Final = Lost("temporary destinations have the policy without a destination")
_REDELIVERY_POLICIES: Final = children(
    {
        "redeliveryPolicy": item(
            "redelivery_policy_map",
            Spec(
                RedeliveryPolicySettings,
                has_destination=True,
                values={"maximumRedeliveryDelay": {"-1": 0}},
                lost={
                    "preDispatchCheck": Lost("it is about clients", same_as="true"),
                    "tempQueue": _TEMPORARY,
                    "tempTopic": _TEMPORARY,
                },
            ),
        )
    }
)
_REDELIVERY_MAP: Final = inside(
    children(
        {
            "redeliveryPolicyEntries": _REDELIVERY_POLICIES,
            "entries": _REDELIVERY_POLICIES,
            "defaultEntry": _REDELIVERY_POLICIES,
        }
    )
)

PLUGINS: Final[dict[str, Rule]] = {
    "timeStampingBrokerPlugin": _plugin("time_stamping"),
    "forcePersistencyModeBrokerPlugin": _plugin("force_persistency_mode"),
    "destinationPathSeparatorPlugin": _plugin("destination_path_separator"),
    "loggingBrokerPlugin": _plugin("logging"),
    "traceBrokerPathPlugin": _plugin("trace_broker_path"),
    "discardingDLQBrokerPlugin": _plugin("discarding_dlq"),
    "statisticsBrokerPlugin": _plugin("statistics"),
    "simpleAuthenticationPlugin": _simple_authentication,
    "jaasAuthenticationPlugin": _jaas("jaas_authentication"),
    "jaasCertificateAuthenticationPlugin": _jaas("jaas_certificate_authentication"),
    "jaasDualAuthenticationPlugin": _jaas("jaas_dual_authentication"),
    "authorizationPlugin": _plugin("authorization", {"map": _AUTHORIZATION_MAP}),
    "redeliveryPlugin": _plugin("redelivery", {"redeliveryPolicyMap": _REDELIVERY_MAP}),
    "destinationsPlugin": _plugin("destinations"),
    "connectionDotFilePlugin": _plugin("connection_dot_file"),
    "destinationDotFilePlugin": _plugin("destination_dot_file"),
    "udpTraceBrokerPlugin": _plugin("udp_trace"),
    "multicastTraceBrokerPlugin": _plugin("multicast_trace"),
    "virtualSelectorCacheBrokerPlugin": _plugin("virtual_selector_cache"),
    "runtimeConfigurationPlugin": _plugin("runtime_configuration"),
    "partitionBrokerPlugin": Lost("clients do not learn of other brokers"),
    "camelRoutesBrokerPlugin": Lost("routes of Apache Camel run in Java"),
    "shiroPlugin": Lost("Apache Shiro runs in Java", "use simple_authentication"),
    "bean": _foreign_plugin,
}
"""Converts the elements of `<plugins>`."""
