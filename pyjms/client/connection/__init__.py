"""Connections: the handshake with the broker, and temporary destinations."""

from __future__ import annotations

from pyjms.client.connection.connection import ActiveMQConnection

__all__ = ["ActiveMQConnection"]
