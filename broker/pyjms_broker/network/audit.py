"""The audit of messages that come over bridges: a message that is forwarded again is dropped.

Whether a bridge forwards a message at all, by hop count and path, is decided in
`pyjms_broker.region.bridge_filter`. (activemq-edges NW1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyjms.runtime.logging import get_logger
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ActiveMQMessage, BrokerId, MessageId, ProducerId
from pyjms_broker.api.completion import COMPLETED, Completion

logger = get_logger(__name__)

_DEPTH: Final = 10_000
"""The number of recorded messages of each producer."""
_PRODUCERS: Final = 1024
"""The number of recorded producers, each counted once per destination."""


class NetworkAudit:
    """Detects messages that bridges send repeatedly, which are dropped.

    A bridge that was lost before it got a confirmation sends the message again. A queue detects a
    repeated id with its own audit, and a store does so while it has the message. This audit, which
    all bridges to the broker share, also detects it after the message was consumed. It is exact: a
    message is dropped only if one with its id has arrived in the same destination and is as durable
    as its sender requires.
    """

    def __init__(self) -> None:
        self._seen = MessageAudit(_DEPTH, _PRODUCERS)
        self._pending: dict[MessageId, Completion] = {}
        """Messages that are not stored yet: a repeated send waits for the same completion."""

    def send(
        self, message: ActiveMQMessage, own_id: BrokerId, send: Callable[[], Completion]
    ) -> Completion:
        """Send a message unless it has arrived before; completed when it is stored.

        A message that has already passed this broker, `own_id`, was forwarded from it and returns;
        it is not a repetition.
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
            self._seen.forget(key)
            raise
        if not sent.done:
            self._pending[key] = sent
        sent.then(lambda done: self._on_sent(key, done))
        return sent

    def _on_sent(self, key: MessageId, done: Completion) -> None:
        self._pending.pop(key, None)
        if done.error is not None:
            self._seen.forget(key)


def _key(message: ActiveMQMessage) -> MessageId | None:
    """Return the key of a persistent message in its destination.

    Copies of a message for several destinations, such as a virtual topic's, have the same id.
    """
    own, destination = message.message_id, message.destination
    if not message.persistent or own is None or own.producer_id is None or destination is None:
        return None
    producer = own.producer_id
    connection = f"{destination.qualified_name}|{producer.connection_id}"
    in_destination = ProducerId(connection, producer.value, producer.session_id)
    return MessageId(None, in_destination, own.producer_sequence_id)
