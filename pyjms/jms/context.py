"""The context of JMS 2.0: a connection and a session in one object. (jms-api 11)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol, Self, TypeVar, cast

from pyjms.enums import AcknowledgeMode, DeliveryMode, SessionMode
from pyjms.errors import IllegalStateException, JMSException, MessageFormatException
from pyjms.jms.api import (
    CompletionListener,
    Connection,
    ExceptionListener,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    QueueBrowser,
    Session,
    SessionOperations,
)
from pyjms.jms.delegating import DelegatingConsumer
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import (
    DEFAULT_PRIORITY,
    BytesMessage,
    MapMessage,
    Message,
    MessageProperties,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime.forwarding import Computed, DelegatedAttribute


class BodyConverter(Protocol):
    """Converts objects for which JMS has no message type; a message converter is one."""

    def to_message(self, payload: object, session: Session) -> Message:
        """Return a message of `session` for `payload`."""

    def from_message(self, message: Message, target: Any = None) -> Any:
        """Return the body of `message` as `target`."""


class JMSProducer:
    """Sends messages with the settings made here. JMS 2.0: javax.jms.JMSProducer.

    Every setter returns the producer, so that calls can be chained:

        await context.create_producer().set_priority(7).set_property("n", 1).send(queue, "text")

    Settings apply to every message that is sent, and properties and headers override those of the
    message. It need not be closed, and belongs to the task of its context. JMS's getters are
    attributes without `get`; headers have the same names as on messages.
    """

    def __init__(
        self,
        session: Callable[[], Awaitable[Session]],
        producer: Callable[[], Awaitable[MessageProducer]],
        converter: BodyConverter | None = None,
    ) -> None:
        """Send through the result of `producer`; `converter` converts bodies unknown to JMS."""
        self._session = session
        self._producer = producer
        self._converter = converter
        self._given = Message()  # the headers and properties that were set
        self.delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT
        self.priority: int = DEFAULT_PRIORITY
        self.time_to_live: float = 0.0
        """Seconds; 0: messages never expire."""
        self.delivery_delay: float = 0.0
        """Seconds before the broker's scheduler delivers; 0: at once."""
        self.disable_message_id: bool = False
        self.disable_message_timestamp: bool = False
        self.async_: CompletionListener | None = None
        """Called with the outcome of each send, which then does not wait. JMS: getAsync."""

    # Quality of service.

    def set_delivery_mode(self, mode: DeliveryMode | int) -> Self:
        """Send PERSISTENT (2) or NON_PERSISTENT (1) messages.

        Raises:
            IllegalStateException: the mode is neither of them.
        """
        if mode not in tuple(DeliveryMode):
            raise IllegalStateException(f"Unknown delivery mode: {mode!r}")
        self.delivery_mode = DeliveryMode(mode)
        return self

    def set_priority(self, priority: int) -> Self:
        """Send with this priority, 0 to 9.

        Raises:
            IllegalStateException: it is out of range.
        """
        if not 0 <= priority <= 9:
            raise IllegalStateException(f"A priority is a value between 0 and 9: {priority}")
        self.priority = priority
        return self

    def set_time_to_live(self, seconds: float) -> Self:
        """Set the time after which messages expire, in seconds; 0: never.

        Raises:
            IllegalStateException: it is negative.
        """
        self.time_to_live = _not_negative("timeToLive", seconds)
        return self

    def set_delivery_delay(self, seconds: float) -> Self:
        """Set the seconds before the broker delivers; see `MessageProducer.delivery_delay`.

        Raises:
            IllegalStateException: it is negative.
        """
        self.delivery_delay = _not_negative("deliveryDelay", seconds)
        return self

    def set_disable_message_id(self, disabled: bool) -> Self:
        """Hint that message ids are not needed."""
        self.disable_message_id = disabled
        return self

    def set_disable_message_timestamp(self, disabled: bool) -> Self:
        """Send without a timestamp."""
        self.disable_message_timestamp = disabled
        return self

    def set_async(self, listener: CompletionListener | None) -> Self:
        """Send asynchronously, with `listener` called for each outcome; None: synchronously."""
        self.async_ = listener
        return self

    # Properties and headers.

    @property
    def properties(self) -> MessageProperties:
        """The properties that are set on every message, with typed getters and setters."""
        return self._given.properties

    def set_property(self, name: str, value: object) -> Self:
        """Set a property on every message, replacing the message's own.

        Raises:
            MessageFormatException: JMS has no type for the value.
            ValueError: the name is None or empty.
        """
        self._given.properties[name] = value
        return self

    def property_exists(self, name: str) -> bool:
        """Return whether a property of this name is set here."""
        return name in self._given.property_values()

    def clear_properties(self) -> Self:
        """Remove the properties that were set; headers are kept."""
        self._given.clear_properties()
        self._given.group_id, self._given.group_sequence = None, 0
        return self

    correlation_id: Final = Computed[str | None](
        attrgetter("_given.correlation_id"),
        "The correlation id of every message; None: the message's own.",
    )
    reply_to: Final = Computed[Destination | None](
        attrgetter("_given.reply_to"),
        "The destination for replies to every message; None: the message's own.",
    )
    type: Final = Computed[str | None](
        attrgetter("_given.type"), "The type of every message; None: the message's own."
    )

    def set_correlation_id(self, correlation_id: str | None) -> Self:
        """Set the correlation id of every message; None: keep the message's own."""
        self._given.correlation_id = correlation_id
        return self

    def set_reply_to(self, destination: Destination | None) -> Self:
        """Set the destination for replies; None: keep the message's own."""
        self._given.reply_to = destination
        return self

    def set_type(self, name: str | None) -> Self:
        """Set the type of every message; None: keep the message's own."""
        self._given.type = name
        return self

    # Sending.

    async def send(self, destination: Destination, body: object) -> Self:
        """Send a message, or a message with this body; waits like `MessageProducer.send`.

        Args:
            destination: the destination.
            body: a message; or a str (text message), bytes (bytes message), mapping (map message)
                or None (message without a body); anything else needs the `message_converter` of
                the context.

        Raises:
            MessageFormatException: there is no type of message for the body.
            MessageNotWriteableException: properties are set here, but the message was received.
            JMSException: as for `MessageProducer.send`.
        """
        message = body if isinstance(body, Message) else await self._message_of(body)
        producer = await self._producer()
        self._prepare(message)
        if producer.disable_message_id != self.disable_message_id:
            producer.disable_message_id = self.disable_message_id
        if producer.disable_message_timestamp != self.disable_message_timestamp:
            producer.disable_message_timestamp = self.disable_message_timestamp
        await producer.send(
            destination,
            message,
            delivery_mode=self.delivery_mode,
            priority=self.priority,
            time_to_live=self.time_to_live,
            delivery_delay=self.delivery_delay or None,  # a JMS 1.1 pool does not support it
            completion_listener=self.async_,
        )
        return self

    def _prepare(self, message: Message) -> None:
        given = self._given
        for name in given.properties:
            message.properties[name] = given.properties[name]
        if given.correlation_id is not None:
            message.correlation_id = given.correlation_id
        if given.reply_to is not None:
            message.reply_to = given.reply_to
        if given.type is not None:
            message.type = given.type

    async def _message_of(self, body: object) -> Message:
        if body is None:
            return Message()
        if isinstance(body, str):
            return TextMessage(body)
        if isinstance(body, bytes | bytearray | memoryview):
            return BytesMessage(bytes(body))
        if isinstance(body, Mapping):
            return MapMessage(body)
        if self._converter is None:
            raise MessageFormatException(
                f"JMS has no kind of message for a {type(body).__name__}",
                hint="create_context(message_converter=DefaultMessageConverter()) sends it as JSON",
            )
        return self._converter.to_message(body, await self._session())


def _not_negative(name: str, seconds: float) -> float:
    if not seconds >= 0:
        raise IllegalStateException(f"cannot set a negative {name}: {seconds}")
    return seconds


_T = TypeVar("_T")

_AUTOMATIC = {AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK}


class JMSConsumer(DelegatingConsumer):
    """Receives messages, or their bodies. JMS 2.0: javax.jms.JMSConsumer. Created by a context."""

    def __init__(
        self,
        target: MessageConsumer,
        mode: AcknowledgeMode,
        consumed: Callable[[Message], None],
        converter: BodyConverter | None = None,
    ) -> None:
        """Receive from `target`; `consumed` is called with each message before it is returned."""
        super().__init__(target)
        self._mode = mode
        self._consumed = consumed
        self._converter = converter
        self._listener: MessageListener | None = None

    transformer: DelegatedAttribute[Any] = DelegatedAttribute(
        attrgetter("_target"), read_only=False
    )  # an extension of ActiveMQ

    @property
    def message_listener(self) -> MessageListener | None:
        return None if self._target.message_listener is None else self._listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        def call(message: Message) -> Awaitable[None] | None:
            assert listener is not None
            self._consumed(message)
            return listener(message)

        await self._target.set_message_listener(None if listener is None else call)
        self._listener = listener

    async def receive(self, timeout: float | None = None) -> Message | None:
        message = await self._target.receive(timeout)
        if message is not None:
            self._consumed(message)
        return message

    async def receive_body(self, kind: type[_T], timeout: float | None = None) -> _T | None:
        """Wait for the next message and return its body as `kind`. JMS: receiveBody.

        In the modes AUTO and DUPS_OK, a message that cannot be read as `kind` stays unacknowledged,
        and the next receive returns it; in the other modes it counts as delivered.

        Args:
            kind: str (text message), dict (map message), bytes (bytes and object message), a base
                class of these, or a type that the context's `message_converter` supports.
            timeout: seconds; None waits for ever, 0 does not wait.

        Returns:
            The body, or None if `timeout` passed, the consumer was closed in the meantime, or the
            message has no body.

        Raises:
            MessageFormatException: the body is not a `kind`, or the message is a StreamMessage,
                or of a kind without a body.
            JMSException: as for `receive`.
        """
        bodies: list[_T | None] = []

        def read(message: Message) -> None:
            bodies.append(self._body_of(message, kind))

        if self._mode in _AUTOMATIC:
            message = await self._target.receive_checked(read, timeout)
            if message is not None:
                self._consumed(message)
        else:
            message = await self.receive(timeout)
            if message is not None:
                read(message)
        return None if message is None else bodies[-1]

    async def receive_body_no_wait(self, kind: type[_T]) -> _T | None:
        """Return the body of a message if one is available, else None. JMS: receiveBodyNoWait."""
        return await self.receive_body(kind, 0)

    def _body_of(self, message: Message, kind: type[_T]) -> _T | None:
        if type(message) is not Message and not isinstance(message, StreamMessage):
            if self._converter is None or message.is_body_assignable_to(kind):
                return message.get_body(kind)
        elif self._converter is None:
            raise MessageFormatException(
                f"receive_body cannot be used for a {type(message).__name__}",
                hint="receive() returns the message",
            )
        return cast("_T", self._converter.from_message(message, cast("Any", kind)))


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

    # The connection.

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

    # The session.

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

    # Producers and consumers.

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
        return await self._start_consumer(consumer)

    async def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> JMSConsumer:
        """Create a consumer of a durable subscription; see `Session.create_durable_subscriber`."""
        session = await self.session()
        consumer = await session.create_durable_subscriber(topic, name, selector, no_local=no_local)
        return await self._start_consumer(consumer)

    async def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> JMSConsumer:
        """Create a consumer of a shared subscription; see `Session.create_shared_consumer`."""
        session = await self.session()
        return await self._start_consumer(
            await session.create_shared_consumer(topic, name, selector)
        )

    async def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> JMSConsumer:
        """Create a consumer of a shared subscription that lasts until `unsubscribe`."""
        session = await self.session()
        consumer = await session.create_shared_durable_consumer(topic, name, selector)
        return await self._start_consumer(consumer)

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

    # Destinations and messages.

    async def create_temporary_queue(self) -> TemporaryQueue:
        """Create a queue that exists until the connection closes."""
        return await (await self.session()).create_temporary_queue()

    async def create_temporary_topic(self) -> TemporaryTopic:
        """Create a topic that exists until the connection closes."""
        return await (await self.session()).create_temporary_topic()

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination of this connection."""
        await (await self.session()).delete_temporary(destination)

    def create_map_message(self, values: Mapping[str, object] | None = None) -> MapMessage:
        """Return a message of named values."""
        self._check_open()
        return MapMessage(values)

    # Internals.

    async def _message_producer(self) -> MessageProducer:
        """Return the producer of the session through which all JMSProducers send."""
        session = await self.session()
        if self._producer is None:
            self._producer = await session.create_producer()
        return self._producer

    async def _start_consumer(self, consumer: MessageConsumer) -> JMSConsumer:
        if self.auto_start:
            await self.start()
        return JMSConsumer(consumer, self._mode, self._note_consumed, self._converter)

    def _note_consumed(self, message: Message) -> None:
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
