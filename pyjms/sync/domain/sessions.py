"""Blocking sessions of one domain; they reject operations of the other."""

from __future__ import annotations

from typing import Final

from pyjms.jms import api, domain
from pyjms.sync.domain.endpoints import QueueReceiver, QueueSender, TopicPublisher, TopicSubscriber
from pyjms.sync.facade import blocking_as, implemented_by
from pyjms.sync.session import Session

__all__ = ["QueueSession", "TopicSession"]


class QueueSession(Session):
    """A session of queues. For one thread at a time, except `close`. JMS: QueueSession.

    Operations for topics raise IllegalStateException; a topic as a destination raises
    InvalidDestinationException.
    """

    __slots__ = ()

    create_sender: Final = blocking_as(lambda: QueueSender, domain.QueueSession.create_sender)
    create_receiver: Final = blocking_as(lambda: QueueReceiver, domain.QueueSession.create_receiver)


class TopicSession(Session):
    """A session of topics. For one thread at a time, except `close`. JMS: TopicSession.

    Operations for queues raise IllegalStateException; a queue as a destination raises
    InvalidDestinationException.
    """

    __slots__ = ()

    create_publisher: Final = blocking_as(
        lambda: TopicPublisher, domain.TopicSession.create_publisher
    )
    create_subscriber: Final = blocking_as(
        lambda: TopicSubscriber, domain.TopicSession.create_subscriber
    )

    @implemented_by(blocking_as(lambda: TopicSubscriber, api.Session.create_durable_subscriber))
    def create_durable_subscriber(self) -> None:
        """Create the consumer of a durable subscription."""
