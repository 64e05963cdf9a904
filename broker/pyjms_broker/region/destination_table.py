"""The tables of destinations and subscriptions, and the matching between them.

Subscriptions to patterns and composites attach to existing destinations and to later ones.
(ActiveMQ AbstractRegion; activemq-broker D3, D5, D7)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination, DestinationStatistics
from pyjms_broker.api.internal_destinations import is_internal
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.wildcard import MAX_CACHED_LENGTH, matches
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.destination_limits import CreatedDestinations, DestinationLimits

__all__ = ["DestinationTable", "IdleMark", "SubscriptionIndex", "check_removable"]

LONGEST_NAME = 8192
"""The maximum length of a destination's name; members of composites count separately."""
_CACHED_MATCHES = 4096


class IdleMark(NamedTuple):
    """The time since which a destination has been unused, and its number of enqueues then."""

    since: float
    enqueues: int


class DestinationTable:
    """Destinations by name, each with its entry point: the destination or its outermost filter."""

    def __init__(self, limits: DestinationLimits) -> None:
        self.removed_statistics = DestinationStatistics()
        """The accumulated counters of removed destinations."""
        self.limits = limits
        self.created = CreatedDestinations(limits)
        self.idle_marks: dict[Destination, IdleMark] = {}
        """Destinations that a sweep found idle. (activemq-broker D11)"""
        self._destinations: dict[Destination, BaseDestination] = {}
        self._entry_points: dict[Destination, BrokerDestination] = {}
        self._matches: dict[Destination, tuple[BrokerDestination, ...]] = {}
        self.version = 0
        """A version number that changes with each removal and each change of an entry point."""

    @property
    def destinations(self) -> Collection[Destination]:
        """A live view of the names of all destinations."""
        return self._destinations.keys()

    def get(self, destination: Destination) -> BaseDestination | None:
        """Return the destination itself."""
        return self._destinations.get(destination)

    def entry_point(self, destination: Destination) -> BrokerDestination | None:
        """Return the destination with its filters, where messages enter."""
        return self._entry_points.get(destination)

    def used(self, destination: Destination) -> None:
        """Record that a consumer or producer of the destination was added or removed."""
        self.idle_marks.pop(destination, None)

    def check(self, context: ConnectionContext, destination: Destination) -> None:
        """Check that a client may create the destination.

        Raises:
            InvalidDestinationException: its name is too long.
            ResourceAllocationException: a maximum is reached.
        """
        length = len(destination.physical_name)
        if length > LONGEST_NAME:
            raise InvalidDestinationException(
                f"The name of a destination has {length} characters; at most {LONGEST_NAME} are "
                "allowed",
                hint="use a shorter name",
            )
        self.created.check(context, destination, len(self._destinations))

    def add(
        self,
        context: ConnectionContext,
        destination: BaseDestination,
        entry_point: BrokerDestination,
    ) -> None:
        """Add a destination created by the broker or a client."""
        if not context.is_broker:
            self.created.add(context, destination.destination)
        self._destinations[destination.destination] = destination
        self._entry_points[destination.destination] = entry_point
        self._matches.clear()

    def change_entry_point(self, destination: Destination, entry_point: BrokerDestination) -> None:
        """Replace the entry point of a destination."""
        self._entry_points[destination] = entry_point
        self._matches.clear()
        self.version += 1

    def remove(self, destination: Destination) -> None:
        """Remove a destination."""
        removed = self._destinations.pop(destination, None)
        if removed is not None:
            self.removed_statistics.add_counters(removed.statistics)
        self._entry_points.pop(destination, None)
        self._matches.clear()
        self.version += 1
        self.idle_marks.pop(destination, None)
        self.created.remove(destination)

    def all(self) -> dict[Destination, BaseDestination]:
        """Return a copy of the table."""
        return dict(self._destinations)

    def matching(self, pattern: Destination) -> tuple[BrokerDestination, ...]:
        """Return the entry points that a name, a pattern or a composite matches. Cached."""
        found = self._matches.get(pattern)
        if found is None:
            if pattern.is_pattern or pattern.is_composite:
                found = tuple(
                    e
                    for d, e in self._entry_points.items()
                    if matches(pattern, d) and not is_internal(d)
                )
            else:
                entry_point = self._entry_points.get(pattern)
                found = () if entry_point is None else (entry_point,)
            if len(pattern.physical_name) > MAX_CACHED_LENGTH:
                return found
            if len(self._matches) >= _CACHED_MATCHES:
                self._matches.clear()
            self._matches[pattern] = found
        return found


def check_removable(found: BaseDestination, timeout: float) -> None:
    """Check that a permanent destination may be removed; see `remove_destination`.

    Raises:
        JMSException: it may not.
    """
    consumers = found.consumers
    if consumers and timeout == 0:
        raise JMSException(f"Destination: {found} still has an active subscription: {consumers[0]}")
    if found.prepared_sends and timeout >= 0:
        raise JMSException(
            f"Destination: {found} still has messages of transactions that are prepared or being "
            "committed",
            hint="commit or roll back the prepared transactions, then try again",
        )


class SubscriptionIndex:
    """Subscriptions by the destinations that they subscribe to."""

    def __init__(self) -> None:
        self._exact: dict[Destination, dict[Subscription, None]] = {}
        self._patterns: dict[Subscription, None] = {}

    def add(self, subscription: Subscription) -> None:
        """Add a subscription."""
        requested = subscription.requested
        if requested.is_pattern or requested.is_composite:
            self._patterns[subscription] = None
        else:
            self._exact.setdefault(requested, {})[subscription] = None

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        self._patterns.pop(subscription, None)
        exact = self._exact.get(subscription.requested)
        if exact is not None:
            exact.pop(subscription, None)
            if not exact:
                del self._exact[subscription.requested]

    def matching(self, destination: Destination) -> list[Subscription]:
        """Return the subscriptions that match a new destination."""
        exact = list(self._exact.get(destination, ()))
        if is_internal(destination):
            return exact
        return exact + [
            subscription
            for subscription in self._patterns
            if subscription.requested.is_topic == destination.is_topic  # a composite may mix them
            and matches(subscription.requested, destination)
        ]
