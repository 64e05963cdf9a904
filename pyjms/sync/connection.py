"""Connection factory, connection, and the simplified API of JMS 2.0, blocking."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, Unpack, cast

from pyjms.client.factory import ConnectionFactory as CoreConnectionFactory
from pyjms.client.options import ClientOptions
from pyjms.client.policies import (
    BlobTransferPolicy,
    PrefetchPolicy,
    RedeliveryPolicy,
    RedeliveryPolicyMap,
)
from pyjms.client.producer import completion_listener_of
from pyjms.connection.interruptions import TransportListening
from pyjms.enums import DeliveryMode, SessionMode
from pyjms.jms import api, context, domain
from pyjms.jms.destination import Destination, Topic
from pyjms.management import JMSConnectionStats, JMSStats
from pyjms.runtime.event_loop import LoopHandle
from pyjms.sync.facade import (
    Attribute,
    Facade,
    GivenFactory,
    ReadOnly,
    ReusableFacade,
    SessionPart,
    derive,
    loop_of,
    trim_errors,
)
from pyjms.sync.portal import call_on_loop, close_at_exit, current_loop
from pyjms.sync.session import (
    STATS,
    CloseableFacade,
    CompletionThread,
    MessageConsumer,
    ThreadedListener,
)
from pyjms.transport.openwire.correlator import InterruptionListener
from pyjms.transport.uri import TransportURI

if TYPE_CHECKING:
    from pyjms.client.keywords import ConnectionFactoryKeywords
    from pyjms.sync.derived import (
        ConnectionFactoryMembers,
        ConnectionMembers,
        ContextMembers,
        JMSProducerMembers,
        OperationMembers,
        QueueConnectionFactoryMembers,
        QueueConnectionMembers,
        TopicConnectionFactoryMembers,
        TopicConnectionMembers,
        TransportMembers,
    )
    from pyjms.sync.server_sessions import (
        ConnectionConsumer,
        ServerSessionPool,
        SimpleServerSessionPool,
    )
else:
    from pyjms.sync.session import OperationMembers

    JMSProducerMembers = derive(context.JMSProducer, omit="set_async")
    ContextMembers = derive(
        context.JMSContext,
        but=api.SessionOperations,
        omit="close connection create_context create_producer",
    )
    ConnectionMembers = derive(
        api.Connection,
        omit="close create_connection_consumer create_durable_connection_consumer",
    )
    TransportMembers = derive(TransportListening)
    QueueConnectionMembers = derive(domain.QueueConnection, but=api.Connection)
    TopicConnectionMembers = derive(domain.TopicConnection, but=api.Connection)
    ConnectionFactoryMembers = derive(api.ConnectionFactory, omit="open_in shares_connection")
    QueueConnectionFactoryMembers = derive(domain.QueueConnectionFactory, but=api.ConnectionFactory)
    TopicConnectionFactoryMembers = derive(domain.TopicConnectionFactory, but=api.ConnectionFactory)

F = TypeVar("F", bound=api.ConnectionFactory)
T = TypeVar("T")


class JMSProducer(SessionPart[context.JMSProducer], JMSProducerMembers):
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
        if listener is not None:
            listener = ThreadedListener(completion_listener_of(listener, None), self._completions)
        self.core.set_async(listener)
        return self


class JMSConsumer(MessageConsumer):
    """Receives messages, or their bodies. For one thread at a time. JMS 2.0: JMSConsumer."""

    __slots__ = ("_bodies",)

    core: context.JMSConsumer
    _bodies: deque[tuple[Any, Any]]

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core."""
        super().attach(core, loop, owner)
        self._bodies = deque()

    @trim_errors
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

        return self.call(self.core.receive_body, kind, timeout, keep=keep)

    def receive_body_no_wait(self, kind: type[T]) -> T | None:
        """Return the body of a message that has already arrived, or None."""
        return self.receive_body(kind, 0)


class JMSContext(
    SessionPart[context.JMSContext],
    CloseableFacade[context.JMSContext],
    OperationMembers,
    ContextMembers,
):
    """A connection and a session. JMS 2.0: JMSContext; `pyjms.aio.JMSContext` describes it.

    For one thread at a time, except `close`. `with` closes it.
    """

    __slots__ = ()

    auto_start: Attribute[bool] = Attribute("Whether creating a consumer starts the connection.")
    exception_listener: Attribute[api.ExceptionListener | None] = Attribute(
        "Called with the connection's failure, in the thread of the loop: it must not block."
    )

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


class Connection(CloseableFacade[api.Connection], ConnectionMembers, TransportMembers):
    """A blocking connection. JMS: Connection; `pyjms.aio.Connection` has it as coroutines.

    It is stopped until `start` is called: consumers receive nothing. Threads may share it. Close
    it, or use it as a context manager; that closes all objects created on it.
    """

    __slots__ = ()

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

    transformer: Attribute[api.MessageTransformer | None] = Attribute(
        "The message transformer of new sessions."
    )
    stats: Final = ReadOnly[JMSConnectionStats | None](STATS)
    exception_listener: Attribute[api.ExceptionListener | None] = Attribute(
        "Called with the connection's failure, in the thread of the loop: it must not block."
    )


class QueueConnection(Connection, QueueConnectionMembers):
    """A blocking connection for queues. Threads may share it. JMS: QueueConnection."""

    __slots__ = ()


class TopicConnection(Connection, TopicConnectionMembers):
    """A blocking connection for topics. Threads may share it. JMS: TopicConnection."""

    __slots__ = ()


class QueueConnectionFactory(ReusableFacade[F], QueueConnectionFactoryMembers, Generic[F]):
    """Creates connections for queues, as every factory here. JMS: QueueConnectionFactory."""

    __slots__ = ()


class TopicConnectionFactory(ReusableFacade[F], TopicConnectionFactoryMembers, Generic[F]):
    """Creates connections for topics, as every factory here. JMS: TopicConnectionFactory."""

    __slots__ = ()


class CreatingFactory(
    QueueConnectionFactory[F], TopicConnectionFactory[F], ConnectionFactoryMembers, Generic[F]
):
    """The common part of all connection factories."""

    __slots__ = ()


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

    Example:
        factory = ConnectionFactory("vm://shop?broker.persistent=false")
        with factory.create_connection() as connection, connection.create_session() as session:
            producer = session.create_producer(Queue("orders.new"))
            producer.send(session.create_text_message("order 1"))
    """

    __slots__ = ()

    uri: Attribute[TransportURI] = Attribute("The broker's URL without the options of the client.")
    options: Attribute[ClientOptions] = Attribute("The options; see `pyjms.aio.ConnectionFactory`.")
    user_name: Attribute[str | None] = Attribute("The default user of connections.")
    password: Attribute[str | None] = Attribute("That user's password.")
    exception_listener: Attribute[api.ExceptionListener | None] = Attribute(
        "The exception listener of new connections, called on the loop: it must not block."
    )
    transformer: Attribute[api.MessageTransformer | None] = Attribute(
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
