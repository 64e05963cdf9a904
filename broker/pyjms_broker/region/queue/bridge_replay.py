"""What a bridge gets of a queue whose policy has a ConditionalNetworkBridgeFilterFactory.

A message that came from the broker to which the bridge leads stays here, unless it may return:
the queue has no consumer but bridges, and the message is here long enough. What may not be
forwarded yet is offered again when that has changed: the queue does so when a consumer leaves, and
this filter has it do so when a time is over. (activemq-edges NW6)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyjms import _clock
from pyjms.wire.openwire.commands import NetworkBridgeFilter
from pyjms_broker.api.message import MessageReference
from pyjms_broker.policy.network_bridges import ConditionalNetworkBridgeFilterFactory
from pyjms_broker.region.subscription.bridge_filter import lets_pass

if TYPE_CHECKING:
    from pyjms_broker.region.queue.queue import Queue

__all__ = ["ConditionalBridgeFilter"]


class ConditionalBridgeFilter:
    """The filter of one bridge's consumer. Source: ActiveMQ ConditionalNetworkBridgeFilter."""

    def __init__(
        self, bridge: NetworkBridgeFilter, conditions: ConditionalNetworkBridgeFilterFactory
    ) -> None:
        self._bridge = bridge
        self._conditions = conditions
        self._taken = 0
        self._began = 0.0
        """When the time began for which messages are counted."""

    def __call__(self, reference: MessageReference) -> bool:
        """Whether the bridge gets the message now."""
        if self._bridge.network_broker_id not in (reference.message.broker_path or ()):
            return lets_pass(self._bridge, reference) and self._is_within_rate(reference)
        return (
            self._conditions.replay_when_no_consumers
            and self._has_no_consumers(reference)
            and self._has_waited(reference)
            and self._is_within_rate(reference)
        )

    def _has_no_consumers(self, reference: MessageReference) -> bool:
        aware = self._conditions.selector_aware
        return not any(
            not each.info.network_subscription
            and not each.info.browser
            and (not aware or each.matches(reference))
            for each in reference.destination.consumers
        )

    def _has_waited(self, reference: MessageReference) -> bool:
        delay = self._conditions.replay_delay
        left = delay - (_clock.time_ms() - reference.message.broker_in_time) / 1000
        if delay <= 0 or left <= 0:
            return True
        _queue_of(reference).dispatcher.later_offer.in_seconds(left)
        return False

    def _is_within_rate(self, reference: MessageReference) -> bool:
        limit, duration = self._conditions.rate_limit, self._conditions.rate_duration
        if limit == 0:
            return True
        now = _clock.now()
        if now - self._began >= duration:
            self._began, self._taken = now, 0
        if self._taken < limit:
            self._taken += 1
            return True
        _queue_of(reference).dispatcher.later_offer.in_seconds(self._began + duration - now)
        return False


def _queue_of(reference: MessageReference) -> Queue:
    return cast("Queue", reference.destination)
