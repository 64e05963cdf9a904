"""Conversion of the attributes of `<broker>`, its connectors and its limits."""

from __future__ import annotations

from typing import Final

from pyjms_broker.conversion.sections import Lost, Spec
from pyjms_broker.settings.model import (
    BrokerSettings,
    IOExceptionHandlerSettings,
    SystemUsageSettings,
)
from pyjms_broker.settings.servers.connectors import ConnectorSettings, ConnectorTlsSettings

__all__ = [
    "BROKER",
    "BROKER_LOST",
    "CONNECTOR",
    "IO_EXCEPTION_HANDLER",
    "SSL",
    "SYSTEM_USAGE",
    "USAGES",
]

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
