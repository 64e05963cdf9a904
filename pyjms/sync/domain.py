"""Blocking sessions, producers, consumers and requestors of one domain: queues, or topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.jms import api, domain
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.domain import Requestor
from pyjms.sync.facade import ReadOnly, SessionPart, derive
from pyjms.sync.session import CloseableFacade, MessageConsumer, MessageProducer, Session

if TYPE_CHECKING:
    from pyjms.sync.derived import (
        PublisherMembers,
        QueueSessionMembers,
        ReceiverMembers,
        RequestorMembers,
        SenderMembers,
        SubscriberMembers,
        TopicSessionMembers,
    )
else:
    SenderMembers = derive(domain.QueueSender, but=api.MessageProducer)
    PublisherMembers = derive(domain.TopicPublisher, but=api.MessageProducer, omit="publish")
    ReceiverMembers = derive(domain.QueueReceiver, but=api.MessageConsumer)
    SubscriberMembers = derive(domain.TopicSubscriber, but=api.MessageConsumer)
    QueueSessionMembers = derive(domain.QueueSession, but=api.Session, omit="check of_topics")
    TopicSessionMembers = derive(domain.TopicSession, but=api.Session, omit="check of_topics")
    RequestorMembers = derive(Requestor)


class QueueSender(MessageProducer, SenderMembers):
    """Sends messages to queues. For one thread at a time. JMS: QueueSender."""

    __slots__ = ()


class TopicPublisher(MessageProducer, PublisherMembers):
    """Publishes messages to topics. For one thread at a time. JMS: TopicPublisher."""

    __slots__ = ()

    publish: Final = MessageProducer.send


class QueueReceiver(MessageConsumer, ReceiverMembers):
    """Receives the messages of a queue. For one thread at a time. JMS: QueueReceiver."""

    __slots__ = ()


class TopicSubscriber(MessageConsumer, SubscriberMembers):
    """Receives the messages of a topic. For one thread at a time. JMS: TopicSubscriber."""

    __slots__ = ()

    no_local: Final = ReadOnly[bool](
        "Whether messages published over the same connection are skipped."
    )


class QueueSession(Session, QueueSessionMembers):
    """A session of queues. For one thread at a time, except `close`. JMS: QueueSession.

    Operations for topics raise IllegalStateException; a topic as a destination raises
    InvalidDestinationException.
    """

    __slots__ = ()


class TopicSession(Session, TopicSessionMembers):
    """A session of topics. For one thread at a time, except `close`. JMS: TopicSession.

    Operations for queues raise IllegalStateException; a queue as a destination raises
    InvalidDestinationException.
    """

    __slots__ = ()

    def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> TopicSubscriber:
        """Create the consumer of a durable subscription. Blocks."""
        create = self.core.create_durable_subscriber
        core = self.call(partial(create, topic, name, selector, no_local=no_local))
        return TopicSubscriber.of(core, self.loop, self)


class _Requestor(SessionPart[Requestor], CloseableFacade[Requestor], RequestorMembers):
    """The base class of both requestors."""

    __slots__ = ("session",)

    session: Session

    def _over(self, session: Session, core: Requestor) -> None:
        self.attach(core, session.loop, session)
        self.session = session


class QueueRequestor(_Requestor):
    """Sends requests to a queue and waits for the reply to each. JMS: QueueRequestor.

    For one thread at a time; see `pyjms.jms.QueueRequestor`.

    Args:
        session: neither transacted nor used for anything else; `close` closes it.
        queue: the queue to which requests are sent.

    Raises:
        IllegalStateException: the session is transacted.
        InvalidDestinationException: the queue is None.
    """

    __slots__ = ()

    def __init__(self, session: Session, queue: Queue) -> None:
        self._over(session, domain.QueueRequestor(session.core, queue))


class TopicRequestor(_Requestor):
    """Publishes requests to a topic and waits for the reply to each. JMS: TopicRequestor.

    For one thread at a time; see `pyjms.jms.TopicRequestor`.

    Args:
        session: neither transacted nor used for anything else; `close` closes it.
        topic: the topic to which requests are published.

    Raises:
        IllegalStateException: the session is transacted.
        InvalidDestinationException: the topic is None.
    """

    __slots__ = ()

    def __init__(self, session: Session, topic: Topic) -> None:
        self._over(session, domain.TopicRequestor(session.core, topic))
