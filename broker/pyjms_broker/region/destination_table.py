"""Which destinations exist, which subscriptions there are, and how they find each other.

Subscriptions with wildcards or several names attach to what exists and to what comes later.
(ActiveMQ AbstractRegion; activemq-broker D3, D5, D7)
"""

from __future__ import annotations

from pyjms.errors import InvalidDestinationException, ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.internal_destinations import is_internal
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.wildcard import LONGEST_REMEMBERED, matches
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.flow.system_usage import MAXIMUM_DESTINATIONS

__all__ = ["DestinationTable", "SubscriptionIndex"]

LONGEST_NAME = 8192
"""Characters; a composite is not one destination."""
_CACHED_MATCHES = 4096


class DestinationTable:
    """Destinations by name, each with its entrance: itself, or the filters around it."""

    def __init__(self, maximum: int = MAXIMUM_DESTINATIONS) -> None:
        self._maximum = maximum
        self._destinations: dict[Destination, BaseDestination] = {}
        self._entrances: dict[Destination, BrokerDestination] = {}
        self._matches: dict[Destination, tuple[BrokerDestination, ...]] = {}

    def get(self, destination: Destination) -> BaseDestination | None:
        """Return the destination itself."""
        return self._destinations.get(destination)

    def entrance(self, destination: Destination) -> BrokerDestination | None:
        """Return where messages for the destination go in."""
        return self._entrances.get(destination)

    def check(self, destination: Destination) -> None:
        """Raise if there is no room for one more, or its name is too long."""
        length = len(destination.physical_name)
        if length > LONGEST_NAME:
            raise InvalidDestinationException(
                f"A destination's name of {length} characters; at most {LONGEST_NAME} are allowed"
            )
        if len(self._destinations) >= self._maximum:
            raise ResourceAllocationException(
                f"The broker has {len(self._destinations)} destinations, and {destination} would "
                "be one too many",
                hint="remove what nobody uses, or raise maximum_destinations",
            )

    def add(self, destination: BaseDestination, entrance: BrokerDestination) -> None:
        """Take a destination in."""
        self._destinations[destination.destination] = destination
        self._entrances[destination.destination] = entrance
        self._matches.clear()

    def remove(self, destination: Destination) -> None:
        """Take a destination out."""
        self._destinations.pop(destination, None)
        self._entrances.pop(destination, None)
        self._matches.clear()

    def all(self) -> dict[Destination, BaseDestination]:
        """Return a copy of everything."""
        return dict(self._destinations)

    def matching(self, pattern: Destination) -> tuple[BrokerDestination, ...]:
        """Return the entrances of all that a name, a pattern or a composite means. Remembered."""
        found = self._matches.get(pattern)
        if found is None:
            if pattern.is_pattern or pattern.is_composite:
                found = tuple(
                    e
                    for d, e in self._entrances.items()
                    if matches(pattern, d) and not is_internal(d)
                )
            else:
                entrance = self._entrances.get(pattern)
                found = () if entrance is None else (entrance,)
            if len(pattern.physical_name) > LONGEST_REMEMBERED:
                return found
            if len(self._matches) >= _CACHED_MATCHES:
                self._matches.clear()
            self._matches[pattern] = found
        return found


class SubscriptionIndex:
    """Subscriptions by what they want."""

    def __init__(self) -> None:
        self._exact: dict[Destination, dict[Subscription, None]] = {}
        self._wide: dict[Subscription, None] = {}

    def add(self, subscription: Subscription) -> None:
        """Take a subscription in."""
        wanted = subscription.requested
        if wanted.is_pattern or wanted.is_composite:
            self._wide[subscription] = None
        else:
            self._exact.setdefault(wanted, {})[subscription] = None

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out."""
        self._wide.pop(subscription, None)
        exact = self._exact.get(subscription.requested)
        if exact is not None:
            exact.pop(subscription, None)
            if not exact:
                del self._exact[subscription.requested]

    def wanting(self, destination: Destination) -> list[Subscription]:
        """Return the subscriptions that a new destination is for."""
        exact = list(self._exact.get(destination, ()))
        if is_internal(destination):
            return exact
        return exact + [
            subscription
            for subscription in self._wide
            if subscription.requested.is_topic == destination.is_topic  # a composite may mix them
            and matches(subscription.requested, destination)
        ]
