"""The connection, sessions and consumers of a container. (spring-jms 1.2.4, 1.10)"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyjms._logger import get_logger
from pyjms.core.closing import close_quietly
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.jms.destination import Destination, Topic
from pyjms.listener.container.consumer_options import set_redelivery_policy, with_prefetch
from pyjms.listener.container.properties import ContainerProperties

__all__ = [
    "ContainerConnection",
    "ResourceFactory",
    "SharedConnectionNotInitializedError",
]

logger: Final = get_logger(__name__)


class SharedConnectionNotInitializedError(Exception):
    """There is no shared connection yet: recovery opens one. Never leaves the container."""


@contextmanager
def _unless_closed(call: str) -> Iterator[None]:
    """Ignore that a connection is closed, and so can be neither started nor stopped."""
    try:
        yield
    except IllegalStateException as error:
        logger.debug("Ignoring connection %s: already closed: %s", call, error)


class ContainerConnection:
    """The one connection that the consumers of a container share.

    Opens, starts, stops, replaces and closes it. Spring: AbstractJmsListeningContainer.
    """

    def __init__(
        self,
        properties: ContainerProperties,
        prepare: Callable[[Connection], None] | None = None,
    ) -> None:
        """Keep `prepare`, which is called with each connection that has just been opened."""
        self._properties = properties
        self._prepare = prepare
        self._connection: Connection | None = None
        self._started = False
        self.is_interrupted: bool = False
        """Whether a transport that reconnects by itself (`failover:`) has lost the broker."""

    def transport_interrupted(self, error: Exception) -> None:
        """Record that the transport has lost the broker."""
        self.is_interrupted = True

    def transport_resumed(self) -> None:
        """Record that the transport has reconnected."""
        self.is_interrupted = False

    def get(self) -> Connection:
        """Return the connection.

        Raises:
            SharedConnectionNotInitializedError: there is none.
        """
        if self._connection is None:
            raise SharedConnectionNotInitializedError
        return self._connection

    async def establish(self) -> Connection:
        """Return the connection, and open it if there is none.

        Raises:
            JMSException: it cannot be opened, or its client id is refused.
        """
        if self._connection is None:
            self._connection = await self._open()
        return self._connection

    async def refresh(self) -> Connection:
        """Replace the connection by a new one, which is started if the old one was.

        Raises:
            JMSException: it cannot be opened; then there is no connection.
        """
        old, self._connection = self._connection, None
        await close_quietly(old)
        connection = await self._open()
        self._connection = connection
        if self._started:
            await connection.start()
        return connection

    async def start(self) -> None:
        """Start the delivery of messages, on this connection and its replacements."""
        self._started = True
        if self._connection is not None:
            with _unless_closed("start"):
                await self._connection.start()

    async def stop(self) -> None:
        """Stop the delivery of messages."""
        self._started = False
        if self._connection is not None:
            with _unless_closed("stop"):
                await self._connection.stop()

    async def release(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        await close_quietly(connection)

    async def _open(self) -> Connection:
        properties = self._properties
        connection = await properties.require_connection_factory().create_connection()
        self.is_interrupted = False
        watch = getattr(connection, "add_transport_listener", None)  # not part of JMS
        if watch is not None:
            watch(self)
        try:
            if properties.client_id is not None:
                await connection.set_client_id(properties.client_id)
            if self._prepare is not None:
                self._prepare(connection)
        except BaseException:
            await close_quietly(connection)
            raise
        return connection


class ResourceFactory:
    """Creates sessions and consumers according to the container's properties."""

    def __init__(
        self,
        properties: ContainerProperties,
        on_consumer_created: Callable[[], object] | None = None,
    ) -> None:
        """Keep `on_consumer_created`, which is called after each consumer is created."""
        self._properties = properties
        self._on_consumer_created = on_consumer_created

    async def create_session(self, connection: Connection) -> Session:
        """Create a session, transacted or in the container's acknowledge mode."""
        properties = self._properties
        return await connection.create_session(
            properties.session_transacted, properties.session_acknowledge_mode
        )

    async def create_consumer(self, session: Session) -> MessageConsumer:
        """Create a consumer of the container's destination, or its durable subscriber.

        Raises:
            JMSException: the broker refuses it, or there is no such destination.
        """
        properties = self._properties
        destination = with_prefetch(self._resolve_destination(session), properties)
        selector = properties.message_selector
        no_local = properties.pub_sub_no_local
        if not isinstance(destination, Topic):
            consumer = await session.create_consumer(destination, selector)
        elif properties.subscription_durable and properties.subscription_name:
            consumer = await session.create_durable_subscriber(
                destination, properties.subscription_name, selector, no_local=no_local
            )
        else:
            consumer = await session.create_consumer(destination, selector, no_local=no_local)
        if properties.redelivery_policy is not None or properties.retry is not None:
            set_redelivery_policy(consumer, properties)
        if self._on_consumer_created is not None:
            self._on_consumer_created()
        return consumer

    def forget_destination(self) -> None:
        """Remove the destination from a caching resolver: the next broker's may differ."""
        properties = self._properties
        forget = getattr(properties.destination_resolver, "remove_from_cache", None)
        if forget is not None and properties.destination_name is not None:
            forget(properties.destination_name)

    def _resolve_destination(self, session: Session) -> Destination:
        properties = self._properties
        if properties.destination is not None:
            return properties.destination
        if properties.destination_name is None:
            raise InvalidDestinationException(
                "The listener container has no destination",
                hint="set the property 'destination' or 'destination_name'",
            )
        return properties.destination_resolver.resolve_destination_name(
            session, properties.destination_name, properties.pub_sub_domain
        )
