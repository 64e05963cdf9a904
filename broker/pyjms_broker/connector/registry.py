"""Lookup of connectors by URI scheme: built in, or found through `broker.connectors`."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.errors import ConfigurationException
from pyjms.transport.unsupported import UNSUPPORTED
from pyjms.transport.uri import TransportURI
from pyjms_broker import entry_points
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.connector.multiprotocol import AutoConnector, WebSocketConnector
from pyjms_broker.connector.openwire import OpenWireConnector, OpenWireSslConnector
from pyjms_broker.connector.stomp import StompConnector

__all__ = ["ConnectorFactory", "create_connector", "known_schemes"]

ConnectorFactory = Callable[[BrokerHost, TransportURI, "str | None"], TransportConnector]
"""`factory(host, uri, name)`, usually a class, returns a connector that is not started."""

_BUILT_IN: dict[str, ConnectorFactory] = {
    "tcp": OpenWireConnector,
    "nio": OpenWireConnector,
    "openwire": OpenWireConnector,
    "auto": AutoConnector,
    "auto+nio": AutoConnector,
    "ssl": OpenWireSslConnector,
    "nio+ssl": OpenWireSslConnector,
    "auto+ssl": AutoConnector,
    "auto+nio+ssl": AutoConnector,
    "ws": WebSocketConnector,
    "wss": WebSocketConnector,
    "stomp": StompConnector,
    "stomp+nio": StompConnector,
    "stomp+ssl": StompConnector,
    "stomp+nio+ssl": StompConnector,
}


def known_schemes() -> list[str]:
    """Return the schemes of all connectors, sorted."""
    return sorted({*_BUILT_IN, *entry_points.installed(entry_points.CONNECTORS)})


def create_connector(
    host: BrokerHost, uri: TransportURI | str, name: str | None = None
) -> TransportConnector:
    """Return a connector for `uri` that is not started.

    Raises:
        ConfigurationException: no connector is known for its scheme, the installed one cannot be
            loaded, or an option is invalid.
    """
    if isinstance(uri, str):
        uri = TransportURI.parse(uri)
    factory = _BUILT_IN.get(uri.scheme)
    if factory is not None:
        return factory(host, uri, name)
    known = known_schemes()
    if uri.scheme not in known and uri.scheme in UNSUPPORTED:
        refusal = UNSUPPORTED[uri.scheme]
        raise ConfigurationException(
            f"A connector cannot listen on {uri.scheme}: {refusal.reason}", hint=refusal.hint
        )
    if uri.scheme not in known:
        raise ConfigurationException(
            f"Transport scheme NOT recognized: [{uri.scheme}]",
            hint=f"a connector listens on one of {', '.join(known)}, such as tcp://0.0.0.0:61616",
        )
    return _create_installed(host, uri, name)


def _create_installed(host: BrokerHost, uri: TransportURI, name: str | None) -> TransportConnector:
    group, scheme = entry_points.CONNECTORS, uri.scheme
    factory = entry_points.load(group, scheme)
    entry_points.check_loaded(group, scheme, callable(factory), "a TransportConnector class")
    assert callable(factory)
    connector = factory(host, uri, name)
    ok = isinstance(connector, TransportConnector)
    entry_points.check_loaded(group, scheme, ok, "a factory of a TransportConnector")
    assert isinstance(connector, TransportConnector)
    return connector
