"""OpenWire clients: their commands, what they have open, and how the broker responds."""

from __future__ import annotations

from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.connector.openwire.connector import OpenWireConnector

__all__ = ["BrokerConnection", "OpenWireConnector", "serve"]
