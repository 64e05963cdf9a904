"""Blocking sessions of one domain; they reject operations of the other."""

from __future__ import annotations

from typing import Final

from pyjms.jms import api, domain
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.domain import Requestor
from pyjms.sync.facade import ReadOnly, SessionPart, blocking, blocking_as, implemented_by
from pyjms.sync.session import CloseableFacade, MessageConsumer, MessageProducer, Session

# --- Blocking producers and consumers of one domain.


class QueueSender(MessageProducer):
    """Sends messages to queues. For one thread at a time. JMS: QueueSender."""

    __slots__ = ()

    queue: Final = ReadOnly[Queue | None]("The queue of all sends; None: each `send` specifies it.")


class TopicPublisher(MessageProducer):
    """Publishes messages to topics. For one thread at a time. JMS: TopicPublisher."""

    __slots__ = ()

    publish: Final = MessageProducer.send

    topic: Final = ReadOnly[Topic | None](
        "The topic of all messages; None: each `publish` specifies it."
    )


class QueueReceiver(MessageConsumer):
    """Receives the messages of a queue. For one thread at a time. JMS: QueueReceiver."""

    __slots__ = ()

    queue: Final = ReadOnly[Queue]("The queue from which messages are received.")


class TopicSubscriber(MessageConsumer):
    """Receives the messages of a topic. For one thread at a time. JMS: TopicSubscriber."""

    __slots__ = ()

    topic: Final = ReadOnly[Topic]("The topic from which messages are received.")
    no_local: Final = ReadOnly[bool](
        "Whether messages published over the same connection are skipped."
    )


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


# --- Blocking requestors.


class _Requestor(SessionPart[Requestor], CloseableFacade[Requestor]):
    """The base class of both requestors."""

    __slots__ = ("session",)

    session: Session

    request: Final = blocking(Requestor.request)

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
