"""The consumer of advisories that every connection has: it tells of temporary destinations.

It is `<connection>:-1:1` and acknowledges in one go at 75 % of its prefetch. (ENCODING section 17)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms.jms.destination import Topic
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

__all__ = ["AdvisoryConsumer"]

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
