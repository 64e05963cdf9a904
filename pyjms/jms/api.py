"""The interfaces of a JMS provider, as coroutines.

`pyjms.client` implements them; caching and pooling factories wrap them. Names are JMS's in
snake_case. Everything here belongs to one event loop and is not thread-safe. A connection may be
used by any number of tasks. A session and what it created belong to one task at a time; only
`close` may be called from another one. Times are seconds; a timeout of None waits for ever and 0
does not wait. (jms-api 1 and 2)
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import (
    TYPE_CHECKING,
    BinaryIO,
    Final,
    NotRequired,
    Protocol,
    Self,
    TypedDict,
    Unpack,
    overload,
)

from pyjms.enums import AcknowledgeMode, DeliveryMode, SessionMode
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    UnsupportedOperationException,
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
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime.build import give_own_caches

if TYPE_CHECKING:
    from pyjms.jms.context import BodyConverter, JMSContext


class Synchronization:
    """Callbacks at the end of one transaction; override the methods that you need.

    Register it with `Session.add_synchronization`. The methods are called on the event loop and
    must not block; each may be a coroutine, which is awaited before the commit or rollback
    returns. With the blocking API they are plain functions, called in a thread, and may block.
    ActiveMQ: org.apache.activemq.transaction.Synchronization.
    """

    def before_end(self) -> Awaitable[None] | None:
        """Do the last work of the transaction, before its commit, rollback or end of an XA branch.

        If it raises, the transaction is rolled back, and `commit` raises the exception. In this
        method, `commit` and `rollback` raise IllegalStateException: the transaction is already
        ending.
        """
        return None

    def after_commit(self) -> Awaitable[None] | None:
        """Called after the commit. Exceptions are logged, as the transaction has ended."""
        return None

    def after_rollback(self) -> Awaitable[None] | None:
        """Called after a rollback or a failed commit. Exceptions are logged."""
        return None


class LocalTransactionEventListener:
    """Callbacks at the begin and end of local transactions; override the methods that you need.

    The methods are called on the event loop, also with the blocking API, and must not block;
    exceptions are logged. ActiveMQ: org.apache.activemq.LocalTransactionEventListener.
    """

    def begin_event(self) -> None:
        """Called when the session has begun a transaction."""

    def commit_event(self) -> None:
        """Called when the transaction was committed."""

    def rollback_event(self) -> None:
        """Called when the transaction was rolled back, or its commit failed."""


class CompletionListener(Protocol):
    """Called with the outcome of an asynchronous send. JMS 2.0: javax.jms.CompletionListener.

    One of the two methods, functions or coroutine functions, is called once for each send: in the
    order of the sends, one at a time in a session, and never while a listener of that session runs.
    With `pyjms.aio` they are called on the loop and must not block; with `pyjms` in a thread.
    Exceptions that they raise are logged.
    """

    def on_completion(self, message: Message, /) -> Awaitable[None] | None:
        """Handle a message that the broker has accepted, when a synchronous send would return."""

    def on_exception(self, message: Message, error: JMSException, /) -> Awaitable[None] | None:
        """Handle a failed send, when a synchronous send would raise `error`."""


class AsyncCallback(Protocol):
    """Called with the outcome of an asynchronous send. ActiveMQ: AsyncCallback.

    The rules are those of `CompletionListener`.
    """

    def on_success(self) -> Awaitable[None] | None:
        """Handle a message that the broker has accepted."""

    def on_exception(self, error: JMSException, /) -> Awaitable[None] | None:
        """Handle a failed send."""


MessageListener = Callable[[Message], Awaitable[None] | None]
"""A function or coroutine function of one message. JMS: javax.jms.MessageListener."""


class Closeable(ABC):
    """A resource that is closed by `close()`, or at the end of `async with`."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        give_own_caches(cls)

    @abstractmethod
    async def close(self) -> None:
        """Release all resources. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class SendSettings(TypedDict, total=False):
    """The settings of one `send`; None or absent: the producer's attribute of that name."""

    delivery_mode: DeliveryMode | None
    priority: int | None
    """0 to 9."""
    time_to_live: float | None
    """Seconds until the message expires, 0 for never."""
    delivery_delay: float | None
    """Seconds before the message is delivered."""
    completion_listener: CompletionListener | None
    """Called with the outcome, for which `send` then does not wait; None: it waits."""


class MessageProducer(Closeable):
    """Sends messages. Its attributes are the defaults of `send`.

    JMS: javax.jms.MessageProducer (JMS 1.1 section 4.6).
    """

    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float
    """Seconds; 0: messages never expire."""
    delivery_delay: float
    """Seconds before the broker delivers a message; 0: at once. JMS 2.0: deliveryDelay.

    It requires the broker's scheduler (`scheduler_support`, ActiveMQ: `schedulerSupport`). A broker
    without a scheduler delivers at once, and clients cannot detect this; the bundled broker refuses
    the message.
    """
    disable_message_id: bool
    disable_message_timestamp: bool

    @property
    @abstractmethod
    def destination(self) -> Destination | None:
        """The destination of all sends; None: each `send` specifies it."""

    @overload
    @abstractmethod
    async def send(
        self,
        message: Message,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
        completion_listener: CompletionListener | None = None,
        callback: AsyncCallback | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    async def send(
        self,
        destination: Destination,
        message: Message,
        callback: AsyncCallback | None = None,
        /,
        **options: Unpack[SendSettings],
    ) -> None: ...

    @abstractmethod
    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        callback: AsyncCallback | None = None,
        *,
        destination: Destination | None = None,
        **options: Unpack[SendSettings],
    ) -> None:
        """Send a message and set its headers: `send(message)`, or `send(destination, message)`.

        Waits for the broker if the message is persistent and the session is not transacted;
        otherwise only while the transport is congested or the producer window is full.
        Cancelling ends the wait; the message may have been sent.

        Args:
            message: the message, which can be sent again later; or the destination, followed by the
                message.
            to_send: the message, after a destination.
            destination: required if, and only if, the producer has none.
            options: instead of the producer's attributes of the same names: `delivery_mode`;
                `priority`, 0 to 9; `time_to_live`, seconds until the message expires, 0 for never;
                `delivery_delay`, seconds before the message is delivered. `completion_listener` is
                called with the outcome, for which `send` then does not wait. Until then, the
                message cannot be changed or sent asynchronously again. JMS 2.0: `send(message,
                completionListener)`.
            callback: instead of a listener, ActiveMQ's `send(destination, message, callback)`.

        Raises:
            IllegalStateException: the producer is closed.
            InvalidDestinationException: the destination is missing or cannot be used.
            UnsupportedOperationException: neither the producer nor the call has a destination, or
                they have different ones.
            MessageFormatException: the message cannot be encoded.
            JMSSecurityException: the user may not send there.
            ResourceAllocationException: the broker is out of space and configured to reject
                messages.
            ConnectionFailedException: the connection failed before the broker's response.
        """


class _Selective(Closeable):
    """Reads the messages of a destination that match a selector."""

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The condition of the messages that are read; None: all messages."""


class MessageConsumer(_Selective):
    """Receives messages: by `receive`, by `async for`, or by a listener.

    JMS: javax.jms.MessageConsumer (JMS 1.1 section 4.5).
    """

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the consumer is closed, by the client or by the broker."""

    @property
    @abstractmethod
    def destination(self) -> Destination:
        """The destination from which the consumer receives."""

    @property
    @abstractmethod
    def message_listener(self) -> MessageListener | None:
        """The listener that is called with each message; None: there is none."""

    @abstractmethod
    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener, which is called with each message, one call at a time per session.

        None removes the listener.

        Raises:
            IllegalStateException: the consumer is closed.
        """

    async def set_message_available_listener(
        self, listener: MessageAvailableListener | None
    ) -> None:
        """Set a function that is called with this consumer when a message can be received at once.

        It is called once for each message that arrives, unless the message was already received;
        one call at a time per session, and never concurrently with a listener of the session. It
        may call `receive(0)`, which may still return None, for example if the message has expired.
        Its exceptions are logged. None removes it. ActiveMQ: MessageAvailableConsumer.

        Raises:
            IllegalStateException: the consumer is closed, or its session has a message listener.
            JMSException: the consumer has no prefetch, so messages arrive only on request.
            UnsupportedOperationException: the provider has no such listeners.
        """
        raise UnsupportedOperationException(
            f"{type(self).__name__} does not announce messages",
            hint="use set_message_listener(), or receive(0) from time to time",
        )

    @abstractmethod
    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message.

        Cancelling is safe: no message is lost.

        Args:
            timeout: seconds; None: no limit; 0: do not wait.

        Returns:
            The message; None: `timeout` has passed, or the consumer was closed meanwhile.

        Raises:
            IllegalStateException: the consumer is closed, or has a listener.
            ConnectionFailedException: the connection failed.
        """

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        """Like `receive`, but a message for which `check` raises is not consumed.

        It is neither acknowledged nor redelivered: the next receive returns it. A provider that
        acknowledges before it returns a message cannot do this; in that case, and by default, the
        message counts as received.

        Raises:
            Exception: raised by `check`.
            JMSException: as for `receive`.
        """
        message = await self.receive(timeout)
        if message is not None:
            check(message)
        return message

    async def receive_no_wait(self) -> Message | None:
        """Return a message if one is available, else None. JMS: receiveNoWait."""
        return await self.receive(0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Wait for the next message; it is acknowledged as by `receive`.

        Raises:
            StopAsyncIteration: the consumer is closed, here or by another task.
            JMSException: as for `receive`, for example when the connection has failed.

        """
        try:
            message = await self.receive()
        except IllegalStateException:
            if not self.is_closed:
                raise
            message = None
        if message is None:
            raise StopAsyncIteration
        return message


MessageAvailableListener = Callable[[MessageConsumer], Awaitable[None] | None]
"""A function or coroutine function, called with a consumer that has a message to receive.

ActiveMQ: org.apache.activemq.MessageAvailableListener.
"""


def with_handle(
    listener: MessageAvailableListener | None, handle: MessageConsumer
) -> MessageAvailableListener | None:
    """Return a wrapper that calls `listener` with `handle` instead of the wrapped consumer."""
    return None if listener is None else lambda _: listener(handle)


class QueueBrowser(_Selective):
    """Reads the messages of a queue without consuming them: `async for m in browser`.

    JMS: javax.jms.QueueBrowser (JMS 1.1 section 5.9).
    """

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The browsed queue."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Message]:
        """Browse the queue from its start."""


def destination_first(
    first: Message | Destination | None, message: object, destination: Destination | None
) -> tuple[Message, Destination | None]:
    """Return the message and destination of a send, also of `send(destination, message)`.

    `first` and `message` are the positional arguments, `destination` is the keyword argument.
    """
    if message is None:
        if isinstance(first, Message):
            return first, destination
        raise _not_a_message(first)
    if isinstance(first, Message):
        raise TypeError("The destination comes first: send(destination, message)")
    if not isinstance(message, Message):
        raise _not_a_message(message)
    if destination is not None:
        raise TypeError("Two destinations: write send(destination, message) or destination=")
    if first is None:
        raise InvalidDestinationException(
            "Don't understand null destinations", hint="send(Queue(name), message)"
        )
    return message, first


def _not_a_message(value: object) -> TypeError:
    return TypeError(
        f"A producer sends messages, not a {type(value).__name__}: make one with "
        "session.create_text_message(text); a template's convert_and_send takes a payload"
    )


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
    """Return the name of a destination if it is a str."""
    if not isinstance(name, str):
        raise TypeError(f"The name of a destination must be a str, not {type(name).__name__}")
    return name


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


class ServerSession(Protocol):
    """A session of a pool, and the task that runs it. JMS: javax.jms.ServerSession.

    JMS 1.1 section 8.2.2.
    """

    @property
    def session(self) -> Session:
        """The session, which has a message listener and belongs to the consumer's connection."""

    def start(self) -> Awaitable[None] | None:
        """Call `session.run()` in a separate task; then become available again.

        A coroutine function is awaited, and the next messages wait for it.
        """


class ServerSessionPool(Protocol):
    """Sessions for a connection consumer. JMS: javax.jms.ServerSessionPool (section 8.2.3)."""

    async def get_server_session(self) -> ServerSession:
        """Return a server session; wait until one is available.

        The call is cancelled when the connection consumer is closed.
        """


class ConnectionConsumer(Closeable):
    """Passes a destination's messages to the sessions of a pool. JMS: ConnectionConsumer.

    JMS 1.1 section 8.2.1. `close` stops passing on messages and waits for running listeners.
    Messages that were passed on but not delivered go back to the broker; messages that were
    delivered but not settled can still be committed or acknowledged.
    """

    @property
    @abstractmethod
    def server_session_pool(self) -> ServerSessionPool:
        """The pool whose sessions get the messages."""


_METHODS: Final = (
    "create_connection",
    "create_queue_connection",
    "create_topic_connection",
    "create_xa_connection",
)

ExceptionListener = Callable[[JMSException], None]
"""Called on the loop with a failure that no call reports; must not block.

JMS: javax.jms.ExceptionListener (JMS 1.1 section 4.3.8).
"""


class ConsumerDetails(TypedDict):
    """What a connection consumer receives."""

    destination: Destination
    selector: str | None
    no_local: bool
    name: NotRequired[str]
    """The durable subscription; without it, there is none."""


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
            IllegalStateException: it is already set, or the connection is in use.
            InvalidClientIDException: another connection has that id.
        """

    @property
    @abstractmethod
    def metadata(self) -> ConnectionMetaData:
        """Names and versions of the provider."""

    @abstractmethod
    async def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> Session:
        """Create a session.

        Args:
            transacted: whether sending and receiving is grouped in transactions.
            acknowledge_mode: AUTO, CLIENT, DUPS_OK or INDIVIDUAL; ignored if transacted.

        Raises:
            IllegalStateException: the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """

    async def create_connection_consumer(
        self,
        destination: Destination,
        selector: str | None,
        server_session_pool: ServerSessionPool,
        max_messages: int,
        *,
        no_local: bool = False,
    ) -> ConnectionConsumer:
        """Create a consumer whose messages are handled by the sessions of a pool.

        Waits for the broker. Each session gets at most `max_messages` at a time, and `start()` of
        its server session passes them to its message listener. A message whose listener raises is
        redelivered as in any session, possibly by another session of the pool. Exceptions of the
        pool are passed to the exception listener. JMS: createConnectionConsumer (JMS 1.1 section
        8.2).

        Args:
            destination: a queue or topic.
            selector: only messages for which it is true are received; None or "": all.
            server_session_pool: the sessions, created by this connection, with message listeners.
            max_messages: also the prefetch size, unless the destination sets one
                (`?consumer.prefetchSize=`). The prefetch size limits the messages that all sessions
                together handle at a time.
            no_local: whether to skip messages sent over this connection (topics only).

        Raises:
            IllegalStateException: the connection is closed.
            InvalidDestinationException: the destination cannot be consumed from.
            InvalidSelectorException: the selector is malformed.
            JMSException: `max_messages` is below 1.
            UnsupportedOperationException: the provider has no connection consumers (the default).
        """
        details = ConsumerDetails(destination=destination, selector=selector, no_local=no_local)
        return await self._distribute(server_session_pool, max_messages, details)

    async def create_durable_connection_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None,
        server_session_pool: ServerSessionPool,
        max_messages: int,
        *,
        no_local: bool = False,
    ) -> ConnectionConsumer:
        """Create a connection consumer of the durable subscription `name`.

        See `create_connection_consumer` and `Session.create_durable_subscriber`. JMS:
        createDurableConnectionConsumer.
        """
        details = ConsumerDetails(
            destination=topic, selector=selector, no_local=no_local, name=name
        )
        return await self._distribute(server_session_pool, max_messages, details)

    async def _distribute(
        self, pool: ServerSessionPool, max_messages: int, consumer: ConsumerDetails
    ) -> ConnectionConsumer:
        """Create a connection consumer; a provider that has them overrides this method."""
        del pool, max_messages, consumer
        raise UnsupportedOperationException(
            f"{type(self).__name__} has no connection consumers",
            hint="use a listener container, whose consumers have their own sessions",
        )

    @abstractmethod
    async def start(self) -> None:
        """Start, or resume, the delivery of messages. Idempotent."""

    @abstractmethod
    async def stop(self) -> None:
        """Pause the delivery of messages; waits for running listeners. Idempotent."""


class ConnectionFactory(ABC):
    """Creates connections. JMS: javax.jms.ConnectionFactory (JMS 1.1 section 4.2)."""

    @property
    def shares_connection(self) -> bool:
        """Whether its connections are handles for a shared connection, which stays open."""
        return False

    @abstractmethod
    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Open a connection, not started, with these credentials or the factory's own.

        Raises:
            ConnectionFailedException: the broker cannot be reached.
            JMSSecurityException: the credentials were rejected.
        """

    async def create_context(
        self,
        user_name: str | None = None,
        password: str | None = None,
        session_mode: SessionMode = AcknowledgeMode.AUTO,
        *,
        message_converter: BodyConverter | None = None,
    ) -> JMSContext:
        """Open a connection with a session, as one object: the simplified API of JMS 2.0.

        If the factory shares, caches or pools connections, the context uses a handle.

        Args:
            user_name: None: the factory's user and password.
            password: the user's password.
            session_mode: AUTO, CLIENT, DUPS_OK, INDIVIDUAL, or TRANSACTED.
            message_converter: converts bodies other than str, bytes, dict and None.

        Raises:
            TypeError: the user name is not a str.
            JMSException: the session mode is unknown; or as for `create_connection`.
        """
        if user_name is not None and not isinstance(user_name, str):
            raise TypeError(
                f"The user name must be a str, not {user_name!r}: create_context(session_mode=...)"
            )
        from pyjms.jms.context import JMSContext, SharedByContexts  # noqa: PLC0415 - on demand

        connection = await self.create_connection(user_name, password)
        try:
            return JMSContext(SharedByContexts(connection), session_mode, message_converter)
        except BaseException:
            await connection.close()
            raise


def check_least(name: str, value: int, least: int) -> None:
    """Check a number that an argument gives."""
    if value < least:
        raise ValueError(f"{name} must be {least} or higher, not {value}")


def check_factory(factory: object, user: str) -> None:
    """Reject anything but a connection factory of `pyjms.aio`, before `user` connects."""
    needs = f"{user} needs a connection factory"
    if isinstance(factory, str):
        raise TypeError(f"{needs}, not a text: write ConnectionFactory(url)")
    if isinstance(factory, type):
        raise TypeError(f"{needs}, not the class {factory.__name__}: create one of it")
    if isinstance(getattr(factory, "core", None), ConnectionFactory):
        raise TypeError(
            f"{needs} of pyjms.aio, not the blocking {type(factory).__name__} of pyjms "
            "(import both from the same module)"
        )
    if not any(hasattr(factory, name) for name in _METHODS):
        raise TypeError(f"{needs}, not an object of class {type(factory).__name__}")
