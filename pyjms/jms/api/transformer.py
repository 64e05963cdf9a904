"""Transforming messages as they are sent and received."""

from __future__ import annotations

from typing import Protocol

from pyjms.jms.api.endpoints import MessageConsumer, MessageProducer
from pyjms.jms.api.session import Session
from pyjms.jms.message import Message

__all__ = ["MessageTransformer"]


class MessageTransformer(Protocol):
    """Transforms messages before they are sent and before they are delivered.

    Set it on a connection factory, connection, session, producer or consumer: each inherits the
    transformer of the object that created it, unless its own is set. The methods are plain
    functions, called on the loop; they must not block. The session, producer and consumer are those
    of `pyjms.aio`, also with the blocking API. ActiveMQ: org.apache.activemq.MessageTransformer.
    """

    def producer_transform(
        self, session: Session, producer: MessageProducer, message: Message, /
    ) -> Message | None:
        """Return the message to send instead of `message`; None: `message` itself.

        It is called before `send` sets the headers, which it sets on the returned message. If it
        raises, `send` raises the same exception, and nothing is sent.
        """

    def consumer_transform(
        self, session: Session, consumer: MessageConsumer, message: Message, /
    ) -> Message | None:
        """Return the message to deliver instead of `message`; None: `message` itself.

        The returned message has the headers that the transformer sets; its `acknowledge`
        acknowledges `message`. If the method raises, `receive` raises the same exception and the
        next receive gets the message; with a listener, it counts as a failure of the listener.
        """
