"""Connectors for several protocols, distinguished by subprotocol or by the first bytes."""

from pyjms_broker.connector.multiprotocol.auto import AutoConnector
from pyjms_broker.connector.multiprotocol.websocket import WebSocketConnector

__all__ = ["AutoConnector", "WebSocketConnector"]
