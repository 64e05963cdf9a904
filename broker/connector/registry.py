"""Which connector serves a URI's scheme: built in, or found through `broker.connectors`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from broker.connector.base import BrokerHost, TransportConnector
from broker.connector.openwire import OpenWireConnector
from pyjms.errors import ConfigurationException
from pyjms.transport.uri import TransportURI

__all__ = ["GROUP", "ConnectorFactory", "create_connector"]

ConnectorFactory = Callable[[BrokerHost, TransportURI, "str | None"], TransportConnector]
GROUP = "broker.connectors"

_BUILT_IN: dict[str, ConnectorFactory] = {
    "tcp": OpenWireConnector,
    "nio": OpenWireConnector,
    "openwire": OpenWireConnector,
}


def create_connector(
    host: BrokerHost, uri: TransportURI | str, name: str | None = None
) -> TransportConnector:
    """A connector for `uri`, not started.

    Raises:
        ConfigurationException: nothing serves its scheme, or an option is wrong.
    """
    if isinstance(uri, str):
        uri = TransportURI.parse(uri)
    factory = _BUILT_IN.get(uri.scheme)
    if factory is not None:
        return factory(host, uri, name)
    for point in entry_points(group=GROUP, name=uri.scheme):
        installed: ConnectorFactory = point.load()
        return installed(host, uri, name)
    known = sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})
    raise ConfigurationException(
        f"Transport scheme NOT recognized: [{uri.scheme}]",
        hint=f"a connector listens on one of {', '.join(known)}, such as tcp://0.0.0.0:61616",
    )
