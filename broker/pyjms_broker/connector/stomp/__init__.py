"""STOMP clients: their frames as commands of the broker, and its responses as frames."""

from __future__ import annotations

from pyjms_broker.connector.stomp.accepted import accepted_stomp
from pyjms_broker.connector.stomp.connector import StompConnector

__all__ = ["StompConnector", "accepted_stomp"]
