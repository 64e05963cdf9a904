"""The JMS API: destinations, messages, and the interfaces that a provider implements.

The names are imported from their modules on first use, so that a program which needs a destination
does not load the interfaces.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
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

__getattr__, __dir__ = names_of(
    globals(),
    homes_of(
        {
            "pyjms.jms.api": "Connection ConnectionFactory ExceptionListener MessageConsumer "
            "MessageListener MessageProducer QueueBrowser Session",
            "pyjms.jms.bodies": "BytesMessage MapMessage ObjectMessage StreamMessage TextMessage",
            "pyjms.jms.destination": "Destination Queue TemporaryQueue TemporaryTopic Topic "
            "parse_destination",
            "pyjms.jms.message": "Message",
            "pyjms.jms.metadata": "ConnectionMetaData",
            "pyjms.jms.properties": "MessageProperties",
        }
    ),
)
