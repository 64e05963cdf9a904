"""Duplicate detection: which messages a connection has received, and how it handles duplicates.

A broker dispatches a message once to a live connection. After a failover, or when a slow store
loses a race with a redispatch, it may dispatch the message again, and the application would process
it twice. ActiveMQ's client therefore audits the messages that it receives, and so does this client.

Keys. A message id consists of a producer id and that producer's sequence number. For queues, one
window of numbers serves all consumers of the connection, since a message goes to only one of them;
for topics, every consumer has its own window, since each consumer gets a copy. (activemq-edges N13)
If a consumer has a single queue, the window is that queue's: Artemis dispatches the copies that a
virtual topic made for several queues with the topic's name, and these are not duplicates.

Windows. `MessageAudit` records which of a producer's latest `audit_depth` (2048) numbers were
received, for each of `audit_maximum_producer_number` (64) producers. A number older than the window
counts as new: a false positive would make a valid message a dead letter, whereas a missed duplicate
is a repetition that at-least-once delivery allows.

Forgetting. A message that the client itself returns may legitimately be dispatched again and is
removed from the window: at rollback and recover, and all buffered messages when a consumer closes.

Verdicts. The verdict on a duplicate depends on which open transaction has the first copy:

    ======================================  ================================================
    first copy is held by                   the duplicate is
    ======================================  ================================================
    a transaction of the same consumer      ACKNOWLEDGED as DELIVERED: the commit covers it
    a transaction of another consumer       DELIVERED: that transaction may still roll back
    no open transaction                     REFUSED with a POISON ack: it was processed
    ======================================  ================================================

(activemq-broker R8)
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from pyjms.jms.destination import Destination
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerId

_MAX_AUDITS = 1000  # destinations and topic consumers; the oldest are dropped


class DuplicateVerdict(Enum):
    """How a duplicate is handled; see the table above."""

    ACKNOWLEDGED = "acknowledged"
    DELIVERED = "delivered"
    REFUSED = "refused"


def judge_duplicate(consumer: ConsumerId, holders: Collection[ConsumerId]) -> DuplicateVerdict:
    """Return how `consumer` handles a duplicate.

    `holders` are the consumers whose open transactions have received the message.
    """
    if consumer in holders:
        return DuplicateVerdict.ACKNOWLEDGED
    return DuplicateVerdict.DELIVERED if holders else DuplicateVerdict.REFUSED


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
    """Return the queue of a consumer that has a single queue, as its name says; otherwise None."""
    if destination is None or not destination.is_queue:
        return None
    return None if destination.is_pattern or destination.is_composite else destination
