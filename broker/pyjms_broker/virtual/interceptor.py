"""Interception by virtual destinations: they wrap a destination when it is created.

A destination that none of them applies to is not wrapped, so its messages cost nothing extra.
(ActiveMQ DestinationInterceptor, VirtualDestinationInterceptor)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["Routes", "VirtualDestination", "VirtualDestinationInterceptor"]

_MAX_FORWARDING_DEPTH = 32


class Routes:
    """Forwards messages of virtual destinations through the region, up to a depth."""

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
