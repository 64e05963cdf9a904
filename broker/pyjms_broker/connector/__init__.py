"""Connectors, which accept clients: their base classes, and one sub-package per protocol.

A connector for another protocol extends `TcpConnector` (or `TransportConnector`, if it does not
listen on a TCP port) and is found through the entry point group `broker.connectors`; see
docs/extending.md.

The module of a name is imported when the name is first used: a broker starts without TCP and TLS.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import names_of

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost, ServedConnection, TransportConnector
    from pyjms_broker.connector.connection_registry import ConnectionRegistry, RegisteredConnection
    from pyjms_broker.connector.tcp import TcpConnector

__all__ = [
    "BrokerHost",
    "ConnectionRegistry",
    "RegisteredConnection",
    "ServedConnection",
    "TcpConnector",
    "TransportConnector",
]

__getattr__, __dir__ = names_of(
    globals(),
    {
        "BrokerHost": "pyjms_broker.connector.base",
        "ConnectionRegistry": "pyjms_broker.connector.connection_registry",
        "RegisteredConnection": "pyjms_broker.connector.connection_registry",
        "ServedConnection": "pyjms_broker.connector.base",
        "TcpConnector": "pyjms_broker.connector.tcp",
        "TransportConnector": "pyjms_broker.connector.base",
    },
)
