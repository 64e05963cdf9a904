"""Delivery mode, priority and time to live, together. (Spring: QosSettings)"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.enums import DeliveryMode
from pyjms.jms.message import DEFAULT_PRIORITY

__all__ = ["QosSettings"]


@dataclass(frozen=True, slots=True)
class QosSettings:
    """How a message is sent; `time_to_live` is seconds, 0 for ever."""

    delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT
    priority: int = DEFAULT_PRIORITY
    time_to_live: float = 0.0
