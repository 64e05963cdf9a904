"""Which messages a connection has seen: a bounded window of sequence numbers per producer.

A broker never dispatches a message twice to a live connection, unless it was rolled back
or its consumer closed: those are forgotten here. The window is per queue, or per consumer
of a topic. (ActiveMQ N13, R8)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyjms.wire.openwire.commands import AckType, MessageDispatch, Throwable

if TYPE_CHECKING:
    from pyjms.client.delivery.consumer import ActiveMQMessageConsumer

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ConsumerId, MessageId, ProducerId

__all__ = [
    "ConnectionAudit",
    "MessageAudit",
    "suppress_duplicate",
]

_MAX_WINDOWS = 1000  # destinations and topic consumers; the oldest go


class _ProducerWindow:
    """The last numbers of one producer: bit n of `bits` is `highest` - n."""

    __slots__ = ("bits", "highest")

    def __init__(self, sequence: int) -> None:
        self.highest = sequence
        self.bits = 1


class MessageAudit:
    """The messages seen of one destination. A message too old for the window counts as new."""

    def __init__(self, depth: int, maximum_producers: int) -> None:
        self._depth = depth
        self._mask = (1 << depth) - 1
        self._maximum_producers = maximum_producers
        self._windows: dict[ProducerId | None, _ProducerWindow] = {}

    def is_duplicate(self, message_id: MessageId | None) -> bool:
        """Whether it was seen; from now on it was."""
        if message_id is None:
            return False
        sequence = message_id.producer_sequence_id
        window = self._windows.get(message_id.producer_id)
        if window is None:
            self._add(message_id.producer_id, sequence)
            return False
        step = sequence - window.highest
        if step > 0:
            window.bits = ((window.bits << step) | 1) & self._mask if step < self._depth else 1
            window.highest = sequence
            return False
        if -step >= self._depth:
            return False
        bit = 1 << -step
        seen = bool(window.bits & bit)
        window.bits |= bit
        return seen

    def forget(self, message_id: MessageId | None) -> None:
        """Take it as not seen: it may come again."""
        if message_id is None:
            return
        window = self._windows.get(message_id.producer_id)
        if window is not None and message_id.producer_sequence_id <= window.highest:
            window.bits &= ~(1 << (window.highest - message_id.producer_sequence_id))

    def _add(self, producer: ProducerId | None, sequence: int) -> None:
        if len(self._windows) >= self._maximum_producers:
            del self._windows[next(iter(self._windows))]
        self._windows[producer] = _ProducerWindow(sequence)


class ConnectionAudit:
    """The audits of one connection."""

    def __init__(self, depth: int, maximum_producers: int) -> None:
        self._depth = depth
        self._maximum_producers = maximum_producers
        self._audits: dict[Destination | ConsumerId, MessageAudit] = {}

    def audit_for(self, destination: Destination, consumer_id: ConsumerId) -> MessageAudit:
        """Return the audit that a dispatch of this consumer goes through."""
        key = destination if destination.is_queue else consumer_id
        audit = self._audits.get(key)
        if audit is None:
            if len(self._audits) >= _MAX_WINDOWS:
                del self._audits[next(iter(self._audits))]
            audit = self._audits[key] = MessageAudit(self._depth, self._maximum_producers)
        return audit

    def remove(self, consumer_id: ConsumerId) -> None:
        """Forget a topic consumer."""
        self._audits.pop(consumer_id, None)


logger = logging.getLogger(__name__)


def suppress_duplicate(consumer: ActiveMQMessageConsumer, dispatch: MessageDispatch) -> None:
    """Refuse a duplicate, unless an open transaction of this connection still has the first one.

    In this consumer's transaction the broker only needs to know that it came; in another
    consumer's it is delivered, as that transaction may roll back.
    """
    holder = _holder(consumer, dispatch)
    if holder is consumer:
        consumer.ledger.send(AckType.DELIVERED, [dispatch])
    elif holder is not None:
        logger.warning(
            "%s delivers the duplicate %s: a transaction on %s may still roll back",
            consumer.consumer_id,
            dispatch.message and dispatch.message.message_id,
            holder.consumer_id,
        )
        consumer.take_in(dispatch)
    else:
        logger.warning(
            "%s suppresses a duplicate delivery on its connection, poison acking: %s",
            consumer.consumer_id,
            dispatch.message and dispatch.message.message_id,
        )
        reason = f"Suppressing duplicate delivery on connection, consumer {consumer.consumer_id}"
        consumer.ledger.poison([dispatch], Throwable("java.lang.Throwable", reason))


def _holder(
    consumer: ActiveMQMessageConsumer, dispatch: MessageDispatch
) -> ActiveMQMessageConsumer | None:
    """The consumer whose open transaction has the message already."""
    assert dispatch.message is not None
    message_id = dispatch.message.message_id
    holders = [
        other
        for other in consumer.session.connection.open_consumers
        if other.session.transacted
        and any(
            held.message is not None and held.message.message_id == message_id
            for held in other.ledger.delivered
        )
    ]
    return consumer if consumer in holders else next(iter(holders), None)
