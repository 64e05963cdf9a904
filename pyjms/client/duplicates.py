"""Duplicate detection: which messages a connection has received, and what to do with one again.

A broker dispatches a message once to a live connection. After a failover, or when a slow store
loses a race with a redispatch, it may do so again, and the application would process the message
twice. ActiveMQ's client therefore audits what it receives, and so does this one.

Keys. A message id is a producer id and that producer's sequence number. For queues one window
of numbers serves all consumers of the connection, since a message goes to one of them; for
topics every consumer has its own, since each gets a copy. (activemq-edges N13) The queue is the
consumer's, where it has just one: Artemis dispatches the copies that a virtual topic made for
several queues with the topic's name, and they are not duplicates of each other.

Windows. `SequenceWindow` keeps which of a producer's latest `audit_depth` (2048) numbers were
received, for each of `audit_maximum_producer_number` (64) producers. A number older than the window
counts as new: a false "duplicate" would dead-letter a good message, a missed duplicate only repeats
what at-least-once delivery allows.

Forgetting. A message that the client itself gives back may legitimately come again and is removed
from the window: at rollback, recover, and for everything buffered when its consumer closes.

Verdicts. A duplicate is judged by who has the first copy in an open transaction:

    ======================================  ================================================
    first copy is held by                   the duplicate is
    ======================================  ================================================
    a transaction of the same consumer      ACKNOWLEDGED as DELIVERED: the commit covers it
    a transaction of another consumer       DELIVERED: that transaction may still roll back
    nobody                                  REFUSED with a POISON ack: it was processed
    ======================================  ================================================

(activemq-broker R8)
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ConsumerId, MessageId, ProducerId
from pyjms.wire.sequence_window import SequenceWindow

__all__ = ["ConnectionAudit", "DuplicateVerdict", "MessageAudit", "judge_duplicate", "own_queue"]

_MAX_AUDITS = 1000  # destinations and topic consumers; the oldest are dropped


class DuplicateVerdict(Enum):
    """What becomes of a duplicate; see the table above."""

    ACKNOWLEDGED = "acknowledged"
    DELIVERED = "delivered"
    REFUSED = "refused"


def judge_duplicate(consumer: ConsumerId, holders: Collection[ConsumerId]) -> DuplicateVerdict:
    """Return what `consumer` does with a duplicate.

    `holders` are the consumers whose open transactions have received the message.
    """
    if consumer in holders:
        return DuplicateVerdict.ACKNOWLEDGED
    return DuplicateVerdict.DELIVERED if holders else DuplicateVerdict.REFUSED


class MessageAudit:
    """The messages received on one queue, or by one topic consumer."""

    def __init__(self, depth: int, maximum_producers: int) -> None:
        self._depth = depth
        self._maximum_producers = maximum_producers
        self._windows: dict[ProducerId | None, SequenceWindow] = {}
        # the latest message's producer, an object that the wire format reuses, and its window
        self._producer: ProducerId | None = None
        self._window: SequenceWindow | None = None

    def is_duplicate(self, message_id: MessageId | None) -> bool:
        """Whether the message was received before; records it."""
        if message_id is None:
            return False
        producer, window = message_id.producer_id, self._window
        if window is None or producer is not self._producer:
            window = self._windows.get(producer)
            if window is None:
                self._add(producer, message_id.producer_sequence_id)
                return False
            self._producer, self._window = producer, window
        return window.add(message_id.producer_sequence_id)

    def forget(self, message_id: MessageId | None) -> None:
        """Expect the message to be dispatched again."""
        if message_id is None:
            return
        window = self._windows.get(message_id.producer_id)
        if window is not None:
            window.remove(message_id.producer_sequence_id)

    def _add(self, producer: ProducerId | None, sequence: int) -> None:
        if len(self._windows) >= self._maximum_producers:
            del self._windows[next(iter(self._windows))]
            self._window = None
        self._windows[producer] = SequenceWindow(sequence, self._depth)


class ConnectionAudit:
    """The audits of one connection."""

    def __init__(self, depth: int, maximum_producers: int) -> None:
        self._depth = depth
        self._maximum_producers = maximum_producers
        self._audits: dict[Destination | ConsumerId, MessageAudit] = {}

    def __len__(self) -> int:
        return len(self._audits)

    def audit_for(self, destination: Destination, consumer_id: ConsumerId) -> MessageAudit:
        """Return the audit that applies to dispatches from `destination` to this consumer."""
        key = destination if destination.is_queue else consumer_id
        audit = self._audits.get(key)
        if audit is None:
            if len(self._audits) >= _MAX_AUDITS:
                del self._audits[next(iter(self._audits))]
            audit = self._audits[key] = MessageAudit(self._depth, self._maximum_producers)
        return audit

    def remove(self, consumer_id: ConsumerId) -> None:
        """Drop the audit of a topic consumer."""
        self._audits.pop(consumer_id, None)


def own_queue(destination: Destination | None) -> Destination | None:
    """Return the queue of a consumer that has just one, by its name."""
    if destination is None or not destination.is_queue:
        return None
    return None if destination.is_pattern or destination.is_composite else destination
