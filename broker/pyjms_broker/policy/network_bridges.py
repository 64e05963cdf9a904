"""What the bridges of a network forward from the queues of a policy. (activemq-edges NW6)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyjms_broker.attribute import Attribute, Unit

__all__ = ["ConditionalNetworkBridgeAttributes", "ConditionalNetworkBridgeFilterFactory"]


@dataclass(frozen=True, kw_only=True)
class ConditionalNetworkBridgeAttributes:
    """The attributes of `ConditionalNetworkBridgeFilterFactory`."""

    replay_when_no_consumers: Annotated[
        bool,
        Attribute(
            "Whether messages return to the broker they came from once the queue has no consumer."
        ),
    ] = False
    replay_delay: Annotated[
        float, Attribute("Time that a message stays before it may return.", unit=Unit.SECONDS)
    ] = 0.0
    rate_limit: Annotated[
        int,
        Attribute("Messages that a bridge takes in rate_duration; 0: any number.", minimum=0),
    ] = 0
    rate_duration: Annotated[
        float, Attribute("Time for which rate_limit is counted.", unit=Unit.SECONDS)
    ] = 1.0
    selector_aware: Annotated[
        bool,
        Attribute("Whether a consumer counts only if its selector matches the message."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class ConditionalNetworkBridgeFilterFactory(ConditionalNetworkBridgeAttributes):
    """Lets messages of a queue return, and limits how many are forwarded.

    Source: ActiveMQ ConditionalNetworkBridgeFilterFactory; durations are seconds here.
    """
