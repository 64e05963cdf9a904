"""The domain-specific API of JMS 1.0.2: queues and topics. (jms-api 2.17)

Thin classes over the unified interfaces of `pyjms.jms.api`, so that they work with the connections
of every factory, at no cost if they are not used. A session of one domain rejects operations of the
other.
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
