"""Tables of connections, consumers, producers, durable subscriptions and networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.management.host import DOMAIN
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.object_name import ObjectName

Values = dict[str, Any]
"""The attributes of a view in a table; `view` is the view's name."""

CONNECTION: Final = ("RemoteAddress", "ClientId", "UserName", "Active", "Slow", "Blocked")
CONSUMER: Final = (
    *("ClientId", "ConnectionId", "SessionId", "SubscriptionId", "SubscriptionName"),
    *("DestinationName", "DestinationTopic", "Selector", "Active", "Durable", "SlowConsumer"),
    *("PendingQueueSize", "DispatchedQueueSize", "DispatchedCounter", "EnqueueCounter"),
    *("DequeueCounter", "PrefetchSize", "Exclusive", "Priority", "UserName", "Connection"),
)
PRODUCER: Final = (
    *("ProducerId", "ClientId", "ConnectionId", "SessionId", "DestinationName", "SentCount"),
    *("ProducerWindowSize", "UserName"),
)


def values_of(view: View[Any], names: Iterable[str]) -> Values:
    """Return the named attributes of a view, and its name as `view`."""
    return {"view": view.name.text, **{name: view.get(name) for name in names}}


def below(**keys: str) -> str:
    """Return the pattern of names below the broker with these keys."""
    written = "".join(f",{key}={value}" for key, value in keys.items())
    return f"{DOMAIN}:type=Broker,brokerName=*{written}"


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """A connector and its connections."""

    name: str
    uri: str
    connections: list[Values]


def connectors(management: Management) -> list[ConnectorRow]:
    """Return all connectors with their connections, sorted by name and client id."""
    pattern = below(
        connector="clientConnectors",
        connectorName="*",
        connectionViewType="clientId",
        connectionName="*",
    )
    found: dict[str, list[Values]] = {}
    shown: dict[str, str] = {}
    for view in management.find(pattern):
        key = view.name.keys["connectorName"]
        found.setdefault(key, []).append(values_of(view, CONNECTION))
        shown[key] = view.target.it.state.context.connector_name or key
    names = management.context.names
    result = [
        ConnectorRow(
            each.name,
            each.connect_uri,
            found.pop(names.connector(each.name).keys["connectorName"], []),
        )
        for each in management.context.host.connectors
    ]
    result += [ConnectorRow(shown[key], "", rows) for key, rows in found.items()]
    for row in result:
        row.connections.sort(key=lambda values: str(values["ClientId"]))
    return sorted(result, key=lambda row: row.name)


def connection_view(management: Management, name: str) -> View[Any]:
    """Return the view of a connection.

    Raises:
        InstanceNotFoundException: the name is not that of an open connection.
    """
    if "connectionViewType" not in ObjectName(name).keys:
        raise InstanceNotFoundException(
            f"{name[:200]} is not the name of a connection",
            hint="choose one on the page connections",
        )
    try:
        return management.view(name)
    except InstanceNotFoundException as error:
        raise InstanceNotFoundException(
            f"There is no connection {name[:200]}", hint="its client has closed it"
        ) from error


@dataclass(frozen=True, slots=True)
class Subscribers:
    """The three tables of the page subscribers."""

    active: list[Values]
    """Durable subscriptions with a consumer."""
    offline: list[Values]
    """Durable subscriptions without one."""
    plain: list[Values]
    """Consumers of topics that are not durable."""


def subscribers(management: Management, *, everything: bool = False) -> Subscribers:
    """Return the subscriptions of topics; `everything` includes those of advisory topics."""
    result = Subscribers([], [], [])
    for view in management.find(below(endpoint="Consumer") + ",*"):
        if not view.get("DestinationTopic"):
            continue
        if not everything and str(view.get("DestinationName")).startswith(ADVISORY_PREFIX):
            continue
        values = values_of(view, CONSUMER)
        if not values["Durable"]:
            result.plain.append(values)
        elif values["Active"]:
            result.active.append(values)
        else:
            result.offline.append(values)
    for rows in (result.active, result.offline, result.plain):
        rows.sort(key=lambda v: (str(v["ClientId"]), str(v["SubscriptionName"])))
    return result


def consumers_of(management: Management, parent: ObjectName) -> list[Values]:
    """Return the consumers of a destination."""
    return _of(management, parent, CONSUMER, endpoint="Consumer", clientId="*", consumerId="*")


def producers_of(management: Management, parent: ObjectName) -> list[Values]:
    """Return the producers of a destination."""
    return _of(management, parent, PRODUCER, endpoint="Producer", clientId="*", producerId="*")


def _of(
    management: Management, parent: ObjectName, attributes: Iterable[str], **keys: str
) -> list[Values]:
    pattern = ObjectName.of(parent.domain, {**parent.keys, **keys})
    found = [values_of(view, attributes) for view in management.find(pattern)]
    return sorted(found, key=lambda values: (str(values["ClientId"]), values["view"]))


def read_views(
    management: Management, names: Iterable[str], attributes: Iterable[str]
) -> list[Values]:
    """Return the views with these names, except for those that have ended meanwhile."""
    found: list[Values] = []
    for name in names:
        try:
            found.append(values_of(management.view(name), attributes))
        except InstanceNotFoundException:
            continue
    return found


def names_of(view: View[Any], attribute: str) -> list[str]:
    """Return an attribute that is a list of names."""
    found = view.get(attribute)
    assert isinstance(found, list), f"{attribute} is a list of names"
    return found


def durable_subscription(management: Management, client_id: str, name: str) -> View[Any]:
    """Return the view of a durable subscription.

    Raises:
        InstanceNotFoundException: there is none of that name.
    """
    for view in management.find(below(endpoint="Consumer") + ",*"):
        key = (view.get("Durable"), view.get("ClientId"), view.get("SubscriptionName"))
        if key == (True, client_id, name):
            return view
    raise InstanceNotFoundException(
        f"There is no durable subscription {name[:200]} of {client_id[:200]}",
        hint="it may have been deleted; reload the page subscribers",
    )


# Tables of network connectors and bridges. (activemq-edges W3)

_CONNECTOR: Final = (
    *("Name", "MessageTTL", "ConsumerTTL", "DynamicOnly", "ConduitSubscriptions"),
    *("BridgeTempDestinations", "DecreaseNetworkConsumerPriority", "DispatchAsync"),
)
_BRIDGE: Final = (
    *("RemoteBrokerName", "RemoteAddress", "CreatedByDuplex"),
    *("EnqueueCounter", "DequeueCounter"),
)


def network_connectors(management: Management) -> list[Values]:
    """Return the network connectors, sorted by name.

    `Started` is whether it maintains bridges, `Bridges` the current number of bridges.
    """
    names = management.context.names
    connectors = {
        names.network_connector(each.name): each
        for each in management.context.host.networks.connectors
    }
    found = [
        {
            **values_of(view, _CONNECTOR),
            "Started": connectors[view.name].started,
            "Bridges": len(connectors[view.name].bridges),
        }
        for view in management.find(below(connector="networkConnectors", networkConnectorName="*"))
    ]
    return sorted(found, key=lambda values: str(values["Name"]))


def network_connector_view(management: Management, name: str) -> View[Any]:
    """Return the view of a network connector.

    Raises:
        InstanceNotFoundException: there is none of that name.
    """
    try:
        return management.view(management.context.names.network_connector(name))
    except InstanceNotFoundException as error:
        raise InstanceNotFoundException(
            f"There is no network connector {name[:200]}",
            hint="it may have been removed; reload the page connections",
        ) from error


def bridges(management: Management) -> list[Values]:
    """Return the current bridges, sorted by network connector and remote broker.

    `Connector` is the network connector's name; for a bridge requested by another broker, it is the
    name assigned by this broker.
    """
    pattern = below(connector="*", networkConnectorName="*", networkBridge="*")
    found = [
        {**values_of(view, _BRIDGE), "Connector": view.name.keys["networkConnectorName"]}
        for view in management.find(pattern)
    ]
    return sorted(found, key=lambda values: (values["Connector"], str(values["RemoteBrokerName"])))


def bridge_view(management: Management, name: str) -> View[Any]:
    """Return the view of a bridge.

    Raises:
        InstanceNotFoundException: the name is not that of a current bridge.
    """
    try:
        if "networkBridge" in ObjectName(name).keys:
            return management.view(name)
    except InstanceNotFoundException as error:
        raise InstanceNotFoundException(
            f"There is no bridge {name[:200]}",
            hint="it has ended; reload the page network to see whether there is a new one",
        ) from error
    raise InstanceNotFoundException(
        f"{name[:200]} is not the name of a bridge", hint="choose one on the page network"
    )
