"""The connection of a client to its broker, and the factory that opens it. (jms-api 1)"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NotRequired, Protocol, TypedDict, Unpack

from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import JMSException, UnsupportedOperationException
from pyjms.jms.api.endpoints import Closeable
from pyjms.jms.api.session import Session
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.metadata import ConnectionMetaData

if TYPE_CHECKING:
    from pyjms.jms.api.context import BodyConverter, JMSContext


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
        return await self._distribute(
            server_session_pool,
            max_messages,
            destination=destination,
            selector=selector,
            no_local=no_local,
        )

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
        return await self._distribute(
            server_session_pool,
            max_messages,
            destination=topic,
            name=name,
            selector=selector,
            no_local=no_local,
        )

    async def _distribute(
        self, pool: ServerSessionPool, max_messages: int, **consumer: Unpack[ConsumerDetails]
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
        from pyjms.jms.api.context import JMSContext, SharedByContexts  # noqa: PLC0415 - on demand

        connection = await self.create_connection(user_name, password)
        try:
            return JMSContext(SharedByContexts(connection), session_mode, message_converter)
        except BaseException:
            await connection.close()
            raise


def check_least(name: str, value: int, least: int) -> None:
    """Check a number that an argument gives.

    Raises:
        ValueError: it is less than `least`.
    """
    if value < least:
        raise ValueError(f"{name} must be {least} or higher, not {value}")


def check_factory(factory: object, user: str) -> None:
    """Reject anything but a connection factory of `pyjms.aio`, before `user` connects.

    Raises:
        TypeError: it is a URL, a class, a blocking factory, or another object.
    """
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
