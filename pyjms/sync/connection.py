"""Blocking connection factory and connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
)

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory as CoreConnectionFactory
from pyjms.client.options import ClientOptions
from pyjms.client.policies import (
    BlobTransferPolicy,
    PrefetchPolicy,
    RedeliveryPolicy,
    RedeliveryPolicyMap,
)
from pyjms.enums import AcknowledgeMode, DeliveryMode, SessionMode
from pyjms.jms import api, domain
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.jms.properties import MessageProperties
from pyjms.management import JMSConnectionStats, JMSStats
from pyjms.runtime.event_loop import LoopHandle
from pyjms.sync.domain import QueueSession, TopicSession
from pyjms.sync.facade import (
    Attribute,
    Facade,
    GivenFactory,
    ReadOnly,
    ReusableFacade,
    SessionPart,
    blocking,
    blocking_as,
    forwarding,
    implemented_by,
    like,
    loop_of,
)
from pyjms.sync.portal import call_on_loop, close_at_exit, current_loop, trim
from pyjms.sync.session import (
    CloseableFacade,
    CompletionThread,
    Measured,
    MessageConsumer,
    Session,
    SessionOperations,
    ThreadedListener,
    TransformerAttribute,
)
from pyjms.transport.openwire import InterruptionListener
from pyjms.transport.uri import TransportURI

if TYPE_CHECKING:
    from pyjms.client.keywords import ConnectionFactoryKeywords
    from pyjms.sync.server_sessions import (
        ConnectionConsumer,
        ServerSessionPool,
        SimpleServerSessionPool,
    )


# --- The simplified API of JMS 2.0, blocking: context, producer and consumer.

T = TypeVar("T")
_Producer = TypeVar("_Producer")
P = ParamSpec("P")


def _chained(
    function: Callable[Concatenate[api.JMSProducer, P], api.JMSProducer],
) -> Callable[Concatenate[_Producer, P], _Producer]:
    """Return a setter that calls the core's setter and returns the blocking object."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        getattr(self.core, function.__name__)(*args, **kwargs)
        return self

    return like(function, call)


class JMSProducer(SessionPart[api.JMSProducer]):
    """Sends messages with the settings made here, which can be chained. JMS 2.0: JMSProducer.

        context.create_producer().set_priority(7).set_property("n", 1).send(queue, "text")

    For one thread at a time. It need not be closed.
    """

    __slots__ = ("_completions",)

    _completions: CompletionThread

    delivery_mode: Attribute[DeliveryMode] = Attribute("PERSISTENT unless set.")
    priority: Attribute[int] = Attribute("The priority, 0 to 9; 4 unless set.")
    time_to_live: Attribute[float] = Attribute("Seconds; 0: messages never expire.")
    delivery_delay: Attribute[float] = Attribute(
        "Seconds before the broker's scheduler delivers; 0: at once."
    )
    disable_message_id: Attribute[bool] = Attribute("A hint that message ids are not needed.")
    disable_message_timestamp: Attribute[bool] = Attribute(
        "Whether messages are sent without a timestamp."
    )
    properties: Final = ReadOnly[MessageProperties]("The properties that are set on every message.")
    correlation_id: Final = ReadOnly[str | None]("The correlation id of every message.")
    reply_to: Final = ReadOnly[Destination | None]("The destination for replies.")
    type: Final = ReadOnly[str | None]("The type of every message.")

    set_delivery_mode: Final = _chained(api.JMSProducer.set_delivery_mode)
    set_priority: Final = _chained(api.JMSProducer.set_priority)
    set_time_to_live: Final = _chained(api.JMSProducer.set_time_to_live)
    set_delivery_delay: Final = _chained(api.JMSProducer.set_delivery_delay)
    set_disable_message_id: Final = _chained(api.JMSProducer.set_disable_message_id)
    set_disable_message_timestamp: Final = _chained(api.JMSProducer.set_disable_message_timestamp)
    set_property: Final = _chained(api.JMSProducer.set_property)
    clear_properties: Final = _chained(api.JMSProducer.clear_properties)
    set_correlation_id: Final = _chained(api.JMSProducer.set_correlation_id)
    set_reply_to: Final = _chained(api.JMSProducer.set_reply_to)
    set_type: Final = _chained(api.JMSProducer.set_type)
    property_exists: Final = forwarding(api.JMSProducer.property_exists)

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core; the object's completion thread ends with the context."""
        super().attach(core, loop, owner)
        assert isinstance(owner, CloseableFacade)
        self._completions = CompletionThread(core, owner.threads, self.guard)

    @property
    def async_(self) -> api.CompletionListener | None:
        """Called in a thread with the outcome of each send, which then does not wait."""
        given = self.core.async_
        return given.listener if isinstance(given, ThreadedListener) else given

    def set_async(self, listener: api.CompletionListener | None) -> Self:
        """Send asynchronously, with `listener` called for each outcome; None: synchronously."""
        threaded = None if listener is None else ThreadedListener(listener, self._completions)
        self.core.set_async(threaded)
        return self

    def send(self, destination: Destination, body: object) -> Self:
        """Send a message, or a message with this body. Blocks; see `pyjms.aio.JMSProducer.send`."""
        try:
            self.call(self.core.send, destination, body)
        except Exception as error:
            trim(error)
            raise
        return self


class JMSConsumer(MessageConsumer):
    """Receives messages, or their bodies. For one thread at a time. JMS 2.0: JMSConsumer."""

    __slots__ = ("_bodies",)

    core: api.JMSConsumer
    _bodies: deque[tuple[Any, Any]]

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core."""
        super().attach(core, loop, owner)
        self._bodies = deque()

    def receive_body(self, kind: type[T], timeout: float | None = None) -> T | None:
        """Wait for the next message and return its body as `kind`. Blocks. JMS: receiveBody.

        In the modes AUTO and DUPS_OK, a message that cannot be read as `kind` stays unacknowledged,
        and the next receive returns it. Interrupting the wait (Ctrl-C) loses no body of this kind.

        Args:
            kind: str, dict, bytes, a base class of these, or a type that the message converter
                supports.
            timeout: seconds; None waits for ever, 0 does not wait.

        Raises:
            MessageFormatException: the body is not a `kind`, or the message cannot have one.
            JMSException: as for `receive`.
        """
        if self._bodies and self._bodies[0][0] is kind:
            return cast("T", self._bodies.popleft()[1])

        def keep(body: T | None) -> None:
            if body is not None:
                self._bodies.append((kind, body))

        try:
            return self.call(self.core.receive_body, kind, timeout, keep=keep)
        except Exception as error:
            trim(error)
            raise

    def receive_body_no_wait(self, kind: type[T]) -> T | None:
        """Return the body of a message that has already arrived, or None."""
        return self.receive_body(kind, 0)


class JMSContext(SessionOperations[api.JMSContext], CloseableFacade[api.JMSContext]):
    """A connection and a session. JMS 2.0: JMSContext; `pyjms.aio.JMSContext` describes it.

    For one thread at a time, except `close`. `with` closes it.
    """

    __slots__ = ()

    auto_start: Attribute[bool] = Attribute("Whether creating a consumer starts the connection.")
    client_id: Final = ReadOnly[str | None]("The client id of the connection.")
    metadata: Final = ReadOnly[ConnectionMetaData]("Versions and names of the provider.")
    session_mode: Final = ReadOnly[AcknowledgeMode]("How messages are acknowledged.")
    transacted: Final = ReadOnly[bool]("Whether work is done in transactions.")
    exception_listener: Attribute[api.ExceptionListener | None] = Attribute(
        "Called with the connection's failure, in the thread of the loop: it must not block."
    )

    set_client_id: Final = blocking(api.JMSContext.set_client_id)
    start: Final = blocking(api.JMSContext.start)
    stop: Final = blocking(api.JMSContext.stop)
    session: Final = blocking_as(lambda: Session, api.JMSContext.session)
    acknowledge: Final = blocking(api.JMSContext.acknowledge)
    create_consumer: Final = blocking_as(lambda: JMSConsumer, api.JMSContext.create_consumer)
    create_durable_consumer: Final = blocking_as(
        lambda: JMSConsumer, api.JMSContext.create_durable_consumer
    )
    create_shared_consumer: Final = blocking_as(
        lambda: JMSConsumer, api.JMSContext.create_shared_consumer
    )
    create_shared_durable_consumer: Final = blocking_as(
        lambda: JMSConsumer, api.JMSContext.create_shared_durable_consumer
    )
    create_map_message: Final = forwarding(api.JMSContext.create_map_message)

    def create_context(self, session_mode: SessionMode) -> JMSContext:
        """Create a context with a new session on the same connection. Blocks.

        The connection is closed with the last of its contexts.

        Raises:
            IllegalStateException: this context is closed.
            JMSException: the session mode is unknown.
        """
        core = self.call(self.core.create_context, session_mode)
        return JMSContext.of(core, self.loop)  # its threads outlive this context

    def create_producer(self) -> JMSProducer:
        """Return a producer with its own settings. Does not block.

        Raises:
            IllegalStateException: the context is closed.
        """
        return JMSProducer.of(self.core.create_producer(), self.loop, self)


F = TypeVar("F", bound=api.ConnectionFactory)


class Connection(CloseableFacade[api.Connection]):
    """A blocking connection. JMS: Connection; `pyjms.aio.Connection` has it as coroutines.

    It is stopped until `start` is called: consumers receive nothing. Threads may share it. Close
    it, or use it as a context manager; that closes all objects created on it.
    """

    __slots__ = ()

    set_client_id: Final = blocking(api.Connection.set_client_id)
    start: Final = blocking(api.Connection.start)
    stop: Final = blocking(api.Connection.stop)
    add_transport_listener: Final = forwarding(ActiveMQConnection.add_transport_listener)
    remove_transport_listener: Final = forwarding(ActiveMQConnection.remove_transport_listener)

    def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> Session:
        """Create a session. Blocks.

        Args:
            transacted: whether to work in local transactions, ended by `commit` or `rollback`.
            acknowledge_mode: when messages count as consumed, if not transacted.

        Raises:
            JMSException: the mode is none of AUTO, CLIENT, DUPS_OK and INDIVIDUAL.
            ConnectionClosedException: the connection is closed.
        """
        core = call_on_loop(self.loop, self.core.create_session, transacted, acknowledge_mode)
        return Session.of(core, self.loop, self)

    def create_connection_consumer(
        self,
        destination: Destination,
        selector: str | None,
        server_session_pool: ServerSessionPool | SimpleServerSessionPool,
        max_messages: int,
        *,
        no_local: bool = False,
    ) -> ConnectionConsumer:
        """Create a consumer whose messages are handled by the sessions of a pool. Blocks.

        See `pyjms.aio.Connection.create_connection_consumer`.
        """
        create = self.core.create_connection_consumer
        return self._over(
            server_session_pool,
            partial(create, destination, selector, no_local=no_local),
            max_messages,
        )

    def create_durable_connection_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None,
        server_session_pool: ServerSessionPool | SimpleServerSessionPool,
        max_messages: int,
        *,
        no_local: bool = False,
    ) -> ConnectionConsumer:
        """Create a connection consumer of the durable subscription `name`. Blocks."""
        create = self.core.create_durable_connection_consumer
        return self._over(
            server_session_pool,
            partial(create, topic, name, selector, no_local=no_local),
            max_messages,
        )

    def _over(
        self,
        pool: ServerSessionPool | SimpleServerSessionPool,
        create: Callable[..., Coroutine[Any, Any, api.ConnectionConsumer]],
        max_messages: int,
    ) -> ConnectionConsumer:
        from pyjms.sync import server_sessions  # noqa: PLC0415 - used by few programs

        core = call_on_loop(self.loop, create, server_sessions.core_pool(pool), max_messages)
        consumer = server_sessions.ConnectionConsumer.of(core, self.loop, self)
        consumer.server_session_pool = pool
        return consumer

    client_id: Final = ReadOnly[str | None](
        "The client id, which owns durable subscriptions; None until it is set or generated."
    )
    metadata: Final = ReadOnly[ConnectionMetaData]("Versions and names of the provider.")
    transformer: TransformerAttribute = TransformerAttribute(
        "The message transformer of new sessions."
    )
    stats: Final = Measured[JMSConnectionStats]()
    exception_listener: Attribute[api.ExceptionListener | None] = Attribute(
        "Called with the connection's failure, in the thread of the loop: it must not block."
    )


class QueueConnection(Connection):
    """A blocking connection for queues. Threads may share it. JMS: QueueConnection."""

    __slots__ = ()

    create_queue_session: Final = blocking_as(
        lambda: QueueSession, domain.QueueConnection.create_queue_session
    )


class TopicConnection(Connection):
    """A blocking connection for topics. Threads may share it. JMS: TopicConnection."""

    __slots__ = ()

    create_topic_session: Final = blocking_as(
        lambda: TopicSession, domain.TopicConnection.create_topic_session
    )


class QueueConnectionFactory(ReusableFacade[F], Generic[F]):
    """Creates connections for queues, as every factory here. JMS: QueueConnectionFactory."""

    __slots__ = ()

    create_queue_connection: Final = blocking_as(
        lambda: QueueConnection, domain.QueueConnectionFactory.create_queue_connection
    )


class TopicConnectionFactory(ReusableFacade[F], Generic[F]):
    """Creates connections for topics, as every factory here. JMS: TopicConnectionFactory."""

    __slots__ = ()

    create_topic_connection: Final = blocking_as(
        lambda: TopicConnection, domain.TopicConnectionFactory.create_topic_connection
    )


class CreatingFactory(QueueConnectionFactory[F], TopicConnectionFactory[F], Generic[F]):
    """The common part of all connection factories."""

    __slots__ = ()

    @implemented_by(blocking_as(lambda: Connection, api.ConnectionFactory.create_connection))
    def create_connection(self) -> None:
        """Open a connection."""

    create_context: Final = blocking_as(lambda: JMSContext, api.ConnectionFactory.create_context)


class WrappingFactory(CreatingFactory[F], Generic[F]):
    """The common part of the factories that wrap another one."""

    __slots__ = ()

    target_connection_factory: Attribute[GivenFactory] = Attribute("Opens the connections.")

    def _wrap(self, target: GivenFactory, core: F, end: str | None = None) -> None:
        """Use `core`, which wraps the core of `target`; its method `end` is called at exit."""
        self.core = core
        self.loop = loop_of(target)
        self.target_connection_factory = target
        if end is not None:
            close_at_exit(core, self.loop, end)


class ConnectionFactory(CreatingFactory[CoreConnectionFactory]):
    """Creates blocking connections to the broker of a URL. ActiveMQ: ActiveMQConnectionFactory.

    Threads may share it.

    Args:
        url: the broker's URL with options, such as `tcp://host:61616?jms.sendTimeout=500`; None:
            `tcp://localhost:61616`, unless AMQ_HOST and AMQ_PORT are set.
        user_name: the default user of connections; `user` is an alias, the name used in settings.
        password: that user's password.
        redelivery_policy: the default policy, for destinations without an entry in the policy map.
        options: the options of `pyjms.aio.ConnectionFactory`; durations in seconds. They
            override those of the URL.

    Raises:
        ConfigurationException: the URL is malformed, or has an unknown option.
        TypeError: a keyword is not an option.
    """

    __slots__ = ()

    uri: Attribute[TransportURI] = Attribute("The broker's URL without the options of the client.")
    options: Attribute[ClientOptions] = Attribute("The options; see `pyjms.aio.ConnectionFactory`.")
    user_name: Attribute[str | None] = Attribute("The default user of connections.")
    password: Attribute[str | None] = Attribute("That user's password.")
    exception_listener: Attribute[api.ExceptionListener | None] = Attribute(
        "The exception listener of new connections, called on the loop: it must not block."
    )
    transformer: TransformerAttribute = TransformerAttribute(
        "The message transformer of new connections, called on the loop: it must not block."
    )
    transport_listener: Attribute[InterruptionListener | None] = Attribute(
        "The transport listener of new connections, called on the loop: it must not block."
    )
    redelivery_policy: Attribute[RedeliveryPolicy] = Attribute(
        "The default redelivery policy, for destinations without an entry in the policy map."
    )
    redelivery_policy_map: Final = ReadOnly[RedeliveryPolicyMap](
        "The redelivery policies by destination."
    )
    prefetch_policy: Final = ReadOnly[PrefetchPolicy](
        "How many messages are dispatched ahead of their acknowledgements."
    )
    blob_transfer_policy: Final = ReadOnly[BlobTransferPolicy](
        "Where the bodies of blob messages are stored."
    )
    stats: Final = ReadOnly[JMSStats](
        "The statistics of the factory's open connections, if `stats_enabled` is on."
    )

    def __init__(
        self, url: str | None = None, **options: Unpack[ConnectionFactoryKeywords]
    ) -> None:
        self.core: CoreConnectionFactory = CoreConnectionFactory(url, **options)
        self.loop = current_loop()
