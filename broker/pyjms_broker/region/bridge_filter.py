"""Whether a message of this broker may go to the other broker of a bridge.

A message does not go where it has been: `may_pass` compares broker paths. The bridge filter of
queues whose policy has a ConditionalNetworkBridgeFilterFactory lets a message return if the queue
has no consumers other than bridges, and the message has been here for long enough. A message that
may not be forwarded yet is offered again later: by the queue when a consumer leaves, and at the
request of this filter when a time has passed. (activemq-edges NW2, NW4, NW6)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    ConsumerInfo,
    NetworkBridgeFilter,
)
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.base_destination import ADVISORY_TYPE

if TYPE_CHECKING:
    from pyjms_broker.policy.network_bridges import ConditionalNetworkBridgeFilterFactory
    from pyjms_broker.region.queue import Queue

BrokerPath: TypeAlias = Sequence[BrokerId | None] | None
"""A path as in commands; None: no broker was passed."""


def path_with(path: BrokerPath, broker: BrokerId) -> list[BrokerId | None]:
    """Return a new path that ends with `broker`."""
    return [*(path or ()), broker]


def is_too_long(path: BrokerPath, hops: int) -> bool:
    """Return whether another broker would exceed `hops`; -1: unlimited."""
    return 0 <= hops <= len(path or ())


def lets_pass(bridge: NetworkBridgeFilter, reference: MessageReference) -> bool:
    """Return whether a message may go to the remote broker of a bridge; see `may_pass`."""
    return may_pass(bridge, reference.message)


def may_pass(bridge: NetworkBridgeFilter, message: ActiveMQMessage) -> bool:
    """Return whether a message may go to the remote broker of a bridge.

    It may not if it has been there, or has passed the maximum number of brokers. For a consumer's
    advisory, the same applies to the consumer. Source: ActiveMQ DefaultNetworkBridgeFilter.
    """
    if not _may_go(message.broker_path, bridge.message_ttl, bridge):
        return False
    about = message.data_structure if message.type == ADVISORY_TYPE else None
    return not isinstance(about, ConsumerInfo) or _may_go(
        about.broker_path, bridge.consumer_ttl, bridge
    )


def _may_go(path: BrokerPath, hops: int, bridge: NetworkBridgeFilter) -> bool:
    return bridge.network_broker_id not in (path or ()) and not is_too_long(path, hops)


_SHORTEST_STAY: Final = 0.5
"""The minimum stay of a message in seconds, after which its previous broker has removed it."""
_LONGEST_PATH: Final = 200
"""The maximum length of the path of a returning message; each broker adds its id."""


def check_return(
    own_path: frozenset[BrokerId], held: Iterable[MessageReference], reference: MessageReference
) -> None:
    """Check that a repeated message is not one that returns from another broker too early.

    Such a message was forwarded, and the bridge's acknowledgement has not been handled yet, so the
    queue still has it, with a shorter path. If the returning copy were dropped as a duplicate,
    neither broker would keep the message; if it is refused, the other broker keeps it and sends it
    again.

    Args:
        own_path: the id of this broker.
        held: the messages of the queue that are in memory.
        reference: the message whose id is already known.
    """
    path = reference.message.broker_path or ()
    if own_path.isdisjoint(path):
        return
    if any(
        each.message_id == reference.message_id and len(each.message.broker_path or ()) < len(path)
        for each in held
    ):
        raise JMSException(
            f"Message {reference.message_id} comes back while {reference.destination} still has it",
            hint="the bridge sends it again; a longer replay_delay at the other broker avoids this",
        )


class ConditionalBridgeFilter:
    """The filter of one bridge's consumer. Source: ActiveMQ ConditionalNetworkBridgeFilter."""

    def __init__(
        self, bridge: NetworkBridgeFilter, conditions: ConditionalNetworkBridgeFilterFactory
    ) -> None:
        self._bridge = bridge
        self._conditions = conditions
        self._taken = 0
        self._began = 0.0
        """The beginning of the period in which messages are counted."""

    def __call__(self, reference: MessageReference) -> bool:
        """Return whether the bridge gets the message now."""
        if self._bridge.network_broker_id not in (reference.message.broker_path or ()):
            return lets_pass(self._bridge, reference) and self._is_within_rate(reference)
        return (
            self._conditions.replay_when_no_consumers
            and len(reference.message.broker_path or ()) < _LONGEST_PATH
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
        delay = max(self._conditions.replay_delay, _SHORTEST_STAY)
        left = delay - (_clock.time_ms() - reference.message.broker_in_time) / 1000
        if left <= 0:
            return True
        _queue_of(reference).dispatcher.offer_later(left)
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
        _queue_of(reference).dispatcher.offer_later(self._began + duration - now)
        return False


def _queue_of(reference: MessageReference) -> Queue:
    return cast("Queue", reference.destination)
