"""Where virtual destinations step in: around each destination, when it is made.

A plain destination that none of them concerns is not wrapped, so its messages pay nothing.
(ActiveMQ DestinationInterceptor, VirtualDestinationInterceptor)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from broker.api.completion import Completion
from broker.api.destination import BrokerDestination
from broker.api.exchange import ProducerExchange
from broker.region.region_broker import RegionBroker
from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["Routes", "VirtualDestination", "VirtualDestinationInterceptor"]

_MOST_FORWARDS = 32


class Routes:
    """The way on from a virtual destination: the region, and a send that starts there."""

    def __init__(self, region: RegionBroker) -> None:
        self.region = region
        self._depth = 0

    def forward(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        """Send `message` as if it came to the region now: it may meet virtual destinations again.

        Raises:
            JMSException: the virtual destinations lead in a circle.

        """
        if self._depth >= _MOST_FORWARDS:
            raise JMSException(
                f"Virtual destinations forward in a circle at {message.destination}",
                hint="a forward_to leads back to the destination that it starts from",
            )
        self._depth += 1
        try:
            return self.region.send(exchange.for_forwarding(), message)
        finally:
            self._depth -= 1


class VirtualDestination(ABC):
    """What stands in for a destination, or beside it."""

    @abstractmethod
    def intercept(self, destination: BrokerDestination, routes: Routes) -> BrokerDestination:
        """Return `destination` itself, or a filter around it if this concerns it."""


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
