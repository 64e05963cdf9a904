"""How many messages the broker may send a consumer ahead of its acknowledgements.

(ActiveMQ Q12; `jms.prefetchPolicy.*`)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_PREFETCH_SIZE", "PrefetchPolicy"]

MAX_PREFETCH_SIZE: Final = 32767


@dataclass
class PrefetchPolicy:
    """ActiveMQ's PrefetchPolicy. Sizes above 32767 are cut to that; 0 means pull."""

    queue_prefetch: int = 1000
    queue_browser_prefetch: int = 500
    topic_prefetch: int = MAX_PREFETCH_SIZE
    durable_topic_prefetch: int = 100
    optimize_durable_topic_prefetch: int = 1000
    """Used for durable subscribers of AUTO sessions while messages are dispatched optimized."""
    maximum_pending_message_limit: int = 0
    """What the broker keeps for a slow topic consumer, over the prefetch; 0: its own limit."""

    def set_all(self, size: int) -> None:
        """Set every prefetch size. `jms.prefetchPolicy.all`"""
        self.queue_prefetch = self.queue_browser_prefetch = self.topic_prefetch = size
        self.durable_topic_prefetch = self.optimize_durable_topic_prefetch = size

    def __setattr__(self, name: str, value: int) -> None:
        if name.endswith("prefetch"):
            value = min(value, MAX_PREFETCH_SIZE)
        super().__setattr__(name, value)
