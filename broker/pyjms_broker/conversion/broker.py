"""Convert a file: `<broker>` with its attributes, its limits and its connectors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Final

from pyjms.configuration.document import Document
from pyjms.configuration.yaml_writer import write_yaml
from pyjms.errors import ConfigurationException, JMSException
from pyjms.runtime.logging import get_logger
from pyjms.transport.tls import TLS_SCHEMES
from pyjms.transport.uri import TransportURI
from pyjms_broker.conversion.draft import (
    Draft,
    Handler,
    Lost,
    Path,
    Spec,
    children,
    destinations,
    inside,
    section,
)
from pyjms_broker.conversion.elements import (
    JAVA_OBJECT,
    PLUGINS,
    POLICIES,
    STORE,
    convert_interceptors,
)
from pyjms_broker.conversion.spring import SpringFiles
from pyjms_broker.conversion.values import Placeholders, file_path, find_file
from pyjms_broker.conversion.xml_reader import Element, Finding, Findings
from pyjms_broker.network import read_remotes
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import model
from pyjms_broker.settings.loading import build_settings


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion."""

    document: Document
    """The values of broker.yaml, with their lines in the XML."""
    findings: tuple[Finding, ...]
    """Unsupported elements and notes, by file and line."""

    @property
    def unsupported(self) -> tuple[Finding, ...]:
        """The findings about settings that are lost."""
        return tuple(each for each in self.findings if each.is_unsupported)

    def settings(self) -> model.BrokerSettings:
        """Return the broker's settings.

        Raises:
            ConfigurationException: the values contradict each other; the error has file and line.
        """
        return build_settings(self.document)

    def yaml(self) -> str:
        """Return broker.yaml, starting with the findings as comments."""
        source = self.document.origins[()].source
        head = [f"# Converted from {source} by pyjms broker config convert.", "#"]
        for title, findings in (
            ("Not converted", self.unsupported),
            ("Notes", tuple(each for each in self.findings if not each.is_unsupported)),
        ):
            if findings:
                head.append(f"# {title}:")
                head += (f"#   {' '.join(str(each).split())}" for each in findings)
        head.append("")
        values = _escape(self.document.values)
        body = write_yaml(values)
        return "\n".join(head) + "\n" + body


def convert_activemq_xml(
    path: FilePath,
    properties: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    new_base: FilePath | None = None,
) -> Conversion:
    """Convert ActiveMQ's configuration, a Spring XML file; blocking.

    Args:
        path: the file; its imports and properties files are also read.
        properties: values of placeholders such as `${activemq.data}`; they override all others.
        environ: the environment; `os.environ` by default.
        new_base: the directory of a new broker: `activemq.base`, except for files in it that only
            ActiveMQ's directory has.

    Raises:
        ConfigurationException: the file cannot be read, is not XML, declares entities, or does not
            have exactly one broker.
    """
    findings = Findings()
    conf = path.absolute().parent
    placeholders = Placeholders(
        {} if properties is None else properties,
        os.environ if environ is None else environ,
        conf,
        new_base,
    )
    draft = Draft(findings, SpringFiles(findings, placeholders).load(path), conf)
    # whether a connector may be open to other machines depends on the plug-ins
    draft.broker.children.sort(key=lambda each: each.name != "plugins")
    _move_listed_uris(draft.broker)
    draft.convert(draft.broker, BROKER, ())
    draft.report_unread(draft.broker)
    if not draft.get(("connectors",)):
        draft.put(("connectors",), [], draft.broker)
        draft.findings.note(draft.broker, _NO_CONNECTOR, "add one to connectors in broker.yaml")
    return Conversion(draft.document, findings.all)


_NO_CONNECTOR: Final = "the broker has no connector: only clients in its process can reach it"
_LISTED_URIS: Final = {
    "transportConnectorURIs": ("transportConnectors", "transportConnector"),
    "networkConnectorURIs": ("networkConnectors", "networkConnector"),
}


def _move_listed_uris(broker: Element) -> None:
    """Turn lists of URIs into connectors."""
    for name, (container, item) in _LISTED_URIS.items():
        listed = broker.child(name)
        uris = re.split(r",(?![^(]*\))", broker.attributes.pop(name, ""))
        if listed is not None:
            broker.children.remove(listed)
            uris += (each.text for each in listed.children)
        made = [
            Element(item, "", {"uri": uri.strip()}, broker.origin) for uri in uris if uri.strip()
        ]
        if made:
            broker.children.append(Element(container, "", {}, broker.origin, made))


def _escape(value: Any) -> Any:
    r"""Write `\${` for a literal `${`, which broker.yaml would replace."""
    if isinstance(value, dict):
        return {key: _escape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escape(item) for item in value]
    return value.replace("${", "\\${") if isinstance(value, str) else value


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


def _usage(key: str, percent: str = "percentLimit") -> Handler:
    spec = Spec(
        model.SystemUsageSettings, keys={"limit": key}, no_effect=_USAGE_NO_EFFECT, lost=_USAGE_LOST
    )

    def convert(draft: Draft, element: Element, path: Path) -> None:
        text = element.take(percent)
        draft.convert(element, spec, path)
        if text is None:
            return
        draft.put((*path, key), f"{text}%", element)
        if percent == "percentOfJvmHeap":
            draft.findings.note(
                element,
                f"{text} percent of the memory that the process may use, which is more than "
                "Java's heap",
                "write the size in bytes if both run on one machine",
                attribute=percent,
            )

    return inside(convert)


SYSTEM_USAGE: Final = Spec(
    model.SystemUsageSettings,
    no_effect={"name": "the name has no effect"},
    lost={"checkLimitsLogLevel": Lost("the level of log lines about limits is fixed")},
    children={
        "memoryUsage": _usage("memory_limit", "percentOfJvmHeap"),
        "storeUsage": _usage("store_limit"),
        "tempUsage": _usage("temp_limit"),
        "jobSchedulerUsage": _usage("job_scheduler_limit"),
    },
)

IO_EXCEPTION_HANDLER: Final = Spec(
    model.IOExceptionHandlerSettings,
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
CONNECTOR: Final = Spec(
    model.ConnectorSettings,
    no_effect={
        "disableAsyncDispatch": "dispatch to a consumer never waits for another consumer",
        "warnOnRemoteClose": "a closed connection is always logged",
        "displayStackTrace": "errors are logged in one line",
    },
    values={
        "maximumProducersAllowedPerConnection": {"0": None},
        "maximumConsumersAllowedPerConnection": {"0": None},
    },
    children={
        "publishedAddressPolicy": Lost(
            "clients and other brokers learn the connector's own address",
            "name the host in its uri: tcp://broker.example.com:61616",
        ),
        "discoveryAgent": Lost("it is a Java object", "write discoveryUri=multicast://default"),
        **dict.fromkeys(("messageAuthorizationPolicy", "brokerInfo", "server"), JAVA_OBJECT),
        "taskRunnerFactory": Lost("it concerns Java's threads"),
    },
)
SSL: Final = Spec(
    model.ConnectorTlsSettings,
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
    children=dict.fromkeys(("keyManagers", "trustManagers"), JAVA_OBJECT),
)


def _connectors(draft: Draft, element: Element, path: Path) -> None:
    """Convert `<transportConnectors>`; omit and report connectors that cannot be converted."""
    plugins = draft.get((*path, "plugins")) or ()
    is_open = not any(each["type"].endswith("_authentication") for each in plugins)
    ssl = draft.broker.child("sslContext")
    context = ssl.children[0] if ssl is not None and ssl.children else None
    tls = None if context is None else _tls(draft, context)

    def convert(draft: Draft, element: Element, path: Path) -> None:
        uri = _supported_uri(draft, element, has_ssl=context is not None)
        if uri is None:
            return
        values: dict[str, object] = {"uri": uri}
        if context is not None and _is_encrypted(uri):
            if tls is None:
                draft.findings.report(context, f"so the connector {uri} is left out", _BY_HAND)
                element.is_named = True
                return
            values["tls"] = dict(tls)
        here = draft.append((*path, "connectors"), values, element)
        if context is not None and "tls" in values:
            draft.put((*here, "tls"), values["tls"], context)
        draft.convert(element, CONNECTOR, here)
        if is_open and not _is_local(uri):
            draft.findings.report(element, _EXPOSED, _WAYS_OUT, attribute="uri")

    draft.convert_children(element, {"transportConnector": convert}, path)


def _is_encrypted(uri: str) -> bool:
    return uri.partition(":")[0].lower() in TLS_SCHEMES


def _is_local(uri: str) -> bool:
    host = TransportURI.parse(uri).host
    return host in ("", "localhost", "::1") or host.startswith("127.")


_TRANSFORMER: Final = "jms"
"""What users expect of an AMQP connector, instead of ActiveMQ's default."""


def _supported_uri(draft: Draft, element: Element, *, has_ssl: bool) -> str | None:
    """Return the URI without unsupported options; None if the connector itself is unsupported."""
    text = element.take("uri") or ""
    try:
        uri = TransportURI.parse(text)
        bare = replace(uri, options={})
        _check(bare, has_ssl or "ssl.keyStore" in uri.options)
    except ConfigurationException as error:
        draft.findings.report(element, error.reason, error.hint, attribute="uri")
        element.is_named = True  # its attributes and children need no findings
        return None
    kept = {}
    for name, value in uri.options.items():
        try:
            _check(replace(bare, options={name: value}), True)
        except ConfigurationException as error:
            draft.findings.report(
                element, f"option {name}: {error.reason}", error.hint, attribute="uri"
            )
        else:
            kept[name] = value
    if uri.scheme.startswith("amqp") and not any(name.endswith("transformer") for name in kept):
        kept["transport.transformer"] = _TRANSFORMER
    if kept == dict(uri.options):
        return text
    return replace(uri, options=kept).with_secrets()


def _check(uri: TransportURI, has_certificate: bool) -> None:
    """Check the options by creating the connector; the certificate may be configured elsewhere."""
    try:
        BrokerService(persistent=False).add_connector(uri)
    except ConfigurationException as error:
        if not has_certificate or "needs a certificate" not in error.reason:
            raise


def _ssl_context(draft: Draft, element: Element, _path: Path) -> None:
    """Report an `<sslContext>` that no connector uses; `_connectors` converts it otherwise."""
    if not _has_encrypted(draft):
        draft.findings.note(element, "no connector is encrypted")


def _has_encrypted(draft: Draft) -> bool:
    connectors = draft.broker.child("transportConnectors")
    return connectors is not None and any(
        _is_encrypted(each.attributes.get("uri", "")) for each in connectors.children
    )


def _tls(draft: Draft, context: Element) -> dict[str, object] | None:
    """Return the section `tls` of encrypted connectors; None: they cannot be converted."""
    if not _has_encrypted(draft):
        return None
    values: dict[str, object] = {}
    is_usable = "keyStore" in context.attributes
    for attribute, key in (("keyStore", "key_store"), ("trustStore", "trust_store")):
        text = context.take(attribute)
        if text is not None:
            file = find_file(text, draft.directory)
            values[key] = str(file)
            is_usable &= _check_store(draft, context, attribute, file)
    if not is_usable:
        return None
    alone = Draft(draft.findings, draft.broker, draft.directory)
    alone.convert(context, SSL, ("tls",))
    return {**values, **(alone.get(("tls",)) or {})}


def _check_store(draft: Draft, element: Element, attribute: str, file: FilePath) -> bool:
    """Return whether the broker can read a key store; report it if not."""
    try:
        with file.open("rb") as opened:
            start = opened.read(4)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        draft.findings.report(
            element,
            f"{file} cannot be read: {reason}",
            "it must be PEM or PKCS12",
            attribute=attribute,
        )
        return False
    if start in _JKS:
        draft.findings.report(
            element,
            f"{file} has Java's own format, which only Java reads",
            f"convert it, and change the name in broker.yaml: {_KEYTOOL.format(file)}",
            attribute=attribute,
        )
        return False
    return True


_NOT_BUILT: Final = "bridges of this broker have no such option (docs/networks.md)"
_STAYS: Final = "a bridge keeps what it has learned while it lives"

DESTINATION_LISTS: Final = {
    "dynamicallyIncludedDestinations": "dynamically_included_destinations",
    "staticallyIncludedDestinations": "statically_included_destinations",
    "excludedDestinations": "excluded_destinations",
}
NETWORK_CONNECTOR: Final = Spec(
    model.NetworkConnectorSettings,
    keys={"networkTTL": "network_ttl", "messageTTL": "message_ttl", "consumerTTL": "consumer_ttl"},
    no_effect={
        "dispatchAsync": "dispatch to a consumer never waits for another consumer",
        "brokerName": "the broker's own is used",
        "brokerURL": "the broker's own is used",
        "localUri": "the broker is reached within the process",
        "gcDestinationViews": _STAYS,
        "gcSweepTime": _STAYS,
    },
    lost={"useBrokerNameAsIdSees": Lost(_NOT_BUILT, same_as="true")},
    children={
        "durableDestinations": Lost("the stored durable subscriptions determine it"),
        "sslContext": Lost(
            _NOT_BUILT, "name certificates by options of the ssl:// URI (docs/tls.md)"
        ),
        "bridgeFactory": JAVA_OBJECT,
        "connectionFilter": JAVA_OBJECT,
        "discoveryAgent": Lost(
            "it is a Java object", "write uri=multicast://default or static:(...)"
        ),
        **{name: destinations(key) for name, key in DESTINATION_LISTS.items()},
    },
)


def _network(draft: Draft, element: Element, path: Path) -> None:
    text = element.take("uri") or ""
    try:
        read_remotes(text)
    except JMSException as error:
        draft.findings.report(element, error.reason, error.hint, attribute="uri")
        element.is_named = True  # its attributes and children need no findings
        return
    here = draft.append((*path, "network_connectors"), {"uri": text}, element)
    draft.convert(element, NETWORK_CONNECTOR, here)


def _hook(draft: Draft, element: Element, _path: Path) -> None:
    name = element.attributes.get("class", element.name)
    if "springcontexthook" in name.lower():
        draft.findings.note(element, "it stops ActiveMQ's web server with the broker")
    else:
        draft.findings.report(
            element, f"{name} is a Java class", "see docs/plugins.md: functions at start and stop"
        )


def _management_context(draft: Draft, element: Element, _path: Path) -> None:
    for name, text in element.attributes.items():
        if name == "createConnector" and text.lower() == "true":
            draft.findings.report(
                element, "there is no JMX connector", "see docs/management.md", attribute=name
            )
        else:
            draft.findings.note(element, "there is no JMX", attribute=name)
    for each in element.children:
        each.is_read = True
        draft.findings.note(each, "there is no JMX")


BROKER: Final = Spec(
    model.BrokerSettings,
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
    },
    lost={
        "passiveSlave": _PAIR,
        "waitForSlave": _PAIR,
        "shutdownOnMasterFailure": _PAIR,
        "shutdownOnSlaveFailure": _PAIR,
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
    },
    children={
        "proxyConnectors": Lost(
            "there are no proxy connectors", "use a TCP proxy in front of the broker"
        ),
        "jmsBridgeConnectors": Lost(
            "there are no bridges to other JMS providers", "write a listener that sends on"
        ),
        "services": Lost("Java services cannot run here", "run them in a separate program"),
        "messageAuthorizationPolicy": Lost(
            "it is a Java object", "write a broker plug-in (docs/extending-broker.md)"
        ),
        "destinationFactory": JAVA_OBJECT,
        "regionBroker": JAVA_OBJECT,
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
        "brokerContext": JAVA_OBJECT,
        "adminView": Lost(_JMX),
        "networkConnectors": children(
            {"networkConnector": _network, "multicastNetworkConnector": _network}
        ),
        "persistenceAdapter": STORE,
        "persistenceFactory": STORE,
        "destinationPolicy": POLICIES,
        "destinationInterceptors": convert_interceptors,
        "systemUsage": inside(section("system_usage", SYSTEM_USAGE)),
        "destinations": destinations("destinations"),
        "ioExceptionHandler": inside(
            {
                **dict.fromkeys(
                    ("defaultIOExceptionHandler", "leaseLockerIOExceptionHandler"),
                    section("io_exception_handler", IO_EXCEPTION_HANDLER),
                ),
                "*": JAVA_OBJECT,
            }
        ),
        "shutdownHooks": children(_hook),
        "preShutdownHooks": children(_hook),
        "managementContext": inside(_management_context),
        "plugins": children(PLUGINS),
        "transportConnectors": _connectors,
        "sslContext": inside(_ssl_context),
    },
)


logger = get_logger(__name__)


def from_xml(
    uri: str, given: Mapping[str, str], *, ignore_unsupported: bool = False
) -> BrokerService:
    """Create a broker from `xbean:FILE`; `given` are values of placeholders in it; blocking.

    Raises:
        ConfigurationException: the file cannot be read, or has elements without a counterpart that
            are not ignored.
    """
    resource = uri.partition(":")[2].partition("?")[0]
    path = file_path(resource, FilePath())
    conversion = convert_activemq_xml(path, given)
    unsupported = conversion.unsupported
    if unsupported and not ignore_unsupported:
        raise ConfigurationException(
            "\n".join((f"xbean:{resource}: not everything is supported:", *map(str, unsupported))),
            hint="change the file, or ignore these elements with `pyjms broker start "
            "--ignore-unsupported`",
        )
    for finding in unsupported:
        logger.warning("%s", finding)
    settings = conversion.settings()
    settings.read_from(path, lambda: convert_activemq_xml(path, given).settings())
    return BrokerService.from_settings(settings)
