"""The interfaces of a JMS provider, as coroutines.

`pyjms.client` implements them; caching and pooling factories wrap them. Names are JMS's in
snake_case. Everything here belongs to one event loop and is not thread-safe. A connection may be
used by any number of tasks. A session and what it created belong to one task at a time; only
`close` may be called from another one. Times are seconds; a timeout of None waits for ever and 0
does not wait. (jms-api 1 and 2)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.bodies import (
    BytesMessage,
    MapMessage,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.jms.producer_consumer import (
    Closeable,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    QueueBrowser,
)

__all__ = [
    "Closeable",
    "Connection",
    "ConnectionFactory",
    "ExceptionListener",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "QueueBrowser",
    "Session",
]

ExceptionListener = Callable[[JMSException], None]
"""Called on the loop with a failure that no call reports; must not block.

JMS: javax.jms.ExceptionListener (JMS 1.1 section 4.3.8).
"""


class Session(Closeable):
    """A context of sending and receiving: its messages are ordered, acknowledged, committed.

    JMS: javax.jms.Session (JMS 1.1 section 4.4). The `create_*_message`, `create_queue` and
    `create_topic` methods make objects only; the broker learns nothing of them.
    """

    @property
    @abstractmethod
    def transacted(self) -> bool:
        """Whether the session has transactions, ended by `commit` and `rollback`."""

    @property
    @abstractmethod
    def acknowledge_mode(self) -> AcknowledgeMode:
        """How messages are acknowledged; TRANSACTED in a transacted session."""

    @abstractmethod
    def create_queue(self, name: str) -> Queue:
        """Return the queue `name`, which may have options: `orders?consumer.prefetchSize=1`.

        Raises:
            InvalidDestinationException: the name is empty.
        """

    @abstractmethod
    def create_topic(self, name: str) -> Topic:
        """Return the topic `name`; as `create_queue`."""

    @abstractmethod
    def create_message(self) -> Message:
        """Return a message without a body."""

    @abstractmethod
    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a message with a text."""

    @abstractmethod
    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        """Return a message of bytes."""

    @abstractmethod
    def create_map_message(self) -> MapMessage:
        """Return a message of named values."""

    @abstractmethod
    def create_stream_message(self) -> StreamMessage:
        """Return a message of a sequence of values."""

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
    async def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Create a producer; without a destination each `send` names one.

        Raises:
            IllegalStateException: the session is closed.
            JMSSecurityException: the user may not send there.
        """

    @abstractmethod
    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Create a consumer. Waits for the broker.

        Args:
            destination: a queue or topic; also a composite or a wildcard one.
            selector: only messages for which it is true are received; None or "": all.
            no_local: whether messages sent by the own connection are left out (topics only).

        Raises:
            IllegalStateException: the session is closed.
            InvalidDestinationException: the destination cannot be consumed from.
            InvalidSelectorException: the selector is malformed.
            JMSSecurityException: the user may not receive from there.
        """

    async def create_pull_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        no_local: bool = False,
        timeout: float | None = None,
    ) -> MessageConsumer:
        """Create a consumer that fetches no messages ahead, and request its first one.

        The broker keeps each message until a `receive` requests it, so the consumer never holds
        messages that others could have. With a prefetch size in the destination's options it is
        an ordinary consumer, and so is that of a provider without pulls: the default here.
        ActiveMQ: a consumer with prefetch 0.

        Args:
            destination: as for `create_consumer`.
            selector: as for `create_consumer`.
            no_local: as for `create_consumer`.
            timeout: that of the `receive` that follows, in seconds; None: for ever.

        Raises:
            JMSException: as `create_consumer`.
        """
        del timeout
        return await self.create_consumer(destination, selector, no_local=no_local)

    @abstractmethod
    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Create a consumer of a durable subscription, which outlives it.

        The subscription is identified by the connection's client id and `name`; another topic,
        selector or `no_local` than before replaces it. JMS: createDurableSubscriber (JMS 1.1
        section 6.11).

        Raises:
            IllegalStateException: the session is closed, or the connection has no client id.
            JMSException: the subscription is in use; otherwise as `create_consumer`.
        """

    @abstractmethod
    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Create a browser of the queue's messages; the errors are those of `create_consumer`."""

    @abstractmethod
    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription of this client id, with its messages.

        Raises:
            InvalidDestinationException: there is none of that name.
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

        Messages received in it are delivered again, as the redelivery policy says.

        Raises:
            IllegalStateException: the session is closed or not transacted.
        """

    @abstractmethod
    async def recover(self) -> None:
        """Deliver the messages that are not acknowledged yet again. JMS: Session.recover.

        Raises:
            IllegalStateException: the session is closed or transacted.
        """

    @property
    @abstractmethod
    def message_listener(self) -> MessageListener | None:
        """The session's own listener, instead of one per consumer, if any."""

    @abstractmethod
    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Have `listener` called with the messages of all consumers of the session."""


class Connection(Closeable):
    """A client's connection to the broker. It delivers messages between `start` and `stop`.

    JMS: javax.jms.Connection (JMS 1.1 section 4.3).
    """

    exception_listener: ExceptionListener | None

    @property
    @abstractmethod
    def client_id(self) -> str | None:
        """The client id, which identifies durable subscriptions."""

    @abstractmethod
    async def set_client_id(self, client_id: str) -> None:
        """Set the client id, before the connection is used for anything else.

        Raises:
            IllegalStateException: it is set already, or the connection is in use.
            InvalidClientIDException: another connection has that id.
        """

    @property
    @abstractmethod
    def metadata(self) -> ConnectionMetaData:
        """Names and versions of the provider."""

    @abstractmethod
    async def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> Session:
        """Create a session.

        Args:
            transacted: whether sending and receiving is grouped in transactions.
            acknowledge_mode: AUTO, CLIENT, DUPS_OK or INDIVIDUAL; ignored if transacted.

        Raises:
            IllegalStateException: the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """

    @abstractmethod
    async def start(self) -> None:
        """Start, or resume, the delivery of messages. Idempotent."""

    @abstractmethod
    async def stop(self) -> None:
        """Pause the delivery of messages; waits for listeners that run. Idempotent."""


class ConnectionFactory(ABC):
    """Creates connections. JMS: javax.jms.ConnectionFactory (JMS 1.1 section 4.2)."""

    @property
    def shares_connection(self) -> bool:
        """Whether its connections are handles on one, which stays open when they are closed."""
        return False

    @abstractmethod
    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Open a connection, stopped, with these credentials or the factory's own.

        Raises:
            ConnectionFailedException: the broker cannot be reached.
            JMSSecurityException: the credentials were rejected.
        """
