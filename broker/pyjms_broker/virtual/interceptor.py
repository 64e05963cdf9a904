"""Interception by virtual destinations, which wrap a destination when it is created.

A destination to which none of them applies is not wrapped, so its messages have no extra cost.
(ActiveMQ DestinationInterceptor, VirtualDestinationInterceptor)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.copying import copy_for_destination
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.topic.topic import Topic

__all__ = ["Routes", "VirtualDestination", "VirtualDestinationInterceptor"]

_MAX_FORWARDING_DEPTH = 32


class Routes:
    """Forwards messages of virtual destinations through the region, with a limited depth."""

    def __init__(self, region: RegionBroker) -> None:
        self.region = region
        self._depth = 0

    def forward(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        """Send `message` to the region, where virtual destinations may apply again.

        Raises:
            JMSException: the virtual destinations form a cycle.

        """
        if self._depth >= _MAX_FORWARDING_DEPTH:
            raise JMSException(
                f"Virtual destinations form a cycle at {message.destination}",
                hint="remove the forward_to entry that leads back to its own destination",
            )
        self._depth += 1
        try:
            return self.region.send(exchange.for_forwarding(), message)
        finally:
            self._depth -= 1


class VirtualDestination(ABC):
    """A rule that forwards the messages sent to matching destinations."""

    @property
    @abstractmethod
    def virtual_destination(self) -> Destination:
        """The name or pattern of the destinations to which it applies."""

    def demanded_by(self, destination: Destination) -> Destination | None:
        """Return the destination or pattern that it forwards to `destination`; None if none."""
        return None

    @abstractmethod
    def intercept(self, destination: BrokerDestination, routes: Routes) -> BrokerDestination:
        """Return `destination` itself, or a filter around it if this rule applies to it."""


class VirtualDestinationInterceptor:
    """Passes each new destination through the virtual destinations, in their order."""

    def __init__(
        self, region: RegionBroker, virtual_destinations: Sequence[VirtualDestination]
    ) -> None:
        self._routes = Routes(region)
        self._virtual = tuple(virtual_destinations)

    def __call__(self, destination: BrokerDestination) -> BrokerDestination:
        for virtual in self._virtual:
            destination = virtual.intercept(destination, self._routes)
        return destination

    def queue_consumer_added(self, subscription: Subscription) -> None:
        """Send the messages kept by a queue's topics to its first consumer (activemq-broker V6).

        Messages that the queue has already received are left out.
        """
        queue, region = subscription.requested, self._routes.region
        if queue.is_pattern or queue.is_composite:
            return
        for virtual in self._virtual:
            source = virtual.demanded_by(queue)
            for topic in () if source is None else region.destinations_matching(source):
                if all(found.consumers == [subscription] for found in subscription.destinations):
                    self._send_kept(topic, subscription)

    def _send_kept(self, topic: BrokerDestination, subscription: Subscription) -> None:
        queue = subscription.requested
        if not isinstance(topic.base, Topic):
            return  # the source is a composite queue, which keeps no messages for later consumers
        for reference in tuple(topic.base.kept_for(subscription)):
            copy = copy_for_destination(reference.message, queue, topic.destination)
            copy.transaction_id = None
            copy.response_required = False
            copy.raw = None
            self._routes.forward(ProducerExchange(self._routes.region.context), copy)
