"""Convert `<broker>`: its attributes and sections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import Final

from pyjms.errors import ConfigurationException, JMSException
from pyjms.transport.tls import TLS_SCHEMES
from pyjms.transport.uri import TransportURI
from pyjms_broker.conversion.draft import Draft, Handler, Lost, Path, Spec, destination_of
from pyjms_broker.conversion.persistence import convert_store
from pyjms_broker.conversion.plugins import convert_plugins
from pyjms_broker.conversion.policies import convert_interceptors, convert_policies
from pyjms_broker.conversion.spring import file_path
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.network import read_remotes
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.model import (
    BrokerSettings,
    ConnectorSettings,
    ConnectorTlsSettings,
    IOExceptionHandlerSettings,
    NetworkConnectorSettings,
    SystemUsageSettings,
)

__all__ = [
    "BROKER",
    "BROKER_LOST",
    "CONNECTOR",
    "DESTINATION_LISTS",
    "NETWORK_CONNECTOR",
    "SSL",
    "convert_broker",
]

# --- Conversion of the attributes of `<broker>`, its connectors and its limits.

_THREADS: Final = "it concerns Java's threads; this broker has one event loop"
_JMX: Final = "there is no JMX; the views are available by other means (docs/management.md)"
_PAIR: Final = Lost(
    "pairs of master and slave without a shared store were removed from ActiveMQ",
    "let both brokers share the store: its lock decides which one is the master",
    same_as="false",
)
_SPLIT: Final = Lost(
    "producers and consumers share one memory limit", "adjust system_usage.memory_limit"
)

BROKER: Final = Spec(
    BrokerSettings,
    values={
        "offlineDurableSubscriberTimeout": {"-1": 0},
        "offlineDurableSubscriberTaskSchedule": {"-1": 0},
    },
    keys={"dataDirectoryFile": "data_directory", "schedulerDirectoryFile": "scheduler_directory"},
    no_effect={
        "useJmx": _JMX,
        "managementContext": _JMX,
        "populateUserNameInMBeans": _JMX,
        "mbeanInvocationTimeout": _JMX,
        "brokerObjectName": _JMX,
        "useShutdownHook": "SIGTERM and SIGINT always stop the broker",
        "useLoggingForShutdownErrors": "such errors are always logged",
        "dedicatedTaskRunner": _THREADS,
        "taskRunnerPriority": _THREADS,
        "persistenceThreadPriority": _THREADS,
        "startAsync": "the start never blocks a thread",
        "start": "the broker starts when `pyjms broker start` is called",
        "networkConnectorStartAsync": "network connectors always start in the background",
        "enableStatistics": "statistics are always counted",
        "cacheTempDestinations": "temporary destinations are cheap to create",
        "timeBeforePurgeTempDestinations": "they are removed with their connection, at once",
        "brokerId": "the id is made at each start",
        "vmConnectorURI": "clients of the process use vm:// with the broker's name",
        "schedulePeriodForDiskUsageCheck": "a full disk is noticed when something is written",
        "diskUsageCheckRegrowThreshold": "a full disk is noticed when something is written",
        "waitForSlaveTimeout": "it only matters with waitForSlave",
        "consumerSystemUsagePortion": "it only matters with splitSystemUsageForProducersConsumers",
        "producerSystemUsagePortion": "it only matters with splitSystemUsageForProducersConsumers",
    },
    lost={
        "keepDurableSubsActive": Lost(
            "durable subscriptions are always kept in memory", same_as="true"
        ),
        "monitorConnectionSplits": Lost(
            "a duplicate connection id is always refused", same_as="false"
        ),
        "passiveSlave": _PAIR,
        "waitForSlave": _PAIR,
        "shutdownOnMasterFailure": _PAIR,
        "shutdownOnSlaveFailure": _PAIR,
        "rejectDurableConsumers": Lost(
            "durable subscriptions cannot be refused for the whole broker",
            "refuse `admin` on topics with the plug-in authorization",
            same_as="false",
        ),
        "splitSystemUsageForProducersConsumers": Lost(*_SPLIT[:2], same_as="false"),
        "storeOpenWireVersion": Lost(
            "it is a setting of the store here", "set persistence.store_open_wire_version"
        ),
        "systemExitOnShutdown": Lost("the process always ends with the broker", same_as="false"),
        "systemExitOnShutdownExitCode": Lost(
            "exit codes are fixed: 0 stopped, 1 failed, 2 wrong configuration"
        ),
        "tmpDataDirectory": Lost(
            "messages that do not fit in memory go to tmp_storage in the broker's data directory",
            "mount another disk there",
        ),
        "useLocalHostBrokerName": Lost(
            "the name is not taken from the host", "set broker_name", same_as="false"
        ),
        "transportConnectorURIs": Lost("it is a list in one text", "use <transportConnector>"),
        "networkConnectorURIs": Lost("it is a list in one text", "use <networkConnector>"),
    },
)

BROKER_LOST: Final[dict[str, Lost]] = {
    "proxyConnectors": Lost(
        "there are no proxy connectors", "use a TCP proxy in front of the broker"
    ),
    "jmsBridgeConnectors": Lost(
        "there are no bridges to other JMS providers", "write a listener that sends on"
    ),
    "services": Lost("Java services cannot run here", "run them in a separate program"),
    "messageAuthorizationPolicy": Lost(
        "it is a Java object", "write a broker plug-in (docs/extending.md)"
    ),
    "destinationFactory": Lost("it is a Java object"),
    "regionBroker": Lost("it is a Java object"),
    "tempDataStore": Lost(
        "the store of messages that do not fit in memory has no settings",
        "set system_usage.temp_limit",
    ),
    "jobSchedulerStore": Lost(
        "the store of scheduled messages has its directory as its only setting",
        "set scheduler_directory",
    ),
    "producerSystemUsage": _SPLIT,
    "consumerSystemUsage": _SPLIT,
    "taskRunnerFactory": Lost(_THREADS),
    "persistenceTaskRunnerFactory": Lost(_THREADS),
    "brokerContext": Lost("it is a Java object"),
    "adminView": Lost(_JMX),
}

CONNECTOR: Final = Spec(
    ConnectorSettings,
    handled=frozenset({"uri"}),
    no_effect={
        "enableStatusMonitor": _THREADS,
        "disableAsyncDispatch": "dispatch to a consumer never waits for another consumer",
        "warnOnRemoteClose": "a closed connection is always logged",
        "displayStackTrace": "errors are logged in one line",
    },
    lost={
        "maximumProducersAllowedPerConnection": Lost(
            "producers are not counted for each connection"
        ),
        "maximumConsumersAllowedPerConnection": Lost(
            "consumers are not counted for each connection"
        ),
    },
)

SSL: Final = Spec(
    ConnectorTlsSettings,
    handled=frozenset({"keyStore", "trustStore"}),
    no_effect={
        "keyStoreType": "the content of the file decides: PEM or PKCS12",
        "trustStoreType": "the content of the file decides: PEM or PKCS12",
        "secureRandomAlgorithm": "OpenSSL has its own source of random numbers",
        "keyStoreAlgorithm": "OpenSSL reads the key store",
        "trustStoreAlgorithm": "OpenSSL reads the trust store",
        "provider": "OpenSSL encrypts",
    },
    lost={
        "protocol": Lost("the version is negotiated, from TLSv1.2", same_as="TLS"),
        "crlPath": Lost("revocation lists are not checked"),
    },
)

SYSTEM_USAGE: Final = Spec(
    SystemUsageSettings,
    no_effect={"name": "the name has no effect"},
    lost={"checkLimitsLogLevel": Lost("the level of log lines about limits is fixed")},
)

_PERCENT: Final = "a percentage of something other than the memory or disk"
_USAGE_LOST: Final = {
    "total": Lost(_PERCENT, "write the limit in bytes: limit"),
    "portion": Lost("the limit is not shared with a parent", "write the limit in bytes: limit"),
    "usagePortion": Lost("the limit is not shared with a parent", same_as="1.0"),
}
_USAGE_NO_EFFECT: Final = {
    "name": "the name has no effect",
    "pollingTime": "waiting senders are woken, nothing is polled",
    "percentUsageMinDelta": "this broker has no usage listeners",
}


def _usage(key: str, *percent_attributes: str) -> Spec:
    return Spec(
        SystemUsageSettings,
        keys={"limit": key},
        handled=frozenset(percent_attributes),
        no_effect=_USAGE_NO_EFFECT,
        lost=_USAGE_LOST,
    )


USAGES: Final = {
    "memoryUsage": ("memory_limit", _usage("memory_limit", "percentOfJvmHeap")),
    "storeUsage": ("store_limit", _usage("store_limit", "percentLimit")),
    "tempUsage": ("temp_limit", _usage("temp_limit", "percentLimit")),
    "jobSchedulerUsage": ("job_scheduler_limit", _usage("job_scheduler_limit", "percentLimit")),
}
"""Elements of `<systemUsage>`: the key of the limit, and the rules for their attributes."""

IO_EXCEPTION_HANDLER: Final = Spec(
    IOExceptionHandlerSettings,
    no_effect={
        "noSpaceMessage": "a full disk is recognized by its error number, not by a text",
        "sqlExceptionMessage": "database errors are recognized by their type, not by a text",
    },
    lost={
        "ignoreNoSpaceErrors": Lost(
            "it is a setting of the journal here", "set persistence.journal.ignore_no_space_errors"
        ),
        "ignoreSQLExceptions": Lost(
            "it is a setting of the store here", "set persistence.ignore_sql_exceptions"
        ),
        "resumeCheckSleepPeriod": Lost(
            "it is a setting of the store here", "set persistence.journal.resume_check_sleep_period"
        ),
    },
)


# --- Convert `<transportConnectors>` and `<sslContext>`.

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""First bytes of Java's own key-store formats, JKS and JCEKS."""
_KEYTOOL: Final = (
    "keytool -importkeystore -srckeystore {0} -destkeystore {0}.p12 -deststoretype PKCS12"
)
_EXPOSED: Final = (
    "other machines could connect without users, and this broker refuses to start like that"
)
_WAYS_OUT: Final = (
    "bind it to 127.0.0.1, configure users (docs/security.md), or set allow_anonymous_remote: true"
)
_BY_HAND: Final = "add it to broker.yaml with a key store in PEM or PKCS12 (docs/tls.md)"
_CHILDREN_LOST: Final = {
    "publishedAddressPolicy": Lost(
        "clients and other brokers learn the connector's own address",
        "name the host in its uri: tcp://broker.example.com:61616",
    ),
    "discoveryAgent": Lost("it is a Java object", "write discoveryUri=multicast://default"),
    "messageAuthorizationPolicy": Lost("it is a Java object"),
    "brokerInfo": Lost("it is a Java object"),
    "server": Lost("it is a Java object"),
    "taskRunnerFactory": Lost("it concerns Java's threads"),
}


def convert_connectors(has_ssl: bool, draft: Draft, element: Element, path: Path) -> None:
    """Convert `<transportConnectors>`; omit and report connectors that cannot be converted.

    `has_ssl` says whether the broker has an `<sslContext>`.
    """
    is_open = not _has_users(draft, path)
    for each in element.read_children():
        if each.name != "transportConnector":
            draft.findings.unsupported(each, "only <transportConnector> is allowed here")
            continue
        uri = _supported_uri(draft, each, has_ssl)
        if uri is None:
            continue
        here = draft.append((*path, "connectors"), {"uri": uri}, each)
        draft.convert_attributes(each, CONNECTOR, here)
        draft.convert_children(each, _CHILDREN_LOST, here)
        if is_open and not _is_local(uri):
            draft.findings.unsupported(each, _EXPOSED, _WAYS_OUT, attribute="uri")


def _has_users(draft: Draft, path: Path) -> bool:
    plugins = draft.get((*path, "plugins")) or ()
    return any(each["type"].endswith("_authentication") for each in plugins)


def _is_local(uri: str) -> bool:
    host = TransportURI.parse(uri).host
    return host in ("", "localhost", "::1") or host.startswith("127.")


def _supported_uri(draft: Draft, element: Element, has_ssl: bool) -> str | None:
    """Return the URI without unsupported options; None if the connector itself is unsupported."""
    text = element.attributes.get("uri", "")
    element.read_attributes.add("uri")
    try:
        uri = TransportURI.parse(text)
        bare = replace(uri, options={})
        _check(bare, has_ssl or "ssl.keyStore" in uri.options)
    except ConfigurationException as error:
        draft.findings.unsupported(element, error.reason, error.hint, attribute="uri")
        element.is_named = True  # its attributes and children need no findings
        return None
    kept = {}
    for name, value in uri.options.items():
        try:
            _check(replace(bare, options={name: value}), True)
        except ConfigurationException as error:
            draft.findings.unsupported(
                element, f"option {name}: {error.reason}", error.hint, attribute="uri"
            )
        else:
            kept[name] = value
    if kept == dict(uri.options):
        return text
    return replace(uri, options=kept).with_secrets()


def _check(uri: TransportURI, has_certificate: bool) -> None:
    """Check the options by creating the connector; the certificate may be configured elsewhere.

    Raises:
        ConfigurationException: the connector is unknown, or refuses an option.
    """
    try:
        BrokerService(persistent=False).add_connector(uri)
    except ConfigurationException as error:
        if not has_certificate or "needs a certificate" not in error.reason:
            raise


def convert_ssl(conf: FilePath, draft: Draft, element: Element, path: Path) -> None:
    """Convert `<sslContext>` into `tls` of each encrypted connector."""
    context = draft.only_child(element)
    if context is None:
        return
    encrypted = list(_encrypted(draft, path))
    if not encrypted:
        draft.findings.note(context, "no connector is encrypted")
        return
    files = {}
    is_usable = "keyStore" in context.attributes
    for attribute, key in (("keyStore", "key_store"), ("trustStore", "trust_store")):
        if attribute in context.attributes:
            context.read_attributes.add(attribute)
            files[key] = file_path(context.attributes[attribute], conf)
            is_usable &= _check_store(draft, context, attribute, files[key])
    if not is_usable:
        for connector in reversed(encrypted):
            uri = draft.get((*connector, "uri"))
            draft.findings.unsupported(context, f"so the connector {uri} is left out", _BY_HAND)
            draft.drop(connector)
        return
    for connector in encrypted:
        here = (*connector, "tls")
        draft.put(here, {}, context)
        for key, file in files.items():
            draft.put((*here, key), str(file), context)
        draft.convert_attributes(context, SSL, here)
    java_objects = {name: Lost("it is a Java object") for name in ("keyManagers", "trustManagers")}
    draft.convert_children(context, java_objects, path)


def _encrypted(draft: Draft, path: Path) -> Iterator[Path]:
    for index, connector in enumerate(draft.get((*path, "connectors")) or ()):
        if connector["uri"].partition(":")[0].lower() in TLS_SCHEMES:
            yield (*path, "connectors", index)


def _check_store(draft: Draft, element: Element, attribute: str, file: FilePath) -> bool:
    """Return whether the broker can read a key store; report it if not."""
    try:
        with file.open("rb") as opened:
            start = opened.read(4)
    except OSError as error:
        draft.findings.unsupported(
            element,
            f"{file} cannot be read: {error.strerror or error}",
            "it must be PEM or PKCS12",
            attribute=attribute,
        )
        return False
    if start in _JKS:
        draft.findings.unsupported(
            element,
            f"{file} has Java's own format, which only Java reads",
            f"convert it, and change the name in broker.yaml: {_KEYTOOL.format(file)}",
            attribute=attribute,
        )
        return False
    return True


# --- Conversion of the attributes of `<networkConnector>`. (activemq-edges 9)

_NOT_BUILT: Final = "bridges of this broker have no such option (docs/networks.md)"
_STAYS: Final = "a bridge keeps what it has learned while it lives"

NETWORK_CONNECTOR: Final = Spec(
    NetworkConnectorSettings,
    keys={"networkTTL": "network_ttl", "messageTTL": "message_ttl", "consumerTTL": "consumer_ttl"},
    handled=frozenset({"uri"}),
    no_effect={
        "dispatchAsync": "dispatch to a consumer never waits for another consumer",
        "brokerName": "the broker's own is used",
        "brokerURL": "the broker's own is used",
        "localUri": "the broker is reached within the process",
        "gcDestinationViews": _STAYS,
        "gcSweepTime": _STAYS,
    },
    lost={"useBrokerNameAsIdSees": Lost(_NOT_BUILT, same_as="true")},
)
NETWORK_LOST: Final[dict[str, Lost]] = {
    "durableDestinations": Lost("the stored durable subscriptions determine it"),
    "sslContext": Lost(_NOT_BUILT, "name certificates by options of the ssl:// URI (docs/tls.md)"),
    "bridgeFactory": Lost("it is a Java object"),
    "connectionFilter": Lost("it is a Java object"),
    "discoveryAgent": Lost("it is a Java object", "write uri=multicast://default or static:(...)"),
}
DESTINATION_LISTS: Final = {
    "dynamicallyIncludedDestinations": "dynamically_included_destinations",
    "staticallyIncludedDestinations": "statically_included_destinations",
    "excludedDestinations": "excluded_destinations",
}


# --- Convert `<networkConnectors>`.


def convert_networks(draft: Draft, element: Element, path: Path) -> None:
    """Convert `<networkConnectors>`; omit and report those that cannot be converted."""
    for each in element.read_children():
        if each.name not in ("networkConnector", "multicastNetworkConnector"):
            draft.findings.unsupported(each, "only <networkConnector> is allowed here")
            continue
        text = each.attributes.get("uri", "")
        each.read_attributes.add("uri")
        try:
            read_remotes(text)
        except JMSException as error:
            draft.findings.unsupported(each, error.reason, error.hint, attribute="uri")
            each.is_named = True  # its attributes and children need no findings
            continue
        here = draft.append((*path, "network_connectors"), {"uri": text}, each)
        draft.convert_attributes(each, NETWORK_CONNECTOR, here)
        handlers: dict[str, Handler | Lost] = {
            **NETWORK_LOST,
            **{name: partial(_destinations, key) for name, key in DESTINATION_LISTS.items()},
        }
        draft.convert_children(each, handlers, here)


def _destinations(key: str, draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        name = destination_of(each)
        if each.name not in ("queue", "topic") or name is None:
            draft.findings.unsupported(each, "it names no queue or topic")
        else:
            draft.append((*path, key), name, each)


_ORDER: Final = {"plugins": -1, "sslContext": 1}
"""Elements converted first because others depend on them, or last because they change others."""
_SPRING_HOOK: Final = "SpringContextHook"


def convert_broker(draft: Draft, element: Element, conf: FilePath) -> None:
    """Convert `<broker>`; `conf` is the directory of its file."""
    draft.convert_attributes(element, BROKER, ())
    handlers: dict[str, Handler | Lost] = {
        **_CHILDREN,
        "plugins": partial(convert_plugins, conf),
        "transportConnectors": partial(convert_connectors, element.child("sslContext") is not None),
        "sslContext": partial(convert_ssl, conf),
    }
    element.children.sort(key=lambda each: _ORDER.get(each.name, 0))
    draft.convert_children(element, handlers, ())
    draft.name_unread(element)


def _system_usage(draft: Draft, element: Element, path: Path) -> None:
    usage = draft.only_child(element)
    if usage is not None:
        here = (*path, "system_usage")
        draft.put(here, {}, usage)
        draft.convert_attributes(usage, SYSTEM_USAGE, here)
        draft.convert_children(usage, _USAGES, here)


def _broker_usage(key: str, spec: Spec, draft: Draft, element: Element, path: Path) -> None:
    usage = draft.only_child(element)
    if usage is None:
        return
    draft.convert_attributes(usage, spec, path)
    for attribute in spec.handled & usage.attributes.keys():
        text = usage.attributes[attribute]
        usage.read_attributes.add(attribute)
        draft.put((*path, key), f"{text}%", usage)
        if attribute == "percentOfJvmHeap":
            draft.findings.note(
                usage,
                f"{text} percent of the memory that the process may use, which is more than "
                "Java's heap",
                "write the size in bytes if both run on one machine",
                attribute=attribute,
            )


def _broker_destinations(draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        name = destination_of(each)
        if each.name not in ("queue", "topic") or name is None:
            draft.findings.unsupported(each, "it names no queue or topic")
            continue
        draft.append((*path, "destinations"), name, each)
        for attribute in each.attributes.keys() - {"physicalName"}:
            draft.findings.unsupported(each, "only the name is read", attribute=attribute)


def _io_exception_handler(draft: Draft, element: Element, path: Path) -> None:
    handler = draft.only_child(element)
    if handler is None:
        return
    if handler.name not in ("defaultIOExceptionHandler", "leaseLockerIOExceptionHandler"):
        draft.findings.unsupported(handler, "it is a Java object")
        return
    here = (*path, "io_exception_handler")
    draft.put(here, {}, handler)
    draft.convert_attributes(handler, IO_EXCEPTION_HANDLER, here)


def _hooks(draft: Draft, element: Element, _path: Path) -> None:
    for each in element.read_children():
        name = each.attributes.get("class", each.name)
        if _SPRING_HOOK.lower() in name.lower():
            draft.findings.note(each, "it stops ActiveMQ's web server with the broker")
        else:
            draft.findings.unsupported(
                each, f"{name} is a Java class", "see docs/plugins.md: functions at start and stop"
            )


def _management_context(draft: Draft, element: Element, _path: Path) -> None:
    context = draft.only_child(element)
    if context is None:
        return
    for name, text in context.attributes.items():
        if name == "createConnector" and text.lower() == "true":
            draft.findings.unsupported(
                context, "there is no JMX connector", "see docs/management.md", attribute=name
            )
        else:
            draft.findings.note(context, "there is no JMX", attribute=name)
    for each in context.read_children():
        draft.findings.note(each, "there is no JMX")


_USAGES: Final[dict[str, Handler | Lost]] = {
    name: partial(_broker_usage, key, spec) for name, (key, spec) in USAGES.items()
}
_CHILDREN: Final[dict[str, Handler | Lost]] = {
    **BROKER_LOST,
    "networkConnectors": convert_networks,
    "persistenceAdapter": convert_store,
    "persistenceFactory": convert_store,
    "destinationPolicy": convert_policies,
    "destinationInterceptors": convert_interceptors,
    "systemUsage": _system_usage,
    "destinations": _broker_destinations,
    "ioExceptionHandler": _io_exception_handler,
    "shutdownHooks": _hooks,
    "preShutdownHooks": _hooks,
    "managementContext": _management_context,
}
