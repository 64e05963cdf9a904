"""OpenWire clients: their commands, their resources, and the broker's responses."""

from __future__ import annotations

from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.connector.openwire.connector import OpenWireConnector, OpenWireSslConnector

__all__ = ["BrokerConnection", "OpenWireConnector", "OpenWireSslConnector", "serve"]
