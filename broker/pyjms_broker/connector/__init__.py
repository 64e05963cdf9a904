"""Connectors, which accept clients: their base classes, and one sub-package per protocol.

A connector for another protocol extends `TcpConnector` (or `TransportConnector`, if it does not
listen on a TCP port) and is found through the entry point group `broker.connectors`; see
docs/extending.md.
"""

from __future__ import annotations

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
