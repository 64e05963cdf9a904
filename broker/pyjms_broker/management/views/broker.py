"""The view of the broker. (ActiveMQ BrokerView; activemq-edges 7)"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from pyjms._distribution import DISTRIBUTION
from pyjms.jms.destination import Destination
from pyjms_broker.api.destination import DestinationStatistics
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.management.conversion import BOOLEAN, INT, LONG, STRING
from pyjms_broker.management.host import Managed, ManagedBroker
from pyjms_broker.management.model import Attribute, ViewKind, view_kind
from pyjms_broker.management.views.broker_operations import OPERATIONS
from pyjms_broker.management.views.clients import clients, producer_name, producers
from pyjms_broker.management.views.counters import size_attributes, totals
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.region.topic.durable_subscription import DurableTopicSubscription
from pyjms_broker.store.jobs.api import DEFAULT_SCHEDULER

__all__ = ["BROKER"]

_Broker: TypeAlias = Managed[ManagedBroker]
_NAMES: Final = "[Ljavax.management.ObjectName;"
_VERSION: Final = version(DISTRIBUTION)
"""The version of this process: an upgrade on disk takes effect after a restart."""
_FORCED: Final = 1.0
"""Seconds: removals by an operator are forced (activemq-broker D9)."""


def _totals(b: _Broker) -> DestinationStatistics:
    return totals(b.it)


def _total(name: str, field: str, description: str) -> Attribute[_Broker]:
    return Attribute(name, LONG, description, lambda b: getattr(totals(b.it), field))


def _uptime_text(b: _Broker) -> str:
    """Return the uptime in ActiveMQ's format. Source: TimeUtils.printDuration."""
    seconds = b.it.uptime
    if seconds < 60:
        return f"{seconds:.3f} seconds"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} minute{'' if minutes == 1 else 's'}"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} hour{'' if hours == 1 else 's'} {minutes} minutes"
    days, hours = divmod(hours, 24)
    return f"{days} day{'' if days == 1 else 's'} {hours} hours"


def _usage(
    kind: str, of: Callable[[ManagedBroker], MemoryUsage | DiskUsage], of_what: str
) -> tuple[Attribute[_Broker], ...]:
    return (
        Attribute(
            f"{kind}PercentUsage",
            INT,
            f"Percentage of the limit of {of_what} in use.",
            lambda b: of(b.it).percent,
        ),
        Attribute(
            f"{kind}Limit",
            LONG,
            f"Limit of {of_what}, in bytes; 0: no limit.",
            lambda b: of(b.it).limit,
            lambda b, limit: of(b.it).change_limit(limit),
        ),
    )


def _object_names(
    name: str, what: str, names: Callable[[_Broker], Iterable[object]]
) -> Attribute[_Broker]:
    return Attribute(
        name, _NAMES, f"Object names of {what}.", lambda b: [str(each) for each in names(b)]
    )


def _destinations(name: str, *, topic: bool, temporary: bool) -> Attribute[_Broker]:
    kind = f"{'temporary ' if temporary else ''}{'topics' if topic else 'queues'}"
    return _object_names(
        name,
        f"all {kind}",
        lambda b: (
            b.tree.names.destination(each)
            for each in b.tree.destinations()
            if each.is_topic == topic and each.is_temporary == temporary
        ),
    )


def _subscribers(
    name: str, is_one: Callable[[Subscription], bool], what: str
) -> Attribute[_Broker]:
    def names(b: _Broker) -> Iterable[object]:
        found = filter(is_one, b.it.region_broker.subscriptions.all())
        return map(b.tree.names.consumer, found)

    return _object_names(name, what, names)


def _plain(*, topic: bool, temporary: bool) -> Callable[[Subscription], bool]:
    return lambda s: (
        not isinstance(s, DurableTopicSubscription)
        and s.requested.is_topic == topic
        and s.requested.is_temporary == temporary
    )


def _durable(*, active: bool) -> Callable[[Subscription], bool]:
    return lambda s: isinstance(s, DurableTopicSubscription) and s.is_active == active


def _connectors(b: _Broker) -> dict[str, str]:
    return {each.name: each.connect_uri for each in b.it.connectors}


def _producers(
    name: str, what: str, *, topic: bool = False, temporary: bool = False, dynamic: bool = False
) -> Attribute[_Broker]:
    def is_one(destination: Destination | None) -> bool:
        if destination is None:
            return dynamic
        return not dynamic and (destination.is_topic, destination.is_temporary) == (
            topic,
            temporary,
        )

    return Attribute(
        name,
        _NAMES,
        f"Object names of {what}.",
        lambda b: [
            str(producer_name(b.tree, each))
            for client in clients(b.tree)
            for each in producers(client)
            if each.info is not None and is_one(each.info.destination)
        ],
    )


_ATTRIBUTES: Final[tuple[Attribute[Any], ...]] = (
    Attribute(
        "BrokerId", STRING, "The broker's id, new at each start.", lambda b: str(b.it.broker_id)
    ),
    Attribute("BrokerName", STRING, "The broker's name.", lambda b: b.it.broker_name),
    Attribute("BrokerVersion", STRING, "The version of pyjms.", lambda _: _VERSION),
    Attribute("Uptime", STRING, "Time since the start.", _uptime_text),
    Attribute(
        "UptimeMillis", LONG, "Time since the start, in ms.", lambda b: int(b.it.uptime * 1000)
    ),
    Attribute(
        "CurrentConnectionsCount",
        INT,
        "Number of connections.",
        lambda b: len(b.it.connections.by_id),
    ),
    Attribute(
        "TotalConnectionsCount",
        LONG,
        "Connections opened since the start.",
        lambda b: b.it.connections.total,
    ),
    _total("TotalEnqueueCount", "enqueues", "Messages enqueued."),
    _total("TotalDequeueCount", "dequeues", "Messages acknowledged, expired or removed."),
    _total("TotalConsumerCount", "consumers", "Number of subscriptions."),
    _total("TotalProducerCount", "producers", "Producers with a destination."),
    _total("TotalMessageCount", "messages", "Messages in all queues."),
    *size_attributes(_totals),
    *_usage("Memory", lambda h: h.system_usage.memory, "the memory for messages"),
    *_usage("Store", lambda h: h.system_usage.store, "the message store"),
    *_usage("Temp", lambda h: h.system_usage.temp, "the temp store"),
    *_usage("JobSchedulerStore", lambda h: h.system_usage.job_scheduler, "the job store"),
    Attribute(
        "Persistent",
        BOOLEAN,
        "Whether the broker has a persistent store.",
        lambda b: b.it.persistent,
    ),
    Attribute(
        "Slave",
        BOOLEAN,
        "Whether the broker is a slave, which waits for the store lock.",
        lambda b: b.it.slave,
    ),
    Attribute("StatisticsEnabled", BOOLEAN, "Always true.", lambda _: True),
    Attribute("DataDirectory", STRING, "The data directory.", lambda b: os.fspath(b.it.data_path)),
    Attribute(
        "VMURL", STRING, "vm:// URI for clients in the broker's process.", lambda b: b.it.vm_uri
    ),
    Attribute(
        "JMSJobScheduler",
        "javax.management.ObjectName",
        "Object name of the job scheduler's view; null: no scheduler.",
        lambda b: (
            None
            if b.it.job_store is None
            else str(b.tree.names.service("JobScheduler", name=DEFAULT_SCHEDULER))
        ),
    ),
    Attribute("TransportConnectors", "java.util.Map", "URIs by connector name.", _connectors),
    _destinations("Queues", topic=False, temporary=False),
    _destinations("Topics", topic=True, temporary=False),
    _destinations("TemporaryQueues", topic=False, temporary=True),
    _destinations("TemporaryTopics", topic=True, temporary=True),
    _subscribers("QueueSubscribers", _plain(topic=False, temporary=False), "queue consumers"),
    _subscribers("TopicSubscribers", _plain(topic=True, temporary=False), "topic consumers"),
    _subscribers("DurableTopicSubscribers", _durable(active=True), "active durable subscriptions"),
    _subscribers(
        "InactiveDurableTopicSubscribers", _durable(active=False), "inactive durable subscriptions"
    ),
    _subscribers(
        "TemporaryQueueSubscribers",
        _plain(topic=False, temporary=True),
        "consumers of temporary queues",
    ),
    _subscribers(
        "TemporaryTopicSubscribers",
        _plain(topic=True, temporary=True),
        "consumers of temporary topics",
    ),
    _producers("QueueProducers", "producers of queues"),
    _producers("TopicProducers", "producers of topics", topic=True),
    _producers("TemporaryQueueProducers", "producers of temporary queues", temporary=True),
    _producers(
        "TemporaryTopicProducers", "producers of temporary topics", topic=True, temporary=True
    ),
    _producers("DynamicDestinationProducers", "producers without a destination", dynamic=True),
)

BROKER: Final[ViewKind[Any]] = view_kind("BrokerView", "The broker.", _ATTRIBUTES, OPERATIONS)
