"""Blocking connection factory and connection."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory as CoreConnectionFactory
from pyjms.client.options.blob_policy import BlobTransferPolicy
from pyjms.client.options.client_options import ClientOptions
from pyjms.client.options.policies import PrefetchPolicy, RedeliveryPolicy, RedeliveryPolicyMap
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.jms import api, domain
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.management.jms_stats import JMSConnectionStats, JMSStats
from pyjms.sync.attributes import Attribute, ReadOnly, forwarding
from pyjms.sync.closing import CloseableFacade, Measured, TransformerAttribute
from pyjms.sync.context import JMSContext
from pyjms.sync.domain import QueueSession, TopicSession
from pyjms.sync.facade import (
    GivenFactory,
    ReusableFacade,
    blocking,
    blocking_as,
    implemented_by,
    loop_of,
)
from pyjms.sync.portal import call_on_loop
from pyjms.sync.session import Session
from pyjms.sync.shared_loop import close_at_exit, current_loop
from pyjms.transport.openwire import InterruptionListener
from pyjms.transport.uri import TransportURI

if TYPE_CHECKING:
    from pyjms.client.options.keywords import ConnectionFactoryKeywords
    from pyjms.sync.callbacks.server_sessions import (
        ConnectionConsumer,
        ServerSessionPool,
        SimpleServerSessionPool,
    )

__all__ = [
    "Connection",
    "ConnectionFactory",
    "CreatingFactory",
    "QueueConnection",
    "QueueConnectionFactory",
    "TopicConnection",
    "TopicConnectionFactory",
    "WrappingFactory",
]

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
        from pyjms.sync.callbacks import server_sessions  # noqa: PLC0415 - used by few programs

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
