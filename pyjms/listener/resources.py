"""The connection, sessions and consumers of a container. (spring-jms 1.2.4, 1.10)

Prefetch and redelivery are left to the provider by JMS: a container sets them as an option of the
destination's name, and as an attribute of the client's consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pyjms.client.policies import MAX_PREFETCH_SIZE, PrefetchPolicy
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.jms.destination import Destination, Topic
from pyjms.listener.error_handling import SharedConnectionNotInitializedError
from pyjms.listener.properties import ContainerProperties
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import close_quietly, innermost_factory

logger: Final = get_logger(__name__)

_PREFETCH_OPTION: Final = "consumer.prefetchSize"

# With a large prefetch, the consumers that exist first would get all the messages of a queue, also
# before other processes start; with a prefetch of one, each message would cost a round trip. So
# consumers whose number grows share a number of messages, and others get a few.
_FAIR_TOTAL: Final = 100
_FAIR_MINIMUM: Final = 5
_FAIR_FIXED: Final = 20
_BATCHES_AHEAD: Final = 2


class ContainerResources:
    """Opens and closes the shared connection of a container, and creates sessions and consumers.

    Spring: AbstractJmsListeningContainer.
    """

    def __init__(
        self,
        properties: ContainerProperties,
        on_consumer_created: Callable[[], object] | None = None,
    ) -> None:
        """Keep `on_consumer_created`, which is called after each consumer is created."""
        self._properties = properties
        self._on_consumer_created = on_consumer_created
        self.connection: Connection | None = None
        """The shared connection, if there is one."""
        self._started = False
        self.is_interrupted: bool = False
        """Whether a transport that reconnects by itself (`failover:`) has lost the broker."""

    def transport_interrupted(self, error: Exception) -> None:
        """Record that the transport has lost the broker."""
        self.is_interrupted = True

    def transport_resumed(self) -> None:
        """Record that the transport has reconnected."""
        self.is_interrupted = False

    def require_connection(self) -> Connection:
        """Return the shared connection."""
        if self.connection is None:
            raise SharedConnectionNotInitializedError
        return self.connection

    async def establish(self) -> Connection:
        """Return the shared connection, and open it if there is none."""
        if self.connection is None:
            self.connection = await self._open()
        return self.connection

    async def refresh(self) -> Connection:
        """Replace the shared connection by a new one, which is started if the old one was."""
        await self.release()
        connection = self.connection = await self._open()
        if self._started:
            await connection.start()
        return connection

    async def start(self) -> None:
        """Start the delivery of messages, on the shared connection and its replacements."""
        self._started = True
        if self.connection is not None:
            try:
                await self.connection.start()
            except IllegalStateException as error:
                logger.debug("Ignoring connection start: already closed: %s", error)

    async def stop(self) -> None:
        """Stop the delivery of messages."""
        self._started = False
        if self.connection is not None:
            try:
                await self.connection.stop()
            except JMSException as error:  # it is closed, or the broker is lost: nothing arrives
                logger.debug("Ignoring connection stop: %s", error)

    async def release(self) -> None:
        """Close the shared connection, if there is one."""
        connection, self.connection = self.connection, None
        await close_quietly(connection)

    async def open_separate(self) -> Connection:
        """Return a started connection that the caller closes."""
        connection = await self._properties.require_connection_factory().create_connection()
        try:
            self._properties.prepare_connection(connection)
            await connection.start()
        except BaseException:
            await close_quietly(connection)
            raise
        return connection

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
            properties.prepare_connection(connection)
        except BaseException:
            await close_quietly(connection)
            raise
        return connection

    async def create_session(self, connection: Connection) -> Session:
        """Create a session, transacted or in the container's acknowledge mode."""
        properties = self._properties
        return await connection.create_session(
            properties.session_transacted, properties.session_acknowledge_mode
        )

    async def create_consumer(self, session: Session) -> MessageConsumer:
        """Create a consumer of the container's destination, or its durable subscriber."""
        properties = self._properties
        destination = _with_prefetch(self._resolve_destination(session), properties)
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
        own = properties.redelivery_policy is not None or properties.retry is not None
        if own or properties.has_last_delivery:
            _set_redelivery_policy(consumer, properties)
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


def is_pushed(consumer: MessageConsumer) -> bool:
    """Return whether a consumer of pyjms's client gets messages without asking for each."""
    info = getattr(consumer, "info", None)
    return getattr(info, "prefetch_size", 0) > 0


def _with_prefetch(destination: Destination, properties: ContainerProperties) -> Destination:
    """Return `destination` with the container's prefetch, unless its name sets one itself."""
    size = _prefetch(destination, properties)
    if size is None or destination.is_temporary or _PREFETCH_OPTION in destination.options:
        return destination
    changed = type(destination)(destination.physical_name)
    changed.options = {**destination.options, _PREFETCH_OPTION: str(size)}
    return changed


def _prefetch(destination: Destination, properties: ContainerProperties) -> int | None:
    if isinstance(properties.prefetch, int):
        return properties.prefetch
    factory = properties.require_connection_factory()
    policy = getattr(innermost_factory(factory), "prefetch_policy", None)
    if not isinstance(policy, PrefetchPolicy):
        policy = None
    size, most = None, properties.growth_limit
    is_chosen = policy is not None and policy.is_chosen("queue_prefetch")
    if properties.prefetch == "auto" and destination.is_queue and not is_chosen:
        size = _FAIR_FIXED if most is None else max(_FAIR_MINIMUM, _FAIR_TOTAL // most)
    if properties.batch_size is None:
        return size
    # the next batch arrives while this one is handled
    least = min(_BATCHES_AHEAD * properties.batch_size, MAX_PREFETCH_SIZE)
    if size is not None:
        usual = size
    elif policy is None:
        usual = 0
    elif destination.is_queue:
        usual = policy.queue_prefetch
    else:
        durable = properties.subscription_durable
        usual = policy.durable_topic_prefetch if durable else policy.topic_prefetch
    return least if usual < least else size


def _set_redelivery_policy(consumer: Any, properties: ContainerProperties) -> None:
    """Set the container's policy on a consumer of the client."""
    if not hasattr(consumer, "redelivery_policy"):
        raise UnsupportedOperationException(
            f"A {type(consumer).__name__} has no redelivery policy",
            hint="use the client's ConnectionFactory without a cache for this listener, or set "
            "the policy on that factory",
        )
    policy = properties.redelivery_policy or consumer.redelivery_policy
    if properties.retry is not None:
        policy = properties.retry.apply(policy)
    if properties.has_last_delivery and policy.maximum_redeliveries >= 0:
        # one more: on the last redelivery the message, or the reply with its error, is sent
        policy = replace(policy, maximum_redeliveries=policy.maximum_redeliveries + 1)
    consumer.redelivery_policy = policy
