"""The bridge filter of a policy's queues. (activemq-edges NW6)"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms_broker.attribute import count, duration, flag


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # only a base class
class ConditionalNetworkBridgeAttributes:
    """The attributes of `ConditionalNetworkBridgeFilterFactory`."""

    replay_when_no_consumers: bool = flag(
        "Whether messages return to the broker they came from once the queue has no consumer."
    )
    replay_delay: float = duration(0.0, "Time that a message stays before it may return.")
    rate_limit: int = count(0, "Messages that a bridge takes in rate_duration; 0: any number.")
    rate_duration: float = duration(1.0, "Time for which rate_limit is counted.")
    selector_aware: bool = flag(
        "Whether a consumer counts only if its selector matches the message."
    )


@dataclass(frozen=True, kw_only=True)
class ConditionalNetworkBridgeFilterFactory(ConditionalNetworkBridgeAttributes):
    """Lets messages of a queue return, and limits the rate of forwarding.

    Source: ActiveMQ ConditionalNetworkBridgeFilterFactory, but with durations in seconds.
    """
