"""The context of JMS 2.0: a connection and a session in one object. (jms-api 11)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api.connection import Connection, ExceptionListener
from pyjms.jms.api.context_consumer import JMSConsumer
from pyjms.jms.api.context_producer import BodyConverter, JMSProducer
from pyjms.jms.api.endpoints import MessageConsumer, MessageProducer, QueueBrowser
from pyjms.jms.api.operations import SessionOperations
from pyjms.jms.api.session import Session
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message
from pyjms.jms.metadata import ConnectionMetaData

__all__ = ["JMSContext", "SharedByContexts"]

P = ParamSpec("P")
M = TypeVar("M", bound=Message)


class SharedByContexts:
    """A connection with the number of open contexts that use it; the last one closes it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._contexts = 0

    def acquire(self) -> None:
        """Count a new context."""
        self._contexts += 1

    async def release(self) -> None:
        """Release one context; close the connection after the last one."""
        self._contexts -= 1
        if not self._contexts:
            await self.connection.close()


class JMSContext(SessionOperations):
    """A connection and a session. JMS 2.0: javax.jms.JMSContext.

    Created by `create_context` of a connection factory, or of another context, which then share a
    connection. It belongs to one task at a time, as a session does; only `close` may be called
    from another one. Its exceptions are those of the session API: Python has no checked
    exceptions, and so no JMSRuntimeException.

    The session is created by the first call that needs it, so that `set_client_id` can be called
    before.
    """

    def __init__(
        self,
        shared: SharedByContexts,
        session_mode: SessionMode,
        message_converter: BodyConverter | None = None,
    ) -> None:
        """Use the connection of `shared`.

        Raises:
            JMSException: the session mode is unknown.
        """
        self._mode = _mode(session_mode)
        self._shared = shared
        self._converter = message_converter
        self._session: Session | None = None
        self._producer: MessageProducer | None = None
        self._last: Message | None = None
        self._is_closed = False
        self.auto_start = True
        """Whether creating a consumer starts the connection. JMS: autoStart."""
        shared.acquire()

    def __repr__(self) -> str:
        return f"<JMSContext {self._mode.name} of {self._shared.connection!r}>"

    # --- the connection

    @property
    def connection(self) -> Connection:
        """The connection, which the contexts created by this one share.

        Raises:
            IllegalStateException: the context is closed.
        """
        if self._is_closed:
            raise IllegalStateException("The context is closed")
        return self._shared.connection

    @property
    def client_id(self) -> str | None:
        """The client id of the connection."""
        return self.connection.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Set the client id, before anything else is done with the context.

        Raises:
            IllegalStateException: it is set already, or the connection is in use.
            InvalidClientIDException: another connection has that id.
        """
        await self.connection.set_client_id(client_id)

    @property
    def metadata(self) -> ConnectionMetaData:
        """Names and versions of the provider."""
        return self.connection.metadata

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """Called on the loop with failures of the connection; must not block."""
        return self.connection.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self.connection.exception_listener = listener

    async def start(self) -> None:
        """Start the delivery of messages, for all contexts of the connection."""
        await self.connection.start()

    async def stop(self) -> None:
        """Pause the delivery of messages; waits for running listeners."""
        await self.connection.stop()

    async def create_context(self, session_mode: SessionMode) -> JMSContext:
        """Create a context with a new session on the same connection.

        Raises:
            IllegalStateException: this context is closed.
            JMSException: the session mode is unknown.
        """
        self._check_open()
        return JMSContext(self._shared, session_mode, self._converter)

    # --- the session

    @property
    def session_mode(self) -> AcknowledgeMode:
        """How messages are acknowledged; TRANSACTED: by `commit`."""
        return self._mode

    @property
    def transacted(self) -> bool:
        """Whether the session has transactions, ended by `commit` and `rollback`."""
        return self._mode == AcknowledgeMode.TRANSACTED

    async def session(self) -> Session:
        """Return the session, created with the first call."""
        self._check_open()
        if self._session is None:
            self._session = await self.connection.create_session(self.transacted, self._mode)
        return self._session

    async def acknowledge(self) -> None:
        """Acknowledge all messages that a CLIENT session has consumed; otherwise do nothing."""
        self._check_open()
        if self._last is not None and self._mode == AcknowledgeMode.CLIENT:
            await self._last.acknowledge()

    async def commit(self) -> None:
        """Commit the transaction and begin the next one; see `Session.commit`."""
        await (await self.session()).commit()

    async def rollback(self) -> None:
        """Roll the transaction back and begin the next one; see `Session.rollback`."""
        await (await self.session()).rollback()

    async def recover(self) -> None:
        """Redeliver all messages that are not acknowledged yet; see `Session.recover`."""
        await (await self.session()).recover()

    async def close(self) -> None:
        """Close the session and what it created; the last context closes the connection.

        Waits for running listeners and completion listeners. A transaction is rolled back.
        Idempotent.

        Raises:
            IllegalStateException: called by a completion listener, for which it would wait.
        """
        if self._is_closed:
            return
        try:
            if self._session is not None:
                await self._session.close()
        except IllegalStateException:
            raise
        except BaseException:
            self._is_closed = True
            await self._shared.release()
            raise
        self._is_closed = True
        await self._shared.release()

    # --- producers and consumers

    def create_producer(self) -> JMSProducer:
        """Return a producer with its own settings. Nothing is sent to the broker.

        Raises:
            IllegalStateException: the context is closed.
        """
        self._check_open()
        return JMSProducer(self.session, self._message_producer, self._converter)

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> JMSConsumer:
        """Create a consumer, and start the connection if `auto_start`; see `Session`."""
        session = await self.session()
        consumer = await session.create_consumer(destination, selector, no_local=no_local)
        return await self._started(consumer)

    async def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> JMSConsumer:
        """Create a consumer of a durable subscription; see `Session.create_durable_subscriber`."""
        session = await self.session()
        consumer = await session.create_durable_subscriber(topic, name, selector, no_local=no_local)
        return await self._started(consumer)

    async def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> JMSConsumer:
        """Create a consumer of a shared subscription; see `Session.create_shared_consumer`."""
        session = await self.session()
        return await self._started(await session.create_shared_consumer(topic, name, selector))

    async def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> JMSConsumer:
        """Create a consumer of a shared subscription that lasts until `unsubscribe`."""
        session = await self.session()
        consumer = await session.create_shared_durable_consumer(topic, name, selector)
        return await self._started(consumer)

    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Create a browser of the queue's messages, and start the connection if `auto_start`."""
        session = await self.session()
        browser = await session.create_browser(queue, selector)
        if self.auto_start:
            await self.start()
        return browser

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription, with its messages; see `Session.unsubscribe`."""
        await (await self.session()).unsubscribe(name)

    # --- destinations and messages

    def create_queue(self, name: str) -> Queue:
        """Return the queue `name`, which may have options: `orders?consumer.prefetchSize=1`.

        Raises:
            InvalidDestinationException: the name is empty.
        """
        self._check_open()
        return TemporaryQueue(name) if name.startswith("ID:") else Queue(name)

    def create_topic(self, name: str) -> Topic:
        """Return the topic `name`, like `create_queue`."""
        self._check_open()
        return TemporaryTopic(name) if name.startswith("ID:") else Topic(name)

    async def create_temporary_queue(self) -> TemporaryQueue:
        """Create a queue that exists until the connection closes."""
        return await (await self.session()).create_temporary_queue()

    async def create_temporary_topic(self) -> TemporaryTopic:
        """Create a topic that exists until the connection closes."""
        return await (await self.session()).create_temporary_topic()

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination of this connection."""
        await (await self.session()).delete_temporary(destination)

    def create_message(self) -> Message:
        """Return a message without a body."""
        return self._new(Message)

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a message with a text."""
        return self._new(TextMessage, text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        """Return a message of bytes."""
        return self._new(BytesMessage, data)

    def create_map_message(self, values: Mapping[str, object] | None = None) -> MapMessage:
        """Return a message of named values."""
        return self._new(MapMessage, values)

    def create_stream_message(self) -> StreamMessage:
        """Return a message of a sequence of values."""
        return self._new(StreamMessage)

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        """Return a message with a serialized Java object."""
        return self._new(ObjectMessage, data)

    # --- internals

    def _new(self, kind: Callable[P, M], *body: P.args, **options: P.kwargs) -> M:
        self._check_open()
        return kind(*body, **options)

    async def _message_producer(self) -> MessageProducer:
        """Return the producer of the session through which all JMSProducers send."""
        session = await self.session()
        if self._producer is None:
            self._producer = await session.create_producer()
        return self._producer

    async def _started(self, consumer: MessageConsumer) -> JMSConsumer:
        if self.auto_start:
            await self.start()
        return JMSConsumer(consumer, self._mode, self._consumed, self._converter)

    def _consumed(self, message: Message) -> None:
        self._last = message

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateException("The context is closed")


def _mode(value: SessionMode) -> AcknowledgeMode:
    try:
        return AcknowledgeMode(value)
    except ValueError:
        raise JMSException(
            f"invalid session mode: {value}",
            hint="TRANSACTED (0), AUTO (1), CLIENT (2), DUPS_OK (3) or INDIVIDUAL (4)",
        ) from None
