"""The receiving side: consumers, their prefetch buffers, acknowledgements and redelivery."""

from __future__ import annotations

from pyjms.client.delivery.browser import ActiveMQQueueBrowser
from pyjms.client.delivery.consumer import ActiveMQMessageConsumer

__all__ = ["ActiveMQMessageConsumer", "ActiveMQQueueBrowser"]
