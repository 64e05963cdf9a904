"""Requestors: send a request, and wait for its reply on a temporary destination."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.api.endpoints import Closeable, MessageConsumer, MessageProducer
from pyjms.jms.api.session import Session
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message

__all__ = ["QueueRequestor", "TopicRequestor"]


class _Replies(NamedTuple):
    """The temporary destination of replies, and its consumer."""

    destination: TemporaryQueue | TemporaryTopic
    consumer: MessageConsumer


class Requestor(Closeable):
    """Sends requests to a destination and waits for the reply to each, one at a time.

    The first message that arrives on the temporary destination is taken as the reply: exactly one
    reply is expected for each request. For one task at a time. The connection must be started. The
    producer and the temporary destination are created with the first request.

    Args:
        session: neither transacted nor used for anything else; `close` closes it.
        destination: the destination to which requests are sent.

    Raises:
        IllegalStateException: the session is transacted: requests would be sent by the commit only.
        InvalidDestinationException: the destination is None.
    """

    def __init__(self, session: Session, destination: Destination) -> None:
        if destination is None:
            raise InvalidDestinationException("A requestor needs a destination, not None")
        if session.transacted:
            raise IllegalStateException(
                f"A requestor for {destination} would wait for ever in a transacted session",
                hint="create the session with transacted=False",
            )
        self.session = session
        self._destination = destination
        self._producer: MessageProducer | None = None
        self._replies: _Replies | None = None
        self._late: list[_Replies] = []

    @abstractmethod
    async def _create_reply_destination(self) -> TemporaryQueue | TemporaryTopic:
        """Create the temporary destination of replies."""

    async def request(self, message: Message, timeout: float | None = None) -> Message | None:
        """Send `message`, with `reply_to` set, and wait for the reply.

        After a timeout or a cancellation, the next request uses another temporary destination, so
        that a late reply is not mistaken for its reply. JMS: request(Message), without a timeout.

        Args:
            message: the request.
            timeout: seconds; None: no limit.

        Returns:
            The reply; None: `timeout` has passed, or the session was closed meanwhile.

        Raises:
            IllegalStateException: the session is closed.
            JMSException: the request could not be sent, or the connection failed.
        """
        producer, replies = await self._open()
        message.reply_to = replies.destination
        reply = None
        try:
            await producer.send(message)
            reply = await replies.consumer.receive(timeout)
        finally:
            if reply is None:  # dropped later: a cancelled task cannot wait for the broker
                self._replies = None
                self._late.append(replies)
        return reply

    async def close(self) -> None:
        """Delete the temporary destination and close the session. Idempotent."""
        if self._replies is not None:
            self._late.append(self._replies)
            self._replies = None
        try:
            await self._drop_late()
        finally:
            await self.session.close()

    async def _open(self) -> tuple[MessageProducer, _Replies]:
        await self._drop_late()
        if self._producer is None:
            self._producer = await self.session.create_producer(self._destination)
        if self._replies is None:
            destination = await self._create_reply_destination()
            consumer = await self.session.create_consumer(destination)
            self._replies = _Replies(destination, consumer)
        return self._producer, self._replies

    async def _drop_late(self) -> None:
        while self._late:
            replies = self._late.pop()
            if not replies.consumer.is_closed:  # the session was not closed meanwhile
                await replies.consumer.close()
                await self.session.delete_temporary(replies.destination)


class QueueRequestor(Requestor):
    """Sends requests to a queue. JMS: javax.jms.QueueRequestor (JMS 1.1 section 5.10)."""

    def __init__(self, session: Session, queue: Queue) -> None:
        super().__init__(session, queue)

    async def _create_reply_destination(self) -> TemporaryQueue:
        return await self.session.create_temporary_queue()


class TopicRequestor(Requestor):
    """Publishes requests to a topic. JMS: javax.jms.TopicRequestor (JMS 1.1 section 6.13)."""

    def __init__(self, session: Session, topic: Topic) -> None:
        super().__init__(session, topic)

    async def _create_reply_destination(self) -> TemporaryTopic:
        return await self.session.create_temporary_topic()
