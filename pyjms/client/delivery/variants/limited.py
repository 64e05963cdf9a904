"""Consumers with a lower limit for inflated bodies than the general one.

ActiveMQ: `jms.maxInflatedDataSizeRatio`, the ratio of that limit to the largest frame.
"""

from __future__ import annotations

from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
from pyjms.client.interfaces import ClientConnection, ClientSession
from pyjms.client.messages import ReroutedSource, limited_source
from pyjms.jms.message import Message
from pyjms.wire.limits import MAX_INFLATED_SIZE
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch

__all__ = ["LimitedConsumer", "inflated_limit"]


def inflated_limit(connection: ClientConnection) -> int | None:
    """Return the maximum bytes of an inflated body; None: only the general limit applies."""
    frame = connection.transport.max_frame_size
    if frame is None:
        return None
    limit = frame * connection.options.max_inflated_data_size_ratio
    return limit if limit < MAX_INFLATED_SIZE else None


class LimitedConsumer(ActiveMQMessageConsumer):
    """A consumer with a separate limit for inflated bodies."""

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self._inflated_limit = inflated_limit(session.connection) or MAX_INFLATED_SIZE

    def _to_message(self, dispatch: MessageDispatch) -> Message:
        message = super()._to_message(dispatch)
        command = dispatch.message
        if command is not None and command.compressed:
            is_rerouted = isinstance(message.source, ReroutedSource)
            source = limited_source(self._inflated_limit, is_rerouted=is_rerouted)(command)
            message.set_received(command.message_id, source, self._acknowledger, dispatch)
        return message
