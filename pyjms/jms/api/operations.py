"""What sessions and contexts have in common: destinations, messages and transactions."""

from __future__ import annotations

from abc import abstractmethod

from pyjms.jms.api.endpoints import Closeable, QueueBrowser
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message

__all__ = ["SessionOperations"]


class SessionOperations(Closeable):
    """The operations of a session that a context of JMS 2.0 has as well.

    The `create_*_message`, `create_queue` and `create_topic` methods only create objects; nothing
    is sent to the broker.
    """

    @property
    @abstractmethod
    def transacted(self) -> bool:
        """Whether the session is transacted: `commit` or `rollback` ends each transaction."""

    @abstractmethod
    def create_queue(self, name: str) -> Queue:
        """Return the queue `name`, which may have options: `orders?consumer.prefetchSize=1`.

        Raises:
            InvalidDestinationException: the name is empty.
        """

    @abstractmethod
    def create_topic(self, name: str) -> Topic:
        """Return the topic `name`; otherwise as `create_queue`."""

    @abstractmethod
    def create_message(self) -> Message:
        """Return a message without a body."""

    @abstractmethod
    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a message with a text."""

    @abstractmethod
    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        """Return a message with a body of bytes."""

    @abstractmethod
    def create_map_message(self) -> MapMessage:
        """Return a message with a body of named values."""

    @abstractmethod
    def create_stream_message(self) -> StreamMessage:
        """Return a message with a body of a sequence of values."""

    @abstractmethod
    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        """Return a message with a serialized Java object."""

    @abstractmethod
    async def create_temporary_queue(self) -> TemporaryQueue:
        """Create a queue that exists until its connection closes.

        Waits for the broker. JMS: createTemporaryQueue (JMS 1.1 section 4.4.3).
        """

    @abstractmethod
    async def create_temporary_topic(self) -> TemporaryTopic:
        """Create a topic that exists until its connection closes; as `create_temporary_queue`."""

    @abstractmethod
    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination of this connection. JMS: TemporaryQueue.delete.

        Raises:
            JMSException: it has consumers, or belongs to another connection.
        """

    @abstractmethod
    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Create a browser of the queue's messages; the errors are those of `create_consumer`."""

    @abstractmethod
    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription of this client id, with its messages.

        A shared subscription can only be deleted on a connection on which a consumer of it was
        created.

        Raises:
            InvalidDestinationException: there is no subscription with that name.
            JMSException: it has an active consumer.
        """

    @abstractmethod
    async def commit(self) -> None:
        """Commit the transaction and begin the next one. Waits for the broker.

        Raises:
            IllegalStateException: the session is closed or not transacted.
            TransactionRolledBackException: the transaction was rolled back instead.
        """

    @abstractmethod
    async def rollback(self) -> None:
        """Roll the transaction back and begin the next one.

        Messages received in it are redelivered according to the redelivery policy.

        Raises:
            IllegalStateException: the session is closed or not transacted.
        """

    @abstractmethod
    async def recover(self) -> None:
        """Redeliver all messages that are not acknowledged yet. JMS: Session.recover.

        Raises:
            IllegalStateException: the session is closed or transacted.
        """
