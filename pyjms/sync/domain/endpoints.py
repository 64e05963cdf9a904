"""Blocking producers and consumers of one domain."""

from __future__ import annotations

from typing import Final

from pyjms.jms.destination import Queue, Topic
from pyjms.sync.attributes import ReadOnly
from pyjms.sync.session import MessageConsumer, MessageProducer

__all__ = ["QueueReceiver", "QueueSender", "TopicPublisher", "TopicSubscriber"]


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
