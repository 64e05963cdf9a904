"""The exchanges of a producer and of a consumer with the broker."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.api.completion import Completion
from broker.api.context import ConnectionContext
from pyjms.wire.openwire.commands import ProducerInfo

if TYPE_CHECKING:
    from broker.api.destination import BrokerDestination
    from broker.api.subscription import Subscription

__all__ = ["ConsumerExchange", "ProducerExchange"]


class ProducerExchange:
    """A producer's context, and the destination it last sent to.

    Source: ActiveMQ ProducerBrokerExchange.
    """

    __slots__ = (
        "context",
        "destination",
        "info",
        "last_stored_sequence",
        "region_destination",
        "unanswered",
    )

    def __init__(self, context: ConnectionContext, info: ProducerInfo | None = None) -> None:
        self.context = context
        self.info = info
        self.destination: object = None
        self.region_destination: BrokerDestination | None = None
        self.last_stored_sequence: int | None = None
        """After a failover: the store has this producer's messages up to this number.
        (activemq-broker T27)"""
        self.unanswered: deque[Completion] | None = None
        """Of a client that fails over: its sends that are not stored yet, oldest first."""


class ConsumerExchange:
    """A consumer's context and subscription. Source: ActiveMQ ConsumerBrokerExchange."""

    __slots__ = ("context", "subscription")

    def __init__(self, context: ConnectionContext, subscription: Subscription | None) -> None:
        self.context = context
        self.subscription = subscription
