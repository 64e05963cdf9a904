"""The JMS API: destinations, messages, and the interfaces that a provider implements.

The names are imported from their modules on first use, so that a program which needs a destination
does not load the interfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.jms.api import (
        AsyncCallback as AsyncCallback, CompletionListener as CompletionListener,
        Connection as Connection, ConnectionConsumer as ConnectionConsumer,
        ConnectionFactory as ConnectionFactory, ExceptionListener as ExceptionListener,
        MessageConsumer as MessageConsumer, MessageListener as MessageListener,
        MessageProducer as MessageProducer, MessageTransformer as MessageTransformer,
        QueueBrowser as QueueBrowser, ServerSession as ServerSession,
        ServerSessionPool as ServerSessionPool, Session as Session,
    )
    from pyjms.jms.destination import (
        Destination as Destination, Queue as Queue, TemporaryQueue as TemporaryQueue,
        TemporaryTopic as TemporaryTopic, Topic as Topic, parse_destination as parse_destination,
    )
    from pyjms.jms.domain import (
        QueueConnection as QueueConnection, QueueConnectionFactory as QueueConnectionFactory,
        QueueReceiver as QueueReceiver, QueueRequestor as QueueRequestor,
        QueueSender as QueueSender, QueueSession as QueueSession,
        TopicConnection as TopicConnection, TopicConnectionFactory as TopicConnectionFactory,
        TopicPublisher as TopicPublisher, TopicRequestor as TopicRequestor,
        TopicSession as TopicSession, TopicSubscriber as TopicSubscriber,
    )
    from pyjms.jms.message import (
        BytesMessage as BytesMessage, MapMessage as MapMessage, Message as Message,
        MessageProperties as MessageProperties, ObjectMessage as ObjectMessage,
        StreamMessage as StreamMessage, TextMessage as TextMessage,
    )
    from pyjms.jms.metadata import ConnectionMetaData as ConnectionMetaData
    from pyjms.jms.xa import (
        XAConnection as XAConnection, XAResource as XAResource, XASession as XASession,
    )
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
