"""Tables of network connectors and bridges. (activemq-edges W3)"""

from __future__ import annotations

from typing import Any, Final

from pyjms_broker.console.model.clients import Values, below, values_of
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.object_name import ObjectName

__all__ = ["bridge_view", "bridges", "network_connector_view", "network_connectors"]

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
