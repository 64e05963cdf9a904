"""The temporary destinations of a connection, and those that advisories tell of.

Only the connection that made one consumes from it; everybody may send to it while it
lives, which a watching client knows. (JMS 4.4.3; ActiveMQ D13, ENCODING sections 9 and 17)
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination, TemporaryQueue, TemporaryTopic
from pyjms.wire.openwire.commands import DestinationInfo

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection

__all__ = ["TemporaryDestinations"]

_ADD, _REMOVE = 0, 1

_T = TypeVar("_T", TemporaryQueue, TemporaryTopic)


class TemporaryDestinations:
    """Which temporary destinations exist, as far as one connection knows."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._existing: set[Destination] = set()
        self.are_watched = False
        """Whether advisories tell of all: then a destination not told of does not exist."""

    async def create(self, kind: type[_T]) -> _T:
        """Make a new one of this connection."""
        connection = self._connection
        destination = kind(f"{connection.connection_id.value}:{next(self._numbers)}")
        await connection.request(DestinationInfo(connection.connection_id, destination, _ADD))
        self._existing.add(destination)
        return destination

    async def delete(self, destination: Destination) -> None:
        """Delete one.

        Raises:
            JMSException: somebody of this connection consumes from it.
            InvalidDestinationException: another connection made it.
        """
        self._check_own(destination, "delete")
        connection = self._connection
        if connection.has_consumer_of(destination):
            raise JMSException(
                "A consumer is consuming from the temporary destination",
                hint="close the consumer first",
            )
        self._existing.discard(destination)
        await connection.request(DestinationInfo(connection.connection_id, destination, _REMOVE))

    def check_sendable(self, destination: Destination) -> None:
        """Refuse to send to one that is gone.

        Raises:
            InvalidDestinationException: it was deleted, or its connection has ended.
        """
        if self.are_watched and destination not in self._existing:
            raise InvalidDestinationException(
                f"Cannot publish to a deleted Destination: {destination}"
            )

    def check_consumable(self, destination: Destination) -> None:
        """Refuse to consume from another connection's, or from one that is gone.

        Raises:
            InvalidDestinationException: it is.
        """
        if destination.is_temporary:
            self._check_own(destination, "use")
            if self.are_watched and destination not in self._existing:
                raise InvalidDestinationException(
                    "Cannot use a Temporary destination that has been deleted"
                )

    def heard_of(self, info: DestinationInfo) -> None:
        """Take an advisory's word."""
        destination = info.destination
        if destination is None or not destination.is_temporary:
            return
        if info.operation_type == _ADD:
            self._existing.add(destination)
        else:
            self._existing.discard(destination)

    def _check_own(self, destination: Destination, verb: str) -> None:
        if not destination.physical_name.startswith(f"{self._connection.connection_id.value}:"):
            raise InvalidDestinationException(
                f"Cannot {verb} a Temporary destination from another Connection"
            )
