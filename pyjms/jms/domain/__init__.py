"""The API of JMS 1.0.2 for one domain each: queues, or topics. (jms-api 2.17)

Thin classes over the unified interfaces of `pyjms.jms.api`, so that they work with the connections
of every factory, and cost those who do not use them nothing. A session of one domain refuses what
belongs to the other.
"""

from __future__ import annotations

from pyjms.jms.domain.connections import (
    DomainConnectionFactory,
    QueueConnection,
    QueueConnectionFactory,
    TopicConnection,
    TopicConnectionFactory,
    open_connection,
)
from pyjms.jms.domain.endpoints import QueueReceiver, QueueSender, TopicPublisher, TopicSubscriber
from pyjms.jms.domain.requestors import QueueRequestor, TopicRequestor
from pyjms.jms.domain.sessions import QueueSession, TopicSession

__all__ = [
    "DomainConnectionFactory",
    "QueueConnection",
    "QueueConnectionFactory",
    "QueueReceiver",
    "QueueRequestor",
    "QueueSender",
    "QueueSession",
    "TopicConnection",
    "TopicConnectionFactory",
    "TopicPublisher",
    "TopicRequestor",
    "TopicSession",
    "TopicSubscriber",
    "open_connection",
]
