"""Broker paths of messages and consumers, and the check whether a bridge may forward.

(activemq-edges NW2, NW4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    ConsumerInfo,
    NetworkBridgeFilter,
)
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.base_destination import ADVISORY_TYPE

__all__ = ["BrokerPath", "appended", "is_too_long", "lets_pass", "may_pass"]


BrokerPath: TypeAlias = Sequence[BrokerId | None] | None
"""A path as in commands; None: no broker was passed."""


def appended(path: BrokerPath, broker: BrokerId) -> list[BrokerId | None]:
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
