"""Limits for destinations created by clients: in total, per connection and per user.

Destinations that the broker creates for itself, or that the store had at the start, count only
towards the total. A destination counts until it is removed; for its connection, until the
connection ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.region.flow.system_usage import MAXIMUM_DESTINATIONS

__all__ = ["CreatedDestinations", "DestinationLimits"]

_HINT: Final = "remove unused destinations, or raise {}"


class DestinationLimits(NamedTuple):
    """The maximum numbers of destinations, and the removal of inactive ones.

    ActiveMQ has no maximum. Periods are in seconds.
    """

    maximum: int = MAXIMUM_DESTINATIONS
    per_connection: int = MAXIMUM_DESTINATIONS // 10
    """Without temporary ones, which the connector limits."""
    per_user: int = MAXIMUM_DESTINATIONS // 2
    """All clients without a user name count as one user."""
    purge_period: float = 0
    """Seconds between two sweeps; 0: no sweeps. (activemq-broker D11)"""
    purge_maximum: int = 0
    """The maximum number of destinations that one sweep removes; 0: unlimited."""


class _Counter:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Creator(NamedTuple):
    connection: _Counter | None
    user: str | None


class CreatedDestinations:
    """Counts the destinations that clients have created."""

    def __init__(self, limits: DestinationLimits) -> None:
        self._limits = limits
        self._creators: dict[Destination, _Creator] = {}
        self._connections: dict[ConnectionContext, _Counter] = {}
        self._users: dict[str | None, int] = {}

    def check(self, context: ConnectionContext, destination: Destination, existing: int) -> None:
        """Check that a client may create the destination; `existing` is the current total.

        Raises:
            ResourceAllocationException: the broker's, the connection's or the user's maximum is
                reached.
        """
        limits = self._limits
        if existing >= limits.maximum:
            raise ResourceAllocationException(
                f"{destination} cannot be created: the broker has {existing} "
                "destinations, its maximum",
                hint=_HINT.format("maximum_destinations"),
            )
        mine = self._connections.get(context)
        if mine is not None and mine.count >= limits.per_connection:
            raise ResourceAllocationException(
                f"{destination} cannot be created: connection {context.connection_id} has created "
                f"{mine.count} destinations, its maximum",
                hint=_HINT.format("maximum_destinations_per_connection"),
            )
        user_count = self._users.get(context.user_name, 0)
        if user_count >= limits.per_user:
            who = "clients without a user name" if context.user_name is None else "this user"
            raise ResourceAllocationException(
                f"{destination} cannot be created: {who} created {user_count} destinations that "
                "still exist, their maximum",
                hint=_HINT.format("maximum_destinations_per_user"),
            )

    def add(self, context: ConnectionContext, destination: Destination) -> None:
        """Count a destination that a client has created."""
        counter = None
        if not destination.is_temporary:
            counter = self._connections.get(context)
            if counter is None:
                counter = self._connections[context] = _Counter()
            counter.count += 1
        user = context.user_name
        self._users[user] = self._users.get(user, 0) + 1
        self._creators[destination] = _Creator(counter, user)

    def remove(self, destination: Destination) -> None:
        """Stop counting a removed destination, if it was created by a client."""
        creator = self._creators.pop(destination, None)
        if creator is None:
            return
        if creator.connection is not None:
            creator.connection.count -= 1
        left = self._users[creator.user] - 1
        if left:
            self._users[creator.user] = left
        else:
            del self._users[creator.user]

    def connection_closed(self, context: ConnectionContext) -> None:
        """Stop counting for a closed connection; its destinations still count for its user."""
        self._connections.pop(context, None)
