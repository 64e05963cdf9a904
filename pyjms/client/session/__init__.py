"""Sessions: their resources, acknowledgement and local transactions."""

from __future__ import annotations

from pyjms.client.session.session import ActiveMQSession

__all__ = ["ActiveMQSession"]
