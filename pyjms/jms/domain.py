"""The domain-specific API of JMS 1.0.2: queues and topics. (jms-api 2.17)

Thin classes over the unified interfaces of `pyjms.jms.api`, so that they work with the connections
of every factory, at no cost if they are not used. A connection that serves both domains is a
`QueueConnection` and a `TopicConnection`, as in ActiveMQ; its `create_session` still creates
sessions for both. A session of one domain rejects operations of the other.
"""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, ClassVar, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

from pyjms.enums import AcknowledgeMode, DeliveryMode, SessionMode
from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.jms.api import (
    Closeable,
    Connection,
    ConnectionFactory,
    MessageConsumer,
    MessageProducer,
    Session,
)
from pyjms.jms.delegating import DelegatingConsumer, DelegatingSession
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message
from pyjms.runtime.forwarding import DelegatedAttribute, delegate

_target = attrgetter("target")

_F = TypeVar("_F", bound=Callable[..., Any])


def _delegate_overloads(function: _F) -> _F:
    """Delegate a method with overloads, and keep them for type checkers."""
    return cast("_F", delegate(cast("Callable[..., Any]", function), _target))


class _Producer(MessageProducer):
    """A producer that delegates every call to `target`."""

    def __init__(self, target: MessageProducer) -> None:
        self.target = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target!r}>"

    destination: Final = DelegatedAttribute[Destination | None](_target, read_only=True)
    delivery_mode = DelegatedAttribute[DeliveryMode](_target, read_only=False)
    priority = DelegatedAttribute[int](_target, read_only=False)
    time_to_live = DelegatedAttribute[float](_target, read_only=False)
    delivery_delay = DelegatedAttribute[float](_target, read_only=False)
    disable_message_id = DelegatedAttribute[bool](_target, read_only=False)
    disable_message_timestamp = DelegatedAttribute[bool](_target, read_only=False)
    stats: DelegatedAttribute[Any] = DelegatedAttribute(_target, read_only=True)  # ActiveMQ's
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(_target, read_only=False)
    send_timeout: DelegatedAttribute[float | None] = DelegatedAttribute(_target, read_only=False)
    send: Final = _delegate_overloads(MessageProducer.send)
    close: Final = delegate(MessageProducer.close, _target)


class QueueSender(_Producer):
    """Sends messages to queues. JMS: javax.jms.QueueSender (JMS 1.1 section 5.7)."""

    @property
    def queue(self) -> Queue | None:
        """The queue of all sends; None: each `send` specifies it."""
        return cast("Queue | None", self.destination)


class TopicPublisher(_Producer):
    """Publishes messages to topics. JMS: javax.jms.TopicPublisher (JMS 1.1 section 6.7)."""

    publish: Final = _delegate_overloads(MessageProducer.send)

    @property
    def topic(self) -> Topic | None:
        """The topic of all messages; None: each `publish` specifies it."""
        return cast("Topic | None", self.destination)


class _Consumer(DelegatingConsumer):
    """A consumer that delegates every call to `target`."""

    def __init__(self, target: MessageConsumer) -> None:
        super().__init__(target)
        self.target = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target!r}>"

    transformer: DelegatedAttribute[Any] = DelegatedAttribute(_target, read_only=False)


class QueueReceiver(_Consumer):
    """Receives the messages of a queue. JMS: javax.jms.QueueReceiver (JMS 1.1 section 5.8)."""

    @property
    def queue(self) -> Queue:
        """The queue from which messages are received."""
        return cast("Queue", self.destination)


class TopicSubscriber(_Consumer):
    """Receives the messages of a topic. JMS: javax.jms.TopicSubscriber (JMS 1.1 section 6.10)."""

    def __init__(self, target: MessageConsumer, *, no_local: bool) -> None:
        super().__init__(target)
        self.no_local = no_local
        """Whether messages published over the same connection are skipped."""

    @property
    def topic(self) -> Topic:
        """The topic from which messages are received."""
        return cast("Topic", self.destination)


S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound="DomainSession")


def _refuse(
    function: Callable[Concatenate[S, P], R], instead: str
) -> Callable[Concatenate[object, P], R]:
    """Return a replacement of `function` that rejects the call; the hint names `instead`."""

    def refuse(self: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        del args, kwargs
        raise IllegalStateException(
            f"Operation not supported by a {type(self).__name__}: {function.__name__}()",
            hint=f"use {instead}, or connection.create_session() for both domains",
        )

    async def refuse_when_awaited(self: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return refuse(self, *args, **kwargs)

    call: Any = refuse_when_awaited if inspect.iscoroutinefunction(function) else refuse
    call.__name__ = function.__name__
    call.__doc__ = (
        "Refuse the call: it belongs to the other domain.\n\n"
        "        Raises:\n            IllegalStateException: always.\n        "
    )
    return cast("Callable[Concatenate[object, P], R]", call)


def _in_domain(
    function: Callable[Concatenate[Session, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a method that checks the domain of the destination, and calls the target's method."""
    call_target = delegate(function, attrgetter("target"))

    async def call(self: DomainSession, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.check(args[0] if args else kwargs.get("destination"))
        return await call_target(self, *args, **kwargs)

    functools.update_wrapper(call, function, updated=())  # it marks abstract methods
    return call


class DomainSession(DelegatingSession):
    """A session of one domain that wraps the unified session `target`.

    Like the target, it is for one task at a time, except `close`.
    """

    of_topics: ClassVar[bool]

    def __init__(self, target: Session) -> None:
        self.target = target

    def _target(self) -> Session:
        return self.target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target!r}>"

    close: Final = delegate(Session.close, attrgetter("target"))

    create_producer = _in_domain(Session.create_producer)
    create_consumer = _in_domain(Session.create_consumer)
    create_pull_consumer = _in_domain(Session.create_pull_consumer)

    def check(self, destination: object) -> None:
        """Reject a destination of the other domain.

        Raises:
            InvalidDestinationException: the destination belongs to the other domain.
        """
        if isinstance(destination, Destination) and destination.is_topic is not self.of_topics:
            other = "Queues" if self.of_topics else "Topics"
            raise InvalidDestinationException(
                f"{other} are not supported by a {type(self).__name__}: {destination}",
                hint="use connection.create_session(), whose sessions serve both domains",
            )


class QueueSession(DomainSession):
    """A session of queues. JMS: javax.jms.QueueSession (JMS 1.1 section 5.5).

    Operations for topics raise IllegalStateException (JMS 1.1 section 4.11), and a topic as a
    destination raises InvalidDestinationException. ActiveMQ: ActiveMQQueueSession.
    """

    of_topics = False

    create_topic = _refuse(Session.create_topic, "create_queue()")
    create_temporary_topic = _refuse(Session.create_temporary_topic, "create_temporary_queue()")
    create_durable_subscriber = _refuse(Session.create_durable_subscriber, "create_receiver()")
    create_shared_consumer = _refuse(Session.create_shared_consumer, "create_receiver()")
    create_shared_durable_consumer = _refuse(
        Session.create_shared_durable_consumer, "create_receiver()"
    )
    unsubscribe = _refuse(Session.unsubscribe, "a TopicSession")

    async def create_sender(self, queue: Queue | None = None) -> QueueSender:
        """Create a producer for `queue`; None: each `send` specifies it. Waits for the broker.

        Raises:
            InvalidDestinationException: it is a topic.
            JMSException: as for `create_producer`.
        """
        return QueueSender(await self.create_producer(queue))

    async def create_receiver(self, queue: Queue, selector: str | None = None) -> QueueReceiver:
        """Create a consumer of `queue`. Waits for the broker.

        Raises:
            InvalidDestinationException: it is a topic, or cannot be consumed from.
            InvalidSelectorException: the selector is malformed.
            JMSException: as for `create_consumer`.
        """
        return QueueReceiver(await self.create_consumer(queue, selector))


class TopicSession(DomainSession):
    """A session of topics. JMS: javax.jms.TopicSession (JMS 1.1 section 6.5).

    Operations for queues raise IllegalStateException (JMS 1.1 section 4.11), and a queue as a
    destination raises InvalidDestinationException. ActiveMQ: ActiveMQTopicSession.
    """

    of_topics = True

    create_queue = _refuse(Session.create_queue, "create_topic()")
    create_temporary_queue = _refuse(Session.create_temporary_queue, "create_temporary_topic()")
    create_browser = _refuse(Session.create_browser, "a QueueSession")

    async def create_publisher(self, topic: Topic | None = None) -> TopicPublisher:
        """Create a producer for `topic`; None: each `publish` specifies it. Waits for the broker.

        Raises:
            InvalidDestinationException: it is a queue.
            JMSException: as for `create_producer`.
        """
        return TopicPublisher(await self.create_producer(topic))

    async def create_subscriber(
        self, topic: Topic, selector: str | None = None, *, no_local: bool = False
    ) -> TopicSubscriber:
        """Create a non-durable consumer of `topic`. Waits for the broker.

        Args:
            topic: the topic.
            selector: the condition of messages to receive; None or "": all messages.
            no_local: whether to skip messages published over this connection.

        Raises:
            InvalidDestinationException: it is a queue, or cannot be consumed from.
            InvalidSelectorException: the selector is malformed.
            JMSException: as for `create_consumer`.
        """
        consumer = await self.create_consumer(topic, selector, no_local=no_local)
        return TopicSubscriber(consumer, no_local=no_local)

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> TopicSubscriber:
        """Create a consumer of a durable subscription; see `Session.create_durable_subscriber`."""
        create = self.target.create_durable_subscriber
        consumer = await create(topic, name, selector, no_local=no_local)
        return TopicSubscriber(consumer, no_local=no_local)


class QueueConnection(Connection):
    """A connection for queues. JMS: javax.jms.QueueConnection (JMS 1.1 section 5.4)."""

    async def create_queue_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> QueueSession:
        """Create a session that rejects topics; otherwise as `create_session`.

        Raises:
            IllegalStateException: the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """
        return QueueSession(await self.create_session(transacted, acknowledge_mode))


class TopicConnection(Connection):
    """A connection for topics. JMS: javax.jms.TopicConnection (JMS 1.1 section 6.4)."""

    async def create_topic_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> TopicSession:
        """Create a session that rejects queues; otherwise as `create_session`.

        Raises:
            IllegalStateException: the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """
        return TopicSession(await self.create_session(transacted, acknowledge_mode))


Domain = type[QueueConnection] | type[TopicConnection]
"""The connection class of a domain."""


class _OpeningInDomains(ConnectionFactory):
    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> Connection:
        """Open a connection for this domain; None: for both. By default all are for both."""
        del domain
        return await self.create_connection(user_name, password)


class QueueConnectionFactory(_OpeningInDomains):
    """Creates connections for queues. JMS: javax.jms.QueueConnectionFactory (section 5.3)."""

    async def create_queue_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> QueueConnection:
        """Open a connection for queues, not started; otherwise as `create_connection`.

        Raises:
            IllegalStateException: the factory's connections are not for queues.
            JMSException: as for `create_connection`.
        """
        connection = await self.open_in(QueueConnection, user_name, password)
        if isinstance(connection, QueueConnection):
            return connection
        raise await _connections_refused(self, connection, "QueueConnection")


class TopicConnectionFactory(_OpeningInDomains):
    """Creates connections for topics. JMS: javax.jms.TopicConnectionFactory (section 6.3)."""

    async def create_topic_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> TopicConnection:
        """Open a connection for topics, not started; otherwise as `create_connection`.

        Raises:
            IllegalStateException: the factory's connections are not for topics.
            JMSException: as for `create_connection`.
        """
        connection = await self.open_in(TopicConnection, user_name, password)
        if isinstance(connection, TopicConnection):
            return connection
        raise await _connections_refused(self, connection, "TopicConnection")


class DomainConnectionFactory(QueueConnectionFactory, TopicConnectionFactory):
    """A factory that wraps another one and requests connections of the same domain from it."""

    @abstractmethod
    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> Connection:
        """Open a connection for this domain, as `open_connection` does; None: for both."""

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Open a connection of the target, which may raise; credentials are passed if given."""
        return await self.open_in(None, user_name, password)


async def open_connection(
    factory: ConnectionFactory,
    domain: Domain | None,
    user_name: str | None = None,
    password: str | None = None,
) -> Connection:
    """Open a connection with the factory's method for this domain, if it has one.

    Without credentials none are passed, so that the factory uses its own.
    """
    create = factory.create_connection
    if domain is QueueConnection and isinstance(factory, QueueConnectionFactory):
        create = factory.create_queue_connection
    elif domain is TopicConnection and isinstance(factory, TopicConnectionFactory):
        create = factory.create_topic_connection
    if user_name is None and password is None:
        return await create()
    return await create(user_name, password)


async def _connections_refused(
    factory: ConnectionFactory, connection: Connection, kind: str
) -> JMSException:
    """Close `connection`, which belongs to another domain, and return the error."""
    await connection.close()
    return IllegalStateException(
        f"{factory!r} does not hold a {kind} but rather: {connection!r}",
        hint="use create_connection(), whose sessions serve queues and topics",
    )


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

    _of_topics: ClassVar[bool]

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
            session = self.session
            destination: TemporaryQueue | TemporaryTopic = (
                await session.create_temporary_topic()
                if self._of_topics
                else await session.create_temporary_queue()
            )
            consumer = await session.create_consumer(destination)
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

    _of_topics = False

    def __init__(self, session: Session, queue: Queue) -> None:
        super().__init__(session, queue)


class TopicRequestor(Requestor):
    """Publishes requests to a topic. JMS: javax.jms.TopicRequestor (JMS 1.1 section 6.13)."""

    _of_topics = True

    def __init__(self, session: Session, topic: Topic) -> None:
        super().__init__(session, topic)
