"""Operations of the broker's view. (ActiveMQ BrokerView; activemq-edges 7)"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from pyjms import _clock
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, RemoveSubscriptionInfo
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.internal_destinations import check_access
from pyjms_broker.management.conversion import BOOLEAN, INT, LONG, STRING
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.host import Managed, ManagedBroker
from pyjms_broker.management.messages import browse
from pyjms_broker.management.model import Operation, Parameter
from pyjms_broker.management.queries import query_destinations
from pyjms_broker.management.views.counters import reset_statistics
from pyjms_broker.management.views.destination import TOPIC
from pyjms_broker.management.views.queue import QUEUE
from pyjms_broker.region.subscription.base import LAST_DELIVERED_UNKNOWN

__all__ = ["OPERATIONS"]

_Broker: TypeAlias = Managed[ManagedBroker]

_FORCED: Final = 1.0
"""Seconds: removals by an operator are forced (activemq-broker D9)."""
_POLL_INTERVAL: Final = 1000
"""The default time between two checks of the queues in milliseconds."""
_session_numbers = itertools.count(1)


def _named(b: _Broker, kind: type[Queue | Topic], name: str) -> Queue | Topic:
    destination = kind(name)
    check_access(b.tree.client, destination)
    return destination


def _add(kind: type[Queue | Topic]) -> Callable[..., object]:
    def add(b: _Broker, name: str) -> None:
        b.it.broker.add_destination(b.tree.client, _named(b, kind, name))

    return add


def _remove(kind: type[Queue | Topic]) -> Callable[..., object]:
    return lambda b, name: b.it.broker.remove_destination(
        b.tree.client, _named(b, kind, name), _FORCED
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
    info = ConsumerInfo(consumer_id, destination=_named(b, Topic, topic))
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


def _refused(
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
    _refused("disableStatistics", "statistics are always enabled", "call resetStatistics instead"),
    _refused(
        "terminateJVM",
        "the process may run other code, and its clients would lose their connections",
        "call stop",
        Parameter("exitCode", INT),
    ),
    _refused("reloadLog4jProperties", "the broker does not log with Log4j", "set log levels"),
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
