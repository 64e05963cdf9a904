"""The view of the broker. (ActiveMQ BrokerView; activemq-edges 7)

The view of the broker's health. (ActiveMQ HealthView; activemq-edges 7)

The checks, their ids and texts are ActiveMQ's: queues with producers but without consumers, stores
near their limits, and limits beyond the disk's free space.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import DISTRIBUTION
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, RemoveSubscriptionInfo
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.names import check_access
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management import host as hosts
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.diagnosis import diagnose
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.messages import browse
from pyjms_broker.management.model import (
    Action,
    Entry,
    Operations,
    Readers,
    View,
    ViewKind,
    Writers,
    part,
    view_kind,
)
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.views.clients import clients, producer_name, producers
from pyjms_broker.management.views.destinations import QUEUE, TOPIC, rate_readers, size_readers
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.subscription import LAST_DELIVERED_UNKNOWN
from pyjms_broker.region.system_usage import STORE_LIMIT, DiskUsage
from pyjms_broker.store.jobs.api import DEFAULT_SCHEDULER

_Broker: TypeAlias = hosts.Managed[hosts.ManagedBroker]

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


def _query_destinations(b: _Broker, query: str, page: int, size: int, *, topics: bool) -> str:
    """Return a page of the destinations selected by a query, with all their attributes, as JSON."""
    wanted = _read(query)
    is_one = _FILTERS.get(wanted["filter"], _FILTERS[""])
    found = [
        (destination, each)
        for destination, each in b.tree.destinations().items()
        if not destination.is_temporary
        and destination.is_topic == topics
        and wanted["name"] in destination.physical_name
        and is_one(each)
    ]
    key = _SORT_KEYS.get(wanted["sortColumn"], _SORT_KEYS["name"])
    found.sort(key=lambda each: key(each[1]), reverse=wanted["sortOrder"].lower() == "desc")
    first = max(0, page - 1) * max(0, size)
    data = {}
    for destination, each in found[first : first + max(0, size)]:
        name = b.tree.names.destination(destination)
        view = View(name, TOPIC if topics else QUEUE, hosts.Managed(b.tree, each.base))
        data[str(name)] = _values(view)
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
        kind = view.kind.attributes[name].type
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


def _refuse(signature: str, reason: str, hint: str) -> Operations:
    """Return an operation of ActiveMQ that this broker always refuses."""

    def refuse(_b: _Broker, *_arguments: object) -> NoReturn:
        name = signature.partition("(")[0]
        raise IllegalStateException(f"{name} is refused: {reason}", hint=hint)

    return {f"void {signature}": Action(f"Refused: {reason}.", refuse)}


async def _why(b: _Broker, name: str) -> dict[str, object]:
    return (await diagnose(b.tree, name)).as_item()


OPERATIONS: Final[Operations] = {
    "void resetStatistics()": Action(
        "Reset the counters of all destinations.", lambda b: hosts.reset_statistics(b.it)
    ),
    "void addQueue(String name)": Action("Create a queue.", _add(Queue)),
    "void addTopic(String name)": Action("Create a topic.", _add(Topic)),
    "void removeQueue(String name)": Action("Remove a queue and its messages.", _remove(Queue)),
    "void removeTopic(String name)": Action("Remove a topic.", _remove(Topic)),
    "CompositeData[] browseQueue(String name)": Action(
        "Return the first messages of a queue.", _browse
    ),
    "void destroyDurableSubscriber(String clientId, String subscriberName)": Action(
        "Delete an inactive durable subscription.", _destroy_durable
    ),
    "CompositeData why(String name)": Action(
        "Return why nothing is delivered: of a queue, or to a consumer or of a message by its id.",
        _why,
    ),
    "CompositeData history(String range)": Action(
        "Return what was recorded of the last hour or day, oldest first, as columns.",
        lambda b, name: b.tree.history.item(name),
    ),
    "void stop()": Action("Stop the broker in the background.", lambda b: b.it.stop_soon()),
    "void start()": Action(
        "Start the broker; no effect while it is running.", lambda b: b.it.start()
    ),
    "void restart()": Action(
        "Stop the broker, and start it again with its configuration, which is read again.",
        lambda b: b.it.restart_soon(),
    ),
    (
        "void stopGracefully("
        "String connectorName, String queueName, long timeout, long pollInterval)"
    ): Action(
        "Stop connectors, wait until queues are empty, and stop; names are regular expressions.",
        _stop_gracefully,
    ),
    "void gc()": Action(
        "Bring the store's index up to date and release its disk space.",
        lambda b: b.it.region_broker.store.checkpoint(),
    ),
    "String addConnector(String discoveryAddress)": Action(
        "Add a connector for clients; return its name.", _add_connector
    ),
    "boolean removeConnector(String connectorName)": Action(
        "Remove a connector; return whether one of that name existed.", _remove_connector
    ),
    "String getTransportConnectorByType(String type)": Action(
        "Return the URI of the first connector with a scheme, such as tcp; null: none.",
        _connector_by_type,
    ),
    (
        "ObjectName createDurableSubscriber("
        "String clientId, String subscriberName, String topicName, String? selector)"
    ): Action(
        "Create a durable subscription without a consumer; return its object name.", _create_durable
    ),
    **{
        f"String query{kind}(String? filter, int page, int pageSize)": Action(
            "Return a page of destinations and their attributes, as JSON.",
            partial(_query_destinations, topics=kind == "Topics"),
        )
        for kind in ("Queues", "Topics")
    },
    "void enableStatistics()": Action("No effect: statistics are always enabled.", lambda _: None),
    **_refuse(
        "disableStatistics()", "statistics are always enabled", "call resetStatistics instead"
    ),
    **_refuse(
        "terminateJVM(int exitCode)",
        "the process may run other code, and its clients would lose their connections",
        "call stop",
    ),
    **_refuse("reloadLog4jProperties()", "the broker does not log with Log4j", "set log levels"),
    "String addNetworkConnector(String discoveryAddress)": Action(
        "Add a network connector to other brokers; return its name.", _add_network_connector
    ),
    "boolean removeNetworkConnector(String connectorName)": Action(
        "Stop and remove a network connector.", lambda b, name: b.it.networks.remove(name)
    ),
}


_VERSION: Final = version(DISTRIBUTION)
"""The version of this process: an upgrade on disk takes effect after a restart."""


def _total(field: str) -> Callable[[_Broker], object]:
    return lambda b: hosts.total(b.it, field)


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


def _destinations(*, topic: bool, temporary: bool) -> Callable[[_Broker], list[str]]:
    return lambda b: [
        str(b.tree.names.destination(each))
        for each in b.tree.destinations()
        if each.is_topic == topic and each.is_temporary == temporary
    ]


def _subscribers(is_one: Callable[[Subscription], bool]) -> Callable[[_Broker], list[str]]:
    return lambda b: [
        str(b.tree.names.consumer(each))
        for each in b.it.region_broker.subscriptions.all()
        if is_one(each)
    ]


def _plain(*, topic: bool, temporary: bool) -> Callable[[Subscription], bool]:
    return lambda s: (
        not isinstance(s, DurableTopicSubscription)
        and s.requested.is_topic == topic
        and s.requested.is_temporary == temporary
    )


def _durable(*, active: bool) -> Callable[[Subscription], bool]:
    return lambda s: isinstance(s, DurableTopicSubscription) and s.is_active == active


def _producers(is_one: Callable[[Destination | None], bool]) -> Callable[[_Broker], list[str]]:
    return lambda b: [
        str(producer_name(b.tree, each))
        for client in clients(b.tree)
        for each in producers(client)
        if each.info is not None and is_one(each.info.destination)
    ]


def _sent_to(*, topic: bool, temporary: bool) -> Callable[[Destination | None], bool]:
    return lambda d: d is not None and (d.is_topic, d.is_temporary) == (topic, temporary)


def _job_scheduler(b: _Broker) -> str | None:
    if b.it.job_store is None:
        return None
    return str(b.tree.names.service("JobScheduler", name=DEFAULT_SCHEDULER))


_READERS: Final[Readers[_Broker]] = {
    "BrokerId": lambda b: str(b.it.broker_id),
    "BrokerVersion": lambda _: _VERSION,
    "Uptime": _uptime_text,
    "UptimeMillis": lambda b: int(b.it.uptime * 1000),
    "CurrentConnectionsCount": lambda b: len(b.it.connections.by_id),
    "TotalEnqueueCount": _total("enqueues"),
    "TotalDequeueCount": _total("dequeues"),
    "TotalConsumerCount": _total("consumers"),
    "TotalProducerCount": _total("producers"),
    "TotalMessageCount": _total("messages"),
    **size_readers(lambda b: hosts.totals(b.it)),
    **rate_readers(lambda b: None if b.it.history is None else b.it.history.broker_rates),
    "DataDirectory": lambda b: os.fspath(b.it.data_path),
    "JMSJobScheduler": _job_scheduler,
    "TransportConnectors": lambda b: {each.name: each.connect_uri for each in b.it.connectors},
    "Queues": _destinations(topic=False, temporary=False),
    "Topics": _destinations(topic=True, temporary=False),
    "TemporaryQueues": _destinations(topic=False, temporary=True),
    "TemporaryTopics": _destinations(topic=True, temporary=True),
    "QueueSubscribers": _subscribers(_plain(topic=False, temporary=False)),
    "TopicSubscribers": _subscribers(_plain(topic=True, temporary=False)),
    "DurableTopicSubscribers": _subscribers(_durable(active=True)),
    "InactiveDurableTopicSubscribers": _subscribers(_durable(active=False)),
    "TemporaryQueueSubscribers": _subscribers(_plain(topic=False, temporary=True)),
    "TemporaryTopicSubscribers": _subscribers(_plain(topic=True, temporary=True)),
    "QueueProducers": _producers(_sent_to(topic=False, temporary=False)),
    "TopicProducers": _producers(_sent_to(topic=True, temporary=False)),
    "TemporaryQueueProducers": _producers(_sent_to(topic=False, temporary=True)),
    "TemporaryTopicProducers": _producers(_sent_to(topic=True, temporary=True)),
    "DynamicDestinationProducers": _producers(lambda d: d is None),
}
_WRITERS: Final[Writers[_Broker]] = {
    "MemoryLimit": lambda b, limit: b.it.system_usage.memory.change_limit(limit),
    "StoreLimit": lambda b, limit: b.it.system_usage.store.change_limit(limit),
    "TempLimit": lambda b, limit: b.it.system_usage.temp.change_limit(limit),
    "JobSchedulerStoreLimit": lambda b, limit: b.it.system_usage.job_scheduler.change_limit(limit),
}

BROKER: Final[ViewKind[Any]] = view_kind(
    "BrokerView", "The broker.", attributes.BROKER, _READERS, OPERATIONS, _WRITERS
)


# Warnings about the broker's health: the checks, their ids and texts are ActiveMQ's.
# (ActiveMQ HealthView; activemq-edges 7)

_Warning: TypeAlias = dict[str, object]

_NEARLY_FULL: Final = 90
"""The percentage of a limit above which there is a warning."""
_MEGABYTE: Final = 1 << 20


def _warning(name: str, message: str, resource: object) -> _Warning:
    health_id = f"org.apache.activemq.{name}"
    row = {"healthId": health_id, "level": "WARNING", "message": message}
    return {**row, "resource": str(resource)}


def _unread_queues(tree: hosts.ManagementContext) -> Iterator[_Warning]:
    for destination, found in tree.destinations().items():
        statistics = found.statistics
        if destination.is_queue and statistics.producers and not statistics.consumers:
            message = f"Queue {destination.physical_name} has no consumers"
            yield _warning("noConsumer", message, tree.names.destination(destination))


def _limits(usage: DiskUsage, what: str, name: str) -> Iterator[_Warning]:
    if usage.limit and usage.percent > _NEARLY_FULL:
        message = f"{what} size is within {usage.percent}% of its limit"
        yield _warning(name, message, usage.name)


def _disk(usage: DiskUsage, what: str, directory: Path) -> Iterator[_Warning]:
    if usage.limit == STORE_LIMIT or not usage.is_promised:
        return  # the default, or lowered to the disk's size at the start: not a configured limit
    free = shutil.disk_usage(directory).free
    if usage.limit - usage.used > free:
        message = (
            f"{what} limit is {usage.limit // _MEGABYTE} mb, whilst the data directory: "
            f"{directory.absolute()} only has {free // _MEGABYTE} mb of usable space"
        )
        yield _warning("FreeDiskSpaceLeft", message, usage.name)


def _check(b: _Broker) -> list[_Warning]:
    host = b.it
    found = list(_unread_queues(b.tree))
    usage = host.system_usage
    if host.persistent:
        found += _limits(usage.store, "Message Store", "StoreLimit")
        found += _limits(usage.temp, "TempMessage Store", "TempStoreLimit")
        if host.data_path.is_dir():
            found += _disk(usage.store, "Store", host.data_path)
    if host.job_store is not None:
        found += _limits(usage.job_scheduler, "JobSchedulerMessage Store", "JobSchedulerLimit")
    return found


def _status(b: _Broker) -> str:
    texts = [
        "{healthId}: {level} {message} from {resource} , ".format_map(each) for each in _check(b)
    ]
    return f"Getting Worried {{{''.join(texts)} }}" if texts else "Good"


HEALTH: Final[ViewKind[_Broker]] = view_kind(
    "HealthView",
    "Warnings about conditions that need an operator's attention.",
    attributes.HEALTH,
    {"CurrentStatus": _status},
    {
        "TabularData health()": Action("Return the warnings.", _check),
        "List healthList()": Action("Return the warnings.", _check),
        "String healthStatus()": Action("Return CurrentStatus.", _status),
    },
)


def _brokers(context: hosts.ManagementContext) -> Iterator[Entry]:
    yield context.names.broker(), BROKER, context.host


def _health(context: hosts.ManagementContext) -> Iterator[Entry]:
    yield context.names.service("Health"), HEALTH, context.host


PARTS: Final = (
    part(_brokers),
    part(_health, "service"),
)
