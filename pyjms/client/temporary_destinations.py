"""Temporary destinations: this connection's, and those that advisories report.

Only the connection that created a temporary destination may consume from it. Every connection may
send to it while it exists. With `watch_topic_advisories`, a connection knows which temporary
destinations exist: it consumes the broker's advisories on their creation and removal, so that
sending to a deleted one fails at once and no message is lost silently. The consumer of the
advisories is `<connection>:-1:1` and acknowledges in one range at 75 % of its prefetch.

(JMS 1.1, section 4.4.3; activemq-broker D13; openwire-encoding 9 and 17)
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, TypeVar

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import (
    ADVISORY_PREFIX,
    Destination,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
)
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessageDispatch,
)

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection

_ADD, _REMOVE = 0, 1

_ADVISORY_TOPICS: Final = f"{ADVISORY_PREFIX}TempQueue,{ADVISORY_PREFIX}TempTopic"
_PREFETCH = 1000
_ACK_SHARE = 0.75
_IMPLICIT_SESSION = -1

_T = TypeVar("_T", TemporaryQueue, TemporaryTopic)


class TemporaryDestinations:
    """The existing temporary destinations known to one connection; consumes the advisories."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._existing: set[Destination] = set()
        self.consumer_id: ConsumerId = ConsumerId(
            connection.connection_id.value, _IMPLICIT_SESSION, 1
        )
        self._unacknowledged = 0
        self.are_watched: bool = False
        """Whether advisories report all destinations: then an unknown one does not exist."""

    async def create(self, kind: type[_T]) -> _T:
        """Create a temporary destination of this connection."""
        connection = self._connection
        destination = kind(f"{connection.connection_id.value}:{next(self._numbers)}")
        await connection.request(DestinationInfo(connection.connection_id, destination, _ADD))
        self._existing.add(destination)
        return destination

    async def delete(self, destination: Destination) -> None:
        """Delete a temporary destination of this connection.

        Raises:
            JMSException: a consumer of this connection still consumes from it.
            InvalidDestinationException: another connection created it.
        """
        self._check_own(destination, "delete")
        connection = self._connection
        if connection.has_consumer_of(destination):
            raise JMSException(
                f"A consumer is consuming from the temporary destination {destination}",
                hint="close the consumer first",
            )
        self._existing.discard(destination)
        await connection.request(DestinationInfo(connection.connection_id, destination, _REMOVE))

    def check_sendable(self, destination: Destination) -> None:
        """Refuse to send to a temporary destination that no longer exists.

        Raises:
            InvalidDestinationException: it was deleted, or its connection was closed.
        """
        if self.are_watched and destination not in self._existing:
            raise InvalidDestinationException(
                f"Cannot publish to a deleted Destination: {destination}",
                hint="it was deleted, or the connection that created it is closed",
            )

    def check_consumable(self, destination: Destination) -> None:
        """Refuse to consume from a temporary destination of another connection, or a deleted one.

        Raises:
            InvalidDestinationException: it was created by another connection, or is deleted.
        """
        if destination.is_temporary:
            self._check_own(destination, "use")
            if self.are_watched and destination not in self._existing:
                raise InvalidDestinationException(
                    f"Cannot use a Temporary destination that has been deleted: {destination}",
                    hint="create another one with the session",
                )

    def _check_own(self, destination: Destination, verb: str) -> None:
        if not destination.physical_name.startswith(f"{self._connection.connection_id.value}:"):
            raise InvalidDestinationException(
                f"Cannot {verb} a Temporary destination from another Connection: {destination}",
                hint="use the connection that created it; other connections may only send to it",
            )

    async def watch(self) -> None:
        """Consume the advisories."""
        self._connection.consumers[self.consumer_id] = self
        await self._connection.request(
            ConsumerInfo(
                consumer_id=self.consumer_id,
                destination=Topic(_ADVISORY_TOPICS),
                prefetch_size=_PREFETCH,
                no_local=True,
                dispatch_async=True,
            )
        )
        self.are_watched = True

    def on_interruption(self) -> None:
        """Discard pending acknowledgements of the lost broker's messages."""
        self._unacknowledged = 0

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Accept an advisory: record the creation or removal that it reports."""
        message = dispatch.message
        if message is None:
            return
        info = message.data_structure
        if isinstance(info, DestinationInfo):
            destination = info.destination
            if destination is not None and destination.is_temporary:
                if info.operation_type == _ADD:
                    self._existing.add(destination)
                else:
                    self._existing.discard(destination)
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
