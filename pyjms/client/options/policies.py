"""When a message that was rolled back comes again, and when it has come too often.

The client redelivers from its own buffer, the broker only hears of the end: a poison
acknowledgement, which dead-letters. Delays are seconds. (ActiveMQ R0 to R9, section 7.3)
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pyjms.jms.destination import Destination

__all__ = [
    "MAX_PREFETCH_SIZE",
    "NO_MAXIMUM_REDELIVERIES",
    "PrefetchPolicy",
    "RedeliveryPolicy",
    "RedeliveryPolicyMap",
]

NO_MAXIMUM_REDELIVERIES = -1


@dataclass
class RedeliveryPolicy:
    """ActiveMQ's RedeliveryPolicy. Shared by consumers, who see changes at once."""

    maximum_redeliveries: int = 6
    """-1: no maximum; 0: one delivery, then dead."""
    initial_redelivery_delay: float = 1.0
    redelivery_delay: float = 1.0
    maximum_redelivery_delay: float | None = None
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    use_collision_avoidance: bool = False
    collision_avoidance_percent: int = 15
    pre_dispatch_check: bool = True
    """Refuse what comes from the broker with too many deliveries already (transacted only)."""
    destination: Destination | None = None
    """What an entry of a `RedeliveryPolicyMap` is for."""

    def next_delay(self, previous: float | None) -> float:
        """Return the seconds before the next redelivery; `previous` is the last delay, if any."""
        if previous is None:
            return self.initial_redelivery_delay
        delay = self.redelivery_delay
        if self.use_exponential_back_off and self.back_off_multiplier > 1 and previous > 0:
            delay = previous * self.back_off_multiplier
            if self.maximum_redelivery_delay is not None:
                delay = min(delay, self.maximum_redelivery_delay)
        if self.use_collision_avoidance:
            share = self.collision_avoidance_percent / 100
            delay *= 1 + random.uniform(-share, share)  # noqa: S311 - spreads load, hides nothing
        return delay

    def is_exceeded(self, redeliveries: int) -> bool:
        """Whether a message redelivered so often is dead."""
        maximum = self.maximum_redeliveries
        return maximum != NO_MAXIMUM_REDELIVERIES and redeliveries > maximum

    def __str__(self) -> str:
        """ActiveMQ's text, which users find in `dlqDeliveryFailureCause`; milliseconds."""
        longest = self.maximum_redelivery_delay
        shown = {
            "destination": "null" if self.destination is None else self.destination,
            "collisionAvoidanceFactor": self.collision_avoidance_percent / 100,
            "maximumRedeliveries": self.maximum_redeliveries,
            "maximumRedeliveryDelay": -1 if longest is None else round(longest * 1000),
            "initialRedeliveryDelay": round(self.initial_redelivery_delay * 1000),
            "useCollisionAvoidance": str(self.use_collision_avoidance).lower(),
            "useExponentialBackOff": str(self.use_exponential_back_off).lower(),
            "backOffMultiplier": float(self.back_off_multiplier),
            "redeliveryDelay": round(self.redelivery_delay * 1000),
            "preDispatchCheck": str(self.pre_dispatch_check).lower(),
        }
        inner = ", ".join(f"{name} = {value}" for name, value in shown.items())
        return f"RedeliveryPolicy {{{inner}}}"


@dataclass
class RedeliveryPolicyMap:
    """Redelivery policies by destination: the most specific entry wins, else the default. (R7)"""

    default_entry: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    entries: dict[Destination, RedeliveryPolicy] = field(default_factory=dict)

    def put(self, destination: Destination, policy: RedeliveryPolicy) -> None:
        """Use `policy` for `destination`, which may have wildcards."""
        policy.destination = destination
        self.entries[destination] = policy

    def entry_for(self, destination: Destination) -> RedeliveryPolicy:
        """Return the policy for a concrete destination."""
        exact = self.entries.get(destination)
        if exact is not None:
            return exact
        found = [
            (_specificity(pattern), policy)
            for pattern, policy in self.entries.items()
            if pattern.is_queue == destination.is_queue
            and _matches(pattern.physical_name, destination.physical_name)
        ]
        return max(found, key=lambda entry: entry[0])[1] if found else self.default_entry


def _matches(pattern: str, name: str) -> bool:
    wanted, parts = pattern.split("."), name.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(parts) < len(wanted):
            return False
        parts = parts[: len(wanted)]
    if len(wanted) != len(parts):
        return False
    return all(w in {"*", part} for w, part in zip(wanted, parts, strict=True))


def _specificity(pattern: Destination) -> tuple[int, ...]:
    return tuple(_weights(pattern.physical_name))


def _weights(name: str) -> Iterator[int]:
    for part in name.split("."):
        yield {"*": 1, ">": 0}.get(part, 2)


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
