"""The view of the broker. (ActiveMQ BrokerView; activemq-edges 7)"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final, NoReturn, TypeAlias

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import DISTRIBUTION
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, RemoveSubscriptionInfo
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination, DestinationStatistics
from pyjms_broker.api.names import check_access
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.host import Managed, ManagedBroker, ManagementContext, RuntimeUpdates
from pyjms_broker.management.messages import browse
from pyjms_broker.management.model import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    Attribute,
    Operation,
    Parameter,
    View,
    ViewKind,
    view_kind,
)
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.views.clients import clients, producer_name, producers
from pyjms_broker.management.views.counters import reset_statistics, size_attributes, totals
from pyjms_broker.management.views.destinations import QUEUE, TOPIC
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.subscription import LAST_DELIVERED_UNKNOWN
from pyjms_broker.region.system_usage import DiskUsage
from pyjms_broker.store.jobs.api import DEFAULT_SCHEDULER

# Pages of destinations as JSON. (ActiveMQ DestinationsViewFilter; activemq-edges 7)

_FILTERS: Final[dict[str, Callable[[BrokerDestination], bool]]] = {
    "": lambda _: True,
    "empty": lambda d: d.statistics.messages == 0,
    "nonEmpty": lambda d: d.statistics.messages != 0,
    "noConsumer": lambda d: d.statistics.consumers == 0,
    "nonAdvisory": lambda d: not d.destination.physical_name.startswith(ADVISORY_PREFIX),
}
_SORT_KEYS: Final[dict[str, Callable[[BrokerDestination], Any]]] = {
    "name": lambda d: d.destination.physical_name,
    "queueSize": lambda d: d.statistics.messages,
    "consumerCount": lambda d: d.statistics.consumers,
    "enqueueCount": lambda d: d.statistics.enqueues,
    "dequeueCount": lambda d: d.statistics.dequeues,
}
_DEFAULTS: Final = {"name": "", "filter": "", "sortColumn": "name", "sortOrder": "asc"}


def query_destinations(
    tree: ManagementContext,
    kind: ViewKind[Any],
    destinations: Mapping[Destination, BrokerDestination],
    query: str,
    page: int,
    size: int,
) -> str:
    """Return a page of the destinations selected by a query, with all their attributes.

    Args:
        tree: the context of the views.
        kind: the kind of the views.
        destinations: the candidates.
        query: JSON with `name` (part of the name), `filter` (empty, nonEmpty, noConsumer or
            nonAdvisory), `sortColumn` (name, queueSize, consumerCount, enqueueCount or
            dequeueCount) and `sortOrder` (asc or desc); all are optional.
        page: the number of the page, from 1.
        size: the number of destinations per page.

    Raises:
        InvalidArgumentException: the query is invalid.
    """
    wanted = _read(query)
    is_one = _FILTERS.get(wanted["filter"], _FILTERS[""])
    found = [
        (destination, each)
        for destination, each in destinations.items()
        if wanted["name"] in destination.physical_name and is_one(each)
    ]
    key = _SORT_KEYS.get(wanted["sortColumn"], _SORT_KEYS["name"])
    found.sort(key=lambda each: key(each[1]), reverse=wanted["sortOrder"].lower() == "desc")
    first = max(0, page - 1) * max(0, size)
    data = {}
    for destination, each in found[first : first + max(0, size)]:
        name = tree.names.destination(destination)
        data[str(name)] = _values(View(name, kind, Managed(tree, each.base)))
    return json.dumps({"data": data, "count": len(found)})


def _read(query: str) -> dict[str, str]:
    try:
        values = json.loads(query) if query.strip() else {}
        if not isinstance(values, dict):
            raise TypeError
        return {name: str(values.get(name) or default) for name, default in _DEFAULTS.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgumentException(
            "The filter of the query cannot be read",
            hint='write JSON such as {"name": "orders", "filter": "nonEmpty"}',
        ) from error


def _values(view: View[Any]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in view.get_all().items():
        kind = view.kind.attributes[name][0].type
        values["dlq" if name == "DLQ" else name[:1].lower() + name[1:]] = _simplify(kind, value)
    return values


def _simplify(kind: str, value: object) -> object:
    if value is None or "javax.management.ObjectName" not in kind:
        return value
    if isinstance(value, list):
        return [_object_name(each) for each in value]
    return _object_name(str(value))


def _object_name(text: str) -> dict[str, object]:
    """Return an object name in Jackson's form."""
    name = ObjectName(text)
    pairs = sorted(name.keys.items())
    return {
        "canonicalName": f"{name.domain}:{','.join(f'{key}={value}' for key, value in pairs)}",
        "domain": name.domain,
        "keyPropertyList": dict(name.keys),
        "keyPropertyListString": text.partition(":")[2],
    }


# Operations of the broker's view. (ActiveMQ BrokerView; activemq-edges 7)

_Broker: TypeAlias = Managed[ManagedBroker]

_FORCED: Final = 1.0
"""Seconds: removals by an operator are forced (activemq-broker D9)."""
_POLL_INTERVAL: Final = 1000
"""The default time between two checks of the queues in milliseconds."""
_session_numbers = itertools.count(1)


def _permit(b: _Broker, kind: type[Queue | Topic], name: str) -> Queue | Topic:
    destination = kind(name)
    check_access(b.tree.client, destination)
    return destination


def _add(kind: type[Queue | Topic]) -> Callable[..., object]:
    def add(b: _Broker, name: str) -> None:
        b.it.broker.add_destination(b.tree.client, _permit(b, kind, name))

    return add


def _remove(kind: type[Queue | Topic]) -> Callable[..., object]:
    return lambda b, name: b.it.broker.remove_destination(
        b.tree.client, _permit(b, kind, name), _FORCED
    )


def _browse(b: _Broker, name: str) -> list[dict[str, object]]:
    found = b.tree.destinations().get(Queue(name))
    if found is None:
        raise InvalidDestinationException(
            f"There is no queue {name[:200]!r}", hint="list the attribute Queues"
        )
    return browse(found, b.tree)


def _destroy_durable(b: _Broker, client_id: str, name: str) -> Completion:
    info = RemoveSubscriptionInfo(client_id=client_id, subscription_name=name)
    return b.it.broker.remove_subscription(b.tree.client, info)


def _create_durable(b: _Broker, client_id: str, name: str, topic: str, selector: str | None) -> str:
    """Create a durable subscription without a consumer. Source: BrokerView."""
    context = ConnectionContext()
    context.client_id = client_id
    context.is_operator = True
    consumer_id = ConsumerId(client_id, next(_session_numbers), 0)
    info = ConsumerInfo(consumer_id, destination=_permit(b, Topic, topic))
    info.subscription_name = name
    info.selector = selector or None
    subscription = b.it.broker.add_consumer(context, info)
    b.it.broker.remove_consumer(context, info, LAST_DELIVERED_UNKNOWN)
    return str(b.tree.names.consumer(subscription))


async def _add_connector(b: _Broker, uri: str) -> str:
    connector = b.it.add_connector(uri)
    try:
        await connector.start()
    except BaseException:
        b.it.connectors.remove(connector)
        raise
    return connector.name


async def _remove_connector(b: _Broker, name: str) -> bool:
    found = next((each for each in b.it.connectors if each.name == name), None)
    if found is None:
        return False
    b.it.connectors.remove(found)
    await found.stop()
    return True


def _add_network_connector(b: _Broker, uri: str) -> str:
    connector = b.it.networks.add_unnamed(uri)
    connector.start()
    return connector.name


def _connector_by_type(b: _Broker, scheme: str) -> str | None:
    uris = (each.connect_uri for each in b.it.connectors if each.uri.scheme == scheme)
    return next(uris, None)


def _restart(b: _Broker) -> None:
    if not b.it.restart_allowed:
        raise IllegalStateException(
            "Restart is not allowed", hint="set restart_allowed of the broker to true"
        )
    b.it.restart_requested = True
    b.it.stop_soon()


def _pattern(name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgumentException(
            f"Parameter {name} is not a regular expression: {error}", hint="write .* for all"
        ) from error


async def _stop_gracefully(
    b: _Broker, connectors: str, queues: str, timeout: int, interval: int
) -> None:
    """Stop connectors, wait until queues are empty, and stop. Times are in milliseconds."""
    if timeout <= 0:
        raise InvalidArgumentException(
            "Parameter timeout of stopGracefully must be more than 0", hint="give milliseconds"
        )
    stopped, waited_for = _pattern("connectorName", connectors), _pattern("queueName", queues)
    for connector in b.it.connectors:
        if stopped.fullmatch(connector.name):
            await connector.stop()
    with _clock.timeout(timeout / 1000):
        while any(
            each.statistics.messages
            for destination, each in b.tree.destinations().items()
            if destination.is_queue and waited_for.fullmatch(destination.physical_name)
        ):
            await _clock.sleep(max(1, interval or _POLL_INTERVAL) / 1000)
    b.it.stop_soon()


def _refuse(
    name: str, reason: str, hint: str, *parameters: Parameter, kind: str = "void"
) -> Operation[Any]:
    """Return an operation of ActiveMQ that this broker always refuses."""

    def refuse(_b: _Broker, *_arguments: object) -> NoReturn:
        raise IllegalStateException(f"{name} is refused: {reason}", hint=hint)

    return Operation(name, kind, f"Refused: {reason}.", refuse, parameters)


def _query(kind: str) -> Callable[..., object]:
    def query(b: _Broker, text: str, page: int, size: int) -> str:
        found = [each for each in b.tree.destinations().items() if not each[0].is_temporary]
        chosen = [each for each in found if each[0].is_topic == (kind == "queryTopics")]
        view_kind = TOPIC if kind == "queryTopics" else QUEUE
        return query_destinations(b.tree, view_kind, dict(chosen), text, page, size)

    return query


_NAME: Final = Parameter("name", STRING)
_URI: Final = Parameter("discoveryAddress", STRING)
OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    Operation(
        "resetStatistics",
        "void",
        "Reset the counters of all destinations.",
        lambda b: reset_statistics(b.it),
    ),
    Operation("addQueue", "void", "Create a queue.", _add(Queue), (_NAME,)),
    Operation("addTopic", "void", "Create a topic.", _add(Topic), (_NAME,)),
    Operation("removeQueue", "void", "Remove a queue and its messages.", _remove(Queue), (_NAME,)),
    Operation("removeTopic", "void", "Remove a topic.", _remove(Topic), (_NAME,)),
    Operation(
        "browseQueue",
        "[Ljavax.management.openmbean.CompositeData;",
        "Return the first messages of a queue.",
        _browse,
        (_NAME,),
    ),
    Operation(
        "destroyDurableSubscriber",
        "void",
        "Delete an inactive durable subscription.",
        _destroy_durable,
        (Parameter("clientId", STRING), Parameter("subscriberName", STRING)),
    ),
    Operation("stop", "void", "Stop the broker in the background.", lambda b: b.it.stop_soon()),
    Operation(
        "start", "void", "Start the broker; no effect while it is running.", lambda b: b.it.start()
    ),
    Operation("restart", "void", "Stop the broker, and start it again.", _restart),
    Operation(
        "stopGracefully",
        "void",
        "Stop connectors, wait until queues are empty, and stop; names are regular expressions.",
        _stop_gracefully,
        (
            Parameter("connectorName", STRING),
            Parameter("queueName", STRING),
            Parameter("timeout", LONG),
            Parameter("pollInterval", LONG),
        ),
    ),
    Operation(
        "gc",
        "void",
        "Bring the store's index up to date and release its disk space.",
        lambda b: b.it.region_broker.store.checkpoint(),
    ),
    Operation(
        "addConnector",
        STRING,
        "Add a connector for clients; return its name.",
        _add_connector,
        (_URI,),
    ),
    Operation(
        "removeConnector",
        BOOLEAN,
        "Remove a connector; return whether one of that name existed.",
        _remove_connector,
        (Parameter("connectorName", STRING),),
    ),
    Operation(
        "getTransportConnectorByType",
        STRING,
        "Return the URI of the first connector with a scheme, such as tcp; null: none.",
        _connector_by_type,
        (Parameter("type", STRING),),
    ),
    Operation(
        "createDurableSubscriber",
        "javax.management.ObjectName",
        "Create a durable subscription without a consumer; return its object name.",
        _create_durable,
        (
            Parameter("clientId", STRING),
            Parameter("subscriberName", STRING),
            Parameter("topicName", STRING),
            Parameter("selector", STRING, is_optional=True),
        ),
    ),
    *(
        Operation(
            name,
            STRING,
            "Return a page of destinations and their attributes, as JSON.",
            _query(name),
            (
                Parameter("filter", STRING, is_optional=True),
                Parameter("page", INT),
                Parameter("pageSize", INT),
            ),
        )
        for name in ("queryQueues", "queryTopics")
    ),
    Operation(
        "enableStatistics", "void", "No effect: statistics are always enabled.", lambda _: None
    ),
    _refuse("disableStatistics", "statistics are always enabled", "call resetStatistics instead"),
    _refuse(
        "terminateJVM",
        "the process may run other code, and its clients would lose their connections",
        "call stop",
        Parameter("exitCode", INT),
    ),
    _refuse("reloadLog4jProperties", "the broker does not log with Log4j", "set log levels"),
    Operation(
        "addNetworkConnector",
        STRING,
        "Add a network connector to other brokers; return its name.",
        _add_network_connector,
        (_URI,),
    ),
    Operation(
        "removeNetworkConnector",
        BOOLEAN,
        "Stop and remove a network connector.",
        lambda b, name: b.it.networks.remove(name),
        (Parameter("connectorName", STRING),),
    ),
)


_NAMES: Final = "[Ljavax.management.ObjectName;"
_VERSION: Final = version(DISTRIBUTION)
"""The version of this process: an upgrade on disk takes effect after a restart."""


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


# The view of the configuration file. (ActiveMQ RuntimeConfigurationView)

_Updates: TypeAlias = Managed[RuntimeUpdates]


def _modified_time(u: _Updates) -> str | None:
    seconds = u.it.modified
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


async def _update(u: _Updates) -> str:
    await u.it.update(read_users=True)
    return u.it.status


RUNTIME_CONFIGURATION: Final[ViewKind[_Updates]] = view_kind(
    "org.apache.activemq.plugin.jmx.RuntimeConfigurationView",
    "The configuration file, which is reloaded while the broker is running.",
    [
        Attribute("Url", STRING, "The configuration file.", lambda u: u.it.origin),
        Attribute(
            "Modified", STRING, "The time of the last applied changes; null: never.", _modified_time
        ),
        Attribute(
            "CheckPeriod",
            LONG,
            "Milliseconds between two checks of the file; 0: no checks.",
            lambda u: round(u.it.check_period * 1000),
        ),
        Attribute(
            "Status",
            STRING,
            "The changes that the last update could not apply, or its error; empty: none.",
            lambda u: u.it.status,
        ),
    ],
    [Operation("updateNow", STRING, "Reload the file; return Status.", _update)],
)
