"""Lookup of connectors by URI scheme: built in, or found through `broker.connectors`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.transport.registry import UNSUPPORTED
from pyjms.transport.uri import TransportURI
from pyjms_broker import entry_points
from pyjms_broker.connector.base import BrokerHost, TransportConnector

ConnectorFactory = Callable[[BrokerHost, TransportURI, "str | None"], TransportConnector]
"""`factory(host, uri, name)`, usually a class, returns a connector that is not started."""

_OPENWIRE: Final = "pyjms_broker.connector.openwire.connector:OpenWireConnector"
_AUTO: Final = "pyjms_broker.connector.multiprotocol:AutoConnector"
_WEBSOCKET: Final = "pyjms_broker.connector.websocket:WebSocketConnector"
_STOMP: Final = "pyjms_broker.connector.stomp.connector:StompConnector"
_MQTT: Final = "pyjms_broker.connector.mqtt.connector:MqttConnector"
_AMQP: Final = "pyjms_broker.connector.amqp.connector:AmqpConnector"
_BUILT_IN: Final[dict[str, str]] = {
    "tcp": _OPENWIRE,
    "nio": _OPENWIRE,
    "openwire": _OPENWIRE,
    "ssl": _OPENWIRE,
    "nio+ssl": _OPENWIRE,
    "auto": _AUTO,
    "auto+nio": _AUTO,
    "auto+ssl": _AUTO,
    "auto+nio+ssl": _AUTO,
    "ws": _WEBSOCKET,
    "wss": _WEBSOCKET,
    "stomp": _STOMP,
    "stomp+nio": _STOMP,
    "stomp+ssl": _STOMP,
    "stomp+nio+ssl": _STOMP,
    "mqtt": _MQTT,
    "mqtt+nio": _MQTT,
    "mqtt+ssl": _MQTT,
    "mqtt+nio+ssl": _MQTT,
    "amqp": _AMQP,
    "amqp+nio": _AMQP,
    "amqp+ssl": _AMQP,
    "amqp+nio+ssl": _AMQP,
}
"""Scheme to factory, written as in an entry point and imported for the scheme's first connector."""
BUILT_IN_SCHEMES: Final = frozenset(_BUILT_IN)
"""The schemes that need no search among the installed packages."""


def known_schemes() -> list[str]:
    """Return the schemes of all connectors, sorted."""
    return sorted({*_BUILT_IN, *entry_points.installed_names(entry_points.CONNECTORS)})


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
    built_in = _BUILT_IN.get(uri.scheme)
    if built_in is not None:
        factory: ConnectorFactory = pkgutil.resolve_name(built_in)
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
