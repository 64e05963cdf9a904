"""Blocking producers and consumers of one domain."""

from __future__ import annotations

from typing import Final

from pyjms.jms.destination import Queue, Topic
from pyjms.sync.attributes import Attribute
from pyjms.sync.session import MessageConsumer, MessageProducer

__all__ = ["QueueReceiver", "QueueSender", "TopicPublisher", "TopicSubscriber"]


class QueueSender(MessageProducer):
    """Sends messages to queues. For one thread at a time. JMS: QueueSender."""

    __slots__ = ()

    queue: Attribute[Queue | None] = Attribute[Queue | None](
        "The queue of every send; None: each `send` names one.", read_only=True
    )


class TopicPublisher(MessageProducer):
    """Publishes messages to topics. For one thread at a time. JMS: TopicPublisher."""

    __slots__ = ()

    publish: Final = MessageProducer.send

    topic: Attribute[Topic | None] = Attribute[Topic | None](
        "The topic of every message; None: each `publish` names one.", read_only=True
    )


class QueueReceiver(MessageConsumer):
    """Receives the messages of a queue. For one thread at a time. JMS: QueueReceiver."""

    __slots__ = ()

    queue: Attribute[Queue] = Attribute[Queue](
        "The queue that the messages come from.", read_only=True
    )


class TopicSubscriber(MessageConsumer):
    """Receives the messages of a topic. For one thread at a time. JMS: TopicSubscriber."""

    __slots__ = ()

    topic: Attribute[Topic] = Attribute[Topic](
        "The topic that the messages come from.", read_only=True
    )
    no_local: Attribute[bool] = Attribute[bool](
        "Whether messages published by the own connection are left out.", read_only=True
    )
