"""Limits of the pending messages of a slow topic consumer.

(activemq-broker T8)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "ConstantPendingMessageLimitStrategy",
    "PendingMessageLimitStrategy",
    "PrefetchRatePendingMessageLimitStrategy",
]


class PendingMessageLimitStrategy(Protocol):
    """Sets the limit of a topic subscription when it is created."""

    def maximum_pending_message_limit(self, prefetch_size: int) -> int:
        """Return the maximum number of messages in addition to dispatched ones; -1: no limit."""


@dataclass(frozen=True, kw_only=True)
class ConstantPendingMessageLimitStrategy:
    """The same `limit` for all; -1: no limit, 0: no messages beyond the prefetch."""

    limit: int = -1

    def maximum_pending_message_limit(self, prefetch_size: int) -> int:
        return self.limit


@dataclass(frozen=True, kw_only=True)
class PrefetchRatePendingMessageLimitStrategy:
    """`multiplier` times the consumer's prefetch."""

    multiplier: float = 0.5

    def maximum_pending_message_limit(self, prefetch_size: int) -> int:
        return int(prefetch_size * self.multiplier)
