"""The JMS API: destinations, messages, and the interfaces that a provider implements."""

from pyjms.jms.api import (
    Connection,
    ConnectionFactory,
    ExceptionListener,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    QueueBrowser,
    Session,
)
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    parse_destination,
)
from pyjms.jms.message import Message
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.jms.properties import MessageProperties

__all__ = [
    "BytesMessage",
    "Connection",
    "ConnectionFactory",
    "ConnectionMetaData",
    "Destination",
    "ExceptionListener",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "MessageProperties",
    "ObjectMessage",
    "Queue",
    "QueueBrowser",
    "Session",
    "StreamMessage",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "parse_destination",
]
