"""Messages that bridges send again though they have arrived: recognised and dropped.

A bridge that was lost before it got a confirmation sends the message again. A queue recognises a
repeated id by its own audit, and a store does while it has the message; this audit, which all
bridges to the broker share, recognises it after the message was consumed, too. It is exact: a
message is dropped only if one with its id has arrived in the same destination and is as safe as
its sender requires. (activemq-edges NW5; activemq-broker T27; ActiveMQ auditNetworkProducers)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyjms._logger import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, BrokerId, MessageId, ProducerId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.policy.audit import MessageAudit

__all__ = ["NetworkAudit"]

logger = get_logger(__name__)

_DEPTH: Final = 10_000
"""Messages of each producer that are remembered."""
_PRODUCERS: Final = 1024
"""Producers that are remembered, counted for each destination."""


class NetworkAudit:
    """The messages that bridges have sent to one broker."""

    def __init__(self) -> None:
        self._seen = MessageAudit(_DEPTH, _PRODUCERS)
        self._pending: dict[MessageId, Completion] = {}
        """What is not safe yet: who sends it again waits for the same end."""

    def send(
        self, message: ActiveMQMessage, own_id: BrokerId, send: Callable[[], Completion]
    ) -> Completion:
        """Send a message unless it has come before; done when it is safe.

        A message that has been at this broker, `own_id`, comes back because it was forwarded from
        here: it is no repetition.
        """
        path: Sequence[BrokerId | None] = message.broker_path or ()
        key = _key(message)
        if key is None or not message.response_required or own_id in path:
            return send()
        pending = self._pending.get(key)
        if pending is not None:
            return pending
        if self._seen.is_duplicate(key):
            logger.debug("Dropped %s, which a bridge has sent again", message.message_id)
            return COMPLETED
        try:
            sent = send()
        except BaseException:
            self._seen.rollback(key)
            raise
        if not sent.done:
            self._pending[key] = sent
        sent.then(lambda done: self._sent(key, done))
        return sent

    def _sent(self, key: MessageId, done: Completion) -> None:
        self._pending.pop(key, None)
        if done.error is not None:
            self._seen.rollback(key)


def _key(message: ActiveMQMessage) -> MessageId | None:
    """Return what identifies a persistent message in its destination.

    Copies of a message for several destinations, of a virtual topic for example, share their id.
    """
    own, destination = message.message_id, message.destination
    if not message.persistent or own is None or own.producer_id is None or destination is None:
        return None
    producer = own.producer_id
    connection = f"{destination.qualified_name}|{producer.connection_id}"
    in_destination = ProducerId(connection, producer.value, producer.session_id)
    return MessageId(None, in_destination, own.producer_sequence_id)
