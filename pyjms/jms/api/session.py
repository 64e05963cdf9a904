"""The session: the context for sending and receiving. (jms-api 2)"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import BinaryIO, Protocol, TypedDict

from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException, UnsupportedOperationException
from pyjms.jms.api.endpoints import (
    Closeable,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    QueueBrowser,
)
from pyjms.jms.blob import BlobMessage
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.synchronization import LocalTransactionEventListener, Synchronization


class SessionOperations(Closeable):
    """The operations of a session that a context of JMS 2.0 has as well.

    The `create_*_message`, `create_queue` and `create_topic` methods only create objects; nothing
    is sent to the broker.
    """

    @property
    @abstractmethod
    def transacted(self) -> bool:
        """Whether the session is transacted: `commit` or `rollback` ends each transaction."""

    def _check_open(self) -> None:
        """Raise if it is closed; called by the methods that only create objects."""

    def create_queue(self, name: str) -> Queue:
        """Return the queue `name`, which may have options: `orders?consumer.prefetchSize=1`.

        Raises:
            InvalidDestinationException: the name is empty.
        """
        self._check_open()
        return TemporaryQueue(name) if _check_name(name).startswith("ID:") else Queue(name)

    def create_topic(self, name: str) -> Topic:
        """Return the topic `name`; otherwise as `create_queue`."""
        self._check_open()
        return TemporaryTopic(name) if _check_name(name).startswith("ID:") else Topic(name)

    def create_message(self) -> Message:
        """Return a message without a body."""
        self._check_open()
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a message with a text."""
        self._check_open()
        return TextMessage(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        """Return a message with a body of bytes."""
        self._check_open()
        message = BytesMessage()
        if data is not None:
            message.write_bytes(data)
        return message

    def create_map_message(self) -> MapMessage:
        """Return a message with a body of named values."""
        self._check_open()
        return MapMessage()

    def create_stream_message(self) -> StreamMessage:
        """Return a message with a body of a sequence of values."""
        self._check_open()
        return StreamMessage()

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        """Return a message with a serialized Java object."""
        self._check_open()
        return ObjectMessage(data)

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


def _check_name(name: str) -> str:
    """Return the name of a destination if it is a str.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(name, str):
        raise TypeError(f"The name of a destination must be a str, not {type(name).__name__}")
    return name


class BlobSource(TypedDict, total=False):
    """The keyword arguments of `create_blob_message`, for its implementations."""

    file: str | os.PathLike[str] | None
    stream: BinaryIO | None
    deleted_by_broker: bool | None


class PullOptions(TypedDict, total=False):
    """The keyword arguments of `create_pull_consumer`, for its implementations."""

    no_local: bool
    timeout: float | None


class Session(SessionOperations):
    """The context for sending and receiving: message order, acknowledgement, transactions.

    JMS: javax.jms.Session (JMS 1.1 section 4.4).
    """

    @property
    @abstractmethod
    def acknowledge_mode(self) -> AcknowledgeMode:
        """How messages are acknowledged; TRANSACTED in a transacted session."""

    def create_blob_message(
        self,
        url: str | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        stream: BinaryIO | None = None,
        deleted_by_broker: bool | None = None,
    ) -> BlobMessage:
        """Return a message whose body is stored outside the broker.

        Does not block: a file or a stream is read and uploaded when the message is sent. A stream
        is not closed. ActiveMQ: ActiveMQSession.createBlobMessage.

        Args:
            url: the URL of a body that is already stored; pass exactly one of `url`, `file` and
                `stream`.
            file: the path of a file to upload.
            stream: a binary stream to upload.
            deleted_by_broker: whether the broker deletes the body; None: True if the body is
                uploaded, as in ActiveMQ.

        Raises:
            IllegalStateException: the session is closed.
            TypeError: not exactly one of url, file and stream is given.
            UnsupportedOperationException: the provider has no blob messages, or none for the scheme
                of `url`.
        """
        raise UnsupportedOperationException("This provider has no blob messages")

    @abstractmethod
    async def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Create a producer; without a destination, each `send` specifies it.

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
            destination: a queue or topic, which may be composite or have wildcards.
            selector: the condition of messages to receive; None or "": all messages.
            no_local: whether to skip messages sent over this connection (topics only).

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
        """Create a consumer without prefetch, and request its first message.

        The broker keeps each message until a `receive` requests it, so the consumer never holds
        messages that others could receive. It is an ordinary consumer if the destination's options
        have a prefetch size, or if the provider does not support pulls (the default here).
        ActiveMQ: a consumer with prefetch 0.

        Args:
            destination: as for `create_consumer`.
            selector: as for `create_consumer`.
            no_local: as for `create_consumer`.
            timeout: the timeout of the `receive` that follows, in seconds; None: no limit.

        Raises:
            JMSException: as for `create_consumer`.
        """
        del timeout
        return await self.create_consumer(destination, selector, no_local=no_local)

    @abstractmethod
    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Create a consumer of a durable subscription, which outlives it.

        The subscription is identified by the connection's client id and `name`; if the topic,
        selector or `no_local` has changed, it is replaced. JMS: createDurableSubscriber (JMS 1.1
        section 6.11).

        Raises:
            IllegalStateException: the session is closed, or the connection has no client id.
            JMSException: the subscription is in use; otherwise as for `create_consumer`.
        """

    async def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """Create a consumer of a shared subscription, which ends with its last consumer.

        Its consumers, on any connections with the same client id or without client ids, share its
        messages. JMS 2.0: createSharedConsumer. With ActiveMQ and the bundled broker, the topic
        must be a virtual topic, `VirtualTopic.x`, and `selector` None: the subscription is its
        queue `Consumer.<name>.VirtualTopic.x`.

        Raises:
            UnsupportedOperationException: the provider has no shared subscriptions (the default),
                or none for this topic.
            JMSException: as for `create_consumer`.
        """
        raise _no_shared_subscriptions(topic, name, selector)

    async def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """Create a consumer of a shared subscription that lasts until `unsubscribe`.

        Otherwise as `create_shared_consumer`. JMS 2.0: createSharedDurableConsumer.
        """
        raise _no_shared_subscriptions(topic, name, selector)

    async def wait_for_completions(self) -> None:
        """Wait until the completion listeners of all asynchronous sends have returned.

        `close`, `commit` and `rollback` wait for them, too. A provider without asynchronous sends
        (the default here) does not wait.

        Raises:
            IllegalStateException: called by a completion listener: it would wait for itself.
        """

    def add_synchronization(self, synchronization: Synchronization) -> None:
        """Register callbacks for the end of the session's transaction. Does not block.

        A transacted session without a transaction begins one. They apply to one transaction.
        ActiveMQ: TransactionContext.addSynchronization.

        Raises:
            IllegalStateException: the session is closed or not transacted.
            JMSException: an XA session is not associated with a branch.
            UnsupportedOperationException: the provider has no synchronizations.
        """
        raise UnsupportedOperationException(f"{type(self).__name__} has no synchronizations")

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        """Set a listener that is called when local transactions begin and end; None: none.

        Does not block. ActiveMQ: TransactionContext.setLocalTransactionEventListener.

        Raises:
            IllegalStateException: the session is closed, or has no local transactions.
            UnsupportedOperationException: the provider has no such events.
        """
        raise UnsupportedOperationException(f"{type(self).__name__} has no transaction events")

    @property
    @abstractmethod
    def message_listener(self) -> MessageListener | None:
        """The session's listener, used instead of listeners of consumers; None: there is none."""

    @abstractmethod
    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set a listener that is called with the messages of all consumers of the session."""

    async def run(self) -> None:
        """Deliver the consumers' buffered messages to the session's listener.

        Called by the pool of a connection consumer, with the session's listener set. Cancelling
        only ends the wait. JMS: Session.run (JMS 1.1 section 8.2.4).

        Raises:
            IllegalStateException: the session is closed, has no listener, or the listener is
                running.
            UnsupportedOperationException: the provider does not support it (the default).
        """
        raise UnsupportedOperationException(f"{type(self).__name__} cannot be run")


def _no_shared_subscriptions(topic: Topic, name: str, selector: str | None) -> JMSException:
    chosen = f" with the selector {selector!r}" if selector else ""
    return UnsupportedOperationException(
        f"This provider has no shared subscriptions, such as {name!r} of {topic}{chosen}",
        hint="have the topic's messages copied to a queue, and share that",
    )


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
