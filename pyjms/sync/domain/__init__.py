"""Blocking sessions, producers, consumers and requestors of one domain: queues, or topics."""

from __future__ import annotations

from pyjms.sync.domain.endpoints import QueueReceiver, QueueSender, TopicPublisher, TopicSubscriber
from pyjms.sync.domain.requestors import QueueRequestor, TopicRequestor
from pyjms.sync.domain.sessions import QueueSession, TopicSession

__all__ = [
    "QueueReceiver",
    "QueueRequestor",
    "QueueSender",
    "QueueSession",
    "TopicPublisher",
    "TopicRequestor",
    "TopicSession",
    "TopicSubscriber",
]
