"""The temporary destinations of a connection, and those that advisories tell of.

Only the connection that made one consumes from it; everybody may send to it while it
lives, which a watching client knows. (JMS 4.4.3; ActiveMQ D13, ENCODING sections 9 and 17)
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, TypeVar

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessageDispatch,
)

if TYPE_CHECKING:
    from pyjms.client.connection.connection import ActiveMQConnection

__all__ = ["AdvisoryConsumer", "TemporaryDestinations"]

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


_TOPICS: Final = "ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"
_PREFETCH = 1000
_ACK_SHARE = 0.75
_IMPLICIT_SESSION = -1


class AdvisoryConsumer:
    """Hears of temporary destinations made and removed."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self._connection = connection
        self._unacknowledged = 0
        self.consumer_id = ConsumerId(connection.connection_id.value, _IMPLICIT_SESSION, 1)
        self.info = ConsumerInfo(
            consumer_id=self.consumer_id,
            destination=Topic(_TOPICS),
            prefetch_size=_PREFETCH,
            no_local=True,
            dispatch_async=True,
        )

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Take an advisory."""
        message = dispatch.message
        if message is None:
            return
        if isinstance(message.data_structure, DestinationInfo):
            self._connection.temporaries.heard_of(message.data_structure)
        self._unacknowledged += 1
        if self._unacknowledged >= _ACK_SHARE * _PREFETCH:
            self._connection.oneway(
                MessageAck(
                    dispatch.destination,
                    None,
                    self.consumer_id,
                    AckType.STANDARD,
                    None,
                    message.message_id,
                    self._unacknowledged,
                )
            )
            self._unacknowledged = 0
